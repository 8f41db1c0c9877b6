package checkpoint

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"io"
	"iter"
	"slices"
	"time"
)

// writer makes frames of records. It writes what the library would, without a
// copy of each row: a test compares.
type writer struct {
	log    *log
	to     io.Writer
	at     time.Time
	frames uint64 // that the file has, and these
	wrote  int64  // bytes

	rows []byte // the records of the frame that is not full, encoded
	n    int    // how many
	size int    // bytes of their keys and values
	full []byte // the frame as a whole: kept for the next
}

// frame seals records into frames, and writes each when it is full, so that a
// whole checkpoint is never in memory. It returns the number of frames that the
// file has then, and of bytes written. A record may be written over when the
// next one is asked for.
func (l *log) frame(to io.Writer, at time.Time, records iter.Seq2[record, error]) (frames uint64, wrote int64, err error) {
	w := &writer{log: l, to: to, at: at, frames: l.frames}
	for r, err := range records {
		if err != nil {
			return 0, 0, err
		}
		if err := w.add(r); err != nil {
			return 0, 0, err
		}
	}
	err = w.close(true)
	return w.frames, w.wrote, err
}

func (w *writer) add(r record) error {
	if w.size >= maxFrame {
		if err := w.close(false); err != nil {
			return err
		}
	}
	w.rows = append(w.rows, recordHead...)
	w.rows = appendText(w.rows, r.Table)
	w.rows = appendText(w.rows, "Key")
	w.rows = appendBytes(w.rows, r.Key)
	w.rows = appendText(w.rows, "Value")
	w.rows = appendBytes(w.rows, r.Value)
	w.n++
	w.size += len(r.Key) + len(r.Value)
	return nil
}

// close seals the frame, in place, and writes it.
func (w *writer) close(last bool) error {
	seal := w.log.seal
	head := 4 + seal.NonceSize()
	w.full = append(w.full[:0], make([]byte, head)...)
	w.full = append(w.full, opening...)
	if w.n == 0 {
		w.full = append(w.full, null)
	} else {
		w.full = appendHead(w.full, array, w.n)
	}
	w.full = append(w.full, w.rows...)
	rest, err := encoder.Marshal(ending{Last: last, At: w.at.Unix()})
	if err != nil {
		return err
	}
	w.full = append(w.full, rest[1:]...) // fields of one map

	nonce := w.full[4:head]
	if _, err := rand.Read(nonce); err != nil {
		return err
	}
	w.full = slices.Grow(w.full, seal.Overhead())
	w.full = seal.Seal(w.full[:head], nonce, w.full[head:], w.log.extra(w.frames))
	binary.BigEndian.PutUint32(w.full, uint32(len(w.full)-4))
	n, err := w.to.Write(w.full)
	w.wrote += int64(n)
	w.frames++
	w.rows, w.n, w.size = w.rows[:0], 0, 0
	return err
}

// ending are the fields of a frame after its records.
type ending struct {
	Last bool
	At   int64
}

// The kinds of items that are written by hand (RFC 8949, 3.1).
const (
	byteString = 2 << 5
	textString = 3 << 5
	array      = 4 << 5
	null       = 0xf6
)

// recordHead is how every record begins, up to the name of its table.
var recordHead = func() []byte {
	head, err := encoder.Marshal(record{})
	if err != nil {
		panic(err)
	}
	return head[:bytes.Index(head, []byte("Table"))+len("Table")]
}()

func appendHead(b []byte, kind byte, n int) []byte {
	switch {
	case n < 24:
		return append(b, kind|byte(n))
	case n <= 0xff:
		return append(b, kind|24, byte(n))
	case n <= 0xffff:
		return binary.BigEndian.AppendUint16(append(b, kind|25), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, kind|26), uint32(n))
}

func appendText(b []byte, s string) []byte { return append(appendHead(b, textString, len(s)), s...) }

func appendBytes(b, s []byte) []byte {
	if s == nil {
		return append(b, null)
	}
	return append(appendHead(b, byteString, len(s)), s...)
}
