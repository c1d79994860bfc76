package invoke

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// slowly is an answer that waits before its first word.
func slowly(after time.Duration, words ...string) script {
	s := says(words...)
	s.steps[0].after = after
	return s
}

func hedged(after time.Duration, targets ...Target) *Call {
	return &Call{Targets: targets, Policy: Policy{Hedge: after}}
}

func TestHedge(t *testing.T) {
	hang := script{hang: true}
	refused := &providers.Error{Kind: providers.Refused, Status: 200}
	for _, test := range []struct {
		name    string
		policy  Policy // without Hedge, which is 2 s
		targets [][]script
		stream  []bool // both unless given
		want    string // answer, or the code of the failure
		took    time.Duration
		calls   []int
		classes []string // of the attempts, in order; - marks a hedge
	}{
		{
			name: "the first is fast enough", targets: [][]script{{slowly(1900*time.Millisecond, "a")}, {says("b")}},
			want: "a", took: 1900 * time.Millisecond, calls: []int{1, 0}, classes: []string{""},
		}, {
			name: "the first hangs", targets: [][]script{{hang}, {says("b", "b")}},
			want: "bb", took: 2 * time.Second, calls: []int{1, 1}, classes: []string{"superseded", "-"},
		}, {
			name: "the first never gets headers", targets: [][]script{{{after: time.Hour}}, {says("b")}},
			want: "b", took: 2 * time.Second, calls: []int{1, 1}, classes: []string{"superseded", "-"},
		}, {
			name: "signs of life are no answer", targets: [][]script{{{steps: []step{{}, {after: time.Second}, {after: 5 * time.Second, say: "a"}}}}, {says("b")}},
			want: "b", took: 2 * time.Second, calls: []int{1, 1}, classes: []string{"superseded", "-"},
		}, {
			name: "the first is faster all the same", targets: [][]script{{slowly(3*time.Second, "a")}, {slowly(5*time.Second, "b")}},
			want: "a", took: 3 * time.Second, calls: []int{1, 1}, classes: []string{"", "-superseded"},
		}, {
			name: "a stream that began is not hedged", targets: [][]script{{{steps: []step{{after: time.Second, say: "a"}, {after: 9 * time.Second, say: "a"}}}}, {says("b")}},
			stream: []bool{true}, want: "aa", took: 10 * time.Second, calls: []int{1, 0}, classes: []string{""},
		}, {
			name: "a whole answer has to be there", targets: [][]script{{{steps: []step{{after: time.Second, say: "a"}, {after: 9 * time.Second, say: "a"}}}}, {says("b")}},
			stream: []bool{false}, want: "b", took: 2 * time.Second, calls: []int{1, 1}, classes: []string{"superseded", "-"},
		}, {
			name: "an empty answer is one", targets: [][]script{{hang}, {says()}},
			want: "", took: 2 * time.Second, calls: []int{1, 1}, classes: []string{"superseded", "-"},
		}, {
			name: "no target is left", targets: [][]script{{slowly(3*time.Second, "a")}},
			want: "a", took: 3 * time.Second, calls: []int{1}, classes: []string{""},
		}, {
			name: "the first moved on before", targets: [][]script{{fails(status(400))}, {slowly(3*time.Second, "b")}, {says("c")}},
			want: "c", took: 2 * time.Second, calls: []int{1, 1, 1}, classes: []string{"rejected", "superseded", "-"},
		}, {
			name: "in the wait before a retry", targets: [][]script{{fails(&providers.Error{Status: 429, RetryAfter: 7 * time.Second}), says("a")}, {slowly(time.Second, "b")}},
			want: "b", took: 3 * time.Second, calls: []int{1, 1}, classes: []string{"rate_limit", "-"},
		}, {
			name: "the hedge fails, the first answers", targets: [][]script{{slowly(9*time.Second, "a")}, {fails(status(400))}},
			want: "a", took: 9 * time.Second, calls: []int{1, 1}, classes: []string{"", "-rejected"},
		}, {
			name: "the hedge goes on with the target after it", targets: [][]script{{hang}, {fails(status(400))}, {slowly(time.Second, "c")}},
			want: "c", took: 3 * time.Second, calls: []int{1, 1, 1}, classes: []string{"superseded", "-rejected", "-"},
		}, {
			name: "the first fails, the hedge answers", targets: [][]script{{{after: 3 * time.Second, err: status(400)}}, {slowly(9*time.Second, "b")}},
			want: "b", took: 11 * time.Second, calls: []int{1, 1}, classes: []string{"rejected", "-"},
		}, {
			name: "both fail: the first target's failure is reported", targets: [][]script{{{after: 5 * time.Second, err: status(401)}}, {fails(status(400))}},
			want: wire.UpstreamCredentials.Name, took: 5 * time.Second, calls: []int{1, 1}, classes: []string{"credential", "-rejected"},
		}, {
			name: "one hedge, not two", policy: Policy{FirstToken: 30 * time.Second, Total: 100 * time.Second},
			targets: [][]script{{hang}, {slowly(25*time.Second, "b")}, {says("c")}}, stream: []bool{true},
			want: "b", took: 27 * time.Second, calls: []int{1, 1, 0}, classes: []string{"superseded", "-"},
		}, {
			name: "a refusal ends the call", targets: [][]script{{{after: 3 * time.Second, err: refused}}, {slowly(9*time.Second, "b")}, {says("c")}},
			want: wire.UpstreamRefused.Name, took: 3 * time.Second, calls: []int{1, 1, 0}, classes: []string{"content_policy", "-superseded"},
		}, {
			name: "the total ends both", stream: []bool{true}, policy: Policy{Total: 9 * time.Second, FirstToken: time.Minute}, targets: [][]script{{hang}, {hang}},
			want: wire.UpstreamTimeout.Name, took: 9 * time.Second, calls: []int{1, 1}, classes: []string{"deadline", "-deadline"},
		}, {
			name: "the first has its share, the total ends the other", stream: []bool{false}, policy: Policy{Total: 9 * time.Second}, targets: [][]script{{hang}, {hang}},
			want: wire.UpstreamTimeout.Name, took: 9 * time.Second, calls: []int{1, 1}, classes: []string{"slow", "-deadline"},
		}, {
			name: "it counts as an attempt", policy: Policy{MaxAttempts: 2, Retries: retries(5)},
			targets: [][]script{{{after: 3 * time.Second, err: status(500)}}, {{after: 3 * time.Second, err: status(500)}}},
			want:    wire.UpstreamError.Name, took: 5 * time.Second, calls: []int{1, 1}, classes: []string{"transient", "-transient"},
		}, {
			name: "an attempt is kept for the target not tried yet", policy: Policy{MaxAttempts: 3, Retries: retries(5)},
			targets: [][]script{{hang}, {fails(status(500))}, {says("c")}},
			want:    "c", took: 2 * time.Second, calls: []int{1, 1, 1}, classes: []string{"superseded", "-transient", "-"},
		},
	} {
		if test.stream == nil {
			test.stream = []bool{false, true}
		}
		for _, stream := range test.stream {
			t.Run(fmt.Sprintf("%s/stream=%v", test.name, stream), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := &Call{Policy: test.policy, Stream: stream}
					c.Policy.Hedge = 2 * time.Second
					var fakes []*fake
					for i, scripts := range test.targets {
						f := scripted(scripts...)
						fakes = append(fakes, f)
						c.Targets = append(c.Targets, target(string(rune('a'+i)), f))
					}
					r, err, out := run(t, c)
					if err != nil && err.Code.Name != test.want || err == nil && out.text() != test.want {
						t.Errorf("error %v, answer %q", err, out.text())
					}
					if r.Duration != test.took {
						t.Errorf("took %s", r.Duration)
					}
					var calls []int
					for i, f := range fakes {
						calls = append(calls, f.calls())
						if f.open != 0 {
							t.Errorf("target %d has %d streams open", i, f.open)
						}
					}
					if diff := cmp.Diff(test.calls, calls); diff != "" {
						t.Errorf("calls (-want +got):\n%s", diff)
					}
					var classes []string
					for _, a := range r.Attempts {
						class := a.Code
						if a.Hedge {
							class = "-" + class
						}
						classes = append(classes, class)
					}
					if diff := cmp.Diff(test.classes, classes); diff != "" {
						t.Errorf("attempts (-want +got):\n%s", diff)
					}
				})
			})
		}
	}
}

