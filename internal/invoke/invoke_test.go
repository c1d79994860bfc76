package invoke

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

func TestWholeAnswerIsHandedOnOnce(t *testing.T) {
	p := scripted(says("a", "b", "c"))
	r, err, out := run(t, &Call{Targets: []Target{target("a", p)}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"abc"}, out.pieces); diff != "" {
		t.Error(diff)
	}
	if r.Served != 0 || r.Model != "real-model" || len(r.Attempts) != 1 || r.Attempts[0].Code != "" || r.Attempts[0].Status != 200 {
		t.Errorf("result %+v", r)
	}
	if p.requests[0].Stream || p.open != 0 {
		t.Errorf("stream=%v, %d streams left open", p.requests[0].Stream, p.open)
	}
}

func TestEmptyAnswers(t *testing.T) {
	_, err, out := run(t, &Call{Targets: []Target{target("a", scripted(says()))}})
	if err != nil || len(out.pieces) != 1 || out.text() != "" {
		t.Errorf("whole: error %v, pieces %q", err, out.pieces)
	}
	_, err, out = run(t, &Call{Targets: []Target{target("a", scripted(says()))}, Stream: true})
	if err != nil || len(out.pieces) != 0 {
		t.Errorf("stream: error %v, pieces %q", err, out.pieces)
	}
}

func TestStreamIsHandedOnAsItArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := says("a", "", "b", "c")
		for i := range s.steps {
			s.steps[i].after = time.Second
		}
		began := time.Now()
		r, err, out := run(t, &Call{Targets: []Target{target("a", scripted(s))}, Stream: true})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"a", "b", "c"}, out.pieces); diff != "" {
			t.Error(diff)
		}
		for i, want := range []time.Duration{time.Second, 3 * time.Second, 4 * time.Second} {
			if got := out.times[i].Sub(began); got != want {
				t.Errorf("piece %d after %s, want %s", i, got, want)
			}
		}
		if r.FirstToken != time.Second || r.Attempts[0].FirstToken != time.Second || r.Duration != 4*time.Second {
			t.Errorf("first token %s, %s; duration %s", r.FirstToken, r.Attempts[0].FirstToken, r.Duration)
		}
	})
}

func TestEveryClassLeadsWhereTheTableSays(t *testing.T) {
	failures := map[Class]error{
		Connect:       &providers.ConnectError{Err: errors.New("refused")},
		Transient:     status(503),
		InvalidAnswer: &providers.Error{Kind: providers.Truncated, Status: 200},
		Length:        &providers.Error{Kind: providers.Invalid, Status: 200, Code: "length"},
		NoRoom:        &providers.Error{Kind: providers.Truncated, Status: 200, Err: providers.ErrNoRoom},
		RateLimit:     &providers.Error{Status: 429, RetryAfter: time.Second},
		Quota:         status(402),
		Credential:    status(401),
		Model:         status(404),
		ContextLength: status(413),
		Rejected:      status(422),
		ContentPolicy: &providers.Error{Kind: providers.Refused, Status: 200},
		Unknown:       status(302),
	}
	for _, row := range Classes() {
		failure, ok := failures[row.Class]
		if !ok {
			if row.Class != ClientGone && row.Class != Superseded && row.Class != Deadline && row.Class != Slow {
				t.Errorf("no failure of class %s is tested", row.Class)
			}
			continue
		}
		for _, stream := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				first, second := scripted(fails(failure)), scripted(says("fine"))
				r, err, out := run(t, &Call{Targets: []Target{target("a", first), target("b", second)}, Stream: stream})
				tries := 1
				if row.Retry {
					tries = 2
				}
				if first.calls() != tries {
					t.Errorf("%s: the target was tried %d times, want %d", row.Class, first.calls(), tries)
				}
				if row.Next {
					if err != nil || out.text() != "fine" || r.Served != 1 {
						t.Errorf("%s: error %v, answer %q, served %d", row.Class, err, out.text(), r.Served)
					}
				} else if err == nil || second.calls() != 0 {
					t.Errorf("%s: error %v, the next target was tried %d times", row.Class, err, second.calls())
				}
				if r.Attempts[0].Code != string(row.Class) {
					t.Errorf("%s: recorded as %s", row.Class, r.Attempts[0].Code)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				_, err, out := run(t, &Call{Targets: []Target{target("a", scripted(fails(failure)))}, Stream: stream})
				if err == nil || err.Code != row.Code || err.Class != row.Class || err.Committed || len(out.pieces) != 0 {
					t.Errorf("%s alone: error %+v, want the code %s", row.Class, err, row.Code.Name)
				}
				if later := row.Code == wire.UpstreamRateLimited || row.Code == wire.UpstreamUnavailable || row.Code == wire.Overloaded; later != (err.RetryAfter >= time.Second) {
					t.Errorf("%s alone: retry after %s", row.Class, err.RetryAfter)
				}
			})
		}
	}
}

