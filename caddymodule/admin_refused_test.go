package caddymodule_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestAdminRefused asks who was refused before a call, and why.
func TestAdminRefused(t *testing.T) {
	const limits = `
		limit customers {
			by metadata.customer
			routes prompts
			requests 1/366d
		}
		limit tokens {
			by api_key
			tokens 5/366d
		}`
	config := fakeProvider("http://localhost:1") + limits
	files := map[string]string{"definitions/endpoints/chat.yaml": "prompt: hello\n"}
	for name, text := range single() {
		files[name] = text
	}
	g := startGateway(t, files, config)
	address := adminOf(t, g, config)
	for range 4 {
		g.post("/v1/prompts", `{"keys":["hello"],"metadata":{"customer":"acme"}}`)
	}
	for range 2 {
		g.post("/v1/prompts", `{"keys":"hello"}`)
		g.post("/v1/prompts", `{"keys":"hello"}`)
		g.post("/v1/endpoints", `{"key":"nobody"}`)
	}
	if a := g.post("/v1/endpoints", `{"key":"chat",`+question+`}`); a.status != http.StatusTooManyRequests {
		t.Fatalf("%d %s", a.status, a.body)
	}
	g.do(http.MethodGet, "/v1/models", "", nil)
	want := []string{
		"1 test 429 rate_limited tokens test The limit tokens",
		"2 test 404 unknown_endpoint . . There is no endpoint nobody",
		"3 test 429 rate_limited customers acme The limit customers",
		"4 test 400 invalid_request . . ",
	}
	strangers := false
	read := func(query string) (rows []string) {
		status, answer := callAdmin(t, "GET", address, "/cadenza/refused"+query, "")
		if status != http.StatusOK {
			t.Fatalf("%d %v", status, answer)
		}
		for _, r := range answer["rows"].([]any) {
			row := r.(map[string]any)
			text := func(name string) string {
				if s, _ := row[name].(string); s != "" {
					return s
				}
				return "."
			}
			line := fmt.Sprint(row["count"], " ", text("api_key"), " ", row["status"], " ", text("code"), " ", text("limit"), " ", text("subject"), " ")
			if examples, _ := row["examples"].([]any); len(examples) > 0 {
				line += examples[0].(map[string]any)["message"].(string)
			}
			if row["api_key"] == "" { // of the process: other tests add some, too
				strangers = strangers || row["status"] == 401.0 && row["route"] == "models"
				continue
			}
			rows = append(rows, line)
		}
		return rows
	}
	var got []string
	eventually(t, "all are stored", func() bool {
		got = read("?since=1d")
		sorted := slices.IsSortedFunc(got, func(a, b string) int { return strings.Compare(b[:1], a[:1]) })
		slices.Sort(got)
		return sorted && slices.EqualFunc(got, want, strings.HasPrefix)
	})
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("%q", got)
	}
	if !strangers {
		t.Error("no refusal without an API key")
	}
	if got := read("?api_key=other"); len(got) > 0 {
		t.Errorf("of another key: %q", got)
	}
	if got := read("?key=chat"); len(got) != 1 {
		t.Errorf("of chat: %q", got)
	}
	if status, answer := callAdmin(t, "GET", address, "/cadenza/refused?customer=x", ""); status != http.StatusBadRequest {
		t.Errorf("%d %v", status, answer)
	}
}

// TestEraseReachesLimits checks that an erased value is in no file and no status of the
// limits, and that its use still counts.
func TestEraseReachesLimits(t *testing.T) {
	const limits = `
		limit customers {
			by metadata.customer
			routes prompts
			requests 2/366d
		}`
	config := fakeProvider("http://localhost:1") + limits
	g := startGateway(t, single(), config)
	address := adminOf(t, g, config)
	ask := func(customer string) int {
		return g.post("/v1/prompts", `{"keys":["hello"],"metadata":{"customer":`+customer+`}}`).status
	}
	// No time and no size has so many digits.
	for _, customer := range []string{`"u-8842"`, `714225390817263`, `"u-8842"`, `"714225390817263"`, `"other"`} {
		if status := ask(customer); status != http.StatusOK {
			t.Fatalf("%s: %d", customer, status)
		}
	}
	seen := func(value string) (places string) {
		for _, name := range []string{"cadenza.db-limits", "cadenza.db-limits-2"} {
			text, err := os.ReadFile(g.dir + "/data/" + name)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), value) {
				places += name + " "
			}
		}
		for _, path := range []string{"/cadenza/status", "/cadenza/limits?subject=" + value, "/cadenza/refused"} {
			if _, answer := callAdmin(t, "GET", address, path, ""); strings.Contains(fmt.Sprint(answer), value) {
				places += path + " "
			}
		}
		return places
	}
	for _, value := range []string{"u-8842", "714225390817263"} {
		eventually(t, "the files have "+value, func() bool { return strings.Contains(seen(value), "-limits") })
		if status, answer := callAdmin(t, "DELETE", address, "/cadenza/traces?dry_run=true&metadata.customer="+value, ""); status != http.StatusOK || seen(value) == "" {
			t.Errorf("a dry run: %d %v, and then it is in %q", status, answer, seen(value))
		}
		if status, answer := callAdmin(t, "DELETE", address, "/cadenza/traces?metadata.customer="+value, ""); status != http.StatusOK {
			t.Fatalf("%d %v", status, answer)
		}
		if places := seen(value); places != "" {
			t.Errorf("%s was erased, and is in %s", value, places)
		}
	}
	if one, two := ask(`"u-8842"`), ask(`714225390817263`); one != http.StatusTooManyRequests || two != http.StatusTooManyRequests {
		t.Errorf("what was used before is forgotten: %d, %d", one, two)
	}
	if status := ask(`"other"`); status != http.StatusOK {
		t.Errorf("another customer: %d", status)
	}
}
