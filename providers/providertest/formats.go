package providertest

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Corruption is a reply with status 200 that is not a complete answer.
type Corruption = struct {
	Name  string
	Reply Reply
	// Kind is the kind of the caller's error.
	Kind providers.ErrorKind
}

// CheckCorruptions checks that callers get an error for a cut or corrupt answer.
func (s *Subject) CheckCorruptions(t *testing.T, tests []Corruption) {
	for _, test := range tests {
		t.Run(test.Name, func(t *testing.T) {
			for _, stream := range []bool{true, false} {
				o := s.Receive(t, test.Reply, stream)
				if o.Err == nil {
					t.Fatalf("stream=%v: complete, with the text %q", stream, o.Text)
				}
				e, ok := errors.AsType[*providers.Error](o.Err)
				if !ok {
					t.Fatalf("stream=%v: error %T %v", stream, o.Err, o.Err)
				}
				if e.Kind != test.Kind || e.Provider != s.Name || e.Status != http.StatusOK {
					t.Errorf("stream=%v: error %+v, want the kind %v", stream, e, test.Kind)
				}
			}
		})
	}
}

// CheckCuts reads an answer cut after each of its bytes. The answer must be complete
// if it has at least its first complete bytes, and incomplete otherwise.
func (s *Subject) CheckCuts(t *testing.T, whole string, complete int) {
	t.Helper()
	for n := range len(whole) + 1 {
		answer := s.Open(io.NopCloser(strings.NewReader(whole[:n])))
		o := Read(answer)
		answer.Close()
		if (o.Err == nil) != (n >= complete) {
			t.Fatalf("error %v after %d of %d bytes, of which %d make it complete: %q", o.Err, n, len(whole), complete, whole[max(0, n-40):n])
		}
	}
}

// Answer is an unusual form of a complete answer.
type Answer = struct {
	Name   string
	Reply  Reply
	Result providers.Result
}

// CheckAnswers checks that a text is read from all of these forms of an answer.
func (s *Subject) CheckAnswers(t *testing.T, text string, tests []Answer) {
	for _, test := range tests {
		t.Run(test.Name, func(t *testing.T) {
			for _, stream := range []bool{true, false} {
				o := s.Receive(t, test.Reply, stream)
				if o.Err != nil || o.Text != text {
					t.Fatalf("stream=%v: error %v, text %q", stream, o.Err, o.Text)
				}
				if diff := cmp.Diff(test.Result, o.Result); diff != "" {
					t.Errorf("stream=%v: result (-want +got):\n%s", stream, diff)
				}
			}
		})
	}
}

// ErrorAnswer is an answer that is or contains an error.
type ErrorAnswer = struct {
	Name  string
	Reply Reply
	// Want is the error. The check sets its Provider, and sets a Status of 0 to
	// 200.
	Want providers.Error
}

// CheckErrors checks the errors that callers get.
func (s *Subject) CheckErrors(t *testing.T, tests []ErrorAnswer) {
	for _, test := range tests {
		t.Run(test.Name, func(t *testing.T) {
			test.Want.Provider = s.Name
			if test.Want.Status == 0 {
				test.Want.Status = http.StatusOK
			}
			for _, stream := range []bool{false, true} {
				o := s.Receive(t, test.Reply, stream)
				e, ok := errors.AsType[*providers.Error](o.Err)
				if !ok {
					t.Fatalf("error %T %v", o.Err, o.Err)
				}
				if diff := cmp.Diff(test.Want, *e); diff != "" {
					t.Errorf("stream=%v (-want +got):\n%s", stream, diff)
				}
			}
		})
	}
}

// CheckBrokenCalls checks streams with tool calls that no caller can use.
func (s *Subject) CheckBrokenCalls(t *testing.T, replies map[string]Reply) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(replies)) {
		o := s.Receive(t, replies[name], true)
		if e, ok := errors.AsType[*providers.Error](o.Err); !ok || e.Kind != providers.Invalid || len(o.Result.ToolCalls) > 0 {
			t.Errorf("%s: text %q, error %v, result %+v", name, o.Text, o.Err, o.Result)
		}
	}
}