func TestPermanentConnectErrorIsNotRepeated(t *testing.T) {
	p := scripted(fails(&providers.ConnectError{Permanent: true, Err: errors.New("bad certificate")}))
	_, err, _ := run(t, &Call{Targets: []Target{target("a", p)}})
	if p.calls() != 1 || err.Code != wire.UpstreamUnavailable {
		t.Errorf("%d calls, error %v", p.calls(), err)
	}
}

func TestRetryPolicy(t *testing.T) {
	for _, test := range []struct {
		name    string
		policy  Policy
		targets int // of which all but the last fail with 500, or all
		fails   error
		want    []int // calls of each target
	}{
		{"default, one target", Policy{}, 1, status(500), []int{3}},
		{"default, two targets", Policy{}, 2, status(500), []int{2, 2}},
		{"count", Policy{Retries: retries(3), MaxAttempts: 10}, 2, status(500), []int{4, 4}},
		{"count 0", Policy{Retries: retries(0)}, 2, status(500), []int{1, 1}},
		{"attempts are kept for later targets", Policy{Retries: retries(9), MaxAttempts: 4}, 3, status(500), []int{2, 1, 1}},
		{"never fewer than targets", Policy{MaxAttempts: 1}, 3, status(500), []int{1, 1, 1}},
		{"never more than the cap", Policy{Retries: retries(50), MaxAttempts: 1000}, 1, status(500), []int{10}},
		{"on_codes has it", Policy{OnCodes: []int{500}}, 2, status(500), []int{2, 2}},
		{"on_codes lacks it", Policy{OnCodes: []int{429}}, 2, status(500), []int{1, 1}},
		{"on_codes cannot add", Policy{OnCodes: []int{400}}, 2, status(400), []int{1, 1}},
		{"on_codes is empty", Policy{OnCodes: []int{}}, 2, status(500), []int{1, 1}},
		{"on_codes is empty, one target", Policy{OnCodes: []int{}, Retries: retries(2)}, 1, status(503), []int{1}},
		{"on_codes is empty and no status", Policy{OnCodes: []int{}}, 2, &providers.ConnectError{Err: errors.New("x")}, []int{2, 2}},
		{"on_codes and no status", Policy{OnCodes: []int{429}}, 2, &providers.ConnectError{Err: errors.New("x")}, []int{2, 2}},
		{"429 that says how long", Policy{}, 2, &providers.Error{Status: 429, RetryAfter: time.Second}, []int{2, 2}},
		{"429 that does not", Policy{}, 2, status(429), []int{1, 3}},
		{"x-should-retry: false", Policy{}, 2, &providers.Error{Status: 500, Advice: providers.DoNotRetry}, []int{1, 1}},
		{"x-should-retry: true", Policy{}, 2, &providers.Error{Status: 400, Advice: providers.Retry}, []int{2, 2}},
		{"x-should-retry: true on a bad key", Policy{}, 2, &providers.Error{Status: 401, Advice: providers.Retry}, []int{1, 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &Call{Policy: test.policy}
				c.Policy.Total = time.Hour
				var fakes []*fake
				for i := range test.targets {
					f := scripted(fails(test.fails))
					fakes = append(fakes, f)
					c.Targets = append(c.Targets, target(string(rune('a'+i)), f))
				}
				r, err, _ := run(t, c)
				var got []int
				sum := 0
				for _, f := range fakes {
					got = append(got, f.calls())
					sum += f.calls()
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				if err == nil || len(r.Attempts) != sum || err.Attempts != sum || r.Served != -1 {
					t.Errorf("error %v; %d attempts recorded, %d made", err, len(r.Attempts), sum)
				}
			})
		})
	}
}

