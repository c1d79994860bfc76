package console

import (
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestWords has numbers and times as the pages show them.
func TestWords(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for got, want := range map[string]string{
		count(0): "0", count(999): "999", count(1000): "1,000", count(1234567): "1,234,567", count(-1234): "-1,234", count(-123): "-123",
		dollars(0): "$0", dollars(0.002244): "$0.00224", dollars(18.4): "$18.40", dollars(1): "$1.00",
		took(0): "", took(317 * time.Microsecond): "0.317 ms", took(60 * time.Millisecond): "60 ms", took(2910 * time.Millisecond): "2.91 s",
		ago(now, now.Add(-7*time.Second)): "7 s", ago(now, now.Add(-26*time.Minute)): "26 min", ago(now, now.Add(-245*time.Minute)): "4 h 5 min",
		ago(now, now.Add(-509*time.Hour)): "21 d 5 h", ago(now, now.Add(time.Second)): "0 s", ago(now, time.Time{}): "",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestWaterfall places a failed attempt, a wait and a streamed answer in time.
func TestWaterfall(t *testing.T) {
	list := waterfalls(&trace.Record{Latency: 4 * time.Second, Attempts: []trace.Attempt{
		{Provider: "a", Model: "m", Code: "quota", Latency: time.Second},
		{Provider: "b", Started: 2 * time.Second, Wait: time.Second, FirstToken: time.Second, Latency: 2 * time.Second, PromptTokens: 3, CompletionTokens: 4},
	}})
	first, second := list[0], list[1]
	if first.Code == "" || first.Target != "a/m" || first.Start != 0 || first.End != 250 {
		t.Errorf("%+v", first)
	}
	if second.Code != "" || second.Target != "b" || second.Waited != 250 || second.Start != 500 || second.First != 750 || second.End != 1000 || second.Tokens != 7 {
		t.Errorf("%+v", second)
	}
	if list := waterfalls(&trace.Record{Attempts: []trace.Attempt{{Provider: "a"}}}); list[0].End < list[0].Start {
		t.Errorf("no time at all: %+v", list[0])
	}
}

// TestTable has the row that decided marked, by its id, by its number, and the default.
func TestTable(t *testing.T) {
	const content = `{"columns":["id","plan","value"],"matrix":[["paid",["pro","max"],2],[null,"free",1]],"rules":[{"id":"late","value":3}]}`
	for chosen, want := range map[string]int{"paid": 0, "row 2": 1, "late": 2, "": 3, "default": 3, "gone": -1} {
		table := (&adminapi.TracedVersion{Content: []byte(content)}).Table(chosen)
		if len(table.Rows) != 4 || table.Rows[0].Cells[1] != `["pro","max"]` {
			t.Fatalf("%+v", table)
		}
		for i, row := range table.Rows {
			if row.Chose != (i == want) {
				t.Errorf("%q: row %d, %s: %t", chosen, i, row.Name, row.Chose)
			}
		}
	}
	if table := (&adminapi.TracedVersion{Content: []byte(`{"default":1}`)}).Table(""); table != nil {
		t.Errorf("no table: %+v", table)
	}
}

// TestStaves sums the hours of a day, of several definitions, beside a week ago.
func TestStaves(t *testing.T) {
	end := time.Date(2026, 11, 28, 13, 0, 0, 0, time.UTC)
	row := func(hours int, traces int64) sqlite.StatsRow {
		return sqlite.StatsRow{Start: end.Add(time.Duration(-hours) * time.Hour), Kind: "endpoint", Key: "chat", Traces: traces, Errors: 1, Cost: 0.5}
	}
	now := lastDay.sums(&adminapi.Stats{Rows: []sqlite.StatsRow{row(1, 30), row(1, 10), row(24, 5), row(25, 1000), row(0, 1000)}}, end)
	if now[23].Traces != 40 || now[0].Traces != 5 {
		t.Fatalf("%+v", now)
	}
	before := lastDay.sums(&adminapi.Stats{Rows: []sqlite.StatsRow{row(1, 20), row(24, 5)}}, end)
	staves := newStaves(lastDay, now, before, end)
	requests := staves[0]
	if requests.Last != data(45, "45") || requests.Before != data(25, "25") || staves[1].Last != data(3, "3") || staves[4].Last != data(1.5, "$1.50") {
		t.Errorf("%s %s, %s %s", requests.Last, requests.Before, staves[1].Last, staves[4].Last)
	}
	last, first := requests.Bars[23], requests.Bars[0]
	if last.Height != barHeight || last.Class != "strong" || last.Mark != barHeight/2 || first.Height != 7 || first.Class != "" {
		t.Errorf("%+v, %+v", last, first)
	}
	if want := "/console/traces?since=2026-11-28T12%3A00%3A00Z&status=error&until=2026-11-28T13%3A00%3A00Z"; staves[1].Bars[23].Path != want {
		t.Errorf("%s, want %s", staves[1].Bars[23].Path, want)
	}
	if at := requests.Table[23]; !at.Start.Equal(end.Add(-time.Hour)) || at.Value != data(40, "40") || at.Before != data(20, "20") {
		t.Errorf("%+v", at)
	}
}

// TestAuditLinks has the traces that a visitor looked at as links, and none of a list.
func TestAuditLinks(t *testing.T) {
	id := new(trace.ID).String()
	for subject, links := range map[string]bool{id: true, "3 traces of a list: limit=50&since=24h": false} {
		var b strings.Builder
		err := templates.ExecuteTemplate(&b, "audit.main", &auditPage{Audit: adminapi.Audit{Entries: []sqlite.AuditEntry{{Action: adminapi.AuditLook, Subject: subject}}}})
		if err != nil || strings.Contains(b.String(), "/console/traces/") != links {
			t.Errorf("%s: %s %v", subject, &b, err)
		}
	}
}
