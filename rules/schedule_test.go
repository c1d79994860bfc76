package rules

import (
	"testing"
	"time"
)

// TestNextChange checks the instants from which on a table may answer the same context in
// another way, including those of the tables that it asks.
func TestNextChange(t *testing.T) {
	m := model(t, `
fields: { plan: string, user: string, since: date }
computed: { new: now - since < duration("24h") }
`)
	dated := table(t, m, `rules: [{ value: yes, from: "2026-06-10T00:00:00Z", until: "2026-06-20T00:00:00Z" }]`)
	ramp := table(t, m, `rules: [{ id: r, value: yes, ramp: { by: user, from: 5%, to: 100%, start: "2026-06-10T00:00:30Z", end: "2026-06-10T00:03:20Z" } }]`)
	tables := map[string]*Table{
		"plain": table(t, m, "rules: [{ when: { plan: pro }, value: yes }]"),
		"dated": dated, "ramp": ramp,
		"both":   table(t, m, `rules: [{ value: no, from: "2026-06-10T00:02:30Z" }, { id: r, value: yes, ramp: { by: user, start: "2026-06-10T00:00:30Z", end: "2026-06-10T00:03:20Z" } }]`),
		"asking": tableAsking(t, m, map[string]*Table{"dated": dated}, "rules: [{ when: { config: { dated: yes } }, value: yes }]"),
		"now":    table(t, m, "rules: [{ when: { new: true }, value: yes }]"),
	}
	for _, tt := range []struct{ table, at, next string }{
		{"plain", "2026-06-10T00:00:00Z", ""},
		{"dated", "2026-06-01T00:00:00Z", "2026-06-10T00:00:00Z"},
		{"dated", "2026-06-09T23:59:59.999999Z", "2026-06-10T00:00:00Z"},
		{"dated", "2026-06-10T00:00:00Z", "2026-06-20T00:00:00Z"}, // it has changed already
		{"dated", "2026-06-20T00:00:00Z", ""},
		{"ramp", "2026-06-01T00:00:00Z", "2026-06-10T00:00:30Z"},
		{"ramp", "2026-06-10T00:00:30Z", "2026-06-10T00:01:00Z"},
		{"ramp", "2026-06-10T00:01:00Z", "2026-06-10T00:02:00Z"},
		{"ramp", "2026-06-10T00:03:10Z", "2026-06-10T00:03:20Z"}, // sooner than the minute
		{"ramp", "2026-06-10T00:03:20Z", ""},
		{"both", "2026-06-10T00:02:00Z", "2026-06-10T00:02:30Z"},
		{"both", "2026-06-10T00:02:30Z", "2026-06-10T00:03:00Z"},
		{"asking", "2026-06-10T00:00:00Z", "2026-06-20T00:00:00Z"},
		{"now", "2026-06-10T00:00:00Z", "2026-06-10T00:15:00Z"},
		{"now", "2026-06-10T00:44:59Z", "2026-06-10T00:45:00Z"},
	} {
		at, err := time.Parse(time.RFC3339, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		next := ""
		if found := tables[tt.table].NextChange(at); !found.IsZero() {
			next = found.UTC().Format(time.RFC3339Nano)
		}
		if next != tt.next {
			t.Errorf("%s at %s: next change %q, want %q", tt.table, tt.at, next, tt.next)
		}
	}
}