// considered is a provider that takes a while to say whether it is available.
type considered struct {
	*fake
	wait time.Duration
}

func (c considered) Unavailable() error {
	time.Sleep(c.wait)
	return nil
}

// TestTheHedgeIsNeverTheFirstTarget checks a call that is late: the time of its hedge
// comes before the first lane's goroutine has run.
func TestTheHedgeIsNeverTheFirstTarget(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			a := target("a", considered{scripted(script{hang: true}), 3 * time.Second})
			r, err, out := run(t, hedged(2*time.Second, a, target("b", scripted(says("b")))))
			if err != nil || out.text() != "b" {
				t.Fatalf("error %v, answer %q", err, out.text())
			}
			for _, attempt := range r.Attempts {
				if attempt.Hedge != (attempt.Provider == "b") {
					t.Fatalf("attempts %+v", r.Attempts)
				}
			}
		})
	}
}

func TestTheLoserIsCancelledAtOnce(t *testing.T) {
	for _, stream := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			// The winner goes on for long after its first word.
			loser := scripted(script{hang: true})
			winner := scripted(slowly(time.Second, "b", "b"))
			winner.scripts[0].steps[1].after = time.Minute / 4
			c := hedged(2*time.Second, target("a", loser), target("b", winner))
			c.Stream = stream
			began := time.Now()
			_, err, out := run(t, c)
			if err != nil || out.text() != "bb" {
				t.Fatalf("error %v, answer %q", err, out.text())
			}
			want := 3 * time.Second
			if !stream {
				want += time.Minute / 4
			}
			if at := loser.closed[0].Sub(began); at != want {
				t.Errorf("stream=%v: the loser ended after %s, want %s", stream, at, want)
			}
		})
	}
}

