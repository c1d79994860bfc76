package invoke

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/trace"
)

// purse refuses when it is asked for the nth time, by refuses, and targets that are
// dear to it.
type purse struct {
	mu      sync.Mutex
	refuses []bool
	dear    []int
	asked   []int
	taken   int // less the costs returned
}

func (p *purse) Take(target int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.asked)
	p.asked = append(p.asked, target)
	if n < len(p.refuses) && p.refuses[n] || slices.Contains(p.dear, target) {
		return false
	}
	p.taken++
	return true
}

func (p *purse) Return(int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
}

func TestPurse(t *testing.T) {
	for _, test := range []struct {
		name    string
		refuses []bool // see purse
		dear    []int
		policy  Policy
		cool    []time.Duration // by target
		empty   bool            // the second target has no retry left for a hedge
		targets [][]script
		want    string // answer, or the code of the failure
		asked   []int
		classes []string
		skipped []SkipReason
	}{
		{
			name: "room for all", targets: [][]script{{fails(status(400))}, {says("b")}},
			want: "b", asked: []int{0, 1}, classes: []string{"rejected", ""},
		}, {
			name: "the first is too dear", dear: []int{0}, targets: [][]script{{says("a")}, {says("b")}},
			want: "b", asked: []int{0, 1}, classes: []string{""}, skipped: []SkipReason{SkipBudget},
		}, {
			name: "all are too dear", dear: []int{0, 1}, targets: [][]script{{says("a")}, {says("b")}},
			want: wire.RateLimited.Name, asked: []int{0, 1}, skipped: []SkipReason{SkipBudget, SkipBudget},
		}, {
			name: "no room for a retry", refuses: []bool{false, true}, targets: [][]script{{fails(status(500)), says("a")}, {says("b")}},
			want: "b", asked: []int{0, 0, 1}, classes: []string{"transient", ""},
		}, {
			name: "room for a retry", targets: [][]script{{fails(status(500)), says("a")}, {says("b")}},
			want: "a", asked: []int{0, 0}, classes: []string{"transient", ""},
		}, {
			name: "the failure of the target that was tried is reported", dear: []int{1}, targets: [][]script{{fails(status(401))}, {says("b")}},
			want: wire.UpstreamCredentials.Name, asked: []int{0, 1}, classes: []string{"credential"}, skipped: []SkipReason{SkipBudget},
		}, {
			name: "too dear, and the other is left alone", dear: []int{0}, cool: []time.Duration{0, time.Minute},
			targets: [][]script{{says("a")}, {says("b")}},
			want:    "b", asked: []int{0, 1}, classes: []string{""}, skipped: []SkipReason{SkipBudget},
		}, {
			name: "the one back soonest is too dear", dear: []int{1}, cool: []time.Duration{time.Minute, time.Second},
			targets: [][]script{{says("a")}, {says("b")}},
			want:    "a", asked: []int{1, 0}, classes: []string{""}, skipped: []SkipReason{SkipBudget},
		}, {
			name: "all are left alone and too dear", dear: []int{0, 1}, cool: []time.Duration{time.Minute, time.Second},
			targets: [][]script{{says("a")}, {says("b")}},
			want:    wire.RateLimited.Name, asked: []int{1, 0}, skipped: []SkipReason{SkipBudget, SkipBudget},
		}, {
			name: "a hedge is too dear", dear: []int{1}, policy: Policy{Hedge: time.Second},
			targets: [][]script{{slowly(3*time.Second, "a")}, {says("b")}},
			want:    "a", asked: []int{0, 1}, classes: []string{""},
		}, {
			name: "a hedge takes a target that is not", dear: []int{1}, policy: Policy{Hedge: time.Second},
			targets: [][]script{{slowly(3*time.Second, "a")}, {says("b")}, {says("c")}},
			want:    "c", asked: []int{0, 1, 2}, classes: []string{"superseded", ""},
		}, {
			name: "a hedge that was too dear is asked for again", refuses: []bool{false, true}, policy: Policy{Hedge: time.Second},
			targets: [][]script{{{after: 3 * time.Second, err: status(400)}}, {says("b")}},
			want:    "b", asked: []int{0, 1, 1}, classes: []string{"rejected", ""},
		}, {
			name: "a hedge ends the wait before a retry", policy: Policy{Hedge: 2 * time.Second},
			targets: [][]script{{fails(&providers.Error{Status: 429, RetryAfter: 7 * time.Second}), says("a")}, {slowly(time.Second, "b")}},
			want:    "b", asked: []int{0, 0, 1}, classes: []string{"rate_limit", ""},
		}, {
			name: "a hedge without a retry left", policy: Policy{Hedge: time.Second}, empty: true,
			targets: [][]script{{slowly(3*time.Second, "a")}, {says("b")}},
			want:    "a", asked: []int{0, 1}, classes: []string{""},
		}, {
			name: "a target that a hedge has paid for is tried later", policy: Policy{Hedge: time.Second}, empty: true,
			targets: [][]script{{{after: 3 * time.Second, err: status(400)}}, {says("b")}},
			want:    "b", asked: []int{0, 1}, classes: []string{"rejected", ""},
		},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(test.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := NewEngine()
					p := &purse{refuses: test.refuses, dear: test.dear}
					c := &Call{Policy: test.policy, Stream: stream, Purse: p}
					for i, scripts := range test.targets {
						c.Targets = append(c.Targets, target(string(rune('a'+i)), scripted(scripts...)))
						if i < len(test.cool) && test.cool[i] > 0 {
							h := e.health.get(c.Targets[i].Name, c.Targets[i].Model)
							h.cool = time.Now().Add(test.cool[i])
						}
					}
					if test.empty {
						e.health.get("b", "b-model").bucket.tokens = 0
					}
					r, err, out := runOn(t, e, c)
					if err != nil && (err.Code.Name != test.want || err.Message() == messages[wire.Internal]) || err == nil && out.text() != test.want {
						t.Errorf("error %v, answer %q", err, out.text())
					}
					if err != nil && err.Code == wire.RateLimited && err.RetryAfter < time.Second {
						t.Errorf("try again after %s", err.RetryAfter)
					}
					var skipped []SkipReason
					for i := range r.Skipped {
						skipped = append(skipped, r.Skipped[i].Kind())
					}
					if diff := cmp.Diff([]any{test.asked, test.classes, test.skipped}, []any{p.asked, classesOf(r), skipped}); diff != "" {
						t.Errorf("targets asked for, attempts, skips (-want +got):\n%s", diff)
					}
					if p.taken != len(r.Attempts) {
						t.Errorf("%d attempts are paid for, %d were made", p.taken, len(r.Attempts))
					}
				})
			})
		}
	}
}

