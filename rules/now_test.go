package rules

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// now is the instant of the request: the same for all that a binding is asked,
// and different for the next one.
func TestNowInComputedFields(t *testing.T) {
	m := model(t, `
fields: { signed_up: date, plan: string }
computed:
  new: now - signed_up < duration("720h")
  weekend: now.getDayOfWeek("Europe/Brussels") in [0, 6]
  hour: now.getHours()
  at: now
  early: new && hour < 12
segments: { fresh: [ { early: true } ] }
`)
	direct := table(t, m, "rules: [{ when: { new: true }, value: yes }]")
	days := table(t, m, "rules: [{ when: { weekend: true }, value: yes }]")
	segment := table(t, m, "rules: [{ when: { segment: fresh }, value: yes }]")
	split := table(t, m, "rules: [{ id: r, split: { by: hour, of: [{ value: yes, share: 50% }] } }]")
	asking := tableAsking(t, m, map[string]*Table{"direct": direct}, "rules: [{ when: { config: { direct: yes } }, value: yes }]")
	plain := table(t, m, "rules: [{ when: { plan: pro }, value: yes }]")

	for _, tt := range []struct {
		at                           string
		direct, days, segment, asked string
	}{
		{"2026-06-05T21:59:00Z", "yes", "default", "default", "yes"}, // a Friday in Brussels
		{"2026-06-05T22:00:00Z", "yes", "yes", "default", "yes"},     // already a Saturday there
		{"2026-06-30T11:59:59Z", "yes", "default", "yes", "yes"},
		{"2026-07-01T00:00:00Z", "default", "default", "default", "default"},
	} {
		at, err := time.Parse(time.RFC3339, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		b := bindAt(t, m, `{"signed_up":"2026-06-01"}`, at)
		got := []string{outcome(direct, direct.Evaluate(b)), outcome(days, days.Evaluate(b)),
			outcome(segment, segment.Evaluate(b)), outcome(asking, asking.Evaluate(b))}
		if diff := cmp.Diff([]string{tt.direct, tt.days, tt.segment, tt.asked}, got); diff != "" {
			t.Errorf("%s: %s", tt.at, diff)
		}
	}
	b := bind(t, m, `{"signed_up":"2026-06-01"}`)
	for name, tab := range map[string]*Table{"field": direct, "segment": segment, "split": split, "prerequisite": asking} {
		if !tab.HasSchedule() {
			t.Errorf("%s: what reads now has a schedule, so that its tests need an instant", name)
		}
		if tab.Cacheable(b) {
			t.Errorf("%s: what reads now is not to be remembered", name)
		}
	}
	if plain.HasSchedule() || !plain.Cacheable(b) {
		t.Error("a table that does not read now is as it was")
	}
	if diff := cmp.Diff([]string{"signed_up"}, direct.Fields()); diff != "" {
		t.Errorf("now is no field of the context: %s", diff)
	}
	if failed := direct.Explain(bindAt(t, m, `{"signed_up":"2026-01-01"}`, noon)).Rows[0].String(); !strings.HasSuffix(failed, "new must be true, is false") {
		t.Error(failed)
	}
}

// A field called now has the data model's meaning.
func TestFieldCalledNow(t *testing.T) {
	for _, text := range []string{
		"fields: { now: number }\ncomputed: { late: now > 5.0 }",
		"fields: { n: number }\ncomputed: { now: n + 1.0, late: now > 5.0 }",
	} {
		m := model(t, text)
		tab := table(t, m, "rules: [{ when: { late: true }, value: yes }]")
		if got := outcome(tab, tab.Evaluate(bind(t, m, `{"now":6,"n":6}`))); got != "yes" {
			t.Errorf("%s: %s", text, got)
		}
		if tab.HasSchedule() {
			t.Errorf("%s: a field called now is no schedule", text)
		}
	}
}
