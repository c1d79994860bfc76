package wire

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/buffers"
)

// DefaultBodyLimit is the default bound of a body in bytes.
const DefaultBodyLimit = 1 << 20

// DefaultBodyTimeout is the default time in which a whole body must arrive.
const DefaultBodyTimeout = 30 * time.Second

// Buffers that are larger than these sizes do not stay with a pooled request: only
// requests that need them hold them. Package buffers keeps some of them.
const (
	keepBodyBytes = buffers.Smallest
	keepValues    = 4096
	// keepLargeValues is the same for the values of a large parser.
	keepLargeValues = 8 * keepValues
)

// Request holds one request's body and the buffers for parsing it. One goroutine
// uses it.
type Request struct {
	body   []byte
	parser fastjson.Parser
	large  *largeParser // in place of parser, for a large body
	size   int          // of the body last parsed, in bytes
	values int          // in the body last parsed
	keys   []string
	names  [][]byte // members of the objects under check for duplicates

	literals literals
	plain    bool // Conversation cuts no texts out

	contextSecret []byte          // nil: contexts are not signed
	now           time.Time       // when signed contexts must be valid
	signed        fastjson.Parser // of a signed context

	maxMetadata int64  // 0: the default
	scratch     []byte // for a member's compact JSON

	reserve func(bytes int) *Error // reserves memory for further bytes; nil: no limit
}

// largeParser is a parser with the most that it has read of a body.
type largeParser struct {
	fastjson.Parser
	bytes, values int
}

var largeParsers buffers.Pool[*largeParser]

// keepParser keeps the parser of a large body for another one.
func (r *Request) keepParser() {
	p := r.large
	if r.large = nil; p == nil || p.bytes > buffers.Largest || p.values > keepLargeValues {
		return
	}
	if buffers.Poisoned {
		poison := bytes.Repeat([]byte{buffers.Poison}, p.bytes)
		poison[0], poison[len(poison)-1] = '"', '"'
		_, _ = p.ParseBytes(poison)
	}
	largeParsers.Put(p, p.bytes+sizeOf(p.values))
}

var requests = sync.Pool{New: func() any { return new(Request) }}

// AcquireRequest takes a request from the pool.
func AcquireRequest() *Request { return requests.Get().(*Request) }

// Release returns r to the pool. Neither r nor anything parsed from it may be
// used afterwards.
func (r *Request) Release() {
	if r.large == nil && r.values > keepValues {
		// fastjson's parser has grown with the values.
		r.parser = fastjson.Parser{}
	}
	r.keepParser()
	r.literals.reset()
	r.DropBody()
	if cap(r.names) > keepValues {
		r.names = nil
	}
	if cap(r.scratch) > keepBodyBytes {
		r.scratch = nil
	}
	r.body = r.body[:0]
	r.values = 0
	r.maxMetadata, r.reserve, r.plain = 0, nil, false
	r.contextSecret = nil
	clear(r.keys)
	r.keys = r.keys[:0]
	clear(r.names[:cap(r.names)])
	r.names = r.names[:0]
	requests.Put(r)
}

// Values returns how many values the last parsed body has.
func (r *Request) Values() int { return r.values }

// BodySize returns how many bytes the body has beside Size, 0 after DropBody of a large one.
func (r *Request) BodySize() int {
	if len(r.literals.list) > 0 {
		return 0
	}
	return len(r.body)
}

// Body returns the body as it was read. It is valid until Release or DropBody.
func (r *Request) Body() []byte { return r.body }

// DropBody frees the bytes of a large body while its parsed values stay in use: the
// parser has its own copy. A body with literals stays.
func (r *Request) DropBody() {
	if cap(r.body) > keepBodyBytes && len(r.literals.list) == 0 {
		buffers.Put(r.body)
		r.body = nil
	}
}

// grow makes the buffer hold size bytes. It takes a buffer for all claimed bytes
// only if the pool has one.
func (r *Request) grow(size, claimed int) {
	if size <= keepBodyBytes {
		r.body = slices.Grow(r.body, size-len(r.body))
		return
	}
	if cap(r.body) >= size {
		return
	}
	larger := buffers.Kept(max(size, claimed))
	if larger == nil {
		larger = buffers.Get(size)
	}
	larger = append(larger, r.body...)
	buffers.Put(r.body)
	r.body = larger
}

// bytesPerValue estimates the memory of a parsed value.
const bytesPerValue = 80

// Size returns about how many bytes the parsed values take: the parser's copy of the
// body, the values, and the body where literals are views of it.
func (r *Request) Size() int {
	size := r.size + sizeOf(r.values)
	if len(r.literals.list) > 0 {
		size += len(r.body)
	}
	return size
}

// sizeOf estimates the memory of parsed values in bytes. The parser's array of values
// grows by a quarter at a time, and outgrown arrays stay as long as the values in them:
// for many values that is five times their size, and once more with the members of
// objects. Parsers of few values are pooled, and have grown before.
func sizeOf(values int) int {
	if values > keepValues {
		return 6 * bytesPerValue * values
	}
	return bytesPerValue * values
}

