package bill

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxPart is the size of the largest part of a file, in bytes: of a row, or of a
// result. It is in memory as a whole.
const maxPart = 1 << 20

// errLargePart refuses a file in which one is larger.
var errLargePart = fmt.Errorf("a part that can only be read as one, such as a row, is larger than %d MiB: it is no export, or a quote is missing", maxPart>>20)

// file is a file that is read part by part.
type file struct {
	text    *bufio.Reader
	skipped int64 // bytes before the text
	from    io.Reader
	left    int // bytes that are read until the next part has to begin
}

// next says that a part begins.
func (f *file) next() { f.left = maxPart }

// Read reads for text.
func (f *file) Read(into []byte) (int, error) {
	if f.left <= 0 {
		return 0, errLargePart
	}
	n, err := f.from.Read(into[:min(len(into), f.left)])
	f.left -= n
	return n, err
}

// Parse reads a file: pages of the APIs for usage and costs as JSON, one after the
// other or in a list, or a CSV file of a console. What it needs of memory is bounded by
// the models and days of the file, and not by its size.
func Parse(from io.Reader) (*Export, error) {
	f := &file{from: from}
	f.text = bufio.NewReaderSize(f, 64<<10)
	f.next()
	if mark, _ := f.text.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = f.text.Discard(3) // of what was read
		f.skipped = 3
	}
	for {
		f.next()
		b, err := f.text.ReadByte()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the file is empty")
		} else if err != nil {
			return nil, err
		}
		if b > ' ' {
			_ = f.text.UnreadByte() // after a read
			break
		}
		f.skipped++
	}
	head, _ := f.text.Peek(1000) // less at the end
	switch {
	case bytes.IndexByte(head, 0) >= 0:
		return nil, errors.New("the file is no text in UTF-8: give it as it was exported, or save it as CSV in UTF-8")
	case head[0] == '{' || head[0] == '[':
		return parseJSON(f)
	}
	return parseCSV(f)
}