func tokensOf(a Attempt) string { return fmt.Sprintf("%d+%d", a.PromptTokens, a.CompletionTokens) }

func TestBothCostsOfAHedgeAreBooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counted, used := providers.Usage{PromptTokens: 5, CompletionTokens: 2, TotalTokens: 7}, providers.Usage{PromptTokens: 9, CompletionTokens: 1, TotalTokens: 10}
		winner := says("fine")
		winner.result.Usage = used
		c := hedged(time.Second, target("a", scripted(script{hang: true, result: providers.Result{Usage: counted}})), target("b", scripted(winner)))
		r, err, _ := run(t, c)
		if err != nil || tokensOf(r.Attempts[0]) != "5+2" || r.Attempts[0].Estimated || tokensOf(r.Attempts[1]) != "9+1" || r.Usage != used {
			t.Errorf("error %v, result %+v", err, r)
		}

		// A provider that is cancelled before it counted.
		c = hedged(time.Second, target("a", scripted(script{after: time.Hour})), target("b", scripted(winner)))
		c.Messages = []providers.Message{{Role: "system", Content: "four"}, {Role: "user", Content: "seven .."}}
		r, err, _ = run(t, c)
		if err != nil || tokensOf(r.Attempts[0]) != "14+0" || !r.Attempts[0].Estimated {
			t.Errorf("error %v, attempt %+v", err, r.Attempts[0])
		}
		if a := r.Attempts[1]; a.Started != time.Second || a.Provider != "b" || a.Estimated || r.Attempts[0].Started != 0 {
			t.Errorf("attempts %+v", r.Attempts)
		}
	})
}

