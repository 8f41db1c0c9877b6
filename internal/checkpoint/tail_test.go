package checkpoint

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// written is a checkpoint of some batches: where each ends, the frames of each,
// and what was in the tables.
type written struct {
	data   []byte
	ends   []int64   // of batches
	frames [][]int64 // where they begin, by batch
	states []string
	key    []byte
}

// writeBatches writes batches of so many MiB, 0: some bytes.
func writeBatches(t *testing.T, mebibytes ...int) written {
	t.Helper()
	dir := t.TempDir()
	w := open(t, dir)
	w.s.Complete()
	rnd := rand.New(rand.NewPCG(1, 2))
	var out written
	from := int64(len(magic) + idSize)
	for n, size := range mebibytes {
		w.commit(func(tx *inc.Tx) {
			w.in.Members.Set(tx, "a", model.MemberSpec{Created: int64(n + 1)})
			for i := range size {
				chain := make([]byte, 1<<20)
				for j := range chain {
					chain[j] = byte(rnd.Uint32())
				}
				w.in.Certificates.Set(tx, model.SecretID{Name: fmt.Sprint(n, i)}, model.Certificate{Chain: chain})
			}
		})
		if err := w.s.flush(); err != nil {
			t.Fatal(err)
		}
		out.ends, out.states = append(out.ends, w.s.file.size), append(out.states, w.text(t))
	}
	w.s.close()
	var err error
	if out.data, err = os.ReadFile(filepath.Join(dir, fileName)); err != nil {
		t.Fatal(err)
	}
	if out.key, err = os.ReadFile(filepath.Join(dir, keyName)); err != nil {
		t.Fatal(err)
	}
	for _, end := range out.ends {
		var starts []int64
		for ; from < end; from += 4 + int64(binary.BigEndian.Uint32(out.data[from:])) {
			starts = append(starts, from)
		}
		out.frames = append(out.frames, starts)
	}
	return out
}

