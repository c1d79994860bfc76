package caddymodule_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAdminErasesUnits erases units of fields whose values traces have as hashes and as they
// are: traces with what their requests share, and reports.
func TestAdminErasesUnits(t *testing.T) {
	split := func(field string) string {
		return "type: string\ndefault: none\nrules:\n  - id: half\n    split: { by: " + field + ", of: [ { value: a, share: 50%, name: a }, { value: b, share: 50%, name: b } ] }\n"
	}
	g := startGateway(t, map[string]string{
		"definitions/context.yaml":              "unit: customer_id\nfields:\n  customer_id: { type: string, ignore_case: true }\n  team: { type: string, trace: value }\n  account: { type: number }\n  session: { type: string, trace: none }\n  tags: { type: list }\n",
		"definitions/remoteconfigs/banner.yaml": split("customer_id"),
		"definitions/remoteconfigs/seats.yaml":  split("account"),
		"definitions/remoteconfigs/team.yaml":   "type: boolean\ndefault: false\ncolumns: [team, value]\nmatrix:\n  - [blue, true]\n",
		"definitions/remoteconfigs/plain.yaml":  "type: boolean\ndefault: false\n",
		"definitions/remoteconfigs/first.yaml":  "record: exposures\ntype: boolean\ndefault: false\n",
	}, options)
	address := adminOf(t, g, options)
	asked := 0
	ask := func(context string) {
		t.Helper()
		asked++
		g.post("/v1/remoteconfigs", fmt.Sprintf(`{"keys":["banner","seats","team","plain"],"context":%s,"metadata":{"note":"note-%d"}}`, context, asked)).ok(t)
	}
	ask(`{"customer_id":"Ada-7781"}`)
	ask(`{"customer_id":"ada-7781","team":"red-4417"}`)
	ask(`{"customer_id":"bob","team":"red-4417"}`)
	ask(`{"account":12.5}`)
	ask(`{"customer_id":"bob","account":13}`)
	for _, unit := range []string{`{"customer_id":"ADA-7781"}`, `{"customer_id":"bob"}`, `{"account":"12.50"}`, `{"team":"red-4417"}`} {
		g.post("/v1/metrics", `{"unit":`+unit+`,"values":{"n":1}}`).ok(t)
	}
	for _, bad := range []string{"unit.none=1", "unit.session=1", "unit.tags=1", "unit.account=x", "unit.customer_id=", "unit.customer_id", "unit.customer_id=a&unit.customer_id=b", "unit.customer_id=a&conversation_id=c"} {
		if status, answer := callAdmin(t, "DELETE", address, "/cadenza/traces", bad); status != http.StatusBadRequest {
			t.Errorf("%s: %d %v", bad, status, answer)
		}
	}
	if status, answer := callAdmin(t, "GET", address, "/cadenza/traces?unit.customer_id=a", ""); status != http.StatusBadRequest {
		t.Errorf("a list: %d %v", status, answer)
	}
	for _, test := range []struct {
		form string
		want string // traces, metrics
	}{
		{"unit.customer_id=Ada-7781&dry_run=true", "8 1"},
		{"unit.customer_id=Ada-7781", "8 1"},
		{"unit.customer_id=Ada-7781", "0 0"},
		{"unit.account=12.5", "4 1"},
		{"unit.team=red-4417", "4 1"}, // the other was Ada's
	} {
		status, answer := callAdmin(t, "DELETE", address, "/cadenza/traces", test.form)
		counts, _ := answer["erased"].(map[string]any)
		if strings.Contains(test.form, "dry_run") {
			counts, _ = answer["found"].(map[string]any)
		}
		if got := fmt.Sprint(counts["traces"], " ", counts["metrics"]); status != http.StatusOK || got != test.want {
			t.Errorf("%s: %d %v, want %s", test.form, status, answer, test.want)
		}
	}
	var traces, decisions, reports, clear int
	if err := g.database().QueryRow(`SELECT (SELECT count(*) FROM traces), (SELECT count(*) FROM decisions), (SELECT count(*) FROM unit_reports),
		(SELECT count(*) FROM erasures WHERE unit_value IS NOT NULL)`).Scan(&traces, &decisions, &reports, &clear); err != nil {
		t.Fatal(err)
	}
	if traces != 4 || reports != 1 || clear != 1 {
		t.Errorf("%d traces of %d decisions and %d reports are left, want 4 of Bob's and 1; %d erasures have the value", traces, decisions, reports, clear)
	}
	subject := ""
	if err := g.database().QueryRow("SELECT group_concat(subject, ' ') FROM audit WHERE action = 'erase'").Scan(&subject); err != nil || strings.Contains(subject, "7781") || strings.Count(subject, "unit.customer_id=") != 2 {
		t.Errorf("the audit has %q, %v", subject, err)
	}
	for _, name := range []string{"cadenza.db", "cadenza.db-wal"} {
		content, err := os.ReadFile(filepath.Join(g.dir, "data", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"7781", "note-1", "note-2", "note-4"} {
			if strings.Contains(string(content), word) {
				t.Errorf("%s still holds %s", name, word)
			}
		}
	}
	// Nobody is counted on a trace that is gone.
	exposure := func() string {
		return g.post("/v1/remoteconfigs", `{"keys":["first"],"context":{"customer_id":"cyd"}}`).ok(t).header.Get("Cadenza-Trace-Id")
	}
	before := exposure()
	if before == "" || exposure() != before {
		t.Errorf("the trace %s is not that of the second answer", before)
	}
	if status, answer := callAdmin(t, "DELETE", address, "/cadenza/traces", "unit.customer_id=cyd"); status != http.StatusOK {
		t.Errorf("%d %v", status, answer)
	}
	if exposure() == before {
		t.Error("an answer after an erasure is counted on a trace of before")
	}
}