func TestNoHedgeWithATargetThatIsLeftAlone(t *testing.T) {
	for name, leave := range map[string]func(*testing.T, *Engine, Target){
		"ejected": eject,
		"half open": func(t *testing.T, e *Engine, tgt Target) {
			eject(t, e, tgt)
			time.Sleep(probeEvery)
		},
		"cooling": func(_ *testing.T, e *Engine, tgt Target) {
			admissionTo(e, tgt.Name).failed(time.Now(), RateLimit, time.Minute, "")
		},
		"without retries": func(_ *testing.T, e *Engine, tgt Target) {
			for e.health.get(tgt.Name, tgt.Model).bucket.draw() {
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := NewEngine()
				b, third := scripted(says("b")), scripted(says("c"))
				c := hedged(2*time.Second, target("a", scripted(slowly(5*time.Second, "a"))), target("b", b))
				leave(t, e, c.Targets[1])
				r, err, out := runOn(t, e, c)
				if err != nil || out.text() != "a" || b.calls() != 0 || len(r.Attempts) != 1 {
					t.Errorf("error %v, answer %q, attempts %+v", err, out.text(), r.Attempts)
				}
				if name == "without retries" {
					return
				}
				c.Targets = append(c.Targets, target("c", third))
				if _, err, out := runOn(t, e, c); err != nil || out.text() != "c" || b.calls() != 0 {
					t.Errorf("with another target: error %v, answer %q, %d calls", err, out.text(), b.calls())
				}
			})
		})
	}
}

func TestHedgesStayNearAFifthOfTheTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEngine()
		b := scripted(says("b"))
		c := hedged(time.Second, target("a", scripted(slowly(3*time.Second, "a"))), target("b", b))
		const requests = 500
		for range requests {
			if _, err, _ := runOn(t, e, c); err != nil {
				t.Fatal(err)
			}
		}
		// The provider's bucket is full at first, and each answer of a hedge pays
		// back a fifth of one.
		if n := b.calls(); n < bucketSize || n > 2*bucketSize {
			t.Errorf("%d hedges of %d requests", n, requests)
		}
	})
}

func TestAnAttemptThatWasSupersededIsNoVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEngine()
		for range 100 {
			c := hedged(time.Second, target("a", scripted(script{hang: true})), target("b", scripted(says("b"))))
			e.health.get("b", "b-model").bucket.tokens = bucketSize
			if r, err, _ := runOn(t, e, c); err != nil || len(r.Attempts) != 2 {
				t.Fatalf("error %v, attempts %+v", err, r.Attempts)
			}
		}
		for _, name := range []string{"a", "b"} {
			if !e.health.get(name, name+"-model").sound(time.Now()) {
				t.Errorf("%s is left alone", name)
			}
		}
	})
}

func TestAProbeThatWasSupersededLeavesTheNextOneToDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEngine()
		c := hedged(time.Second, target("a", scripted(script{hang: true})), target("b", scripted(says("b"))))
		eject(t, e, c.Targets[0])
		time.Sleep(probeEvery)
		if r, err, _ := runOn(t, e, c); err != nil || len(r.Attempts) != 2 {
			t.Fatalf("error %v, attempts %+v", err, r.Attempts)
		}
		time.Sleep(time.Second) // as long as the probe took
		h := admissionTo(e, "a")
		if h.sound(time.Now()) || !h.admit(time.Now()) || h.admit(time.Now()) {
			t.Error("want exactly one call let in")
		}
	})
}

func TestACallerThatGoesAwayFreesBothUpstreams(t *testing.T) {
	for _, stream := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e := NewEngine()
			a, b := scripted(script{hang: true}), scripted(script{hang: true})
			c := hedged(time.Second, target("a", a), target("b", b))
			c.Stream = stream
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(5*time.Second, cancel)
			began := time.Now()
			var out caller
			r, err := e.Invoke(ctx, c, out.emit)
			if f, _ := errors.AsType[*Error](err); f == nil || f.Class != ClientGone || len(out.pieces) != 0 {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff([]string{"client_gone", "client_gone"}, classesOf(r)); diff != "" {
				t.Error(diff)
			}
			if a.open+b.open != 0 || time.Since(began) != 5*time.Second {
				t.Errorf("%d streams open after %s", a.open+b.open, time.Since(began))
			}
		})
	}
}

