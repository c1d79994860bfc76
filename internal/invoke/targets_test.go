package invoke

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
)

// happen has attempts at a target end, one each "AFTER:CLASS", where AFTER is the
// time since the one before and CLASS "ok" or the class of failure. It returns the
// changes.
func happen(e *Engine, attempts ...string) (all []string) {
	for _, text := range attempts {
		after, class, _ := strings.Cut(text, ":")
		d, err := time.ParseDuration(after)
		if err != nil {
			panic(err)
		}
		time.Sleep(d)
		a, now := admissionTo(e, "p"), time.Now()
		a.admit(now)
		var c *Change
		if class == "ok" {
			c = a.answered(now)
		} else {
			c = a.failed(now, Class(class), 0, "because")
		}
		if c == nil {
			continue
		}
		kind := map[ChangeKind]string{ChangeFailed: "failed", ChangeLeftAlone: "left alone", ChangeAnswers: "answers"}[c.Kind]
		line := fmt.Sprintf("%s %s %d %s", kind, c.State, c.Failures, c.Last.Class)
		if !c.Until.IsZero() {
			line += fmt.Sprintf(" for %s", c.Until.Sub(now))
		}
		if !c.New {
			line += " since before"
		}
		if c.Log {
			line += " logged"
			if c.Unlogged > 0 {
				line += fmt.Sprintf(" after %d unlogged", c.Unlogged)
			}
		}
		all = append(all, line)
	}
	return all
}

func TestChangesOfATarget(t *testing.T) {
	for name, test := range map[string]struct {
		attempts, want []string
	}{
		"all is well":                     {[]string{"0s:ok", "1s:ok"}, nil},
		"a failure":                       {[]string{"0s:transient", "1s:transient", "1s:ok"}, []string{"failed failing 1 transient logged"}},
		"not the target's failures":       {[]string{"0s:client_gone", "1s:superseded", "1s:deadline", "1s:no_room", "1s:content_policy"}, nil},
		"a request that it does not take": {[]string{"0s:rejected", "1s:context_length", "1s:length"}, []string{"failed failing 1 rejected logged"}},
		"failures now and then": {
			[]string{"0s:transient", "1s:ok", "1s:slow", "1s:ok", "1s:slow", "1s:ok", "60s:connect", "1s:ok"},
			[]string{"failed failing 1 transient logged", "failed failing 1 connect logged after 2 unlogged"},
		},
		"failures that go on where the first has no line": {
			[]string{"0s:transient", "1s:ok", "1s:slow", "50s:slow", "10s:slow", "1m:slow"},
			[]string{"failed failing 1 transient logged", "failed failing 3 slow since before logged after 1 unlogged"},
		},
		"failures of few calls": {
			[]string{"0s:slow", "1m:slow", "1m:slow", "1m:slow", "1m:slow", "1m:slow", "1m:ok", "1m:ok"},
			[]string{"failed failing 1 slow logged", "answers failing 6 slow logged"},
		},
		"a key": {
			[]string{"0s:ok", "1s:credential", "1s:credential", "60s:credential", "70s:transient", "1s:ok", "1s:ok"},
			[]string{"left alone cooling 1 credential for 1m0s logged", "left alone cooling 3 credential for 1m0s", "answers failing 4 transient logged"},
		},
		"a key, then its quota": {
			[]string{"0s:credential", "61s:quota", "61s:credential", "1s:ok"},
			[]string{
				"left alone cooling 1 credential for 1m0s logged", "left alone cooling 2 quota for 1m0s logged",
				"left alone cooling 3 credential for 1m0s logged", "answers cooling 3 credential for 59s logged",
			},
		},
		"a limit that comes and goes": {
			[]string{"0s:rate_limit", "5s:ok", "1s:rate_limit", "5s:ok", "1s:rate_limit", "5s:ok", "50s:rate_limit", "5s:ok"},
			[]string{
				"left alone cooling 1 rate_limit for 5s logged", "answers failing 1 rate_limit logged",
				"left alone cooling 1 rate_limit for 5s", "answers failing 1 rate_limit",
				"left alone cooling 1 rate_limit for 5s", "answers failing 1 rate_limit",
				"left alone cooling 1 rate_limit for 5s logged after 2 unlogged", "answers failing 1 rate_limit logged",
			},
		},
		"a limit that stays where its beginning has no line": {
			[]string{"0s:rate_limit", "5s:ok", "1s:rate_limit", "1s:rate_limit", "54s:rate_limit", "1s:rate_limit", "5s:ok"},
			[]string{
				"left alone cooling 1 rate_limit for 5s logged", "answers failing 1 rate_limit logged",
				"left alone cooling 1 rate_limit for 5s",
				"left alone cooling 3 rate_limit for 5s logged after 1 unlogged", "answers failing 4 rate_limit logged",
			},
		},
		"a breaker": {
			append(slices.Repeat([]string{"1s:transient"}, minAnswers), "1s:ok"),
			[]string{"failed failing 1 transient logged", "left alone ejected 20 transient for 4s logged", "answers ejected 20 transient for 3s logged"},
		},
		"a breaker that tries": {
			append(slices.Repeat([]string{"1s:connect"}, minAnswers), "4s:connect", "4s:connect", "4s:ok", "29s:connect"),
			[]string{"failed failing 1 connect logged", "left alone ejected 20 connect for 4s logged", "answers ejected 22 connect for 0s logged", "failed failing 1 connect logged"},
		},
		"a target that answers with an error": {
			append(slices.Repeat([]string{"1s:connect"}, minAnswers), "4s:rejected", "1s:rejected", "1s:ok"),
			[]string{"failed failing 1 connect logged", "left alone ejected 20 connect for 4s logged", "answers failing 20 rejected logged"},
		},
		"a target that is tried and refuses the key": {
			append(slices.Repeat([]string{"1s:connect"}, minAnswers), "4s:credential", "55s:credential", "1s:credential", "1s:ok"),
			[]string{"failed failing 1 connect logged", "left alone ejected 20 connect for 4s logged", "left alone cooling 21 credential for 1m0s",
				"left alone cooling 23 credential for 1m0s since before logged after 1 unlogged", "answers cooling 23 credential for 59s logged",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if diff := cmp.Diff(test.want, happen(NewEngine(), test.attempts...)); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		})
	}
}

func TestTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		at := func(d time.Duration) time.Time { return begin.Add(d) }
		e := NewEngine()
		if got := e.Targets(); len(got) != 0 {
			t.Errorf("without a call: %+v", got)
		}
		unauthorized := &providers.Error{Provider: "b", Status: 401, Code: "invalid_api_key", Message: "Incorrect key"}
		limit := &providers.Error{Provider: "c", Status: 429}
		b := scripted(fails(unauthorized), says("fine"))
		c := scripted(fails(limit), says("fine"))
		var changes []string
		call := &Call{
			Targets: []Target{target("b", b), target("c", c), target("a", scripted(says("fine")))},
			Changed: func(c *Change) { changes = append(changes, fmt.Sprint(c.Kind, " ", c.Provider)) },
		}
		invoke := func() Result {
			r, err, _ := runOn(t, e, call)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		if r := invoke(); r.Served != 2 {
			t.Fatalf("served by %d", r.Served)
		}
		credential := Failure{Credential, "status 401 invalid_api_key: Incorrect key", begin}
		limited := Failure{RateLimit, "status 429", begin}
		want := []TargetHealth{
			{Provider: "a", Model: "a-model", State: TargetOK},
			{Provider: "b", Model: "b-model", State: TargetCooling, Down: true, Since: begin, Until: at(coolAccount), Failures: 1, Why: credential, Last: credential},
			{Provider: "c", Model: "c-model", State: TargetCooling, Down: true, Since: begin, Until: at(coolRateLimit), Failures: 1, Why: limited, Last: limited},
		}
		if diff := cmp.Diff(want, e.Targets()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if !want[1].LeftAlone() || want[0].LeftAlone() {
			t.Error("LeftAlone")
		}

		time.Sleep(coolRateLimit)
		want[2].State, want[2].Down, want[2].Until = TargetFailing, false, time.Time{}
		if diff := cmp.Diff(want, e.Targets()); diff != "" {
			t.Errorf("after the limit: -want +got:\n%s", diff)
		}
		r := invoke()
		if r.Served != 1 || len(r.Skipped) != 1 {
			t.Fatalf("%+v", r)
		}
		if got, want := r.Skipped[0].Reason.Error(), "left alone until 2000-01-01T00:01:00Z: credential: status 401 invalid_api_key: Incorrect key"; got != want {
			t.Errorf("skipped %q, want %q", got, want)
		}
		want[2] = TargetHealth{Provider: "c", Model: "c-model", State: TargetOK, Last: limited}

		time.Sleep(coolAccount)
		want[1].State, want[1].Until = TargetFailing, time.Time{}
		if diff := cmp.Diff(want, e.Targets()); diff != "" {
			t.Errorf("after the minute: -want +got:\n%s", diff)
		}
		if r := invoke(); r.Served != 0 {
			t.Fatalf("served by %d", r.Served)
		}
		want[1] = TargetHealth{Provider: "b", Model: "b-model", State: TargetOK, Last: credential}
		if diff := cmp.Diff(want, e.Targets()); diff != "" {
			t.Errorf("at the end: -want +got:\n%s", diff)
		}
		if got, want := strings.Join(changes, ", "), "2 b, 2 c, 3 c, 3 b"; got != want {
			t.Errorf("changes %s, want %s", got, want)
		}

		text := (&LeftAlone{State: TargetEjected, Until: at(0), Why: limited}).Error()
		if want := "left alone until 2000-01-01T00:00:00Z after too many failures: rate_limit: status 429"; text != want {
			t.Errorf("%q, want %q", text, want)
		}
	})
}

