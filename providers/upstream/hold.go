package upstream

import (
	"bytes"
	"io"
)

// Hold counts bytes that are about to be held of the answer whose body is r,
// until r is closed; a negative number gives them back. The error is
// providers.ErrNoRoom if the answers of all upstreams hold as much as they
// may. The bodies of a Client's answers count, and a wrapper of one counts if
// it has a method Hold that passes it on.
func Hold(r io.Reader, bytes int) error {
	if h, ok := r.(interface{ Hold(bytes int) error }); ok {
		return h.Hold(bytes)
	}
	return nil
}

// The sizes of the pieces in which a whole body is read, in bytes.
const (
	firstPiece   = 4 << 10
	largestPiece = 1 << 20
)

// readWhole reads an answer, of which head was read already, into the memory of
// head as far as that goes. It reads in pieces that it joins at the end: so it holds
// no more than twice the bytes that came, whatever length was announced.
func readWhole(head []byte, body io.Reader) ([]byte, error) {
	var full [][]byte // pieces
	piece, size, counted := head, len(head), 0
	for {
		if len(piece) == cap(piece) {
			next := min(max(size, firstPiece), largestPiece)
			if err := Hold(body, next); err != nil {
				return nil, err
			}
			counted += next
			full, piece = append(full, piece), make([]byte, 0, next)
		}
		n, err := body.Read(piece[len(piece):cap(piece)])
		piece = piece[:len(piece)+n]
		size += n
		if size > MaxBody {
			return nil, ErrTooLarge
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if full == nil {
		return piece, nil
	}
	if err := Hold(body, size); err != nil {
		return nil, err
	}
	whole := make([]byte, 0, size)
	for _, p := range append(full, piece) {
		whole = append(whole, p...)
	}
	return whole, Hold(body, -counted)
}

const (
	// maxValues bounds the values of one text of JSON: parsed, a value of two
	// bytes takes two hundred times as much. The longest answers have hundreds.
	maxValues = 200_000
	// valueSize is the memory of a value, in bytes, at worst: the parser's block
	// of them grows by a quarter at a time, and the blocks that it has outgrown
	// are still pointed to.
	valueSize = 450
	// freeParsed is the memory that a parser may hold without being counted, in
	// bytes.
	freeParsed = 64 << 10
)

// holdParsed counts the parser's memory for data: a copy, and its values.
func (b *Body) holdParsed(data []byte) error {
	most := max(b.held, freeParsed)
	if len(data)*(1+valueSize/2) <= most {
		return nil // even if it is nothing but values
	}
	// Texts have commas too: they are left out only where that matters.
	values := valuesIn(data)
	if len(data)+valueSize*values > most {
		values = valuesOf(data)
	}
	size := len(data) + valueSize*values
	switch {
	case values > maxValues:
		return ErrTooLarge
	case size <= most:
		return nil
	}
	if err := Hold(b.reader, size-b.held); err != nil {
		return err
	}
	b.held = size
	return nil
}

// valuesOf is how many values a text of JSON has, or more.
func valuesOf(data []byte) int {
	n := 1
	for n <= maxValues {
		quote := bytes.IndexByte(data, '"')
		if quote < 0 {
			return n + valuesIn(data)
		}
		n += valuesIn(data[:quote])
		data = data[quote+1:]
		for end := false; !end; {
			quote = bytes.IndexByte(data, '"')
			if quote < 0 {
				return n
			}
			text := data[:quote]
			end = (len(text)-len(bytes.TrimRight(text, `\`)))%2 == 0
			data = data[quote+1:]
		}
	}
	return n
}

// valuesIn counts the characters that come before a value, except for the first
// one. There are at most as many values.
func valuesIn(data []byte) int {
	return bytes.Count(data, []byte{','}) + bytes.Count(data, []byte{'['}) + bytes.Count(data, []byte{'{'})
}
