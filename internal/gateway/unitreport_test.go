package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// unitDefinitions have fields that splits go by, and others.
var unitDefinitions = map[string]string{
	"definitions/context.yaml": `
fields:
  customer_id: { type: string }
  mail:        { type: string, ignore_case: true }
  account:     { type: number }
  tags:        { type: list }
  session:     { type: string, trace: none }
  plan:        { type: string, values: [free, pro] }
`,
	"definitions/remoteconfigs/banner.yaml": `
type: string
default: none
rules:
  - id: half
    split: { by: customer_id, of: [ { value: a, share: 50%, name: a }, { value: b, share: 50%, name: b } ] }
`,
	"definitions/remoteconfigs/seats.yaml": `
type: string
default: none
rules:
  - id: half
    split: { by: account, of: [ { value: a, share: 50%, name: a }, { value: b, share: 50%, name: b } ] }
`,
}

// unitReports reads the stored reports on units, but not when they came.
func (g *gateway) unitReports() (stored []string) {
	g.t.Helper()
	rows, err := g.database().Query(`SELECT concat_ws(' ', api_key, field, unit, event_id, named_values) FROM unit_reports ORDER BY seq`)
	if err != nil {
		g.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var row string
		if err := rows.Scan(&row); err != nil {
			g.t.Fatal(err)
		}
		stored = append(stored, row)
	}
	if err := rows.Err(); err != nil {
		g.t.Fatal(err)
	}
	return stored
}

// unitOf asks a configuration and returns the unit of the split in its trace.
func (g *gateway) unitOf(t *testing.T, key, context string) string {
	t.Helper()
	a := g.post("/v1/remoteconfigs", `{"keys":["`+key+`"],"context":`+context+`}`).ok(t)
	record := g.ended(t, a.header.Get("Cadenza-Trace-Id"))
	_, after, found := strings.Cut(string(record.Splits), `"unit":"`)
	unit, _, closed := strings.Cut(after, `"`)
	if !found || !closed {
		t.Fatalf("no unit in %s", record.Splits)
	}
	return unit
}

// TestReportsOnUnits checks that the unit of a report is stored as the hash that splits of
// the same context have, and that what is no unit is refused.
func TestReportsOnUnits(t *testing.T) {
	t.Parallel()
	g := startGateway(t, unitDefinitions, traceKeyed)
	customer, account := g.unitOf(t, "banner", `{"customer_id":"7"}`), g.unitOf(t, "seats", `{"account":"12.50"}`)
	now := time.Now()
	at := func(d time.Duration) string { return `"time":"` + now.Add(d).Format(time.RFC3339) + `"` }
	const values = `"values":{"paid":1}`
	for _, test := range []struct{ body, param, want string }{
		{`{"unit":{"customer_id":"7"},"values":{"paid":1,"amount":42.5},"event_id":"e-1"}`, "", `{"ok":true}`},
		{`{"unit":{"customer_id":7},` + values + `,` + at(-29*24*time.Hour) + `}`, "", `{"ok":true}`},
		{`{"unit":{"customer_id":["7"]},` + values + `}`, "", `{"ok":true}`},
		{`{"unit":{"account":12.5},` + values + `}`, "", `{"ok":true}`},
		{`{"unit":{"account":"12.50"},` + values + `}`, "", `{"ok":true}`},
		{`{"unit":{"customer_id":"8"},` + values + `,"event_id":"e-1"}`, "", `{"ok":true,"repeated":true}`},
		{`{"unit":{"customerid":"7"},` + values + `}`, "unit.customerid", `did you mean customer_id?`},
		{`{"unit":{"tags":"7"},` + values + `}`, "unit.tags", `is a list`},
		{`{"unit":{"session":"7"},` + values + `}`, "unit.session", `trace: none`},
		{`{"unit":{"plan":"gold"},` + values + `}`, "unit.plan", `does not allow`},
		{`{"unit":{"customer_id":null},` + values + `}`, "unit.customer_id", `must be text, this is null`},
		{`{"unit":{"customer_id":true},` + values + `}`, "unit.customer_id", `must be text`},
		{`{"unit":{"account":"x"},` + values + `}`, "unit.account", `must be a number, this is \"x\"`},
		{`{"unit":{"customer_id":"7"},` + values + `,` + at(-31*24*time.Hour) + `}`, "time", `30 days ago`},
		{`{"unit":{"customer_id":"7"},` + values + `,` + at(time.Hour) + `}`, "time", `in the future`},
		{`{"unit":{"customer_id":"7"},` + values + `,"score":5}`, "score", `no \"score\"`},
	} {
		a := g.post("/v1/metrics", test.body)
		if want := http.StatusOK; test.param == "" && a.status != want || !strings.Contains(string(a.body), test.want) {
			t.Errorf("%s: %d %s, want %s", test.body, a.status, a.body, test.want)
		}
		if test.param != "" {
			checkError(t, a, "invalid_request", test.param)
		}
	}
	banner := g.post("/v1/remoteconfigs", `{"keys":["banner"]}`).ok(t)
	path := "/v2/remoteconfigs/" + banner.header.Get("Cadenza-Trace-Id") + "/metrics"
	checkError(t, g.post(path, `{"unit":{"customer_id":"7"},`+values+`}`), "invalid_request", "unit")

	want := []string{
		"test customer_id " + customer + ` e-1 {"paid":1,"amount":42.5}`,
		"test customer_id " + customer + ` {"paid":1}`,
		"test customer_id " + customer + ` {"paid":1}`,
		"test account " + account + ` {"paid":1}`,
		"test account " + account + ` {"paid":1}`,
	}
	if diff := cmp.Diff(want, g.unitReports()); diff != "" {
		t.Error(diff)
	}
	if clear := g.reports(); strings.Contains(fmt.Sprint(clear), "c-7") {
		t.Errorf("the unit is in clear: %q", clear)
	}
}

// TestReportsOnUnitsFold checks that a field without regard to case has one unit for each
// spelling, as in contexts.
func TestReportsOnUnitsFold(t *testing.T) {
	t.Parallel()
	g := startGateway(t, unitDefinitions, traceKeyed)
	for _, mail := range []string{"Ada@Example.com", "ada@example.com"} {
		g.post("/v1/metrics", `{"unit":{"mail":"`+mail+`"},"values":{"n":1}}`).ok(t)
	}
	stored := g.unitReports()
	if len(stored) != 2 || stored[0] != stored[1] || !strings.HasPrefix(stored[0], "test mail ") {
		t.Errorf("stored %q", stored)
	}
}

// TestReportsOnUnitsOnce checks both ways to repeat a report.
func TestReportsOnUnitsOnce(t *testing.T) {
	t.Parallel()
	g := startGateway(t, unitDefinitions, traceKeyed)
	const body = `{"unit":{"customer_id":"7"},"values":{"n":1},"event_id":"e-1"}`
	for _, key := range []string{"one", "one", "two"} {
		if a := g.keyed(key, "/v1/metrics", body).ok(t); string(a.body) != `{"ok":true}` {
			t.Errorf("with a key: %s", a.body)
		}
	}
	g.restart()
	if a := g.post("/v1/metrics", body).ok(t); string(a.body) != `{"ok":true,"repeated":true}` {
		t.Errorf("after a restart: %s", a.body)
	}
	if stored := g.unitReports(); len(stored) != 1 {
		t.Errorf("stored %q", stored)
	}
}
