package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// tableAsking decodes a table whose config: cells ask the given tables for a
// value, by their names.
func tableAsking(t testing.TB, m *Model, others map[string]*Table, text string) *Table {
	t.Helper()
	var errs document.Errors
	tab := DecodeTable(m, parseYAML(t, "flag.yaml", text), Options{Key: "flag", Name: "remoteconfigs/flag", Config: func(key, value *document.Node, _ *document.Errors) *Prerequisite {
		other := others[key.Text]
		p := &Prerequisite{Table: other, AcceptDefault: value.Text == "default"}
		for i, o := range other.Outcomes() {
			if o.Text == value.Text {
				p.Accept = append(p.Accept, i)
			}
		}
		return p
	}}, &errs)
	if err := errs.Err(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return tab
}

// asking is a table of many rows that all ask for the same.
func asking(rows int, name, value string) string {
	var text strings.Builder
	text.WriteString("columns: [plan, config, value]\nmatrix:\n")
	for i := range rows {
		fmt.Fprintf(&text, "  - [p%d, { %s: %s }, v%d]\n", i, name, value, i)
	}
	return text.String()
}

// A prerequisite is decided once for a request, and again for the next one,
// whichever tables ask for it.
func TestPrerequisiteIsDecidedOnce(t *testing.T) {
	m := model(t, "fields: { plan: string, beta: boolean }")
	flag := table(t, m, "columns: [beta, value]\nmatrix: [[true, on], [false, off]]")
	others := map[string]*Table{"flag": flag}
	small := tableAsking(t, m, others, asking(3, "flag", "on"))
	large := tableAsking(t, m, others, asking(20, "flag", "on"))
	over := tableAsking(t, m, map[string]*Table{"large": large, "flag": flag},
		"rules: [{ when: { config: { large: v2, flag: off } }, value: never }, { when: { config: { large: v2, flag: on } }, value: both }, { when: { config: { flag: default } }, value: unknown }]")
	var b Binding
	for range 2 {
		for context, want := range map[string][3]string{
			`{"plan":"p2","beta":true}`:  {"v2", "v2", "both"},
			`{"plan":"p2","beta":false}`: {"default", "default", "default"},
			`{"plan":"p1","beta":true}`:  {"v1", "v1", "default"},
			`{"plan":"p2"}`:              {"default", "default", "unknown"},
		} {
			if err := m.Bind(&b, parseJSON(t, context), noon); err != nil {
				t.Fatal(err)
			}
			for i, tab := range []*Table{small, large, over} {
				if got := outcome(tab, tab.Evaluate(&b)); got != want[i] {
					t.Errorf("table %d for %s: got %s, want %s", i, context, got, want[i])
				}
			}
			if n := len(b.decisions); n != 2 {
				t.Errorf("%d prerequisites were decided, want flag and large", n)
			}
		}
	}
	context := parseJSON(t, `{"plan":"p2","beta":true}`)
	if n := testing.AllocsPerRun(100, func() {
		_ = m.Bind(&b, context, noon)
		over.Evaluate(&b)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if err := m.Bind(&b, context, noon); err != nil {
		t.Fatal(err)
	}
	if flag.Evaluate(&b); len(b.decisions) > 0 {
		t.Error("a table that nobody asks was remembered")
	}
}

// The key of an answer has the schedules of all tables that were asked for it,
// also by way of others, and each once.
func TestKeyHasSchedulesOfPrerequisites(t *testing.T) {
	m := model(t, "fields: { plan: string, id: string }")
	for name, flag := range map[string]string{
		"until": "rules: [{ until: 2026-06-01T12:00:00Z, value: on }]",
		"ramp":  "rules: [{ id: r, ramp: { by: id, start: 2026-06-01T11:59:50Z, end: 2026-06-01T12:00:10Z }, value: on }]",
	} {
		flag := table(t, m, flag)
		middle := tableAsking(t, m, map[string]*Table{"flag": flag}, asking(20, "flag", "on"))
		top := tableAsking(t, m, map[string]*Table{"middle": middle, "flag": flag}, asking(3, "middle", "v1")+"  - [p0, { flag: on }, w]\n")
		for _, tab := range []*Table{middle, top} {
			if !tab.HasSchedule() {
				t.Errorf("%s: no schedule", name)
			}
			key := func(at time.Time) string {
				return string(tab.AppendKey(nil, bindAt(t, m, `{"plan":"p1","id":"i"}`, at)))
			}
			if key(noon.Add(-time.Second)) == key(noon.Add(time.Second)) {
				t.Errorf("%s: the key is the same before and after", name)
			}
			if key(noon) != key(noon.Add(time.Millisecond)) {
				t.Errorf("%s: the key changes though nothing does", name)
			}
		}
	}
}

// What follows from prerequisites is worked out once a table. With a chain
// over many rows, or with tables that ask all others, anything else would not
// end.
func TestPrerequisitesOverManyPaths(t *testing.T) {
	m := model(t, "fields: { plan: string }")
	tables := []*Table{table(t, m, "rules: [{ until: 2027-01-01, value: v1 }]")}
	for range 60 {
		others := make(map[string]*Table)
		var text strings.Builder
		text.WriteString("columns: [plan, config, value]\nmatrix:\n")
		for i, other := range tables {
			others[fmt.Sprint("t", i)] = other
			fmt.Fprintf(&text, "  - [p1, { t%d: v1 }, v1]\n  - [p2, { t%d: v1 }, v1]\n", i, i)
		}
		tables = append(tables, tableAsking(t, m, others, text.String()))
	}
	last := tables[len(tables)-1]
	if !last.HasSchedule() || last.Depth() != 60 || last.Cost() <= tables[1].Cost() || last.Cost() > maxTableCost {
		t.Errorf("schedule %v, depth %d, cost %d", last.HasSchedule(), last.Depth(), last.Cost())
	}
	if got := outcome(last, last.Evaluate(bind(t, m, `{"plan":"p2"}`))); got != "v1" {
		t.Error(got)
	}
	b := bind(t, m, `{"plan":"none"}`)
	if got := outcome(last, last.Evaluate(b)); got != "default" {
		t.Error(got)
	}
	e := last.Explain(b)
	if len(e.Rows) != 120 {
		t.Error(len(e.Rows))
	}
	if n := len(last.AppendKey(nil, b)); n > 20 {
		t.Errorf("the key has %d bytes for one field and one schedule", n)
	}
}
