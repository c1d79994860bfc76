package caddymodule_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// rowsOf counts the rows of a table of the store.
func rowsOf(t testing.TB, g *gateway, table string) int {
	t.Helper()
	return gatewaytest.Rows(t, g.database(), table)
}

// storedBytes returns the size of the store's file once its write-ahead log is in it.
func storedBytes(t testing.TB, g *gateway) int64 {
	t.Helper()
	db := g.database()
	eventually(t, "the log is in the file", func() bool {
		var busy, length, copied int
		err := db.QueryRow("PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &length, &copied)
		return err == nil && busy == 0
	})
	info, err := os.Stat(filepath.Join(g.dir, "data/cadenza.db"))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// idsOf returns the trace ids of an answer, by key.
func idsOf(t *testing.T, a answer) map[string]string {
	t.Helper()
	if a.status != http.StatusOK {
		t.Fatalf("%d %.200s", a.status, a.body)
	}
	return gatewaytest.TraceIDs(t, a.body)
}

// TestARequestIsStoredOnce asks for a hundred keys with a large context and metadata. They
// are stored once, redacted, and shown with every trace as far as its definition logs
// them, until all traces are erased.
func TestARequestIsStoredOnce(t *testing.T) {
	files, keys := gatewaytest.HundredConfigs()
	files["definitions/remoteconfigs/c0.yaml"] += "log: metadata\n"
	files["definitions/remoteconfigs/c1.yaml"] += "log: none\n"
	files["definitions/context.yaml"] = "fields: { seats: { type: number }, text: { type: string } }\n"
	const recorded = options + "log content\nredact card\nsink file {dir}/out/traces.jsonl\n"
	g := startGateway(t, files, recorded)
	address := adminOf(t, g, recorded)
	idsOf(t, g.post("/v1/remoteconfigs", `{"keys":["c0"]}`))
	eventually(t, "the first trace is stored", func() bool { return rowsOf(t, g, "traces") == 1 })
	before := storedBytes(t, g)

	card := func(count int) string { return strings.Repeat("card 4111 1111 1111 1111, ", count) }
	body := `{"keys":` + keys + `,"metadata":{"user":"ada","note":"` + card(500) + `"},"context":{"seats":"many","text":"` + card(1200) + `"}}`
	a := g.post("/v1/remoteconfigs", body)
	ids := idsOf(t, a)
	eventually(t, "all traces are stored", func() bool { return rowsOf(t, g, "traces") == 100 })
	// Each trace has its own part, too.
	if grown := storedBytes(t, g) - before; grown > 3*int64(len(body)) {
		t.Errorf("a request of %d bytes made the store grow by %d", len(body), grown)
	}
	if n := rowsOf(t, g, "decisions"); n != 1 {
		t.Errorf("%d decisions are stored", n)
	}

	check := func(what, key string, metadata, context any, notes any) {
		t.Helper()
		if text := fmt.Sprint(metadata); !strings.Contains(text, "[redacted:card]") || !strings.Contains(text, "ada") || strings.Contains(text, "4111") {
			t.Errorf("%s of %s: metadata %.100s", what, key, text)
		}
		if text := fmt.Sprint(context); strings.Contains(text, "[redacted:card]") != (key != "c0") || strings.Contains(text, "4111") {
			t.Errorf("%s of %s: context %.100s", what, key, text)
		}
		if text := fmt.Sprint(notes); text != "[context.seats: type_mismatch]" {
			t.Errorf("%s of %s: notes %s", what, key, text)
		}
	}
	for key, id := range ids {
		record, ok := g.trace("data/cadenza.db", id)
		if ok == (key == "c1") {
			t.Errorf("%s is stored: %t", key, ok)
		}
		if ok {
			check("the trace", key, string(record.Metadata), string(record.Context), record.Notes)
		}
	}
	_, answer := callAdmin(t, "GET", address, "/cadenza/traces?limit=1000&metadata.user=ada", "")
	if found := listed(t, answer); len(found) != 99 {
		t.Errorf("%d traces are found by their metadata", len(found))
	}
	_, answer = callAdmin(t, "GET", address, "/cadenza/traces/"+ids["c7"], "")
	shown, _ := answer["trace"].(map[string]any)
	check("the admin API", "c7", shown["metadata"], shown["context"], shown["notes"])
	if shown["decision_id"] != a.header.Get("Cadenza-Decision-Id") {
		t.Errorf("the decision's id is shown as %v", shown["decision_id"])
	}
	exported := export(t, address, "metadata.user=ada")
	if len(exported) != 99 {
		t.Errorf("%d traces are exported", len(exported))
	}
	for _, line := range exported {
		record := line["trace"].(map[string]any)
		check("the export", record["key"].(string), record["metadata"], record["context"], record["notes"])
	}
	path := filepath.Join(g.dir, "out", "traces.jsonl")
	eventually(t, "the sink has them", func() bool { return len(lines(t, path)["trace"]) == 100 })
	for _, line := range lines(t, path)["trace"][1:] {
		check("the sink", line["key"].(string), line["metadata"], line["context"], line["notes"])
	}

	status, answer := callAdmin(t, "DELETE", address, "/cadenza/traces?metadata.user=ada", "")
	if erased, _ := answer["erased"].(map[string]any); status != http.StatusOK || erased["traces"] != 99.0 {
		t.Errorf("%d %v", status, answer)
	}
	if n := rowsOf(t, g, "decisions"); n != 0 {
		t.Errorf("%d decisions are left", n)
	}
	for _, name := range []string{"cadenza.db", "cadenza.db-wal"} {
		content, err := os.ReadFile(filepath.Join(g.dir, "data", name))
		if err != nil || strings.Contains(string(content), "[redacted:card]") {
			t.Errorf("%s holds what was erased (%v)", name, err)
		}
	}
}
