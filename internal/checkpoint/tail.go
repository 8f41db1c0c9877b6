package checkpoint

import (
	"bytes"
	"crypto/aes"
	"encoding/binary"
)

// What a crash leaves of the last write may be cut off, but where the length of
// a file is written before its content it may also be zeros, or some pages of
// it in any order. Each write ends with a sync before the next begins, so all
// of that is after the last batch that is whole; and if a later batch can be
// read, it was no crash.

// opening is how the content of every frame begins. It is the one part of a
// frame that can be checked without reading all of it.
var opening = func() []byte {
	some, err := encoder.Marshal(frame{Records: []record{{}}})
	if err != nil {
		panic(err)
	}
	none, err := encoder.Marshal(frame{})
	if err != nil {
		panic(err)
	}
	n := 0
	for some[n] == none[n] {
		n++
	}
	return some[:n]
}()

// mostMissing is for how many frames one looks that are missing without a trace.
const mostMissing = 64

// torn tells whether what follows the last whole batch may be the rest of one
// write.
func (l *log) torn(data []byte) bool {
	at, n := l.size, l.frames
	for over := false; ; {
		start, number, f, ok := l.find(data, at, n)
		if !ok {
			return true
		}
		// A frame that is not the last of its batch is full. So where there was
		// no room for what is missing, a batch has ended; and no crash moves a frame.
		gap, missing := start-at, int64(number-n)
		if over || gap < missing*maxFrame || missing == 0 && gap > 0 {
			return false
		}
		over = f.Last
		at, n = start+l.frameSize(data, start), number+1
	}
}

// find looks for a frame from a place on, where frame n would be. It returns
// where it begins and which one it is.
func (l *log) find(data []byte, at int64, n uint64) (start int64, number uint64, f frame, ok bool) {
	least := int64(4 + l.seal.NonceSize() + l.seal.Overhead())
	for start = at; start+least <= int64(len(data)); start++ {
		size := l.frameSize(data, start)
		if size < least || size > int64(len(data))-start || !l.opens(data[start:]) {
			continue
		}
		for number = n; number <= n+uint64((start-at)/least)+mostMissing; number++ {
			if f, err := l.unseal(data[start+4:start+size], number); err == nil {
				return start, number, f, true
			}
		}
	}
	return 0, 0, f, false
}

// frameSize is how long a frame at this place says it is, its length included.
func (l *log) frameSize(data []byte, at int64) int64 {
	return 4 + int64(binary.BigEndian.Uint32(data[at:]))
}

// opens tells whether a frame begins as all do. GCM encrypts its first block
// with the counter 2 (NIST SP 800-38D, 7.1).
func (l *log) opens(frame []byte) bool {
	var counter, stream [aes.BlockSize]byte
	nonce := l.seal.NonceSize()
	copy(counter[:], frame[4:4+nonce])
	counter[aes.BlockSize-1] = 2
	l.block.Encrypt(stream[:], counter[:])
	sealed := frame[4+nonce:]
	for i := range opening {
		stream[i] ^= sealed[i]
	}
	return bytes.Equal(stream[:len(opening)], opening)
}
