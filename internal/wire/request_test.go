package wire

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadBody(t *testing.T) {
	body := strings.Repeat("x", 5000)
	for name, reader := range map[string]io.Reader{
		"known length":  strings.NewReader(body),
		"chunked":       struct{ io.Reader }{strings.NewReader(body)},
		"byte by byte":  iotest.OneByteReader(strings.NewReader(body)),
		"data with EOF": iotest.DataErrReader(strings.NewReader(body)),
	} {
		t.Run(name, func(t *testing.T) {
			r := AcquireRequest()
			defer r.Release()
			if err := r.ReadBody(httptest.NewRecorder(), httptest.NewRequest("POST", "/", reader), int64(len(body)), 0, 0, nil); err != nil {
				t.Fatal(err)
			}
			if string(r.Body()) != body {
				t.Errorf("read %d bytes", len(r.Body()))
			}
		})
	}
}

func TestReadBodyErrors(t *testing.T) {
	before := func(r io.Reader, limit int64) io.Reader {
		return wrapped{http.MaxBytesReader(httptest.NewRecorder(), io.NopCloser(r), limit)}
	}
	tests := map[string]struct {
		reader io.Reader
		coding []string
		status int
		code   string
	}{
		"no body":             {nil, nil, 0, ""},
		"at the limit":        {strings.NewReader("0123456789"), nil, 0, ""},
		"identity":            {strings.NewReader("{}"), []string{"Identity"}, 0, ""},
		"no coding":           {strings.NewReader("{}"), []string{""}, 0, ""},
		"announced too large": {strings.NewReader("01234567890"), nil, 413, "body_too_large"},
		"chunked too large":   {struct{ io.Reader }{strings.NewReader("01234567890")}, nil, 413, "body_too_large"},
		"limited before":      {before(strings.NewReader("012345"), 5), nil, 413, "body_too_large"},
		"gzip":                {strings.NewReader("x"), []string{"gzip"}, 415, "unsupported_encoding"},
		"gzip, second value":  {strings.NewReader("x"), []string{"identity", "gzip"}, 415, "unsupported_encoding"},
		"hostile coding":      {strings.NewReader("x"), []string{strings.Repeat("é", 4096)}, 415, "unsupported_encoding"},
		"broken off":          {io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF)), nil, 400, "invalid_request"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			req := httptest.NewRequest("POST", "/", test.reader)
			if test.coding != nil {
				req.Header["Content-Encoding"] = test.coding
			}
			r := AcquireRequest()
			defer r.Release()
			err := r.ReadBody(httptest.NewRecorder(), req, 10, 0, 0, nil)
			if test.status == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || err.Status != test.status || err.Name != test.code || len(err.Message) > 400 {
				t.Errorf("got %v", err)
			}
		})
	}
}

// wrapped reports errors as a middleware of Caddy does.
type wrapped struct{ io.Reader }

func (r wrapped) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("HTTP 413: %w", err)
	}
	return n, err
}

// A refused coding must not cost a read.
func TestReadBodyLeavesRefusedBodiesAlone(t *testing.T) {
	for name, set := range map[string]func(*http.Request){
		"coding": func(r *http.Request) { r.Header.Set("Content-Encoding", "br") },
		"length": func(r *http.Request) { r.ContentLength = 11 },
	} {
		req := httptest.NewRequest("POST", "/", iotest.ErrReader(errors.New("was read")))
		set(req)
		r := AcquireRequest()
		if err := r.ReadBody(httptest.NewRecorder(), req, 10, 0, 0, nil); err == nil || err.Name == "invalid_request" {
			t.Errorf("%s: %v", name, err)
		}
		r.Release()
	}
}

// The buffer's size must not depend on the length that a client announces.
func TestReadBodyDoesNotTrustTheLength(t *testing.T) {
	req := httptest.NewRequest("POST", "/", strings.NewReader("{}"))
	req.ContentLength = 1 << 30
	r := new(Request)
	if err := r.ReadBody(httptest.NewRecorder(), req, 1<<30, 0, 0, nil); err != nil {
		t.Fatal(err)
	}
	if cap(r.body) > keepBodyBytes {
		t.Errorf("%d bytes allocated for 2", cap(r.body))
	}
}

