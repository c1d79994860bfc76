package gateway_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// entry is the part of an answer for one key.
type entry struct {
	Value   json.RawMessage `json:"value"`
	Type    string          `json:"type"`
	TraceID string          `json:"trace_id"`
}

// decided is the answer to a request for decisions.
type decided struct {
	ID            string           `json:"decision_id"`
	Prompts       map[string]entry `json:"prompts"`
	RemoteConfigs map[string]entry `json:"remoteconfigs"`
}

func readDecided(t *testing.T, a answer) (d decided) {
	t.Helper()
	if err := json.Unmarshal(a.body, &d); err != nil || a.status != http.StatusOK || d.Prompts == nil || d.RemoteConfigs == nil {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return d
}

// sameEntries compares entries without their traces.
func sameEntries(t *testing.T, what string, got, want map[string]entry) {
	t.Helper()
	bare := func(entries map[string]entry) map[string]entry {
		entries = maps.Clone(entries)
		for key, e := range entries {
			e.TraceID = ""
			entries[key] = e
		}
		return entries
	}
	if diff := cmp.Diff(bare(want), bare(got)); diff != "" {
		t.Errorf("%s differ from those of their own route: %s", what, diff)
	}
}

// TestDecisions checks that one request gets the answers of two, with one decision in all
// of its traces.
func TestDecisions(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, options)
	for _, test := range []struct {
		prompts, configs, context, unknown string
	}{
		{`["hello","reply"]`, `["checkout","limits"]`, `{"environment":"production","plan":"pro","locale":"nl","tags":["employee"]}`, ""},
		{`["reply","hello","reply"]`, `["limits","limits"]`, `{}`, ""},
		{`["hello"]`, `[]`, `null`, ""},
		{`null`, `["checkout"]`, `{"environment":"production"}`, ""},
		{`["nothing","hello"]`, `["checkout","nothing","hello"]`, `{}`, "prompts/nothing, remoteconfigs/nothing, remoteconfigs/hello"},
		{`["nothing"]`, `["checkout"]`, `{}`, "prompts/nothing"},
	} {
		const rest = `,"variables":{"question":"Why?"},"metadata":{"page":"/"}}`
		a := g.post("/v1/decisions", `{"prompts":`+test.prompts+`,"remoteconfigs":`+test.configs+`,"context":`+test.context+rest)
		d := readDecided(t, a)
		entriesOf := func(path, keys string) (own map[string]entry) {
			if keys == "null" || keys == "[]" || keys == `["nothing"]` {
				return map[string]entry{}
			}
			answer := g.post(path, `{"keys":`+keys+`,"context":`+test.context+rest)
			if err := json.Unmarshal(answer.body, &own); err != nil {
				t.Fatal(err)
			}
			return own
		}
		sameEntries(t, "prompts", d.Prompts, entriesOf("/v1/prompts", test.prompts))
		sameEntries(t, "configurations", d.RemoteConfigs, entriesOf("/v1/remoteconfigs", test.configs))

		var ids []string
		for _, entries := range []map[string]entry{d.Prompts, d.RemoteConfigs} {
			for _, e := range entries {
				ids = append(ids, e.TraceID)
			}
		}
		if g.decisionOf(t, a.header, ids...).String() != d.ID {
			t.Errorf("the body names the decision %s, the header %s", d.ID, a.header.Get("Cadenza-Decision-Id"))
		}
		if got := a.header.Get("Cadenza-Unknown-Keys"); got != test.unknown {
			t.Errorf("unknown keys %q, want %q", got, test.unknown)
		}
		one := ""
		if len(ids) == 1 {
			one = ids[0]
		}
		if got := a.header.Get("Cadenza-Trace-Id"); got != one || a.header.Get("Cadenza-Revision") == "" {
			t.Errorf("Cadenza-Trace-Id %q of %q, revision %q", got, ids, a.header.Get("Cadenza-Revision"))
		}
		slices.Sort(ids)
		if len(slices.Compact(ids)) != len(d.Prompts)+len(d.RemoteConfigs) {
			t.Errorf("traces %q", ids)
		}
		g.post("/v1/metrics", `{"decision_id":"`+d.ID+`","score":1}`).ok(t, "a report")
	}
	metrics := g.scrape()
	for _, want := range []string{
		// With several keys, the label definition is empty.
		`cadenza_requests_total{code="ok",definition="",route="decisions",workspace="default"} 4`,
		`cadenza_requests_total{code="ok",definition="hello",route="decisions",workspace="default"} 1`,
		`cadenza_requests_total{code="ok",definition="checkout",route="decisions",workspace="default"} 1`,
		`cadenza_unknown_keys_total{route="decisions"} 4`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("no %s in\n%s", want, metrics)
		}
	}
}

func TestBadDecisions(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, options)
	for body, want := range map[string][2]string{
		`{}`:                                {"invalid_request", ""},
		`{"keys":["hello"]}`:                {"invalid_request", ""},
		`{"prompts":[],"remoteconfigs":[]}`: {"invalid_request", ""},
		`{"prompts":["reply"],"remoteconfigs":["checkout"]}`:         {"missing_variable", "variables.question"},
		`{"prompts":["hello"],"prompts":["hello"]}`:                  {"invalid_json", "prompts"},
		`{"prompts":["checkout"],"remoteconfigs":["hello","a","a"]}`: {"unknown_key", ""},
	} {
		a := g.post("/v1/decisions", body)
		if a.status/100 != 4 {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
		checkError(t, a, want[0], want[1])
		if unknown := a.header.Get("Cadenza-Unknown-Keys"); (unknown == "prompts/checkout, remoteconfigs/hello, remoteconfigs/a") != (want[0] == "unknown_key") {
			t.Errorf("%s: unknown keys %q", body, unknown)
		}
	}
	if a := g.do(http.MethodGet, "/v1/decisions", "", bearer(testKey)); a.status != http.StatusMethodNotAllowed {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := g.do(http.MethodPost, "/v1/decisions", `{"prompts":["hello"]}`, nil); a.status != http.StatusUnauthorized {
		t.Errorf("%d %s", a.status, a.body)
	}
	if n := rowsOf(t, g, "traces"); n != 0 {
		t.Errorf("%d traces of requests that were refused", n)
	}
}
