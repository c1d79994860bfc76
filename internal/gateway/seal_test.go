package gateway_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/secret"
	"github.com/cadenza-gateway/cadenza/trace"
)

// changes are possible changes of a record in the database, each with its name and an
// expression for a column of traces. Some records do not have the column.
var changes = []struct{ what, column, value string }{
	{"the id", "id", "randomblob(16)"},
	{"the time", "time_ms", "time_ms + 86400000"},
	{"the decision", "decision_id", "randomblob(16)"},
	{"no decision", "decision_id", "NULL"},
	{"the reason", "reason", "CASE reason WHEN 'match' THEN 'default' ELSE 'match' END"},
	{"the row", "matched_row", "coalesce(matched_row, '') || 'x'"},
	{"the arm", "arm", "coalesce(arm, '') || 'x'"},
	{"the variant", "variant", "variant || 'x'"},
	{"the key", "key", "key || 'x'"},
	{"the version", "version", "'000000000000'"},
	{"the revision", "revision", "'000000000000'"},
	{"the prompt's version", "prompt_version", "prompt_version || 'x'"},
	{"the endpoint's variant", "endpoint_variant", "endpoint_variant || 'x'"},
	{"the endpoint's row", "endpoint_row", "endpoint_row || 'x'"},
	{"a split's bucket by 1", "splits", "json_set(splits, '$[0].bucket', (json_extract(splits, '$[0].bucket') + 1) % 100000)"},
	{"a split's bucket by far", "splits", "json_set(splits, '$[0].bucket', (json_extract(splits, '$[0].bucket') + 50000) % 100000)"},
	{"a split's share", "splits", "json_set(splits, '$[0].share', 0.123)"},
	{"a split's arm", "splits", "json_set(splits, '$[0].arm', 'other')"},
	{"a split's experiment", "splits", "json_set(splits, '$[0].experiment.rule', 'other')"},
	{"a split's unit", "splits", "json_set(splits, '$[0].unit', 'AAAAAAAAAAAAAAAA')"},
	{"a split less", "splits", "json_remove(splits, '$[0]')"},
	{"a split more", "splits", "json_insert(splits, '$[#]', json_extract(splits, '$[0]'))"},
	{"no splits", "splits", "NULL"},
	{"a version that was read", "read_versions", "json_set(read_versions, '$.\"remoteconfigs/c0\"', '000000000000')"},
	{"what was read", "read_versions", "NULL"},
	{"an input", "inputs", "json_set(inputs, '$.beta', json('null'))"},
	{"an input more", "inputs", "json_set(inputs, '$.extra', 1)"},
	{"an input less", "inputs", "json_remove(inputs, '$.plan')"},
	{"an input's hash", "inputs", "json_set(inputs, '$.user.hash', 'AAAAAAAAAAAAAAAA')"},
	{"no inputs", "inputs", "NULL"},
	{"the notes", "notes", "NULL"},
	{"a note more", "notes", "json_insert(coalesce(notes, '[]'), '$[#]', 'context: none')"},
	{"the caller", "api_key", "'other'"},
	{"the status", "status", "599"},
	{"the model", "model", "model || 'x'"},
	{"the tokens", "total_tokens", "total_tokens + 1"},
	{"the cost", "cost", "coalesce(cost, 0) + 0.01"},
	{"an attempt", "attempts", "json_set(attempts, '$[0].status', 599)"},
	{"the metadata", "metadata", "json_set(coalesce(metadata, '{}'), '$.user', 'eve')"},
	{"the context", "context", "json_set(coalesce(context, '{}'), '$.plan', 'other')"},
	{"the variables", "variables", "json_set(variables, '$.text', 'other')"},
	{"the messages", "messages", "json_set(messages, '$[0].content', 'other')"},
	{"the response", "response", "response || 'x'"},
	{"the state", "state", "'interrupted'"},
	{"the latency", "latency_us", "latency_us + 1"},
}

