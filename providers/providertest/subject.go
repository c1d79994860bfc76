package providertest

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Subject is a provider over HTTP whose wire format is tested byte by byte. Run
// checks the contract of all providers; the checks of a Subject need the details of
// one format: the forms of its answers, and the ways to cut and corrupt them.
type Subject struct {
	// Name is the provider's name, which all its errors have.
	Name string
	// Connect makes a provider that calls base, the URL of an Upstream.
	Connect func(t testing.TB, base string) providers.Provider
	// Open reads the body of an answer with status 200 without a network. Only
	// CheckCuts, Fuzz and the benchmarks of a piece need it.
	Open func(body io.ReadCloser) providers.Stream
	// Request is the request that the checks send. They set Stream and
	// Parameters.
	Request providers.Request
}

// Outcome is the caller's view of an answer.
type Outcome struct {
	// Text is the whole text. Pieces are the pieces that are not empty.
	Text   string
	Pieces []string
	// Result is the result at the end of the answer.
	Result providers.Result
	// Err is the error of an incomplete answer.
	Err error
}

// Read reads an answer to its end.
func Read(s providers.Stream) Outcome {
	var o Outcome
	for {
		d, err := s.Next()
		if err != nil {
			o.Result = s.Result()
			if err != io.EOF {
				o.Err = err
			}
			return o
		}
		if d.Content != "" {
			o.Pieces = append(o.Pieces, d.Content)
			o.Text += d.Content
		}
	}
}

// Told returns the deltas of an answer, read without a network: thoughts as ~text~ and
// <data>, and pieces of calls as [index id name arguments]. It also returns the result,
// whose thoughts must be the thoughts of the deltas.
func (s *Subject) Told(t testing.TB, reply Reply) (string, providers.Result, error) {
	t.Helper()
	answer := s.Open(io.NopCloser(strings.NewReader(reply.Text())))
	defer answer.Close()
	var b, thinking, data strings.Builder
	for {
		d, err := answer.Next()
		if err != nil {
			r := answer.Result()
			var text, opaque string
			for _, thought := range r.Thoughts {
				text += thought.Text
				opaque += thought.Opaque
			}
			if text != thinking.String() || opaque != data.String() {
				t.Errorf("the thoughts of the result are %+v, those of the deltas %q and %q", r.Thoughts, &thinking, &data)
			}
			if err == io.EOF {
				err = nil
			}
			return b.String(), r, err
		}
		if d.Thinking != "" {
			b.WriteString("~" + d.Thinking + "~")
			thinking.WriteString(d.Thinking)
		}
		if d.Thought != nil {
			b.WriteString("<" + d.Thought.Opaque + ">")
			data.WriteString(d.Thought.Opaque)
		}
		b.WriteString(d.Content)
		for _, c := range d.Calls {
			fmt.Fprintf(&b, "[%d %s %s %s]", c.Index, c.ID, c.Name, c.Arguments)
		}
	}
}

// Receive sends the request and reads the answer, which is reply.
func (s *Subject) Receive(t testing.TB, reply Reply, stream bool) Outcome {
	t.Helper()
	return s.ReceiveFrom(t, s.Connect(t, NewUpstream(t).Then(reply).URL), stream)
}

// ReceiveFrom sends the request to a provider and reads its answer.
func (s *Subject) ReceiveFrom(t testing.TB, p providers.Provider, stream bool) Outcome {
	t.Helper()
	return outcome(t, p, s.request(stream))
}

func outcome(t testing.TB, p providers.Provider, req *providers.Request) Outcome {
	answer, err := p.Invoke(t.Context(), req)
	if err != nil {
		return Outcome{Err: err}
	}
	defer answer.Close()
	return Read(answer)
}

func (s *Subject) request(stream bool) *providers.Request {
	req := s.Request
	req.Stream = stream
	return &req
}

// Sent sends a request to the provider that connect makes from the URL of an upstream
// with this reply. It returns the upstream's request, and the result before the answer
// is read. If the provider prepares requests, prepared requests must be the same,
// including the second one.
func Sent(t testing.TB, reply Reply, req *providers.Request, connect func(base string) providers.Provider) (Request, providers.Result) {
	t.Helper()
	up := NewUpstream(t).Always(reply)
	p := connect(up.URL)
	send := func(req *providers.Request) (Request, providers.Result) {
		s, err := p.Invoke(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		requests := up.Requests()
		return requests[len(requests)-1], s.Result()
	}
	sent, result := send(req)
	prepared := *req
	var err error
	if prepared.Prepared, err = providers.Prepare(p, req); err != nil {
		t.Fatal(err)
	}
	if prepared.Prepared != nil {
		for range 2 {
			got, again := send(&prepared)
			if diff := cmp.Diff(sent, got); diff != "" {
				t.Errorf("the prepared request is another (-without +with preparation):\n%s", diff)
			}
			if diff := cmp.Diff(result.LeftOut, again.LeftOut); diff != "" {
				t.Errorf("the prepared request leaves out other parameters:\n%s", diff)
			}
		}
	}
	return sent, result
}

// Extra returns a request's member Extra from pairs of a name and a JSON text.
func Extra(pairs ...string) map[string]json.RawMessage {
	extra := map[string]json.RawMessage{}
	for i := 0; i < len(pairs); i += 2 {
		extra[pairs[i]] = json.RawMessage(pairs[i+1])
	}
	return extra
}
