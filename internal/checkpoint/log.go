package checkpoint

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spillway-dev/spillway/internal/files"
)

// A file is a header and frames. The header is magic and a random file
// number. A frame is its length (4 bytes, big endian), a nonce, and its
// content, sealed with the header and the frame's place as additional data, so
// that frames can't be moved, dropped or come from another file. Frames belong
// to batches; only whole batches count.
const (
	magic    = "spillway checkpoint 1\n"
	idSize   = 16
	keySize  = 32
	maxFrame = 1 << 20 // bytes of rows in a frame, then it is full
)

var (
	errVersion = errors.New("it is of another version, or no checkpoint")
	errCorrupt = errors.New("it is damaged, or written with another key")
	errCut     = errors.New("somebody else cut the file short: all of it is written anew")
)

// record is a row as it is written. No value: the row is gone.
type record struct {
	Table string
	Key   []byte
	Value []byte
}

// frame is the content of a frame.
type frame struct {
	Records []record
	Last    bool  // of its batch
	At      int64 // Unix seconds
}

// contents are the rows that a file holds.
type contents struct {
	tables map[string]*kept
	at     time.Time // of the last batch
	torn   int64     // bytes after it
}

// kept are the rows of a table, each in the place in which it was written first.
// That is nearly the order of their keys, so it costs little to sort them.
type kept struct {
	at   map[string]int // by key
	rows []record       // without a value: gone
}

func (c *contents) apply(batch []record) {
	for _, r := range batch {
		of := c.tables[r.Table]
		if of == nil {
			of = &kept{at: map[string]int{}}
			c.tables[r.Table] = of
		}
		if i, ok := of.at[string(r.Key)]; ok {
			of.rows[i] = r
			continue
		}
		if r.Value != nil {
			of.at[string(r.Key)] = len(of.rows)
			of.rows = append(of.rows, r)
		}
	}
}

// of are the rows of a table that are there.
func (c *contents) of(table string) []record {
	rows := c.tables[table]
	if rows == nil {
		return nil
	}
	return slices.DeleteFunc(rows.rows, func(r record) bool { return r.Value == nil })
}

// log is a file that frames are appended to.
type log struct {
	file   *os.File
	block  cipher.Block
	seal   cipher.AEAD // of block
	header []byte
	size   int64  // bytes up to the end of the last whole batch
	frames uint64 // in these bytes
}

func newLog(f *os.File, key [keySize]byte, header []byte) (*log, error) {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	seal, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &log{file: f, block: block, seal: seal, header: header, size: int64(len(header))}, nil
}

func (l *log) close() { _ = l.file.Close() }

// extra is the additional data of frame n.
func (l *log) extra(n uint64) []byte { return binary.BigEndian.AppendUint64(bytes.Clone(l.header), n) }

// openLog reads a file and opens it for appending.
func openLog(path string, key [keySize]byte) (*log, *contents, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	l, c, err := readLog(f, key)
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return l, c, nil
}

func readLog(f *os.File, key [keySize]byte) (*log, *contents, error) {
	data, err := whole(f)
	if err != nil {
		return nil, nil, err
	}
	if len(data) < len(magic)+idSize || string(data[:len(magic)]) != magic {
		return nil, nil, errVersion
	}
	header := bytes.Clone(data[:len(magic)+idSize])
	l, err := newLog(f, key, header)
	if err != nil {
		return nil, nil, err
	}
	c, err := l.scan(data)
	return l, c, err
}

// whole reads a file into as much memory as it has bytes.
func whole(f *os.File) ([]byte, error) {
	at, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Grow(int(at.Size()) + bytes.MinRead) // so that the end is seen without more
	_, err = b.ReadFrom(io.NewSectionReader(f, 0, at.Size()))
	return b.Bytes(), err
}

// scan reads all frames. What a crash left of the last write is left out: see
// torn.
func (l *log) scan(data []byte) (*contents, error) {
	c := &contents{tables: map[string]*kept{}}
	var batch []record
	for n, o := range l.openAll(data) {
		if errors.Is(o.err, errCorrupt) {
			break
		}
		if o.err != nil {
			return nil, o.err
		}
		if batch = append(batch, o.Records...); o.Last {
			c.apply(batch)
			c.at = time.Unix(o.At, 0)
			batch, l.size, l.frames = nil, o.end, uint64(n)+1
		}
	}
	// The first batch is renamed into place whole.
	if l.frames == 0 || !l.torn(data) {
		return nil, errCorrupt
	}
	c.torn = int64(len(data)) - l.size
	return c, nil
}

// opened is a frame, or why it can't be read, and where it ends.
type opened struct {
	frame
	end int64
	err error
}

// openAll opens all that may be frames, on all processors.
func (l *log) openAll(data []byte) []*opened {
	var all []*opened
	var work errgroup.Group
	work.SetLimit(runtime.GOMAXPROCS(0))
	for at := l.size; int64(len(data))-at >= 4; {
		size := l.frameSize(data, at)
		if size < int64(4+l.seal.NonceSize()) || size > int64(len(data))-at {
			break
		}
		n, sealed := uint64(len(all)), data[at+4:at+size]
		at += size
		o := &opened{end: at}
		all = append(all, o)
		work.Go(func() error {
			o.frame, o.err = l.unseal(sealed, n)
			return nil // which is the first that fails is seen in their order
		})
	}
	_ = work.Wait()
	return all
}

func (l *log) unseal(b []byte, n uint64) (frame, error) {
	var f frame
	nonce, sealed := b[:l.seal.NonceSize()], b[l.seal.NonceSize():]
	plain, err := l.seal.Open(nil, nonce, sealed, l.extra(n))
	if err != nil {
		return f, errCorrupt
	}
	if err := plainDecoder.Unmarshal(plain, &f); err != nil {
		return f, fmt.Errorf("frame %d: %w", n, err)
	}
	return f, nil
}

// append adds a batch after the last whole one. If it fails, the file holds
// what it held before, as far as a reader can tell, and it may be tried again.
func (l *log) append(at time.Time, records iter.Seq2[record, error]) error {
	switch at, err := l.file.Stat(); {
	case err != nil:
		return err
	case l.frames > 0 && at.Size() < l.size:
		return errCut
	}
	if err := l.file.Truncate(l.size); err != nil {
		return err
	}
	frames, wrote, err := l.frame(io.NewOffsetWriter(l.file, l.size), at, records)
	if err != nil {
		return err
	}
	if err := l.file.Sync(); err != nil {
		return err
	}
	l.size += wrote
	l.frames = frames
	return nil
}

// createLog writes a new file and puts it in the place of what is at path.
func createLog(path string, key [keySize]byte, at time.Time, records iter.Seq2[record, error]) (*log, error) {
	temporary := path + ".new"
	f, err := os.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_TRUNC, keepFile)
	if err != nil {
		return nil, err
	}
	l, err := fill(f, key, at, records)
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err == nil {
		err = files.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(temporary)
		return nil, err
	}
	return l, nil
}

func fill(f *os.File, key [keySize]byte, at time.Time, records iter.Seq2[record, error]) (*log, error) {
	header := make([]byte, len(magic)+idSize)
	copy(header, magic)
	if _, err := rand.Read(header[len(magic):]); err != nil {
		return nil, err
	}
	l, err := newLog(f, key, header)
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(keepFile); err != nil { // it may have been there with another mode
		return nil, err
	}
	if _, err := f.WriteAt(header, 0); err != nil {
		return nil, err
	}
	return l, l.append(at, records)
}