// TestChangedRecordsAreNoticed changes the columns of records of every kind in the
// database one by one, and restores each.
func TestChangedRecordsAreNoticed(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 7))
	g := startGateway(t, provenDefinitions(r, 2, func(string) string { return "" }), logContent, withProvider("shaky", new(shaky)))
	keys, err := json.Marshal(provenKeys)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("long ", 500) // long enough to be stored once for all keys
	const rounds = 5
	for range rounds {
		request := `,"context":` + provenContext(r) + `,"variables":{"text":"a"},"metadata":{"user":"ada","text":"` + long + `"}}`
		for path, body := range map[string]string{
			"/v1/remoteconfigs": `{"keys":` + string(keys) + request,
			"/v1/prompts":       `{"keys":["p"]` + request,
			"/v1/endpoints":     `{"key":"e"` + request,
		} {
			if a := g.post(path, body); a.status != 200 {
				t.Fatalf("%s %s: %d %s", path, body, a.status, a.body)
			}
		}
	}
	total := rounds * (len(provenKeys) + 2)
	eventually(t, "the traces are stored", func() bool { return rowsOf(t, g, "traces") == total })
	db := g.database()
	reader, err := sqlite.OpenReader(t.Context(), g.store.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	read := func(id trace.ID) *trace.Record {
		t.Helper()
		record, err := reader.Trace(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return record
	}
	verify := g.current.Load().Workspace("default").VerifySeal
	var ids []trace.ID
	if err := reader.Export(t.Context(), trace.Filter{Workspace: "default"}, func(record *trace.Record, _ []trace.Metrics) error {
		ids = append(ids, record.ID)
		if v := verify(record); v.Result != trace.SealValid || v.Removed != nil {
			t.Errorf("%+v of %s", v, record.AppendJSON(nil))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	made := make(map[string]int)
	changed := func(what, table, column, value string, key any, id trace.ID) {
		t.Helper()
		var before, after any
		if err := db.QueryRow(fmt.Sprintf("SELECT %s, %s FROM %s WHERE rowid = ?", column, value, table), key).Scan(&before, &after); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(before) == fmt.Sprint(after) {
			return
		}
		set := func(value any) {
			t.Helper()
			if _, err := db.Exec(fmt.Sprintf("UPDATE %s SET %s = ? WHERE rowid = ?", table, column), value, key); err != nil {
				t.Fatal(err)
			}
		}
		set(after)
		if column == "id" {
			id = trace.ID(after.([]byte))
		}
		record := read(id)
		v := verify(record)
		traced := new(inspect.Traced)
		if err := json.Unmarshal(record.AppendJSON(nil), traced); err != nil {
			t.Fatal(err)
		}
		traced.Verification = v
		if v.Result != trace.SealChanged || inspect.Unproved(traced, "").Result != inspect.Differs {
			t.Errorf("%s: %+v\nbefore %s\nafter %s", what, v, before, after)
		}
		made[what]++
		set(before)
	}
	for _, id := range ids {
		var row int64
		var shares, decision any
		if err := db.QueryRow("SELECT t.seq, shared, d.seq FROM traces AS t LEFT JOIN decisions AS d ON d.id = t.decision_id WHERE t.id = ?", id[:]).Scan(&row, &shares, &decision); err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			if shares != nil && slices.Contains([]string{"metadata", "context", "variables"}, c.column) {
				changed("shared "+c.what, "decisions", c.column, c.value, decision, id)
				continue
			}
			changed(c.what, "traces", c.column, c.value, row, id)
		}
		if v := verify(read(id)); v.Result != trace.SealValid {
			t.Errorf("all was put back: %+v", v)
		}
	}
	for _, c := range changes {
		if made[c.what] == 0 {
			t.Errorf("%s was never changed", c.what)
		}
	}
	if made["shared the metadata"] == 0 || made["shared the context"] == 0 {
		t.Errorf("nothing that is shared was changed: %v", made)
	}
}

// sealedFiles have an endpoint that answers with its question.
var sealedFiles = map[string]string{
	"definitions/prompts/p.yaml":   "default: a\nvariables: { q: { default: x } }\nvariants: { a: { provider: canned, extra: { echo: true }, messages: [ { role: user, content: \"{{q}}\" } ] } }\n",
	"definitions/endpoints/e.yaml": "prompt: p\n",
}

// traceKeyOf configures a trace key.
func traceKeyOf(t *testing.T, key string) setting {
	t.Helper()
	t.Setenv("CADENZA_TEST_SEALS_"+key[:4], key)
	return with(func(c *gw.WorkspaceConfig) { c.TraceKey = secret.Reference("{env.CADENZA_TEST_SEALS_" + key[:4] + "}") })
}

// TestSealsOfOtherKeys verifies records under several trace keys, with later reports, and
// by another gateway.
func TestSealsOfOtherKeys(t *testing.T) {
	first, second := traceKeyOf(t, "a01f5c7be2d95a36c41d"), traceKeyOf(t, "b3d2f9a17c6e50842f1b")
	g := startGateway(t, sealedFiles, logContent)
	ask := func(path, body string) (id string) {
		t.Helper()
		a := g.post(path, body)
		if a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		id = a.header.Get("Cadenza-Trace-Id")
		eventually(t, "the trace is stored", func() bool { _, ok := g.trace("data/cadenza.db", id); return ok })
		return id
	}
	holds := func(by *gateway, id, result string) trace.Verification {
		t.Helper()
		record, ok := g.trace("data/cadenza.db", id)
		if !ok {
			t.Fatal("no trace")
		}
		v := by.current.Load().Workspace("default").VerifySeal(record)
		if v.Result != result {
			t.Errorf("%+v, want %s", v, result)
		}
		return v
	}
	const body = `{"key":"e","variables":{"q":"hello"}}`
	ofStore := ask("/v1/endpoints", body)
	holds(g, ofStore, trace.SealValid)
	g.load(logContent, first)
	ofFirst := ask("/v1/endpoints", body)
	name := holds(g, ofFirst, trace.SealValid).Key
	eventually(t, "the store's key is known too", func() bool {
		record, _ := g.trace("data/cadenza.db", ofStore)
		return g.current.Load().Workspace("default").VerifySeal(record).Result == trace.SealValid
	})
	g.load(logContent, second)
	ofSecond := ask("/v1/endpoints", body)
	if other := holds(g, ofSecond, trace.SealValid).Key; other == name {
		t.Errorf("two keys have the name %s", name)
	}
	if v := holds(g, ofFirst, trace.SealOtherKey); v.Key != name {
		t.Errorf("%+v, want the name %s", v, name)
	}
	beside := startGateway(t, sealedFiles, first)
	holds(beside, ofFirst, trace.SealValid)
	holds(beside, ofSecond, trace.SealOtherKey)

	// The seal does not cover later reports.
	if a := g.post("/v1/metrics", `{"trace_id":"`+ofSecond+`","score":80}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	holds(g, ofSecond, trace.SealValid)
	if _, err := g.database().Exec("UPDATE traces SET response = NULL, messages = NULL"); err != nil {
		t.Fatal(err)
	}
	if v := holds(g, ofSecond, trace.SealValid); !slices.Equal(v.Removed, []string{"messages", "response"}) {
		t.Errorf("%+v", v)
	}
	if _, err := g.database().Exec("UPDATE traces SET seal = NULL"); err != nil {
		t.Fatal(err)
	}
	holds(g, ofSecond, trace.SealNone)
}
