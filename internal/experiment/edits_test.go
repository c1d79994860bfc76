package experiment

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestEdits names what differs, and nothing else.
func TestEdits(t *testing.T) {
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	before := Plan{
		Name: "e", On: "remoteconfigs/button", Rule: "colours", Salt: "colours", Arms: []string{"blue", "green"}, Control: "blue",
		Unit: "customer_id", Attribution: 36 * time.Hour, Start: start, End: start.Add(30 * 24 * time.Hour),
		Metrics: []Metric{
			{Name: "resolved", Role: Primary, Value: "resolved", As: Rate, Up: true, Smallest: 0.07, Relative: true},
			{Name: "latency", Role: Other, Measure: Latency, As: Ratio, Over: 90 * time.Second, Smallest: 0.02},
			{Name: "error", Role: Guardrail, Measure: Error, As: Ratio, Smallest: 0.2, Relative: true},
		},
	}
	if edits := Edits(&before, &before); len(edits) > 0 {
		t.Error(edits)
	}
	after := before
	after.Metrics = slices.Clone(before.Metrics)
	after.Arms, after.Attribution, after.End, after.Owner = append(after.Arms, "red"), 7*24*time.Hour, start.Add(time.Hour), "growth"
	after.Metrics[0].Up, after.Metrics[0].Name, after.Metrics[0].Relative = false, "solved", false
	after.Metrics[1].Over = time.Hour
	after.Metrics[2] = Metric{Name: "cost", Role: Guardrail, Measure: Cost, As: Ratio, Smallest: 1.5e-7, Relative: true}
	want := []string{
		"arms: blue, green -> blue, green, red",
		"owner: none -> growth",
		"attribution: 36h -> 7d",
		"end: 2026-12-01T00:00:00Z -> 2026-11-01T01:00:00Z",
		"primary.name: resolved -> solved",
		"primary.goal: up -> down",
		"primary.smallest: 7% -> 0.07",
		"others.latency.over: 1m30s -> 1h",
		"guardrails.cost.measure: none -> cost",
		"guardrails.cost.as: none -> ratio",
		"guardrails.cost.goal: none -> down",
		"guardrails.cost.smallest: none -> 0.000015%",
		"guardrails.error.measure: error -> none",
		"guardrails.error.as: ratio -> none",
		"guardrails.error.goal: down -> none",
		"guardrails.error.smallest: 20% -> none",
	}
	if got := Edits(&before, &after); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestDifferences: what is in one set alone, what was edited, and what only its split was.
func TestDifferences(t *testing.T) {
	before := []Plan{{Name: "b"}, {Name: "d", Salt: "a", Unit: "u"}, {Name: "e", Salt: "a"}, {Name: "a"}, {Name: "gone"}}
	after := []Plan{{Name: "e", Salt: "b", Owner: "x"}, {Name: "d", Salt: "b", Unit: "v", Arms: []string{"z"}}, {Name: "b"}, {Name: "new"}, {Name: "a", Owner: "y"}}
	var got []string
	for _, d := range Differences(before, after) {
		text := d.Name
		if d.Before != nil {
			text += " was " + d.Before.Name
		}
		if d.After != nil {
			text += " is " + d.After.Name
		}
		if d.OfSplit {
			text += " by its split"
		}
		got = append(got, text+": "+strings.Join(d.Edits, ", "))
	}
	want := []string{
		"a was a is a: owner: none -> y",
		"d was d is d by its split: arms: none -> z, salt: a -> b, unit: u -> v",
		"e was e is e: salt: a -> b, owner: none -> x",
		"gone was gone: ",
		"new is new: ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
