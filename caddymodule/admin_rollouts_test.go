package caddymodule_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/trace"
)

// buttonGuard is a table whose split has a guard.
const buttonGuard = `type: string
default: plain
rules:
  - id: colours
    split: { by: customer, guard: { new: NEW, control: blue, steps: [STEP, 100%], every: 1h, need: 300 units, stop: [ { value: broken, as: rate, ratio: 1.2 } ] } }
`

// TestRollouts takes a rollout from its start by harm and a resume to its end, and what is
// edited starts it anew.
func TestRollouts(t *testing.T) {
	files := map[string]string{"definitions/context.yaml": "fields: { customer: { type: string } }\n"}
	config := withoutFake
	edit := strings.NewReplacer("NEW", "green", "STEP", "50%").Replace
	files["definitions/remoteconfigs/button.yaml"] = edit(buttonGuard)
	g := startGateway(t, files, config)
	address := adminOf(t, g, config)
	const name, path = "remoteconfigs/button/colours", "/cadenza/rollouts/remoteconfigs%2Fbutton%2Fcolours"
	get := func(path string) map[string]any {
		t.Helper()
		status, answer := callAdmin(t, http.MethodGet, address, path, "")
		if status != http.StatusOK {
			t.Fatalf("%s: %d %v", path, status, answer)
		}
		return answer
	}
	becomes := func(what string, row int, state string, share int) map[string]any {
		t.Helper()
		var one map[string]any
		eventually(t, what, func() bool {
			one = get(path)
			return one["row"] == float64(row)
		})
		if one["state"] != state || one["share"] != float64(share) {
			t.Errorf("%s: %v", what, one)
		}
		return one
	}
	becomes("it starts", 1, "running", 50_000)

	arms := make(map[string]int)
	ask := func(unit int) (value string, id string) {
		a := g.post("/v1/remoteconfigs", fmt.Sprintf(`{"keys":["button"],"context":{"customer":"c-%d"}}`, unit)).ok(t)
		var answer map[string]struct {
			Value   string
			TraceID string `json:"trace_id"`
		}
		if err := json.Unmarshal(a.body, &answer); err != nil {
			t.Fatal(err, string(a.body))
		}
		return answer["button"].Value, answer["button"].TraceID
	}
	var first string
	for unit := range 400 {
		value, id := ask(unit)
		if arms[value]++; value == "green" {
			g.post("/v1/metrics", fmt.Sprintf(`{"trace_id":%q,"values":{"broken":1}}`, id)).ok(t)
			if first == "" {
				first = id
			}
		}
	}
	if arms["green"] < 150 || arms["blue"] < 150 {
		t.Fatal(arms)
	}
	one := becomes("harm is seen", 2, "held", 50_000)
	if guard := one["evidence"].(map[string]any)["guards"].([]any)[0].(map[string]any); guard["harm"] != true || guard["name"] != "broken" {
		t.Error(one["evidence"])
	}
	if conditions := fmt.Sprint(get("/cadenza/status")["workspaces"].(map[string]any)["default"].(map[string]any)["degraded"]); !strings.Contains(conditions, "rollout_stopped") || !strings.Contains(conditions, name) {
		t.Error(conditions)
	}
	eventually(t, "the log says so", g.said(`"msg":"a guard stopped a rollout"`))
	var record *trace.Record
	eventually(t, "its trace is stored", func() (stored bool) {
		record, stored = g.trace("data/cadenza.db", first)
		return stored
	})
	if splits := string(record.Splits); !strings.Contains(splits, `"rollout":1`) {
		t.Error(splits)
	}

	send := func(body string, want int, says string) {
		t.Helper()
		if status, answer := callAdmin(t, http.MethodPost, address, path, body); status != want || !strings.Contains(fmt.Sprint(answer), says) {
			t.Errorf("%s: %d %v", body, status, answer)
		}
	}
	send(`{"do":"resum"}`, http.StatusBadRequest, `did you mean "resume"?`)
	send(`{"do":"hold"}`, http.StatusConflict, "")
	send(`{"do":"back","by":"ada"}`, http.StatusOK, "by:ada")
	if value, _ := ask(0); value != "blue" {
		t.Error(value)
	}
	send(`{"do":"resume"}`, http.StatusOK, "by:local")
	becomes("it is resumed", 4, "running", 50_000)
	eventually(t, "the store counts anew", func() bool {
		one := get(path)
		return one["evidence"] != nil && one["evidence"].(map[string]any)["since"] == one["since"]
	})
	becomes("what was reported before the resume does not count", 4, "running", 50_000)
	send(`{"do":"finish"}`, http.StatusOK, "finished")
	for unit := range 20 {
		if value, _ := ask(unit); value != "green" {
			t.Error(unit, value)
		}
	}
	g.write("definitions/remoteconfigs/button.yaml", strings.NewReplacer("NEW", "red", "STEP", "1%").Replace(buttonGuard))
	becomes("another answer starts it anew", 6, "running", 1000)
	if err := os.WriteFile(filepath.Join(g.dir, "definitions/remoteconfigs/button.yaml"), []byte("# a remark\n"+strings.NewReplacer("NEW", "red", "STEP", "1%").Replace(buttonGuard)), 0o600); err != nil {
		t.Fatal(err)
	}
	g.write("definitions/remoteconfigs/button.yaml", edit(buttonGuard))
	becomes("the answer of before starts it anew", 7, "running", 50_000)
	list := get("/cadenza/rollouts")["rollouts"].([]any)
	if rows := list[0].(map[string]any)["rows"].([]any); len(list) != 1 || len(rows) != 1 || rows[0].(map[string]any)["number"] != 7.0 {
		t.Error(list)
	}
	for path, want := range map[string]string{"/remoteconfigs/button/colour": `did you mean "` + name, "/x?row=1": `there is no parameter "row"`} {
		if status, answer := callAdmin(t, http.MethodGet, address, "/cadenza/rollouts"+path, ""); status != http.StatusNotFound && status != http.StatusBadRequest || !strings.Contains(answer["error"].(string), want) {
			t.Errorf("%s: %d %v", path, status, answer)
		}
	}
	audit := fmt.Sprint(get("/cadenza/audit?action=rollout"))
	if !strings.Contains(audit, "after:back, 0 %") || !strings.Contains(audit, "before:50 %") || !strings.Contains(audit, "subject:"+name) {
		t.Error(audit)
	}
	g.write("definitions/remoteconfigs/button.yaml", "type: string\ndefault: plain\n")
	eventually(t, "it is gone", func() bool {
		status, answer := callAdmin(t, http.MethodPost, address, path, `{"do":"hold"}`)
		return status == http.StatusNotFound && strings.Contains(answer["error"].(string), "no split")
	})
}