// A handler before the gateway may put a body in the place of the client's and leave
// the length as it was.
func TestReadBodyBoundsABodyOfAnotherLength(t *testing.T) {
	for body, want := range map[string]int{"0123456789": 0, "01234567890": 413} {
		req := httptest.NewRequest("POST", "/", strings.NewReader(body))
		req.ContentLength = 2
		r := new(Request)
		status := 0
		if err := r.ReadBody(httptest.NewRecorder(), req, 10, 0, 0, nil); err != nil {
			status = err.Status
		}
		if status != want {
			t.Errorf("%d bytes: status %d, want %d", len(body), status, want)
		}
	}
}

func TestReleaseDropsBigBuffers(t *testing.T) {
	for name, body := range map[string]string{
		"bytes":  `{"keys":["a"],"context":{"x":"` + strings.Repeat("x", keepBodyBytes) + `"}}`,
		"values": `{"keys":["a"],"context":{"x":[0` + strings.Repeat(",0", keepValues) + `]}}`,
		"names":  `{"keys":["a"],"context":{` + members(keepValues+1) + `}}`,
	} {
		r := new(Request)
		r.body = append(r.body, body...)
		if _, err := r.Prompts(); err != nil {
			t.Fatal(name, err)
		}
		r.Release()
		if cap(r.body) > keepBodyBytes || cap(r.names) > keepValues {
			t.Errorf("%s: kept %d bytes, %d names", name, cap(r.body), cap(r.names))
		}
		parser := reflect.ValueOf(r.parser)
		if parser.FieldByName("b").Cap() > keepBodyBytes || parser.FieldByName("c").FieldByName("vs").Cap() > 2*keepValues {
			t.Errorf("%s: the parser kept its buffers", name)
		}
	}
}

func TestBearerToken(t *testing.T) {
	const key = "cadenza-demo-key-0001"
	tests := map[string]struct {
		values   []string
		token    string
		sent, ok bool
	}{
		"none":            {nil, "", false, false},
		"empty":           {[]string{""}, "", false, false},
		"good":            {[]string{"Bearer " + key}, key, true, true},
		"case of scheme":  {[]string{"bEARER " + key}, key, true, true},
		"several spaces":  {[]string{"Bearer   " + key + " "}, key, true, true},
		"no token":        {[]string{"Bearer"}, "", false, false},
		"blank token":     {[]string{"Bearer  "}, "", false, false},
		"other scheme":    {[]string{"Basic " + key}, "", false, false},
		"no scheme":       {[]string{key}, "", false, false},
		"glued":           {[]string{"Bearer" + key}, "", false, false},
		"tab":             {[]string{"Bearer\t" + key}, "", false, false},
		"two":             {[]string{"Bearer " + key, "Bearer " + key}, "", true, false},
		"two, one other":  {[]string{"Basic eDp5", "Bearer " + key}, "", true, false},
		"shortest":        {[]string{"Bearer " + strings.Repeat("k", 16)}, strings.Repeat("k", 16), true, true},
		"too short":       {[]string{"Bearer " + strings.Repeat("k", 15)}, "", true, false},
		"longest":         {[]string{"Bearer " + strings.Repeat("k", 512)}, strings.Repeat("k", 512), true, true},
		"too long":        {[]string{"Bearer " + strings.Repeat("k", 513)}, "", true, false},
		"all visible":     {[]string{"Bearer !\"#$%&'()*+,-./:;<=>?@[]^_`{|}~"}, "!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~", true, true},
		"space inside":    {[]string{"Bearer cadenza demo-key-0001"}, "", true, false},
		"control inside":  {[]string{"Bearer cadenza-demo\x00key-0001"}, "", true, false},
		"delete inside":   {[]string{"Bearer cadenza-demo\x7fkey-0001"}, "", true, false},
		"not ASCII":       {[]string{"Bearer cadenza-démo-key-0001"}, "", true, false},
		"old service key": {[]string{"Bearer RQST.0123456789abcdef"}, "RQST.0123456789abcdef", true, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			if test.values != nil {
				h["Authorization"] = test.values
			}
			token, sent, ok := BearerToken(h)
			if token != test.token || sent != test.sent || ok != test.ok {
				t.Errorf("%q %v %v, want %q %v %v", token, sent, ok, test.token, test.sent, test.ok)
			}
		})
	}
}
