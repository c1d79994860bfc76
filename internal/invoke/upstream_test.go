package invoke_test

import (
	"context"
	"errors"
	"io"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/canned"
	"github.com/cadenza-gateway/cadenza/providers/openai"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// The loop over a real client and a real connection.

func provider(t testing.TB, up *pt.Upstream) providers.Provider {
	t.Helper()
	u, err := url.Parse(up.URL + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	c, err := openai.New(openai.Config{Key: "sk-test-0123456789abcdef", Upstream: upstream.Config{BaseURL: u}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

type outcome struct {
	result invoke.Result
	err    *invoke.Error
	text   string
	pieces int
}

func call(t testing.TB, e *invoke.Engine, stream bool, ps ...providers.Provider) outcome {
	t.Helper()
	c := &invoke.Call{Stream: stream, Messages: []providers.Message{{Role: "user", Content: "hello"}}}
	for i, p := range ps {
		c.Targets = append(c.Targets, invoke.Target{Name: string(rune('a' + i)), Provider: p, Model: "m"})
	}
	var o outcome
	var err error
	o.result, err = e.Invoke(t.Context(), c, func(d providers.Delta) error {
		o.pieces++
		o.text += d.Content
		return nil
	})
	if err != nil {
		var ok bool
		if o.err, ok = errors.AsType[*invoke.Error](err); !ok {
			t.Fatalf("error %T %v", err, err)
		}
	}
	return o
}

var backup = &canned.Provider{Answer: "from the fallback"}

func TestA500Then200IsRetried(t *testing.T) {
	for _, stream := range []bool{false, true} {
		up := pt.NewUpstream(t).Then(pt.OpenAIError(500, "server_error", "", "boom"))
		if stream {
			up.Always(pt.OpenAIStream("fine"))
		} else {
			up.Always(pt.OpenAIAnswer("fine", 1))
		}
		o := call(t, invoke.NewEngine(), stream, provider(t, up))
		if o.err != nil || o.text != "fine" || len(o.result.Attempts) != 2 || o.result.Attempts[0].Status != 500 || o.result.Model != "gpt-4o-mini-2024-07-18" {
			t.Errorf("stream=%v: error %v, answer %q, result %+v", stream, o.err, o.text, o.result)
		}
		if r := up.Requests(); len(r) != 2 || r[0].Body != r[1].Body {
			t.Errorf("the attempts differ: %+v", r)
		}
	}
}

func TestAResetBeforeTheHeadersIsRepeatedWithinTheBudget(t *testing.T) {
	up := pt.NewUpstream(t).Always(pt.Reply{Status: -1, End: pt.Reset})
	o := call(t, invoke.NewEngine(), false, provider(t, up), backup)
	if o.err != nil || o.text != "from the fallback" || len(up.Requests()) != 2 || len(o.result.Attempts) != 3 {
		t.Errorf("error %v, answer %q, %d requests, attempts %+v", o.err, o.text, len(up.Requests()), o.result.Attempts)
	}
	for i, class := range []string{"connect", "connect", ""} {
		if o.result.Attempts[i].Code != class {
			t.Errorf("attempt %d: %+v", i, o.result.Attempts[i])
		}
	}
	o = call(t, invoke.NewEngine(), false, provider(t, up))
	if o.err == nil || o.err.Code != wire.UpstreamUnavailable || o.err.Attempts != 3 {
		t.Errorf("alone: %+v", o.err)
	}
}

func TestACallThatEndsInAWaitRecordsWhatWasSent(t *testing.T) {
	up := pt.NewUpstream(t).Always(pt.Reply{Status: -1, End: pt.Reset})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(400*time.Millisecond, cancel)
	began, tries := time.Now(), 9
	r, err := invoke.NewEngine().Invoke(ctx, &invoke.Call{
		Targets: []invoke.Target{{Name: "a", Provider: provider(t, up), Model: "m"}},
		Policy:  invoke.Policy{MaxAttempts: 10, Retries: &tries},
	}, func(providers.Delta) error { return nil })
	if f, ok := errors.AsType[*invoke.Error](err); !ok || f.Class != invoke.ClientGone || time.Since(began) > 2*time.Second {
		t.Errorf("error %v after %s", err, time.Since(began))
	}
	least, most := len(r.Attempts), len(r.Attempts)
	if most > 0 && r.Attempts[most-1].Code == string(invoke.ClientGone) {
		least-- // it may not have reached the upstream
	}
	if sent := len(up.Requests()); sent == 0 || sent < least || sent > most {
		t.Errorf("%d attempts recorded, %d made", most, sent)
	}
}

func TestADeadPrimaryFallsBack(t *testing.T) {
	up := pt.NewUpstream(t)
	dead := provider(t, up)
	up.Close()
	for _, stream := range []bool{false, true} {
		o := call(t, invoke.NewEngine(), stream, dead, backup)
		if o.err != nil || o.text != "from the fallback" || o.result.Served != 1 {
			t.Errorf("error %v, answer %q", o.err, o.text)
		}
	}
}

func TestTokensArriveOneByOne(t *testing.T) {
	// Each piece after the role is sent only when the gate opens: here, once the
	// caller has the piece before.
	gate := make(chan struct{}, 8)
	reply := pt.OpenAIStream("one ", "two ", "three")
	reply.Gate = gate
	up := pt.NewUpstream(t).Then(reply)
	c := &invoke.Call{Stream: true, Targets: []invoke.Target{{Name: "a", Provider: provider(t, up), Model: "m"}}}
	var got []string
	gate <- struct{}{}
	_, err := invoke.NewEngine().Invoke(t.Context(), c, func(d providers.Delta) error {
		if got = append(got, d.Content); len(got) == 3 {
			close(gate)
		} else {
			gate <- struct{}{}
		}
		return nil
	})
	if err != nil || strings.Join(got, "|") != "one |two |three" {
		t.Errorf("error %v, pieces %q", err, got)
	}
}

func TestNoFailureIsEverMixedWithAnotherAttempt(t *testing.T) {
	content, finish := pt.ContentChunk("half "), pt.FinishChunk("stop")
	for name, test := range map[string]struct {
		reply     pt.Reply
		committed bool
	}{
		"error JSON":             {pt.OpenAIError(200, "server_error", "", "boom"), false},
		"error first":            {pt.SSE(pt.Event(pt.ErrorObject("server_error", "", "boom"))), false},
		"error after the role":   {pt.SSE(pt.RoleChunk(), pt.Event(pt.ErrorObject("server_error", "", "boom"))), false},
		"error after content":    {pt.SSE(pt.RoleChunk(), content, pt.Event(pt.ErrorObject("server_error", "", "boom"))), true},
		"end marker only":        {pt.SSE(pt.Done), false},
		"end without a finish":   {pt.SSE(pt.RoleChunk(), content), true},
		"cut after content":      {pt.Reply{Body: []string{content}, End: pt.Cut}, true},
		"cut in the finish":      {pt.Reply{Body: []string{content, finish[:100]}, End: pt.Cut}, true},
		"reset after content":    {pt.Reply{Body: []string{content}, End: pt.Reset}, true},
		"HTML":                   {pt.SSE("<html>"), false},
		"nonsense after content": {pt.SSE(content, "data: {\n\n"), true},
		"empty":                  {pt.SSE(), false},
	} {
		t.Run(name, func(t *testing.T) {
			up := pt.NewUpstream(t).Always(test.reply)
			o := call(t, invoke.NewEngine(), true, provider(t, up), backup)
			if test.committed {
				if o.err == nil || o.err.Code != wire.UpstreamInterrupted || !o.err.Committed || o.text != "half " || len(up.Requests()) != 1 {
					t.Errorf("error %+v, answer %q, %d requests", o.err, o.text, len(up.Requests()))
				}
			} else if o.err != nil || o.text != "from the fallback" {
				t.Errorf("error %v, answer %q", o.err, o.text)
			}
			// A whole answer commits to nothing before its end.
			if o := call(t, invoke.NewEngine(), false, provider(t, up), backup); o.err != nil || o.text != "from the fallback" || o.pieces != 1 {
				t.Errorf("whole: error %v, answer %q in %d pieces", o.err, o.text, o.pieces)
			}
		})
	}
}

func TestNoSecretGetsIntoAnError(t *testing.T) {
	up := pt.NewUpstream(t).Always(pt.OpenAIError(401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided: sk-test-0123456789abcdef"))
	o := call(t, invoke.NewEngine(), false, provider(t, up))
	if o.err == nil || o.err.Code != wire.UpstreamCredentials || strings.Contains(o.err.Error(), "sk-test") {
		t.Errorf("error %v", o.err)
	}
}

func TestAThousandAbortedStreamsLeaveNothing(t *testing.T) {
	up := pt.NewUpstream(t).Always(pt.Reply{Body: []string{pt.ContentChunk("a")}, End: pt.Hang})
	e, p := invoke.NewEngine(), provider(t, up)
	before := runtime.NumGoroutine()
	c := &invoke.Call{Stream: true, Targets: []invoke.Target{{Name: "a", Provider: p, Model: "m"}}}
	var failed atomic.Int32
	var wait sync.WaitGroup
	limit := make(chan struct{}, 50)
	for range 1000 {
		limit <- struct{}{}
		wait.Go(func() {
			defer func() { <-limit }()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			_, err := e.Invoke(ctx, c, func(providers.Delta) error { cancel(); return io.ErrClosedPipe })
			if f, ok := errors.AsType[*invoke.Error](err); !ok || f.Class != invoke.ClientGone {
				failed.Add(1)
			}
		})
	}
	wait.Wait()
	if n := failed.Load(); n != 0 {
		t.Errorf("%d streams did not end as the caller's", n)
	}
	deadline := time.Now().Add(time.Minute)
	for up.Active() > 0 || runtime.NumGoroutine() > before+5 {
		if time.Now().After(deadline) {
			t.Fatalf("%d upstream requests run, %d goroutines, %d before", up.Active(), runtime.NumGoroutine(), before)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func BenchmarkInvoke(b *testing.B) {
	p := &canned.Provider{Answer: strings.Repeat("word ", 50)}
	for name, stream := range map[string]bool{"whole": false, "stream of 50": true} {
		b.Run(name, func(b *testing.B) {
			e := invoke.NewEngine()
			c := &invoke.Call{Stream: stream, Targets: []invoke.Target{{Name: "a", Provider: p, Model: "m"}}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Invoke(b.Context(), c, func(providers.Delta) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