// reopen starts with the file as it is now: which state it found, -1 none.
func (w written) reopen(t *testing.T, data []byte) (state int, log string, bad bool) {
	t.Helper()
	dir := t.TempDir()
	for name, body := range map[string][]byte{fileName: data, keyName: w.key} {
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again := open(t, dir)
	defer again.s.close()
	kept, err := os.ReadFile(filepath.Join(dir, badName))
	if bad = err == nil; bad && !bytes.Equal(kept, data) {
		t.Error("what is kept aside is not what was refused")
	}
	if !again.found {
		return -1, again.log.String(), bad
	}
	for i, s := range w.states {
		if s == again.text(t) {
			return i, again.log.String(), bad
		}
	}
	t.Error("a state that never was")
	return -2, again.log.String(), bad
}

func zero(data []byte, from, to int64) []byte {
	out := bytes.Clone(data)
	clear(out[from:min(to, int64(len(out)))])
	return out
}

func flip(data []byte, at int64) []byte {
	out := bytes.Clone(data)
	out[at] ^= 4
	return out
}

// TestDamagedEnd: what a power cut leaves of the last write costs that write
// and no more, and what it can't have done is refused and kept.
func TestDamagedEnd(t *testing.T) {
	w := writeBatches(t, 0, 0, 0, 0)
	last := len(w.ends) - 1
	before, end := w.ends[last-1], w.ends[last]
	mid := (before + end) / 2
	check := func(name string, harmed []byte, want int) {
		t.Helper()
		got, log, bad := w.reopen(t, harmed)
		if got != want {
			t.Errorf("%s: found state %d, want %d: %s", name, got, want, log)
		}
		if refused := want < 0; bad != refused || refused && !strings.Contains(log, badName) {
			t.Errorf("%s: kept aside %v, want %v: %s", name, bad, refused, log)
		}
		whole := int64(len(harmed)) == end && want == last
		if silent := log == ""; silent != whole {
			t.Errorf("%s: log %q", name, log)
		}
	}
	check("intact", w.data, last)
	check("cut in the last batch", w.data[:mid], last-1)
	check("cut in its length", w.data[:before+2], last-1)
	check("its end is zeros", zero(w.data, mid, end), last-1)
	check("it is zeros", zero(w.data, before, end), last-1)
	check("its length is zeros", zero(w.data, before, before+4), last-1)
	check("a bit of its length", flip(w.data, before+2), last-1)
	check("a bit of it", flip(w.data, mid), last-1)
	check("a page of zeros behind", append(bytes.Clone(w.data), make([]byte, 4096)...), last)
	check("noise behind", append(bytes.Clone(w.data), w.data[100:300]...), last)
	check("a batch again", append(bytes.Clone(w.data), w.data[before:end]...), last)
	check("a later batch is there", zero(w.data, w.ends[last-2], before), -1)
	check("only the length of one before the last", zero(w.data, w.ends[last-2], w.ends[last-2]+4), -1)
	check("a bit of one before the last", flip(w.data, w.ends[last-2]+20), -1)
	check("one is missing", append(bytes.Clone(w.data[:w.ends[last-2]]), w.data[before:]...), -1)
	check("a bit of the first", flip(w.data, w.ends[0]-3), -1)
	check("all after the first", zero(w.data, w.ends[0], end), 0)
	check("not even the first", w.data[:w.ends[0]-1], -1)
}

// TestDamagedEndOfManyFrames: the pages of one write may come to the disk in any
// order, so that its end can be there and its beginning not.
func TestDamagedEndOfManyFrames(t *testing.T) {
	w := writeBatches(t, 3, 3, 0, 3)
	if len(w.frames[1]) < 3 || len(w.frames[3]) < 3 {
		t.Fatalf("frames %v: not what is to be tested", w.frames)
	}
	one, three := w.frames[1], w.frames[3]
	for name, c := range map[string]struct {
		data []byte
		want int
	}{
		"the first frame of the last batch":  {zero(w.data, three[0], three[1]), 2},
		"the second":                         {zero(w.data, three[1], three[2]), 2},
		"the end of it":                      {zero(w.data, three[2]-9000, w.ends[3]), 2},
		"the first frame of one before":      {zero(w.data, one[0], one[1]), -1},
		"the last of one before":             {zero(w.data, w.ends[1]-5000, w.ends[1]), -1},
		"the small batch before the last":    {zero(w.data, w.ends[1], w.ends[2]), -1},
		"all of the two last but their ends": {zero(w.data, w.ends[1], w.ends[3]-100), 1},
	} {
		if got, log, _ := w.reopen(t, c.data); got != c.want {
			t.Errorf("%s: found state %d, want %d: %s", name, got, c.want, log)
		}
	}
}

// TestDamageAnywhere: of many files, each with a damaged range, a start finds the
// state before the damage if all after it is unreadable, or nothing.
func TestDamageAnywhere(t *testing.T) {
	w := writeBatches(t, 0, 0, 0, 0, 0, 0)
	rnd := rand.New(rand.NewPCG(3, 4))
	size := int64(len(w.data))
	for i := range 400 {
		from := w.ends[0] + rnd.Int64N(size-w.ends[0])
		to := from + 1 + rnd.Int64N(size-from)
		harmed := zero(w.data, from, to)
		if i%2 == 0 {
			for at := from; at < to; at++ {
				harmed[at] = byte(rnd.Uint32())
			}
		}
		if bytes.Equal(harmed, w.data) {
			continue
		}
		whole := 0 // last batch before the damage
		for bytes.Equal(harmed[:w.ends[whole+1]], w.data[:w.ends[whole+1]]) {
			whole++
		}
		want := whole
		if last := w.ends[len(w.ends)-2]; bytes.Equal(harmed[last:], w.data[last:]) {
			want = -1 // it can be read
		}
		if got, log, _ := w.reopen(t, harmed); got != want {
			t.Fatalf("zeros or noise from %d to %d of %v: found state %d, want %d: %s", from, to, w.ends, got, want, log)
		}
	}
}
