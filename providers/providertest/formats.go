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

// Corruption is a reply of status 200 that is no whole answer.
type Corruption = struct {
	Name  string
	Reply Reply
	// Kind is that of the error which the caller gets.
	Kind providers.ErrorKind
}

// CheckCorruptions checks that no caller takes a cut or corrupt answer for a
// whole one.
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

// CheckCuts reads an answer that ends after each of its bytes. It is complete
// where the first complete bytes of it were there, and not before.
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

// Answer is an odd spelling of a whole answer.
type Answer = struct {
	Name   string
	Reply  Reply
	Result providers.Result
}

// CheckAnswers checks that answers of one text are read, however they are
// spelled.
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

// ErrorAnswer is an answer that is an error, or has one in it.
type ErrorAnswer = struct {
	Name  string
	Reply Reply
	// Want is the error. Its Provider is set by the check, and its Status
	// where it is 0: to 200.
	Want providers.Error
}

// CheckErrors checks what callers learn from errors.
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

// CheckMore checks that More is set where the next piece is there already. The
// stream has the texts a and b in its first piece, behind b something without
// text, and c and the end in its second. Marked says that the format has an end
// marker: without one, the end behind c is that of the connection, which may
// come later.
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

// CheckContent checks that every text arrives as it is. Whole makes a stream of
// words; escaped is a stream whose text is 🌍é, written as three escapes of
// JSON: a pair of surrogates, and one more.
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

// CheckReuse checks that calls one after another share a connection. The
// replies are to have the text ab.
func (s *Subject) CheckReuse(t *testing.T, choose func(Request) Reply) {
	t.Helper()
	up := NewUpstream(t).Choose(choose)
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

// CheckRedirect checks that the request, and the key with it, goes nowhere
// else.
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

// CheckEventWithoutMemory reads a stream while there is no memory for answers.
// The stream is of a small event of a great many values, which takes memory
// once it is parsed.
func (s *Subject) CheckEventWithoutMemory(t *testing.T, event func(data string) Reply) {
	t.Helper()
	TakeMemory(t)
	many := event("[" + strings.Repeat("0,", 1000) + "0]")
	if o := s.Receive(t, many, true); !errors.Is(o.Err, providers.ErrNoRoom) {
		t.Errorf("error %v", o.Err)
	}
}

// Fuzz reads any body. Seeds are the first ones, beside the short ones of the
// corruptions; ended reports whether a body has in it what makes an answer with
// this result complete.
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
		// A byte that is no text is read as U+FFFD, of three bytes.
		if said > 3*len(body) {
			t.Errorf("%d bytes of content from %d", said, len(body))
		}
		CheckToolCalls(t, err, r.ToolCalls)
		if _, again := answer.Next(); again != err {
			t.Errorf("%v, then %v", err, again)
		}
	})
}
