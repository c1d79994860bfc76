package journal

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/cespare/xxhash/v2"
)

const (
	headSize  = 24 // mark and format, whole, generation, padding, seed
	frameSize = 16 // beginning of the seed, length, sum

	// largestFile bounds the bytes that are read of a file. No file of a journal is larger.
	largestFile = 1 << 30
)

var errFormat = errors.New("it has another format, and stays as it is")

// head is the beginning of a file.
type head struct {
	whole      bool
	generation uint32
	seed       uint64
}

func (h head) append(dst []byte, mark [4]byte) []byte {
	whole := uint32(0)
	if h.whole {
		whole = 1
	}
	dst = binary.LittleEndian.AppendUint32(append(dst, mark[:]...), whole)
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, uint64(h.generation)), h.seed)
}

// readHead reads the head of a file. The generation is 0 if the file is empty, or ends
// within its head.
func readHead(file *os.File, mark [4]byte) (head, error) {
	var text [headSize]byte
	n, err := file.ReadAt(text[:], 0)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return head{}, err
	case n >= len(mark) && [4]byte(text[:]) != mark:
		return head{}, fmt.Errorf("%s begins with %q, not %q: %w", file.Name(), text[:len(mark)], mark[:], errFormat)
	case n < headSize:
		return head{}, nil
	}
	return head{
		whole: binary.LittleEndian.Uint32(text[4:]) == 1, generation: binary.LittleEndian.Uint32(text[8:]),
		seed: binary.LittleEndian.Uint64(text[16:]),
	}, nil
}

// newSeed returns the seed of a new file. No frame begins with a zero, so that one which is
// cut after its first byte is damage, and no cleared record.
func newSeed() uint64 { return rand.Uint64() | 1 }

// appendFrame appends the frame of a record.
func appendFrame(dst, record []byte, seed uint64) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(seed))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(record)))
	return binary.LittleEndian.AppendUint64(dst, sum(record, seed))
}

func sum(record []byte, seed uint64) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(seed)
	_, _ = d.Write(record)
	return d.Sum64()
}

// scan calls record with the records of a file, until it returns false. Zeros are in place
// of cleared records; other bytes that are no record are damage.
func scan(file *os.File, h head, record func([]byte) bool) (damaged int, err error) {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return 0, err
	}
	if h.generation == 0 {
		return 1, nil // it ends within its head
	}
	size := min(info.Size(), largestFile)
	section := io.NewSectionReader(file, 0, size)
	r := bufio.NewReaderSize(section, len(zeros))
	seek := func(to int64) {
		_, _ = section.Seek(to, io.SeekStart)
		r.Reset(section)
	}
	mark := binary.LittleEndian.AppendUint32(nil, uint32(h.seed))
	var text []byte
	sound, offset := true, int64(headSize)
	seek(offset)
	for offset < size {
		frame, err := r.Peek(frameSize)
		if err != nil && !errors.Is(err, io.EOF) || len(frame) == 0 {
			return damaged, err
		}
		if len(frame) == frameSize && bytes.HasPrefix(frame, mark) {
			length, want := int64(binary.LittleEndian.Uint32(frame[4:])), binary.LittleEndian.Uint64(frame[8:])
			if length <= size-offset-frameSize {
				text = slices.Grow(text[:0], int(length))[:length]
				_, _ = r.Discard(frameSize)
				if _, err := io.ReadFull(r, text); err != nil {
					return damaged, err
				}
				if sum(text, h.seed) == want {
					if !record(text) {
						return damaged, nil
					}
					sound, offset = true, offset+frameSize+length
					continue
				}
				seek(offset)
				if _, err := r.Peek(1); err != nil {
					return damaged, err
				}
			}
		}
		// Go on at the next possible record.
		chunk, _ := r.Peek(r.Buffered())
		skip := 1 + bytes.Index(chunk[1:], mark)
		if skip == 0 {
			skip = max(len(chunk)-len(mark)+1, 1)
		}
		if sound && !bytes.Equal(chunk[:skip], zeros[:skip]) {
			damaged++
			sound = false
		}
		_, _ = r.Discard(skip)
		offset += int64(skip)
	}
	return damaged, nil
}
