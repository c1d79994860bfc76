package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/trace"
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
	empty := g.unitOf(t, "banner", `{"customer_id":""}`)
	now := time.Now()
	at := func(d time.Duration) string { return `"time":"` + now.Add(d).Format(time.RFC3339) + `"` }
	const values = `"values":{"paid":1}`
	for _, test := range []struct{ body, param, want string }{
		{`{"unit":{"customer_id":"7"},"values":{"paid":1,"amount":42.5},"event_id":"e-1"}`, "", `{"ok":true}`},
		{`{"unit":{"customer_id":7},` + values + `,` + at(-29*24*time.Hour) + `}`, "", `{"ok":true}`},
		{`{"unit":{"customer_id":["7"]},` + values + `}`, "", `{"ok":true}`},
		{`{"unit":{"customer_id":""},` + values + `}`, "", `{"ok":true}`},
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
		"test customer_id " + empty + ` {"paid":1}`,
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

// TestBatchesOfReports sends reports of all kinds at once: the valid ones are stored, and
// each has its result.
func TestBatchesOfReports(t *testing.T) {
	t.Parallel()
	g := startGateway(t, unitDefinitions, traceKeyed)
	decision := decide(t, "default")
	unit := g.unitOf(t, "banner", `{"customer_id":"7"}`)
	reports := []string{
		`{"unit":{"customer_id":7},"values":{"n":1},"event_id":"e-1"}`,
		`{"trace_id":"` + decision.Trace(trace.KindRemoteConfig, 0).String() + `","score":1,"values":{"n":2}}`,
		`{"decision_id":"` + decision.ID().String() + `","values":{"n":3}}`,
		`{"trace_id":"` + forge(decision.ID().String()) + `","score":1}`,
		`{"unit":{"session":"x"},"values":{"n":1}}`,
		`{"unit":{"customer_id":"8"},"values":{"n":1},"event_id":"e-1"}`,
		`{"trace_id":"` + decision.Trace(trace.KindRemoteConfig, 1).String() + `"}`,
		`{"score":1,"score":2}`,
	}
	ndjson := bearer(testKey)
	ndjson.Set("Content-Type", "application/x-ndjson")
	a := gatewaytest.Do(t, g.client, http.MethodPost, "/v1/metrics", strings.Join(reports, "\n"), ndjson)
	var answer struct {
		Results []struct {
			OK, Repeated bool
			Ignored      []string
			Error        struct{ Param, Code string }
		}
		Failed int
	}
	if err := json.Unmarshal(a.Body, &answer); err != nil || a.Status != http.StatusOK {
		t.Fatalf("%d %s: %v", a.Status, a.Body, err)
	}
	var got []string
	for _, r := range answer.Results {
		got = append(got, fmt.Sprint(r.OK, r.Repeated, r.Ignored, r.Error.Code, " ", r.Error.Param))
	}
	want := []string{
		"true false [] ", "true false [score] ", "true false [] ", "false false []unknown_trace trace_id", "false false []invalid_request unit.session",
		"true true [] ", "true false [] ", "false false []invalid_json score",
	}
	if diff := cmp.Diff(want, got); diff != "" || answer.Failed != 3 {
		t.Errorf("%d failed: %s", answer.Failed, diff)
	}
	if diff := cmp.Diff([]string{"test customer_id " + unit + ` e-1 {"n":1}`}, g.unitReports()); diff != "" {
		t.Error(diff)
	}
	if stored := g.reports(); len(stored) != 3 {
		t.Errorf("stored %q", stored)
	}

	// All are bad.
	b := g.post("/v1/metrics", `[`+reports[3]+`,`+reports[4]+`]`)
	checkError(t, b, "invalid_request", "")
	if text := string(b.body); !strings.Contains(text, `"failed":2}`) || !strings.Contains(text, "unit.session") {
		t.Errorf("all are bad: %s", text)
	}
	checkError(t, g.keyed("key", "/v1/metrics", `[`+reports[0]+`]`), "invalid_request", "Idempotency-Key")
	checkError(t, g.post("/v1/metrics", `[]`), "invalid_request", "")
	if stored := g.reports(); len(stored) != 3 {
		t.Errorf("stored %q", stored)
	}
}

// TestFullBatch stores as many reports as a batch may have.
func TestFullBatch(t *testing.T) {
	t.Parallel()
	g := startGateway(t, unitDefinitions, traceKeyed)
	var batch []string
	for i := range 1000 {
		batch = append(batch, fmt.Sprintf(`{"unit":{"customer_id":%d},"values":{"n":1},"event_id":"e-%d"}`, i, i))
	}
	for _, want := range []string{`{"ok":true}`, `{"ok":true,"repeated":true}`} {
		a := g.post("/v1/metrics", "["+strings.Join(batch, ",")+"]").ok(t)
		if stored := len(g.unitReports()); strings.Count(string(a.body), want) != 1000 || stored != 1000 {
			t.Errorf("%d reports are stored: %.200s", stored, a.body)
		}
	}
}