func TestTimeouts(t *testing.T) {
	hang := script{hang: true}
	role := script{steps: []step{{say: ""}, {after: 5 * time.Second}, {after: 5 * time.Second}}, hang: true}
	stalls := script{steps: []step{{say: "a"}}, hang: true}
	slowly := script{steps: []step{{say: "a"}}}
	for range 10 {
		slowly.steps = append(slowly.steps, step{after: 9 * time.Second}, step{after: 9 * time.Second, say: "b"})
	}
	policy := Policy{Total: 60 * time.Second, FirstToken: 12 * time.Second, Idle: 10 * time.Second, Retries: retries(0)}
	for _, test := range []struct {
		name      string
		stream    bool
		scripts   []script  // one per target
		code      wire.Code // zero for an answer
		class     Class
		committed bool
		min, max  time.Duration
		classes   []string
	}{
		{"no headers, whole: the total decides", false, []script{{after: time.Hour}}, wire.UpstreamTimeout, Deadline, false, 60 * time.Second, 60 * time.Second, []string{"deadline"}},
		{"no headers, whole: a share for each target", false, []script{{after: time.Hour}, says("x")}, wire.Code{}, "", false, 30 * time.Second, 30 * time.Second, []string{"slow", ""}},
		{"no headers, streamed", true, []script{{after: time.Hour}, says("x")}, wire.Code{}, "", false, 12 * time.Second, 12 * time.Second, []string{"slow", ""}},
		{"no first token", true, []script{hang, says("x")}, wire.Code{}, "", false, 12 * time.Second, 12 * time.Second, []string{"slow", ""}},
		{"signs of life are no first token", true, []script{role, says("x")}, wire.Code{}, "", false, 12 * time.Second, 12 * time.Second, []string{"slow", ""}},
		{"no first token anywhere", true, []script{hang, hang}, wire.UpstreamTimeout, Slow, false, 24 * time.Second, 24 * time.Second, []string{"slow", "slow"}},
		{"stalls after the first token", true, []script{stalls, says("x")}, wire.UpstreamInterrupted, Slow, true, 10 * time.Second, 10 * time.Second, []string{"slow"}},
		{"signs of life keep a stream, the total ends it", true, []script{slowly, says("x")}, wire.UpstreamInterrupted, Deadline, true, 60 * time.Second, 60 * time.Second, []string{"deadline"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &Call{Policy: policy, Stream: test.stream}
				for i, s := range test.scripts {
					c.Targets = append(c.Targets, target(string(rune('a'+i)), scripted(s)))
				}
				began := time.Now()
				r, err, _ := run(t, c)
				if took := time.Since(began); took < test.min || took > test.max {
					t.Errorf("took %s", took)
				}
				if diff := cmp.Diff(test.classes, classesOf(r)); diff != "" {
					t.Error(diff)
				}
				if test.code == (wire.Code{}) {
					if err != nil {
						t.Errorf("error %v", err)
					}
					return
				}
				if err == nil || err.Code != test.code || err.Class != test.class || err.Committed != test.committed {
					t.Errorf("error %+v", err)
				}
			})
		})
	}
}

func TestSlowTargetIsTriedAgainOnlyWhenItIsTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := scripted(script{hang: true}, says("fine"))
		r, err, out := run(t, &Call{Targets: []Target{target("a", p)}, Stream: true})
		if err != nil || out.text() != "fine" || len(r.Attempts) != 2 {
			t.Errorf("error %v, answer %q, attempts %v", err, out.text(), r.Attempts)
		}
	})
}

func TestASlowCallerIsNotAStalledStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := says("a", "b", "c")
		for i := range answer.steps {
			answer.steps[i].after = time.Millisecond // a stream that was given up would end here
		}
		c := &Call{Targets: []Target{target("a", scripted(answer))}, Stream: true,
			Policy: Policy{Total: time.Hour, Idle: time.Second}}
		n := 0
		_, err := NewEngine().Invoke(t.Context(), c, func(providers.Delta) error {
			n++
			time.Sleep(time.Minute)
			return nil
		})
		if err != nil || n != 3 {
			t.Errorf("error %v after %d pieces", err, n)
		}
	})
}

func TestNothingIsRetriedOnceContentWasHandedOn(t *testing.T) {
	for name, failure := range map[string]error{
		"error":     &providers.Error{Kind: providers.Reported, Status: 200, Code: "500"},
		"truncated": &providers.Error{Kind: providers.Truncated, Status: 200},
		"rejected":  status(400),
		"broken":    errors.New("read: connection reset"),
	} {
		t.Run(name, func(t *testing.T) {
			first := scripted(script{steps: []step{{say: "one "}, {err: failure}}})
			second := scripted(says("two"))
			r, err, out := run(t, &Call{Targets: []Target{target("a", first), target("b", second)}, Stream: true})
			if err == nil || err.Code != wire.UpstreamInterrupted || !err.Committed {
				t.Errorf("error %+v", err)
			}
			if out.text() != "one " || first.calls() != 1 || second.calls() != 0 || r.Served != -1 {
				t.Errorf("the caller got %q; %d and %d calls", out.text(), first.calls(), second.calls())
			}
		})
	}
}