func TestACallerThatGoesAwayInTheWinnersStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := scripted(script{hang: true}), scripted(says("b", "b", "b"))
		c := hedged(time.Second, target("a", a), target("b", b))
		c.Stream = true
		out := caller{gone: 2}
		r, err := NewEngine().Invoke(t.Context(), c, out.emit)
		f, _ := errors.AsType[*Error](err)
		if f == nil || f.Class != ClientGone || !f.Committed || a.open+b.open != 0 || len(out.pieces) != 2 {
			t.Errorf("error %+v, pieces %q", err, out.pieces)
		}
		if diff := cmp.Diff([]string{"superseded", "client_gone"}, classesOf(r)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAWinnerThatBreaksOffIsNotContinuedByTheLoser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := script{steps: []step{{say: "b"}, {after: time.Second, err: &providers.Error{Kind: providers.Truncated}}}}
		a, third := scripted(slowly(4*time.Second, "a")), scripted(says("c"))
		c := hedged(2*time.Second, target("a", a), target("b", scripted(broken)), target("c", third))
		c.Stream = true
		r, err, out := run(t, c)
		if err == nil || err.Code != wire.UpstreamInterrupted || !err.Committed || err.Class != InvalidAnswer || out.text() != "b" || third.calls() != 0 {
			t.Errorf("error %+v, answer %q", err, out.text())
		}
		if diff := cmp.Diff([]string{"superseded", "invalid"}, classesOf(r)); diff != "" {
			t.Error(diff)
		}
		if last := r.Attempts[1]; !last.Estimated || last.CompletionTokens != 1 {
			t.Errorf("the broken attempt used %+v", last)
		}
	})
}

func TestTheHeadersOfAHedgedStreamCountItsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := hedged(2*time.Second, target("a", scripted(script{hang: true})), target("b", scripted(says("b"))))
		c.Stream = true
		told := ""
		c.Committed = func(target, attempts int, _ []string) { told = fmt.Sprint(target, " ", attempts) }
		run(t, c)
		if told != "1 2" {
			t.Errorf("got %q", told)
		}
		// One that waits to be tried again has not begun.
		limited := fails(&providers.Error{Status: 429, RetryAfter: 6 * time.Second})
		c.Targets[0].Provider, c.Targets[1].Provider = scripted(limited), scripted(says("b"))
		r, _, _ := run(t, c)
		if told != "1 2" || len(r.Attempts) != 2 {
			t.Errorf("got %q, %d attempts", told, len(r.Attempts))
		}
	})
}

// panics is a provider that panics after a time.
type panics struct{ after time.Duration }

func (p panics) Invoke(ctx context.Context, _ *providers.Request) (providers.Stream, error) {
	if err := sleep(ctx, p.after); err != nil {
		return nil, err
	}
	panic("of a provider")
}

func TestPanicsInAHedgedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// One that the other lane makes up for.
		r, err, out := run(t, hedged(time.Second, target("a", scripted(slowly(5*time.Second, "a"))), target("b", panics{})))
		if err != nil || out.text() != "a" || !slices.Equal(classesOf(r), []string{"", "unknown"}) {
			t.Errorf("error %v, answer %q, %q", err, out.text(), classesOf(r))
		}
		// One that it does not.
		var recovered any
		a := scripted(script{after: 9 * time.Second, err: status(400)})
		func() {
			defer func() { recovered = recover() }()
			run(t, hedged(time.Second, target("a", a), target("b", panics{})))
		}()
		if p, _ := recovered.(*Panic); p == nil || !strings.Contains(p.Error(), "of a provider") || a.open != 0 {
			t.Errorf("recovered %v", recovered)
		}
		// One of the caller.
		b := scripted(says("b"))
		func() {
			defer func() { recovered = recover() }()
			c := hedged(time.Second, target("a", scripted(script{hang: true})), target("b", b))
			NewEngine().Invoke(t.Context(), c, func(providers.Delta) error { panic(http.ErrAbortHandler) })
		}()
		if recovered != http.ErrAbortHandler || b.open != 0 {
			t.Errorf("recovered %v, %d streams open", recovered, b.open)
		}
	})
}

func BenchmarkHedge(b *testing.B) {
	none := &instant{}
	for name, hedge := range map[string]time.Duration{"off": 0, "not needed": time.Hour} {
		b.Run(name, func(b *testing.B) {
			e := NewEngine()
			c := hedged(hedge, target("a", none), target("b", none))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Invoke(b.Context(), c, func(providers.Delta) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// instant is a provider that costs nothing.
type instant struct{ providers.Stream }

func (p *instant) Invoke(context.Context, *providers.Request) (providers.Stream, error) {
	return &fakeStream{fake: scripted(), script: script{}}, nil
}
