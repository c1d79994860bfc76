package console

import (
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/rollout"
)

// rolledOut returns a page of a rollout that a guard stopped at 5 %.
func rolledOut() *rolloutPage {
	start := time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)
	more, less := 0.062, 0.031
	seen := &rollout.Evidence{Since: start, Through: start.Add(time.Hour), Units: 1234, Control: 1201, Guards: []rollout.Guard{
		{Name: "error", Ratio: 1.2, New: &more, Control: &less, Harm: true, Strength: 1.04, Says: "brief has <b>more</b>"},
		{Name: "minutes", Ratio: 1.5, Says: "no unit has a number"},
	}}
	return &rolloutPage{Editor: true, Rollout: gateway.Rollout{
		RolloutStatus: gateway.RolloutStatus{Name: "prompts/shop/reply/wording", State: rollout.Held, Share: 5000, Row: 3, Since: start.Add(2 * time.Hour), Says: "it stays <i>here</i>"},
		Plan: rollout.Plan{
			On: "prompts/shop/reply", Rule: "wording", Unit: "customer_id", New: "brief", Control: "warm", Steps: []int{1000, 5000, rollout.Whole}, Every: 90 * time.Minute, Need: 1000, Then: rollout.ThenHold,
			Stops: []rollout.Stop{{Measure: experiment.Error, As: experiment.Ratio, Ratio: 1.2}, {Value: "minutes", As: experiment.Mean, Ratio: 1.5}},
		},
		Evidence: seen,
		Rows: []rollout.Row{
			{Number: 1, Time: start, Kind: rollout.Start, Share: 1000, By: "gateway a"},
			{Number: 2, Time: start.Add(time.Hour), Kind: rollout.Step, Share: 5000, By: "gateway a", Evidence: seen},
			{Number: 3, Time: start.Add(2 * time.Hour), Kind: rollout.Hold, Share: 5000, By: "gateway <u>b</u>", Why: "error: more", Evidence: seen},
		},
	}}
}

// shownOf returns the page of a rollout after a change.
func shownOf(t *testing.T, change func(*rolloutPage)) string {
	t.Helper()
	p := rolledOut()
	change(p)
	return strings.TrimSpace(shown(t, "rollout.main", p))
}

// TestRolloutPage has what stopped it before all else, then all that is known.
func TestRolloutPage(t *testing.T) {
	text := shownOf(t, func(*rolloutPage) {})
	if !strings.HasPrefix(text, `<div class="banner bad" role="alert">`) {
		t.Error(text)
	}
	rest := text
	for _, want := range []string{
		"held by a guard: <b>it stays &lt;i&gt;here", `<a href="/console/definitions/prompt/shop/reply">prompts/shop/reply</a>, row wording`, "by customer_id", "5 % have brief, by row 3 since", "10:00:00",
		"each step 1 h 30 min at least", `<data value="1000">1,000</data> units of brief`, "harm holds the step", `1 % → <b aria-current="step">5 %</b> → 100 %`,
		"brief against as many units of warm, since", "counted up to", `<data value="1234">1,234</data>`, "1,201",
		`<tr class="bad"><th scope="row">error</th>`, `<data value="0.062">6.2 %</data>`, "3.1 %", "1.2</data> times", "104 %", "brief has &lt;b&gt;more", "ratio of error, less is better",
		`<tr><th scope="row">minutes</th><td class="n"></td><td class="n"></td>`, "0 %", "no unit has a number", "mean of minutes",
		`class="chose" aria-current="true"><th scope="row" class="n">3`, "hold", "gateway &lt;u&gt;b", "error: more", ">2</th>", ">step</td>", ">1</th>", ">start</td>",
		"<h2>Decide", `action="/console/rollouts/prompts/shop/reply/wording"`, `value="resume"`, "goes on from its step", `value="back"`, `value="finish"`,
	} {
		at := strings.Index(rest, want)
		if at < 0 {
			t.Fatalf("lacks %s, or has it too early: %s", want, rest)
		}
		rest = rest[at:]
	}
	if strings.Contains(text, "<no value>") || strings.Contains(text, `value="hold"`) {
		t.Error(text)
	}
}