func TestAnInterruptedStreamKeepsWhatIsKnownOfIt(t *testing.T) {
	s := script{
		steps:  []step{{say: "one "}, {err: status(500)}},
		result: providers.Result{Model: "real-model", Usage: providers.Usage{PromptTokens: 9, CompletionTokens: 1, TotalTokens: 10}},
	}
	r, err, _ := run(t, &Call{Targets: []Target{target("a", scripted(s))}, Stream: true})
	if err == nil || r.Served != -1 || !cmp.Equal(r.Result, s.result) || r.FirstToken < 0 {
		t.Errorf("error %v, result %+v", err, r)
	}
}

func TestAToolCallIsAnAnswerThatBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		piece := step{after: 5 * time.Second, piece: providers.Delta{Calls: []providers.CallPiece{{Arguments: "{}"}}}}
		answer := script{
			steps:  []step{{}, piece, piece, piece, piece},
			result: providers.Result{FinishReason: "tool_calls", ToolCalls: []providers.ToolCall{{ID: "1", Name: "f", Arguments: "{}"}}},
		}
		other := scripted(says("b"))
		c := &Call{Targets: []Target{target("a", scripted(answer)), target("b", other)}, Stream: true,
			Policy: Policy{FirstToken: 6 * time.Second, Idle: 6 * time.Second, Hedge: 7 * time.Second}}
		r, err, out := run(t, c)
		if err != nil || len(out.pieces) != 0 || len(r.ToolCalls) != 1 || r.FirstToken != 5*time.Second || other.calls() != 0 {
			t.Errorf("error %v, pieces %q, result %+v", err, out.pieces, r)
		}
		// The caller has nothing yet of an answer that breaks off.
		answer.steps = append(answer.steps, step{err: &providers.Error{Kind: providers.Truncated}})
		c.Targets[0].Provider = scripted(answer)
		_, err, out = run(t, c)
		if err == nil || err.Committed || err.Code != wire.UpstreamInvalidResponse || len(out.pieces) != 0 {
			t.Errorf("error %+v, pieces %q", err, out.pieces)
		}
	})
}

func TestCommittedIsToldBeforeTheFirstPiece(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []string
		c := &Call{
			Targets: []Target{target("a", scripted(fails(status(500)))), target("b", scripted(says("x", "y")))},
			Stream:  true,
			Committed: func(target, attempts int, _ []string) {
				events = append(events, fmt.Sprint("target ", target, " at attempt ", attempts))
			},
		}
		_, err := NewEngine().Invoke(t.Context(), c, func(d providers.Delta) error {
			events = append(events, d.Content)
			return nil
		})
		if diff := cmp.Diff([]string{"target 1 at attempt 3", "x", "y"}, events); err != nil || diff != "" {
			t.Errorf("error %v\n%s", err, diff)
		}
	})
}

func TestAWholeAnswerThatBreaksOffIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := scripted(script{steps: []step{{say: "one "}, {err: &providers.Error{Kind: providers.Truncated}}}}, says("fine"))
		_, err, out := run(t, &Call{Targets: []Target{target("a", p)}})
		if err != nil || cmp.Diff([]string{"fine"}, out.pieces) != "" {
			t.Errorf("error %v, pieces %q", err, out.pieces)
		}
	})
}

func TestTheCallerGoesAway(t *testing.T) {
	t.Run("emit fails", func(t *testing.T) {
		p := scripted(says("a", "b", "c"))
		out := caller{gone: 2}
		r, err := NewEngine().Invoke(t.Context(), &Call{Targets: []Target{target("a", p), target("b", p)}, Stream: true}, out.emit)
		e, _ := errors.AsType[*Error](err)
		if e == nil || e.Class != ClientGone || !e.Committed || !errors.Is(err, errHangup) {
			t.Errorf("error %+v", err)
		}
		if len(out.pieces) != 2 || p.calls() != 1 || p.open != 0 || classesOf(r)[0] != "client_gone" {
			t.Errorf("%d pieces, %d calls, %d open, %v", len(out.pieces), p.calls(), p.open, classesOf(r))
		}
	})
	for name, s := range map[string]script{
		"before the headers":   {after: time.Hour},
		"before the first":     {hang: true},
		"in the stream":        {steps: []step{{say: "a"}}, hang: true},
		"in the wait to retry": {err: &providers.Error{Status: 429, RetryAfter: 5 * time.Second}},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := scripted(s)
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(3*time.Second, cancel)
					began := time.Now()
					var out caller
					_, err := NewEngine().Invoke(ctx, &Call{Targets: []Target{target("a", p)}, Stream: stream}, out.emit)
					e, _ := errors.AsType[*Error](err)
					if e == nil || e.Class != ClientGone {
						t.Errorf("error %v", err)
					}
					if took := time.Since(began); took != 3*time.Second || p.open != 0 || p.calls() != 1 {
						t.Errorf("took %s; %d open; %d calls", took, p.open, p.calls())
					}
				})
			})
		}
	}
}