// CheckMore checks that More is set if the next piece has already arrived. The first piece of
// the stream has the texts a and b, and an event without text after b. The second piece has c
// and the end. marked says that the format has an end marker: without one, the end after c is
// the end of the connection, which may come later.
func (s *Subject) CheckMore(t *testing.T, stream Reply, marked bool) {
	t.Helper()
	gate := make(chan struct{})
	stream.Gate = gate
	answer, err := s.Connect(t, NewUpstream(t).Then(stream).URL).Invoke(t.Context(), s.request(true))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Close()
	for _, want := range []providers.Delta{{Content: "a", More: true}, {Content: "b"}, {Content: "c", More: true}} {
		last := want.Content == "c"
		if last {
			close(gate)
		}
		d, err := answer.Next()
		if last && !marked {
			d.More = true
		}
		if err != nil || d.Content != want.Content || d.More != want.More || len(d.Calls) > 0 {
			t.Errorf("%+v, %v; want %+v", d, err, want)
		}
	}
	_, err = answer.Next()
	for !marked && err == nil {
		_, err = answer.Next()
	}
	if err != io.EOF {
		t.Error(err)
	}
}

// CheckContent checks that every text arrives unchanged. whole makes a stream of
// words; escaped is a stream with the text 🌍é, written as three JSON escapes: a
// pair of surrogates, and one more.
func (s *Subject) CheckContent(t *testing.T, whole func(words ...string) Reply, escaped Reply) {
	t.Helper()
	words := []string{
		"", "a", "\"\\/\b\f\n\r\t", "\u2028\u2029\x00\x1f", "wörld 🌍 \U0010ffff", strings.Repeat("x", 1_000_000), "{}", " ",
		"event: message_stop\ndata: {}\n\n", "\ndata: {\"error\": 1}\n\n{\"error\": {}}", "data: x\n\ndata: [DONE]\n\n",
	}
	o := s.Receive(t, whole(words...), true)
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	if diff := cmp.Diff(words[1:], o.Pieces); diff != "" {
		t.Error(diff[:min(len(diff), 2000)])
	}
	if o = s.Receive(t, escaped, true); o.Err != nil || o.Text != "🌍é" {
		t.Errorf("text %q, error %v", o.Text, o.Err)
	}
}

// CheckReuse checks that successive calls share a connection. The replies must
// have the text ab.
func (s *Subject) CheckReuse(t *testing.T, choose func(Request) Reply) {
	t.Helper()
	// Nothing is left to wait for after the last piece: how long is for tests in simulated time.
	up := NewUpstream(t).Choose(func(r Request) Reply {
		reply := choose(r)
		reply.joined = true
		return reply
	})
	p := s.Connect(t, up.URL)
	for i := range 20 {
		if o := s.ReceiveFrom(t, p, i%2 == 0); o.Err != nil || o.Text != "ab" {
			t.Fatalf("text %q, error %v", o.Text, o.Err)
		}
	}
	if n := up.Connections(); n != 1 {
		t.Errorf("%d connections for 20 calls one after another", n)
	}
}

// CheckRedirect checks that the client does not follow a redirect, to which it
// would send the key.
func (s *Subject) CheckRedirect(t *testing.T) {
	t.Helper()
	elsewhere := NewUpstream(t)
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect} {
		o := s.Receive(t, Reply{Status: status, Header: map[string]string{"Location": elsewhere.URL + "/v1/messages"}}, false)
		if o.Err == nil {
			t.Errorf("%d: no error", status)
		}
	}
	if n := len(elsewhere.Requests()); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}

// CheckEventWithoutMemory reads a stream while there is no memory for answers. The stream has
// a small event with many values, which needs memory when it is parsed.
func (s *Subject) CheckEventWithoutMemory(t *testing.T, event func(data string) Reply) {
	t.Helper()
	TakeMemory(t)
	many := event("[" + strings.Repeat("0,", 1000) + "0]")
	if o := s.Receive(t, many, true); !errors.Is(o.Err, providers.ErrNoRoom) {
		t.Errorf("error %v", o.Err)
	}
}