// TestRolloutWays offers what a rollout's state allows, and to editors alone.
func TestRolloutWays(t *testing.T) {
	all := []rollout.Kind{rollout.Resume, rollout.Hold, rollout.Back, rollout.Finish}
	for state, want := range map[rollout.State]string{
		"": "", rollout.Running: "hold back finish", rollout.Held: "resume back finish", rollout.Returned: "resume finish", rollout.Finished: "back",
	} {
		var got []string
		text := shownOf(t, func(p *rolloutPage) { p.State = state })
		for _, kind := range all {
			if strings.Contains(text, `value="`+string(kind)+`"`) {
				got = append(got, string(kind))
			}
		}
		if strings.Join(got, " ") != want || (state == "") != strings.Contains(text, "It has not begun.") {
			t.Errorf("%s: %v", state, got)
		}
	}
	if text := shownOf(t, func(p *rolloutPage) { p.State, p.Overtaken = rollout.Running, true }); !strings.Contains(text, `value="resume"`) {
		t.Error("one that was overtaken can't be resumed", text)
	}
	if text := shownOf(t, func(p *rolloutPage) { p.Editor = false }); strings.Contains(text, "<form") || !strings.Contains(text, "needs the role editor") {
		t.Error("a viewer:", text)
	}
	if text := shownOf(t, func(p *rolloutPage) { p.Problem = "the row can't be <b>kept" }); !strings.Contains(text, "can&#39;t be &lt;b&gt;kept") {
		t.Error(text)
	}
}

// TestRolloutLooks is red where a guard stopped a rollout alone.
func TestRolloutLooks(t *testing.T) {
	for _, test := range []struct {
		change      func(*rolloutPage)
		shape, word string
	}{
		{func(*rolloutPage) {}, "bad", "held by a guard"},
		{func(p *rolloutPage) { p.State, p.Rows[2].Kind = rollout.Returned, rollout.Back }, "bad", "returned by a guard"},
		{func(p *rolloutPage) { p.Rows[2].Evidence, p.Rows[2].By = nil, "ada" }, "", "held by ada"},
		{func(p *rolloutPage) { p.State, p.Rows[2].Evidence, p.Rows[2].By = rollout.Returned, nil, "ada" }, "", "returned by ada"},
		{func(p *rolloutPage) { p.State, p.Row = rollout.Running, 2 }, "", "running"},
		{func(p *rolloutPage) { p.State, p.Row, p.Evidence.Mismatch = rollout.Running, 2, true }, "warn", "running"},
		{func(p *rolloutPage) { p.State, p.Row, p.Overtaken = rollout.Running, 2, true }, "warn", "running, overtaken"},
		{func(p *rolloutPage) { p.Overtaken = true }, "bad", "held by a guard, overtaken"},
		{func(p *rolloutPage) { p.State = rollout.Finished }, "good", "finished"},
		{func(p *rolloutPage) { p.RolloutStatus = gateway.RolloutStatus{} }, "", "not begun"},
	} {
		p := rolledOut()
		test.change(p)
		if shape, word := rolloutShape(p.Rollout), rolloutWord(p.Rollout); shape != test.shape || word != test.word {
			t.Errorf("%q %q, want %q %q", shape, word, test.shape, test.word)
		}
		text := shownOf(t, test.change)
		if strings.HasPrefix(text, `<div class="banner bad"`) != (test.shape == "bad") || !strings.Contains(text, test.word) {
			t.Errorf("%s: %s", test.word, text)
		}
	}
	if text := shownOf(t, func(p *rolloutPage) { p.Evidence, p.Rows, p.RolloutStatus = nil, nil, gateway.RolloutStatus{} }); !strings.Contains(text, "Nothing is counted yet") || strings.Contains(text, "since") || strings.Contains(text, "<b aria-current") {
		t.Error("one that has not begun:", text)
	}
}

// TestRolloutList has each rollout with its state, sentence and link.
func TestRolloutList(t *testing.T) {
	stopped, odd := rolledOut().Rollout, gateway.Rollout{RolloutStatus: gateway.RolloutStatus{Name: "prompts/a//b/wording", Says: "it waits"}}
	text := shown(t, "rollouts.main", &adminapi.Rollouts{Rollouts: []gateway.Rollout{stopped, odd}})
	for _, want := range []string{
		`<tr class="bad"><th scope="row"><a href="/console/rollouts/prompts/shop/reply/wording">`, "held by a guard", "5 %", "2026-11-01", "it stays &lt;i&gt;here",
		`<tr><th scope="row"><a href="/console/rollouts/prompts%2Fa%2F%2Fb%2Fwording">`, "not begun", "it waits",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %s: %s", want, text)
		}
	}
	if text := shown(t, "rollouts.main", new(adminapi.Rollouts)); !strings.Contains(text, "There are no rollouts") || strings.Contains(text, "<table") {
		t.Errorf("none: %s", text)
	}
}

// TestGuardedRow has the shares of a row's rollout, and the link to it.
func TestGuardedRow(t *testing.T) {
	row := gridRow{RowView: inspect.RowView{By: "customer_id", Guarded: true, Answers: []inspect.RowAnswer{{}, {Share: 1}}}}
	row.follow(nil)
	if row.Rollout != nil || row.Answers[1].Share != 1 {
		t.Errorf("%+v", row)
	}
	row.follow(&gateway.RolloutStatus{Share: 25_000})
	if row.Answers[0].Share != 0.25 || row.Answers[1].Share != 0.75 || row.Rest() != "" {
		t.Errorf("%+v, %s left", row.Answers, row.Rest())
	}
}