func TestTargetsThatCannotBeTriedAreSkipped(t *testing.T) {
	missing := unavailable{scripted(says("never"))}
	r, err, out := run(t, &Call{Targets: []Target{target("none", nil), target("nokey", missing), target("c", scripted(says("fine")))}})
	if err != nil || out.text() != "fine" || r.Served != 2 || len(r.Attempts) != 1 {
		t.Errorf("error %v, answer %q, result %+v", err, out.text(), r)
	}
	if len(r.Skipped) != 2 || !errors.Is(r.Skipped[0].Reason, errNoProvider) || !strings.Contains(r.Skipped[1].Reason.Error(), "KEY is empty") {
		t.Errorf("skipped %v", r.Skipped)
	}
	_, err, _ = run(t, &Call{Targets: []Target{target("nokey", missing)}})
	if err == nil || err.Code != wire.UpstreamCredentials || !strings.Contains(err.Error(), "KEY is empty") || strings.Contains(err.Message(), "KEY") {
		t.Errorf("no key: %v; %s", err, err.Message())
	}
	_, err, _ = run(t, &Call{Targets: []Target{target("none", nil)}})
	if err == nil || err.Code != wire.UpstreamUnavailable || err.RetryAfter < time.Second {
		t.Errorf("no provider: %+v", err)
	}
	_, err, _ = run(t, &Call{})
	if err == nil || err.Code != wire.Internal {
		t.Errorf("no targets: %+v", err)
	}
}

type unavailable struct{ *fake }

func (unavailable) Unavailable() error { return errors.New("KEY is empty") }

func TestMixedFailures(t *testing.T) {
	for _, test := range []struct {
		first, second error
		want          wire.Code
	}{
		{status(400), status(500), wire.UpstreamRejected},
		{status(400), status(429), wire.UpstreamRateLimited},
		{status(500), status(429), wire.UpstreamError},
		{status(429), status(400), wire.UpstreamRateLimited},
		{status(401), status(429), wire.UpstreamCredentials},
		{status(400), status(400), wire.UpstreamRejected},
		{&providers.ConnectError{Err: errors.New("x")}, status(400), wire.UpstreamUnavailable},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, err, _ := run(t, &Call{Targets: []Target{target("a", scripted(fails(test.first))), target("b", scripted(fails(test.second)))}})
			if err == nil || err.Code != test.want {
				t.Errorf("%v, then %v: %v, want %s", test.first, test.second, err, test.want.Name)
			}
		})
	}
}

func TestTheCallersTextNeverHoldsTheProviders(t *testing.T) {
	secret := "the provider says sk-123"
	synctest.Test(t, func(t *testing.T) {
		for code := 300; code < 600; code++ {
			_, err, _ := run(t, &Call{Targets: []Target{target("a", scripted(fails(&providers.Error{Status: code, Message: secret})))}})
			if strings.Contains(err.Message(), "provider says") || err.Message() == "" || !strings.Contains(err.Error(), secret) {
				t.Fatalf("%d: message %q, error %q", code, err.Message(), err.Error())
			}
		}
	})
}

func TestTheRequestReachesTheProvider(t *testing.T) {
	temperature := 0.3
	p := scripted(says("x"))
	messages := []providers.Message{{Role: "user", Content: "hi"}}
	tgt := target("a", p)
	tgt.Parameters.Temperature = &temperature
	_, err, _ := run(t, &Call{Targets: []Target{tgt}, Messages: messages, Stream: true})
	if err != nil {
		t.Fatal(err)
	}
	want := &providers.Request{Model: "a-model", Messages: messages, Parameters: tgt.Parameters, Stream: true}
	if diff := cmp.Diff(want, p.requests[0]); diff != "" {
		t.Error(diff)
	}
}
