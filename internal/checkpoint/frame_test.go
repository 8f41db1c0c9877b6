package checkpoint

import (
	"bytes"
	"encoding/binary"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func listed(records ...record) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// TestFramesAreOfTheLibrary: what is written by hand is what the library writes
// of a frame, byte by byte, so that any version reads it; and a frame ends as
// soon as it is full.
func TestFramesAreOfTheLibrary(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	l, err := newLog(f, [keySize]byte{1}, make([]byte, len(magic)+idSize))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		l.frames = rapid.Uint64Range(0, 3).Draw(t, "frames")
		var all []record
		for range rapid.IntRange(0, 5).Draw(t, "records") {
			r := record{Table: rapid.SampledFrom([]string{"", "slices", "a table with a name of some length"}).Draw(t, "table")}
			length := rapid.SampledFrom([]int{0, 1, 23, 24, 255, 256, 65535, 65536, maxFrame})
			r.Key = make([]byte, length.Draw(t, "key"))
			if rapid.Bool().Draw(t, "there") {
				r.Value = make([]byte, length.Draw(t, "value"))
			}
			all = append(all, r)
		}
		at := time.Unix(rapid.Int64Range(-1, 1<<33).Draw(t, "at"), 0)
		var out bytes.Buffer
		frames, wrote, err := l.frame(&out, at, listed(all...))
		if err != nil || wrote != int64(out.Len()) {
			t.Fatalf("%d bytes, says %d: %v", out.Len(), wrote, err)
		}
		data := out.Bytes()
		n, last := l.frames, false
		for ; len(data) > 0; n++ {
			size := 4 + binary.BigEndian.Uint32(data)
			sealed := data[4:size]
			nonce := sealed[:l.seal.NonceSize()]
			plain, err := l.seal.Open(nil, nonce, sealed[len(nonce):], l.extra(n))
			if err != nil || last {
				t.Fatalf("frame %d after the last: %t, %v", n, last, err)
			}
			data = data[size:]
			var got frame
			if err := decoder.Unmarshal(plain, &got); err != nil {
				t.Fatal(err)
			}
			bytesOf := 0
			for i, r := range got.Records {
				if bytesOf >= maxFrame {
					t.Fatalf("frame %d was full before record %d", n, i)
				}
				bytesOf += len(r.Key) + len(r.Value)
			}
			if last = got.Last; !last && bytesOf < maxFrame {
				t.Fatalf("frame %d has %d bytes and is not the last", n, bytesOf)
			}
			want, err := encoder.Marshal(frame{Records: all[:len(got.Records):len(got.Records)], Last: last, At: at.Unix()})
			if err != nil {
				t.Fatal(err)
			}
			if all = all[len(got.Records):]; !bytes.Equal(plain, want) {
				t.Fatalf("frame %d is\n%x\nwant\n%x", n, plain, want)
			}
		}
		if n != frames || len(all) > 0 || !last {
			t.Fatalf("%d frames of %d, %d records are missing", n, frames, len(all))
		}
	})
}
