package upstream

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/buffers"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// Vectors is an answer with vectors. They are cut out of its JSON, because a parser would
// take a hundred bytes for each of their numbers.
type Vectors struct {
	// JSON is the answer, with a short string in place of each vector.
	JSON []byte

	// Buffer is memory that the vectors may be views of, for providers.Embeddings.
	Buffer []byte

	cut []json.RawMessage
}

// firstBytes is the memory for the first bytes of an answer: that with a few vectors of
// 1,536 numbers is read without being joined of pieces. Fresh memory for each answer would
// be half of all that a call allocates.
const firstBytes = buffers.Smallest

// ReadVectors reads a whole answer with vectors. The error is ErrTooLarge beyond MaxBody,
// or where the rest of it has more than maxValues, providers.ErrNoRoom where there is no
// memory for it, or the reader's own.
func ReadVectors(body io.Reader) (*Vectors, error) {
	first := buffers.Get(firstBytes)
	data, err := readWhole(first, body)
	if err != nil {
		return nil, err
	}
	v := cutVectors(bytes.TrimPrefix(data, byteOrderMark))
	v.Buffer = first
	values := valuesOf(v.JSON)
	if values > maxValues {
		return nil, ErrTooLarge
	}
	return v, Hold(body, len(v.JSON)+valueSize*values)
}

// shortBase64 is the length of texts that are not cut out, in bytes.
const shortBase64 = 64

// cutVectors cuts out each list of numbers, and each long string in base64. For example,
// [{"embedding":[0.5,1],"index":0}] becomes [{"embedding":"#0","index":0}]. No string in
// base64 has a #.
func cutVectors(data []byte) *Vectors {
	v, from := &Vectors{}, 0
	cut := func(at, end int) {
		v.JSON = append(v.JSON, data[from:at]...)
		v.JSON = append(strconv.AppendInt(append(v.JSON, `"#`...), int64(len(v.cut)), 10), '"')
		v.cut = append(v.cut, data[at:end:end])
		from = end
	}
	for i := 0; i < len(data) && len(v.cut) <= maxValues; { // more are refused
		end := i + 1
		switch data[i] {
		case '"':
			end = pastString(data, i)
			if end-i > shortBase64 && data[end-1] == '"' && isBase64(data[i+1:end-1]) {
				cut(i, end)
			}
		case '[':
			if past := pastNumbers(data, i); past > 0 {
				end = past
				cut(i, end)
			}
		}
		i = end
	}
	if v.JSON == nil {
		v.JSON = data
	} else {
		v.JSON = append(v.JSON, data[from:]...)
	}
	return v
}

// Of returns the vector that a value of the parsed JSON stands for: a list of numbers, or
// a string. It returns nil for any other value.
func (v *Vectors) Of(value *fastjson.Value) json.RawMessage {
	if value == nil || value.Type() != fastjson.TypeString {
		return nil
	}
	text := value.GetStringBytes()
	if number, ok := bytes.CutPrefix(text, []byte{'#'}); ok {
		if n, err := strconv.Atoi(string(number)); err == nil && n >= 0 && n < len(v.cut) {
			return v.cut[n]
		}
		return nil
	}
	return jsontext.AppendString(nil, text)
}

// pastString returns the index behind the string that begins at i, at most len(data).
func pastString(data []byte, i int) int {
	for i++; i < len(data); i++ {
		next := bytes.IndexAny(data[i:], `"\`)
		if next < 0 {
			break
		}
		if i += next; data[i] == '"' {
			return i + 1
		}
		i++ // the escaped character
	}
	return len(data)
}

func isBase64(text []byte) bool {
	for _, c := range text {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '+', c == '/', c == '=':
		default:
			return false
		}
	}
	return true
}

// pastNumbers returns the index behind the list of numbers that begins at i, 0 if there is
// no such list. An empty list is none.
func pastNumbers(data []byte, i int) int {
	for {
		i = pastSpace(data, i+1)
		if i = pastNumber(data, i); i == 0 {
			return 0
		}
		if i < len(data) && data[i] != ',' {
			i = pastSpace(data, i)
		}
		switch {
		case i >= len(data):
			return 0
		case data[i] == ']':
			return i + 1
		case data[i] != ',':
			return 0
		}
	}
}

func pastSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

// pastNumber returns the index behind the number that begins at i, 0 if none does.
func pastNumber(data []byte, i int) int {
	if i < len(data) && data[i] == '-' {
		i++
	}
	switch {
	case i < len(data) && data[i] == '0':
		i++
	default:
		if i = pastDigits(data, i); i == 0 {
			return 0
		}
	}
	if i < len(data) && data[i] == '.' {
		if i = pastDigits(data, i+1); i == 0 {
			return 0
		}
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		if i++; i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		return pastDigits(data, i)
	}
	return i
}

// pastDigits returns the index behind the digits that begin at i, 0 if none do.
func pastDigits(data []byte, i int) int {
	from := i
	for i < len(data) && data[i]-'0' <= 9 {
		i++
	}
	if i == from {
		return 0
	}
	return i
}
