package inc

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestScan: whatever the steps and whatever is committed between them, a step
// looks at no more rows than it may, and a row that is there all the time is
// handed out once, with a value that it had.
func TestScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newSums()
		key := func(i int) word { return word(fmt.Sprintf("k%03d", i)) }
		write := func(label string) (written []int) {
			p.g.Commit(func(tx *Tx) {
				for _, i := range rapid.SliceOfN(rapid.IntRange(0, 299), 0, 300).Draw(t, label) {
					written = append(written, i)
					if i%3 == 0 && label != "first" {
						p.in.Delete(tx, key(i))
					} else {
						p.in.Set(tx, key(i), num(i))
					}
				}
			})
			return written
		}
		write("first")
		stays := map[word]bool{}
		for _, k := range p.in.Keys() {
			stays[k] = true
		}
		most := rapid.IntRange(1, 200).Draw(t, "most")
		got := map[word]int{}
		for from := uint32(0); ; {
			looked := 0
			next := p.in.Scan(from, most, func(k word, v num) {
				looked++
				got[k]++
				if k != key(int(v)) {
					t.Fatalf("%s is %d", k, v)
				}
			})
			if looked > max(most, pageSize) {
				t.Fatalf("looked at %d rows, may look at %d", looked, most)
			}
			if next == 0 {
				break
			}
			if next <= from {
				t.Fatalf("goes on at %d behind %d", next, from)
			}
			from = next
			for _, i := range write("next") {
				if i%3 == 0 {
					delete(stays, key(i))
				}
			}
		}
		for _, k := range slices.Sorted(maps.Keys(stays)) {
			if got[k] != 1 {
				t.Fatalf("%s is handed out %d times", k, got[k])
			}
		}
	})
}

// TestScanByName: tables with what is wrong with their rows, and indexes.
func TestScanByName(t *testing.T) {
	p := newSums()
	p.set("a", 20)
	p.set("b", 200)
	read := func(name string) (out []Cell) {
		next, err := p.g.Scan(name, 0, 1, func(c Cell) { out = append(out, c) })
		if err != nil || next != 0 {
			t.Fatal(next, err)
		}
		return out
	}
	expect(t, "tens", read("tens"), []Cell{{Key: word("a"), Value: num(2)}, {Key: word("b"), Fault: "200 is too much"}})
	expect(t, "index", read("in by inc.word"), []Cell{{Key: word("a")}, {Key: word("b")}})
	if _, err := p.g.Scan("none", 0, 1, nil); err == nil {
		t.Error("there is no such table")
	}
}
