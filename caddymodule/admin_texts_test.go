package caddymodule_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestStatsOfTwoTexts edits the text of an endpoint's prompt: reports on the old and on the
// new text count separately, although the endpoint's version stays.
func TestStatsOfTwoTexts(t *testing.T) {
	files := single()
	text := func(said string) string {
		return "provider: canned\nmodel: m\nextra: { answer: " + said + " }\nmessages: [ { role: user, content: hi } ]\n"
	}
	files["definitions/prompts/said.yaml"] = text("old")
	files["definitions/endpoints/say.yaml"] = "prompt: said\n"
	g := startGateway(t, files, options)
	address := adminOf(t, g, options)
	ask := func(want string, score int) {
		t.Helper()
		var a answer
		eventually(t, want+" is served", func() bool {
			a = g.post("/v1/endpoints", `{"key":"say"}`)
			return a.status == http.StatusOK && strings.Contains(string(a.body), `"content":"`+want+`"`)
		})
		g.post("/v1/metrics", fmt.Sprintf(`{"trace_id":%q,"score":%d}`, a.header.Get("Cadenza-Trace-Id"), score)).ok(t)
	}
	ask("old", 40)
	g.write("definitions/prompts/said.yaml", text("new"))
	ask("new", 90)
	stats := func(query string) (rows []map[string]any) {
		_, answer := callAdmin(t, "GET", address, "/cadenza/stats?kind=endpoint&key=say&"+query, "")
		list, _ := answer["rows"].([]any)
		for _, row := range list {
			if row := row.(map[string]any); row["reports"] != 0.0 {
				rows = append(rows, row)
			}
		}
		return rows
	}
	var rows []map[string]any
	eventually(t, "both are counted", func() bool {
		rows = stats("by=version")
		return len(rows) == 2
	})
	means := map[any]bool{rows[0]["score_mean"]: true, rows[1]["score_mean"]: true}
	if rows[0]["version"] != rows[1]["version"] || rows[0]["prompt_version"] == rows[1]["prompt_version"] || !means[40.0] || !means[90.0] {
		t.Errorf("%v", rows)
	}
	for _, row := range rows {
		found := stats("version=" + row["prompt_version"].(string))
		if len(found) != 1 || found[0]["score_mean"] != row["score_mean"] {
			t.Errorf("of %v: %v", row["prompt_version"], found)
		}
	}
	if found := stats("version=" + rows[0]["version"].(string)); len(found) != 2 {
		t.Errorf("of the endpoint's version: %v", found)
	}
	if all := stats("by=variant"); len(all) != 1 || all[0]["score_mean"] != 65.0 {
		t.Errorf("together: %v", all)
	}
}