// A host with a place is left again by a target that the purse refuses, and a probe
// goes to the next call.
func TestARefusedTargetIsLeftAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEngine()
		calls := occupied("a:443", 0)
		h := e.health.get("a", "a-model")
		h.until = time.Now().Add(time.Second)
		time.Sleep(2 * time.Second)
		c := &Call{Targets: []Target{at("a:443", "a", scripted(says("a")))}, InFlight: calls, HostLimit: inflight.HostLimit{Max: 1}, Purse: &purse{dear: []int{0}}}
		if _, err, _ := runOn(t, e, c); err == nil || err.Code != wire.RateLimited || calls.Host("a:443") != 0 || !h.probe.IsZero() {
			t.Errorf("error %v, %d calls at the host, probe %s", err, calls.Host("a:443"), h.probe)
		}
		c.Purse = nil
		if _, err, out := runOn(t, e, c); err != nil || out.text() != "a" {
			t.Errorf("error %v, answer %q", err, out.text())
		}
	})
}

func TestRepeatsOfTheHTTPClientArePaidFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &purse{refuses: []bool{false, true}}
		a := newAttempt(Policy{Retries: retries(3)}, 1)
		a.Purse = p
		refused := &providers.ConnectError{Err: errors.New("refused")}
		a.take()
		if _, ok := a.Repeat(t.Context(), refused); !ok || p.taken != 1 {
			t.Errorf("repeat %v, %d taken", ok, p.taken)
		}
		if _, ok := a.Repeat(t.Context(), refused); ok || p.taken != 1 || a.Tries() != 2 {
			t.Errorf("a repeat without room: %v, %d taken, %d tries", ok, p.taken, a.Tries())
		}
	})
}

// An attempt keeps its provider's count, however it ended.
func TestAttemptsHaveTheirUsage(t *testing.T) {
	used := providers.Usage{
		PromptTokens: 100, CompletionTokens: 50, TotalTokens: 150, CachedTokens: 10, CacheWriteTokens: 11, CacheWriteHourTokens: 12,
		PromptAudioTokens: 13, PromptImageTokens: 14, ReasoningTokens: 15, CompletionAudioTokens: 16, CompletionImageTokens: 17,
		WebSearches: 1, FileSearches: 2, CodeExecutions: 3, Tier: "flex", Cost: 0.5, HasCost: true,
	}
	want := Attempt{Usage: used, Attempt: trace.Attempt{PromptTokens: 100, CompletionTokens: 50, UsageDetails: trace.UsageDetails{
		CachedTokens: 10, CacheWriteTokens: 11, CacheWriteHourTokens: 12, PromptAudioTokens: 13, PromptImageTokens: 14,
		ReasoningTokens: 15, CompletionAudioTokens: 16, CompletionImageTokens: 17, WebSearches: 1, FileSearches: 2, CodeExecutions: 3, Tier: "flex",
	}}}
	with := func(s script) script { s.result.Usage = used; return s }
	for _, test := range []struct {
		name    string
		policy  Policy
		stream  bool
		leaves  time.Duration
		scripts [2]script
		class   Class
	}{
		{name: "it served", scripts: [2]script{with(says("a")), says("b")}},
		{name: "it served a stream", stream: true, scripts: [2]script{with(says("a", "a")), says("b")}},
		{name: "it failed", scripts: [2]script{with(script{steps: []step{{err: status(400)}}}), says("b")}, class: Rejected},
		{name: "it lost", policy: Policy{Hedge: time.Second}, scripts: [2]script{with(slowly(time.Minute, "a")), says("b")}, class: Superseded},
		{name: "it was cancelled", stream: true, leaves: time.Second, scripts: [2]script{with(script{steps: []step{{say: "a"}}, hang: true}), says("b")}, class: ClientGone},
		{name: "it was cut", stream: true, scripts: [2]script{with(script{steps: []step{{say: "a"}, {err: &providers.Error{Kind: providers.Truncated}}}}), says("b")}, class: InvalidAnswer},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.leaves > 0 {
					time.AfterFunc(test.leaves, cancel)
				}
				var out caller
				c := &Call{Targets: []Target{target("a", scripted(test.scripts[0])), target("b", scripted(test.scripts[1]))}, Stream: test.stream, Policy: test.policy}
				r, _ := NewEngine().Invoke(ctx, c, out.emit)
				got := r.Attempts[0]
				if got.Code != string(test.class) {
					t.Fatalf("class %q", got.Code)
				}
				if diff := cmp.Diff([]any{want.Usage, want.PromptTokens, want.CompletionTokens, want.UsageDetails}, []any{got.Usage, got.PromptTokens, got.CompletionTokens, got.UsageDetails}); diff != "" || got.Estimated {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		})
	}
}
