package caddymodule_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestAdminDecision asks for a decision by its id, by one of its traces and by
// beginnings of ids.
func TestAdminDecision(t *testing.T) {
	g, address, _ := startRecorded(t)
	ask := func() (decision string, ids []string) {
		t.Helper()
		answer := g.post("/v1/prompts", `{"keys":["reply","hello"],`+question+`}`)
		var body map[string]struct {
			TraceID string `json:"trace_id"`
		}
		if err := json.Unmarshal([]byte(answer.body), &body); err != nil || len(body) != 2 {
			t.Fatalf("%s: %v", answer.body, err)
		}
		return answer.header.Get("Cadenza-Decision-Id"), []string{body["reply"].TraceID, body["hello"].TraceID}
	}
	decision, ids := ask()
	second, _ := ask()
	eventually(t, "both decisions are stored", func() bool {
		status, _ := callAdmin(t, "GET", address, "/cadenza/traces/"+second, "")
		return status == http.StatusOK
	})

	_, story := callAdmin(t, "GET", address, "/cadenza/traces/"+ids[0], "")
	others, _ := story["others"].([]any)
	if len(others) != 1 || others[0].(map[string]any)["trace_id"] != ids[1] || story["trace"].(map[string]any)["decision_id"] != decision {
		t.Errorf("%v", story)
	}
	for _, path := range []string{"/cadenza/traces/" + decision, "/cadenza/traces/" + strings.ReplaceAll(decision, "-", ""), "/cadenza/traces/" + decision[:28], "/cadenza/traces?decision=" + decision, "/cadenza/traces?decision=" + decision[:28]} {
		status, answer := callAdmin(t, "GET", address, path, "")
		if traces, _ := answer["traces"].([]any); status != http.StatusOK || len(traces) != 2 {
			t.Errorf("%s: %d %v", path, status, answer)
		}
		if strings.Contains(path, "/traces/") && (answer["decision_id"] != decision || answer["metrics"] == nil || strings.Join(listed(t, answer), " ") != strings.Join(ids, " ")) {
			t.Errorf("%s: %v", path, answer)
		}
	}
	if lines := export(t, address, "decision="+decision); len(lines) != 2 {
		t.Errorf("exported %v", lines)
	}
	arm, _ := story["trace"].(map[string]any)["arm"].(string)
	if _, answer := callAdmin(t, "GET", address, "/cadenza/traces?decision="+decision+"&arm="+arm, ""); arm == "" || len(listed(t, answer)) != 1 {
		t.Errorf("by arm: %v", answer)
	}
	if _, answer := callAdmin(t, "GET", address, "/cadenza/traces?arm=none", ""); len(listed(t, answer)) != 0 {
		t.Errorf("by another arm: %v", answer)
	}

	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/cadenza/traces?decision=" + ids[0]:                               {400, "no id of a decision"},
		"/cadenza/traces?decision=" + decision[:7]:                         {400, "first 8 or more"},
		"/cadenza/traces?decision=00000000":                                {404, "no decision whose id begins"},
		"/cadenza/traces?decision=00000000-0000-8a00-8000-000000000000":    {200, ""},
		"/cadenza/traces/00000000-0000-8a00-8000-000000000000":             {404, "no decision 0"},
		"/cadenza/traces/" + decision + "?workspace=other":                 {404, "workspace"},
		"/cadenza/export?decision=x":                                       {400, "decision"},
		"/cadenza/traces?decision=" + decision + "&workspace=default":      {200, ""},
		"/cadenza/traces/" + decision + "0":                                {400, "no trace id"},
		"/cadenza/traces?decision=" + decision[:8] + "&workspace=default&": {409, second + "  decision"},
		"/cadenza/export?decision=" + decision[:8]:                         {409, decision + "  decision"},
	} {
		status, answer := callAdmin(t, "GET", address, path, "")
		// A minute may end between the two decisions.
		if want.status == 409 && decision[:8] != second[:8] {
			continue
		}
		if message, _ := answer["error"].(string); status != want.status || !strings.Contains(message, want.text) {
			t.Errorf("%s: %d %v", path, status, answer)
		}
	}
}
