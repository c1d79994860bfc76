package providertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/secret"
)

// Behaviour describes how a provider's upstream must answer every request of one
// test of the contract.
type Behaviour struct {
	// Words is the answer; each word is a piece.
	Words []string
	// Tools are the tool calls after the words. The answer then ends like one with tool calls.
	Tools []providers.ToolCall
	// Thought, if set, is the model's thinking before the words, with the service's
	// opaque data. A Factory returns nil if the service has no such data.
	Thought *providers.Thought
	// Pace is the time between two words of a stream.
	Pace time.Duration
	// Status, if set, is a failure before the answer, with Code, and with
	// RetryAfter in whole seconds.
	Status     int
	Code       string
	RetryAfter time.Duration
	// Fail is the failure after the words, instead of the end.
	Fail Failure
	// Finish, if set, is the gateway's word for the reason of the end. The upstream
	// sends its own word for it, or UnknownReason unchanged.
	Finish providers.FinishReason
	// Key, if set, is the file from which the provider reads its key.
	Key secret.Reference

	asked func(Request) // called with each request
}

// UnknownReason is a finish reason that no service has.
const UnknownReason providers.FinishReason = "tired"

// Failure is the failure of an answer that began.
type Failure int

// The failures.
const (
	None     Failure = iota
	Stops            // it ends too early
	Stalls           // it hangs
	Reported         // the provider reports an error

	// The upstream answers without an end. Upstream.Play implements these
	// failures; the content of the answer does not matter.

	Switches // it answers 101, as if it switched to another protocol, and hangs
	Silent   // it sends the headers of Status, and nothing after them
	Drips    // it sends the headers of Status, and white space for ever
)

// Factory makes a provider whose upstream has the behaviour: see Upstream.Play. The test sends
// req, to which the factory may add members. The factory returns nil if the provider does not
// support the behaviour, such as a finish reason or a key.
type Factory func(t *testing.T, b Behaviour, req *providers.Request) providers.Provider

// patience is the maximum wait for an event that is due at once, on a busy machine.
const patience = time.Minute

var words = []string{"Hello", ", ", "wörld", " 🌍", "\n", "end \"quoted\" \\ \u2028."}

// Capability is a feature that not every provider has.
type Capability int

// Streaming means that the words of an answer arrive one by one. A provider without it answers
// requests for a stream with the whole answer at once, and Invoke may wait for this answer.
const Streaming Capability = iota

// Run checks the contract between providers and the gateway, except for the
// capabilities that the provider declares not to have.
func Run(t *testing.T, factory Factory, without ...Capability) {
	streams := !slices.Contains(without, Streaming)
	t.Run("WholeAnswer", func(t *testing.T) { testComplete(t, factory, false, 1) })
	if streams {
		t.Run("StreamedAnswer", func(t *testing.T) { testComplete(t, factory, true, len(words)) })
		t.Run("WordsArriveOneByOne", func(t *testing.T) { testPace(t, factory) })
		t.Run("CancelDuring", func(t *testing.T) { testCancelDuring(t, factory) })
		t.Run("Close", func(t *testing.T) { testClose(t, factory, Stalls) })
	} else {
		t.Run("AnswerAtOnce", func(t *testing.T) { testComplete(t, factory, true, 1) })
		t.Run("Close", func(t *testing.T) { testClose(t, factory, None) })
	}
	t.Run("Status", func(t *testing.T) { testStatus(t, factory) })
	t.Run("TruncatedStream", func(t *testing.T) { testFailure(t, factory, Stops) })
	t.Run("ReportedError", func(t *testing.T) { testFailure(t, factory, Reported) })
	t.Run("ToolCalls", func(t *testing.T) { testToolCalls(t, factory) })
	t.Run("CallIDs", func(t *testing.T) { testCallIDs(t, factory) })
	t.Run("BrokenToolCalls", func(t *testing.T) { testBrokenToolCalls(t, factory) })
	t.Run("Parts", func(t *testing.T) { testParts(t, factory) })
	t.Run("Thoughts", func(t *testing.T) { testThoughts(t, factory) })
	t.Run("FinishReasons", func(t *testing.T) { testFinish(t, factory) })
	t.Run("SplitCharacters", func(t *testing.T) { testSplit(t, factory) })
	t.Run("Key", func(t *testing.T) { testKey(t, factory) })
	t.Run("LeftOut", func(t *testing.T) { testLeftOut(t, factory) })
	t.Run("CancelBefore", func(t *testing.T) { testCancelBefore(t, factory) })
	t.Run("RequestUnchanged", func(t *testing.T) { testUnchanged(t, factory) })
	t.Run("EndlessAnswers", func(t *testing.T) { testEndless(t, factory) })
	t.Run("Memory", func(t *testing.T) { testMemory(t, factory) })
	t.Run("Concurrent", func(t *testing.T) { testConcurrent(t, factory) })
	t.Run("NothingLeft", func(t *testing.T) { testNothingLeft(t, factory, streams) })
}