// trusted is the factor by which a buffer may grow beyond the bytes that have
// arrived, if the client claims a longer body.
const trusted = 16

// ReadBody reads the body of req to its end, so that net/http notices when the client
// leaves later on. It refuses a body of more than limit bytes with BodyTooLarge, reading
// no more of it, and any content coding with UnsupportedEncoding, reading nothing. The
// Content-Type is ignored: old clients send several.
//
// If timeout is positive the whole body must arrive in that time, even if some bytes of
// it arrive all along. The deadline ends with the body: net/http removes it to notice
// when the client leaves. ReadBody itself must not remove it, because that would bring
// back the deadline of a server with a read timeout, which Caddy has removed, while the
// request is being answered.
//
// reserve, unless it is nil, is called with the number of further bytes before a body
// exceeds keepBodyBytes; the number includes the copies of the body that the request will
// have. If reserve refuses them ReadBody returns its error. So a request that does not
// fit into memory is refused when it begins to arrive, and not after the work. Object
// calls reserve in the same way before it parses more than keepValues values.
func (r *Request) ReadBody(w http.ResponseWriter, req *http.Request, limit int64, timeout time.Duration, copies int, reserve func(bytes int) *Error) *Error {
	r.body, r.reserve = r.body[:0], reserve
	for _, coding := range req.Header["Content-Encoding"] {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return Errorf(UnsupportedEncoding, "", "The body has Content-Encoding %q, but only bodies without one are read. Send plain JSON.", Clip(coding))
		}
	}
	if req.ContentLength > limit {
		return TooLarge(limit)
	}
	if req.Body == nil || req.Body == http.NoBody {
		return nil
	}
	deadline := time.Now().Add(timeout)
	if timeout > 0 {
		// A writer without deadlines is no connection.
		_ = http.NewResponseController(w).SetReadDeadline(deadline)
	}
	reader := req.Body
	if req.ContentLength < 0 {
		reader = http.MaxBytesReader(w, reader, limit)
	}
	// A client may claim any length: only for a small one is a buffer made before
	// the bytes arrive.
	r.body = slices.Grow(r.body, int(min(max(req.ContentLength, 511), keepBodyBytes-1))+1)
	size := cap(r.body)
	for {
		if len(r.body) == size {
			// Not doubled beyond the limit. The bytes that have arrived allow a
			// multiple of them, up to the length that was claimed.
			more := min(len(r.body), max(int(min(limit, math.MaxInt32))+1-len(r.body), 512))
			claimed := int(req.ContentLength) + 1 - len(r.body)
			if claimed > 0 {
				more = min(claimed, trusted*len(r.body))
			}
			if reserve != nil && len(r.body)+more > keepBodyBytes {
				if err := reserve((1 + copies) * more); err != nil {
					return err
				}
			}
			r.grow(size+more, size+claimed)
			size += more
		}
		n, err := reader.Read(r.body[len(r.body):size])
		r.body = r.body[:len(r.body)+n]
		if int64(len(r.body)) > limit {
			// A handler before this one has put a body in the place of the
			// client's, without its length.
			return TooLarge(limit)
		}
		if err == nil {
			continue
		}
		if err == io.EOF {
			return nil
		}
		// A limit set before this handler, by Caddy's request_body, is
		// reported by the same type.
		if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return TooLarge(tooLarge.Limit)
		}
		if timeout > 0 && errors.Is(err, os.ErrDeadlineExceeded) && !time.Now().Before(deadline) {
			return Errorf(InvalidRequest, "", "The body did not arrive within %s. Send it again, without a pause.", timeout)
		}
		return Errorf(InvalidRequest, "", "The body could not be read to its end. Send it again, complete and without a pause.")
	}
}

// TooLarge returns the error for a body of more than limit bytes.
func TooLarge(limit int64) *Error {
	return Errorf(BodyTooLarge, "", "The body is larger than the limit of %d bytes. Send less, or ask the operator to raise the limit.", limit)
}

// Object parses the body, which must be a JSON object.
func (r *Request) Object() (*fastjson.Object, *Error) { return r.object(false) }

func (r *Request) object(cut bool) (*fastjson.Object, *Error) {
	root, err := r.parseValue(cut)
	if err != nil {
		return nil, err
	}
	object, notObject := root.Object()
	if notObject != nil {
		return nil, Errorf(InvalidRequest, "", "The body must be a JSON object, not %s.", Describe(root))
	}
	return object, nil
}