// Fuzz reads arbitrary bodies. Its seeds are seeds and the short bodies of the corruptions.
// ended reports whether a body has the part that completes an answer with this result.
func (s *Subject) Fuzz(f *testing.F, corruptions []Corruption, seeds []string, ended func(body string, r providers.Result) bool) {
	for _, c := range corruptions {
		if body := c.Reply.Text(); len(body) < 10_000 {
			f.Add([]byte(body))
		}
	}
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		answer := s.Open(io.NopCloser(strings.NewReader(string(body))))
		defer answer.Close()
		said := 0
		var pieces []providers.CallPiece
		var err error
		for err == nil {
			var d providers.Delta
			d, err = answer.Next()
			said += len(d.Content) + len(d.Thinking)
			pieces = append(pieces, d.Calls...)
			if d.Content != "" && d.Thinking != "" || d.Logprobs != nil && !json.Valid(d.Logprobs) {
				t.Errorf("the delta %+v", d)
			}
		}
		r := answer.Result()
		if err == io.EOF && pieces != nil {
			checkPieces(t, pieces, r.ToolCalls)
		}
		if r.Logprobs != nil && !json.Valid(r.Logprobs) {
			t.Errorf("log probabilities %s", r.Logprobs)
		}
		if _, ok := errors.AsType[*providers.Error](err); !ok && err != io.EOF {
			t.Errorf("error %T %v", err, err)
		}
		if err == io.EOF && !ended(string(body), r) {
			t.Errorf("complete: %q", body)
		}
		if u := r.Usage; err == io.EOF && (u.PromptTokens < 0 || u.CompletionTokens < 0 || u.TotalTokens != u.PromptTokens+u.CompletionTokens) {
			t.Errorf("usage %+v", u)
		}
		// Each byte of invalid UTF-8 is read as U+FFFD, which has three bytes.
		if said > 3*len(body) {
			t.Errorf("%d bytes of content from %d", said, len(body))
		}
		CheckToolCalls(t, err, r.ToolCalls)
		if _, again := answer.Next(); again != err {
			t.Errorf("%v, then %v", err, again)
		}
	})
}

// NoAnswers are bodies that no service with server-sent events sends as an answer.
var NoAnswers = []Corruption{
	{"HTML", SSE("<!DOCTYPE html><title>502</title>"), providers.Invalid},
	{"JSON of a string", JSON(200, `"fine"`), providers.Invalid},
	{"JSON of nothing", JSON(200, `{}`), providers.Invalid},
	{"deep JSON", JSON(200, strings.Repeat("[", 100_000)), providers.Invalid},
	{"nonsense", SSE("data: nonsense\n\n"), providers.Invalid},
	{"nothing", SSE(), providers.Invalid},
	{"white space", JSON(200, strings.Repeat(" \n", 1000)), providers.Invalid},
}

// OddErrors are error answers that any service may send, or a proxy before it.
var OddErrors = []ErrorAnswer{
	{"HTML", Reply{Status: 502, Header: map[string]string{"Content-Type": "text/html"}, Body: []string{"<h1>Bad\nGateway</h1>"}}, providers.Error{Status: 502, Message: "<h1>Bad Gateway</h1>"}},
	{"a huge body", JSON(500, strings.Repeat("x", 1<<20)), providers.Error{Status: 500, Message: strings.Repeat("x", 1<<10) + "…"}},
	{"cut JSON", JSON(500, `{"error":{"mess`), providers.Error{Status: 500, Message: `{"error":{"mess`}},
	{"cut body", Reply{Status: 500, Body: []string{"half"}, End: Cut}, providers.Error{Status: 500, Message: "half"}},
	{"deep JSON", JSON(500, strings.Repeat("[", 1000)), providers.Error{Status: 500, Message: strings.Repeat("[", 1000)}},
	{"empty", Reply{Status: 500}, providers.Error{Status: 500}},
	{"no content", Reply{Status: 204}, providers.Error{Status: 204}},
	{"redirect", Reply{Status: 307, Header: map[string]string{"Location": "http://192.0.2.1/"}}, providers.Error{Status: 307}},
}