// TestDown has a target that few calls try count as down, which no breaker
// notices.
func TestDown(t *testing.T) {
	for name, test := range map[string]struct {
		attempts []string
		down     bool
	}{
		"four failures":      {slices.Repeat([]string{"1m:slow"}, 4), false},
		"five failures":      {slices.Repeat([]string{"1m:slow"}, 5), true},
		"five with answers":  {slices.Repeat([]string{"1m:slow", "1m:slow", "1m:slow", "1m:slow", "1m:ok"}, 5), false},
		"a limit":            {[]string{"0s:rate_limit"}, true},
		"five limits":        {slices.Repeat([]string{"1m:rate_limit"}, 5), true},
		"an account":         {[]string{"0s:quota"}, true},
		"of the caller's":    {slices.Repeat([]string{"1m:client_gone"}, 9), false},
		"an answered target": {append(slices.Repeat([]string{"1m:slow"}, 9), "1s:ok"), false},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := NewEngine()
			happen(e, test.attempts...)
			if got := e.Targets()[0]; got.Down != test.down {
				t.Errorf("%s: %+v", name, got)
			}
		})
	}
}

// TestTargetThatHangs has whole answers of a target not come. A target that uses up the
// time of its calls is down in the end; one that gets what another left over is not,
// and the breaker knows of neither.
func TestTargetThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEngine()
		var kinds []ChangeKind
		call := &Call{
			Targets: []Target{target("a", scripted(script{after: time.Hour}))},
			Policy:  Policy{Total: 8 * time.Second},
			Changed: func(c *Change) { kinds = append(kinds, c.Kind) },
		}
		for range minAnswers {
			if _, err, _ := runOn(t, e, call); err == nil || err.Class != Deadline {
				t.Fatal(err)
			}
		}
		h := e.Targets()[0]
		if !h.Down || h.State != TargetFailing || h.Failures != minAnswers || h.Last.Class != Slow || !strings.Contains(h.Last.Text, "total time is used up") {
			t.Errorf("%+v", h)
		}
		if !slices.Equal(kinds, []ChangeKind{ChangeFailed}) {
			t.Errorf("changes %v", kinds)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		e := NewEngine()
		call := &Call{
			Policy: Policy{Total: 15 * time.Second}, // of which each has 5 s
		}
		for _, name := range []string{"a", "b", "c"} {
			call.Targets = append(call.Targets, target(name, scripted(script{after: time.Hour})))
		}
		if _, err, _ := runOn(t, e, call); err == nil || err.Class != Deadline {
			t.Fatal(err)
		}
		if all := e.Targets(); all[0].State != TargetFailing || all[1].State != TargetFailing || all[2].State != TargetOK {
			t.Errorf("%+v", all)
		}
	})
}

// TestReconsider has a new configuration begin while a target is left alone: only a
// key, a quota or a model may be mended by it, and an answer alone says that it is.
func TestReconsider(t *testing.T) {
	for class, tried := range map[Class]bool{Credential: true, Quota: true, Model: true, RateLimit: false} {
		synctest.Test(t, func(t *testing.T) {
			e := NewEngine()
			happen(e, "0s:"+string(class))
			began := time.Now()
			time.Sleep(time.Second)
			e.Reconsider()
			if a := admissionTo(e, "p"); a.admit(time.Now()) != tried {
				t.Errorf("%s: tried %t, want %t", class, !tried, tried)
			}
			if h := e.Targets()[0]; !h.Down || !h.Since.Equal(began) || h.LeftAlone() == tried {
				t.Errorf("%s: %+v", class, h)
			}
			if got := happen(e, "0s:ok"); len(got) != 1 || !strings.HasPrefix(got[0], "answers ") || e.Targets()[0].Down {
				t.Errorf("%s: %q", class, got)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		e := NewEngine()
		for range minAnswers {
			happen(e, "0s:transient")
		}
		e.Reconsider()
		if a := admissionTo(e, "p"); a.admit(time.Now()) {
			t.Error("the breaker's verdict is forgotten")
		}
	})
}

// TestAnswersCostNothingMore checks that the record of failures of a target in
// good health costs a call no allocation.
func TestAnswersCostNothingMore(t *testing.T) {
	a := admissionTo(NewEngine(), "p")
	if n := testing.AllocsPerRun(100, func() {
		if a.answered(time.Now()) != nil {
			t.Error("a change")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