// parseValue parses r.body. It refuses texts that two JSON parsers could read
// differently.
func (r *Request) parseValue(cut bool) (*fastjson.Value, *Error) {
	b := r.body
	if bytes.HasPrefix(b, []byte("\ufeff")) {
		return nil, Errorf(InvalidJSON, "", "The body begins with a byte order mark. Send JSON in UTF-8 without one.")
	}
	if skipSpace(b, 0) == len(b) {
		return nil, Errorf(InvalidJSON, "", "The body is empty. Send a JSON object.")
	}
	if !utf8.Valid(b) {
		return nil, invalidJSON(b, &syntaxError{offset: invalidUTF8(b), problem: "the text is not UTF-8"})
	}
	r.literals.reset()
	var texts *literals
	if cut {
		texts = &r.literals
	}
	values, bad := checkSyntax(b, texts)
	r.values = values
	if bad != nil {
		return nil, invalidJSON(b, bad)
	}
	if values > keepValues {
		if r.reserve != nil {
			if err := r.reserve(sizeOf(values)); err != nil {
				return nil, err
			}
		}
		buffers.Count(sizeOf(values))
	}
	if l := &r.literals; len(l.list) > 0 {
		l.text = append(l.text, b[l.from:]...)
		b = l.text
	}
	parser := &r.parser
	if r.size = len(b); r.size > keepBodyBytes {
		if r.large == nil {
			if r.large, _ = largeParsers.Get(); r.large == nil {
				r.large = new(largeParser)
			}
		}
		if len(b) > r.large.bytes {
			buffers.Count(len(b)) // the parser's copy grows
		}
		r.large.bytes, r.large.values = max(r.large.bytes, len(b)), max(r.large.values, values)
		parser = &r.large.Parser
	}
	root, err := parser.ParseBytes(b)
	if err != nil {
		// Unreachable: checkSyntax accepts no text that fastjson refuses.
		return nil, Errorf(InvalidJSON, "", "The body is not valid JSON.")
	}
	r.names = r.names[:0]
	if param, found := r.duplicate(root); found {
		return nil, Errorf(InvalidJSON, param, "The member %q appears more than once in its object. Send it once.", param)
	}
	return root, nil
}

func invalidJSON(b []byte, e *syntaxError) *Error {
	line := 1 + bytes.Count(b[:e.offset], []byte{'\n'})
	column := e.offset - bytes.LastIndexByte(b[:e.offset], '\n')
	what := "is not valid JSON"
	if e.limit {
		what = "is past a limit"
	}
	return Errorf(InvalidJSON, "", "The body %s at line %d, column %d (byte %d): %s.", what, line, column, e.offset, e.problem)
}

func invalidUTF8(b []byte) int {
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(b)
}

// linearNames is the number of members up to which comparing each with each
// beats sorting.
const linearNames = 16

// duplicate looks for a member that appears twice in one object and returns its
// path.
func (r *Request) duplicate(v *fastjson.Value) (path string, found bool) {
	switch v.Type() {
	case fastjson.TypeObject:
		object := v.GetObject()
		start := len(r.names)
		nested := false
		object.Visit(func(key []byte, member *fastjson.Value) {
			r.names = append(r.names, key)
			t := member.Type()
			nested = nested || t == fastjson.TypeObject || t == fastjson.TypeArray
		})
		if name, found := repeated(r.names[start:]); found {
			return Clip(string(name)), true
		}
		r.names = r.names[:start]
		if !nested {
			return "", false
		}
		object.Visit(func(key []byte, member *fastjson.Value) {
			if found {
				return
			}
			if path, found = r.duplicate(member); found {
				path = joinPath(Clip(string(key)), path)
			}
		})
	case fastjson.TypeArray:
		for i, element := range v.GetArray() {
			if path, found = r.duplicate(element); found {
				return joinPath("["+strconv.Itoa(i)+"]", path), true
			}
		}
	}
	return path, found
}

// repeated returns a name that occurs twice. It may reorder names.
func repeated(names [][]byte) (name []byte, found bool) {
	if len(names) > linearNames {
		slices.SortFunc(names, bytes.Compare)
		for i := 1; i < len(names); i++ {
			if bytes.Equal(names[i-1], names[i]) {
				return names[i], true
			}
		}
		return nil, false
	}
	for i, name := range names {
		for _, earlier := range names[:i] {
			if bytes.Equal(earlier, name) {
				return name, true
			}
		}
	}
	return nil, false
}

// joinPath puts the path of a member or element before the path of a value in it.
// It cuts the path of deep nesting, which goes into a message.
func joinPath(outer, inner string) string {
	if !strings.HasPrefix(inner, "[") {
		outer += "."
	}
	if len(outer)+len(inner) > 4*clipLength {
		return outer + "…"
	}
	return outer + inner
}

// clipLength is how many bytes of a caller's text a message repeats.
const clipLength = 64

// Clip returns a caller's text as a message may repeat it.
func Clip(s string) string {
	if len(s) <= clipLength {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.ToValidUTF8(s[:clipLength], "") + "…"
}

// Describe returns the type of v for messages.
func Describe(v *fastjson.Value) string {
	switch v.Type() {
	case fastjson.TypeObject:
		return "an object"
	case fastjson.TypeArray:
		return "an array"
	case fastjson.TypeString:
		return "a string"
	case fastjson.TypeNumber:
		return "a number"
	case fastjson.TypeNull:
		return "null"
	default:
		return "a boolean"
	}
}