func request(stream bool) *providers.Request {
	temperature, tokens := 0.5, int64(100)
	return &providers.Request{
		Model: "a-model",
		Messages: []providers.Message{
			{Role: "system", Content: "Be brief."},
			{Role: "user", Content: "Say hello."},
		},
		Parameters: providers.Parameters{Temperature: &temperature, MaxTokens: &tokens},
		Extra:      map[string]json.RawMessage{},
		Stream:     stream,
	}
}

func invoke(t *testing.T, p providers.Provider, req *providers.Request) providers.Stream {
	t.Helper()
	s, err := p.Invoke(t.Context(), req)
	if err != nil {
		t.Fatalf("Invoke: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func testComplete(t *testing.T, factory Factory, stream bool, pieces int) {
	req := request(stream)
	s := invoke(t, factory(t, Behaviour{Words: words}, req), req)
	o := Read(s)
	if o.Err != nil {
		t.Fatal(o.Err)
	}
	if diff := cmp.Diff(strings.Join(words, ""), o.Text); diff != "" {
		t.Errorf("the answer differs (-want +got):\n%s", diff)
	}
	if n := len(o.Pieces); n != pieces {
		t.Errorf("%d pieces, want %d", n, pieces)
	}
	if _, err := s.Next(); err != io.EOF {
		t.Errorf("Next after the end: %v, want io.EOF again", err)
	}
	r := s.Result()
	if r.FinishReason != providers.FinishStop || r.Model == "" {
		t.Errorf("result %+v", r)
	}
	u := r.Usage
	if u.PromptTokens <= 0 || u.CompletionTokens <= 0 || u.TotalTokens != u.PromptTokens+u.CompletionTokens {
		t.Errorf("usage %+v", u)
	}
}

// testPace reads a stream whose words come one by one. A busy machine may read the first word
// late, together with the next. One try of three suffices to show that words are not delayed,
// and no machine is busy for as long as the words of the last one take.
func testPace(t *testing.T, factory Factory) {
	var problem string
	for _, pace := range []time.Duration{60 * time.Millisecond, time.Second, 10 * time.Second} {
		req := request(true)
		s := invoke(t, factory(t, Behaviour{Words: []string{"one ", "two ", "three"}, Pace: pace}, req), req)
		var first time.Time
		pieces, more := 0, false
		for {
			d, err := s.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if d.Content == "" {
				continue
			}
			if pieces++; pieces == 1 {
				first, more = time.Now(), d.More
			}
		}
		since := time.Since(first)
		if pieces == 3 && since >= 3*pace/2 && !more {
			return
		}
		problem = fmt.Sprintf("%d words; the last came %s after the first, want about %s; the first says that the next one is there already: %v", pieces, since, 2*pace, more)
	}
	t.Error(problem)
}

func testStatus(t *testing.T, factory Factory) {
	for _, stream := range []bool{false, true} {
		req := request(stream)
		p := factory(t, Behaviour{Status: 429, Code: "rate_limit_exceeded", RetryAfter: 2 * time.Second}, req)
		s, err := p.Invoke(t.Context(), req)
		if err == nil {
			err = Read(s).Err
			s.Close()
		}
		e, ok := errors.AsType[*providers.Error](err)
		if !ok {
			t.Fatalf("error %v, want *providers.Error", err)
		}
		if e.Kind != providers.Status || e.Status != 429 || e.Code != "rate_limit_exceeded" || e.RetryAfter != 2*time.Second || e.Provider == "" {
			t.Errorf("error %+v", e)
		}
	}
}

func testFailure(t *testing.T, factory Factory, failure Failure) {
	for _, stream := range []bool{false, true} {
		for _, said := range [][]string{nil, {"one ", "two "}} {
			req := request(stream)
			p := factory(t, Behaviour{Words: said, Fail: failure}, req)
			s, err := p.Invoke(t.Context(), req)
			if err == nil {
				err = Read(s).Err
				if _, again := s.Next(); again == nil || again == io.EOF {
					t.Errorf("Next after %v: %v, want the error again", err, again)
				}
				s.Close()
			}
			e, ok := errors.AsType[*providers.Error](err)
			if !ok {
				t.Fatalf("stream=%v after %q: error %v, want *providers.Error", stream, said, err)
			}
			switch {
			case failure == Reported && e.Kind != providers.Reported,
				failure == Stops && e.Kind != providers.Truncated && e.Kind != providers.Invalid:
				t.Errorf("stream=%v after %q: kind %v", stream, said, e.Kind)
			}
		}
	}
}

func testCancelBefore(t *testing.T, factory Factory) {
	req := request(true)
	p := factory(t, Behaviour{Words: words}, req)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Invoke(ctx, req); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func testCancelDuring(t *testing.T, factory Factory) {
	req := request(true)
	p := factory(t, Behaviour{Words: []string{"one "}, Fail: Stalls}, req)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := p.Invoke(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for {
		d, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		if d.Content != "" {
			break
		}
	}
	time.AfterFunc(20*time.Millisecond, cancel)
	began := time.Now()
	if o := Read(s); o.Err == nil {
		t.Error("a cancelled stream ended as complete")
	}
	if took := time.Since(began); took > patience {
		t.Errorf("cancelling took %s", took)
	}
}

func testClose(t *testing.T, factory Factory, failure Failure) {
	req := request(true)
	p := factory(t, Behaviour{Words: []string{"one "}, Fail: failure}, req)
	s, err := p.Invoke(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if _, err := s.Next(); err == nil || err == io.EOF {
		t.Errorf("Next after Close: %v, want an error", err)
	}
}

func testUnchanged(t *testing.T, factory Factory) {
	for _, stream := range []bool{false, true} {
		req := request(stream)
		p := factory(t, Behaviour{Words: words}, req)
		before, err := json.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		if o := Read(invoke(t, p, req)); o.Err != nil {
			t.Fatal(o.Err)
		}
		after, err := json.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(before), string(after)); diff != "" {
			t.Errorf("the provider changed the request (-before +after):\n%s", diff)
		}
	}
}

func testConcurrent(t *testing.T, factory Factory) {
	req := request(true)
	p := factory(t, Behaviour{Words: words}, req)
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			if o := outcome(t, p, req); o.Err != nil || o.Text != strings.Join(words, "") {
				t.Errorf("answer %q, error %v", o.Text, o.Err)
			}
		})
	}
	wait.Wait()
}

// testNothingLeft ends calls before their answers end: streams after the first word,
// others while they wait. Each must end at once and leave no goroutine behind.
func testNothingLeft(t *testing.T, factory Factory, streams bool) {
	req := request(true)
	p := factory(t, Behaviour{Words: []string{"one "}, Fail: Stalls}, req)
	before := runtime.NumGoroutine()
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		if !streams {
			time.AfterFunc(10*time.Millisecond, cancel)
		}
		began := time.Now()
		s, err := p.Invoke(ctx, req)
		if err == nil {
			_, err = s.Next()
		}
		if (err == nil) != streams || time.Since(began) > patience {
			t.Errorf("after %s: error %v", time.Since(began), err)
		}
		cancel()
		if s != nil {
			s.Close()
		}
	}
	noneLeft(t, before)
}

// noneLeft waits until there are about as many goroutines as before.
func noneLeft(t *testing.T, before int) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for runtime.NumGoroutine() > before+2 {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
