package gateway_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestCostlyDecisionsAreRemembered repeatedly asks a table that is costly enough for
// the decision cache, with many contexts. Each caller gets the answer for its own
// context, from the cache or not, and the header says which.
func TestCostlyDecisionsAreRemembered(t *testing.T) {
	t.Parallel()
	files := single()
	files["definitions/context.yaml"] += "  user: { type: string }\n"
	config := &strings.Builder{}
	config.WriteString("type: string\ndefault: nobody\ncolumns: [ user, value ]\nmatrix:\n")
	const rows = 20
	for i := range rows {
		fmt.Fprintf(config, "  - [ { matches: '^u%d-[0-9]+$' }, team-%d ]\n", i, i)
	}
	text := config.String()
	files["definitions/remoteconfigs/team.yaml"] = text
	g := startGateway(t, files, options)
	ask := func(user string) (value, status string) {
		t.Helper()
		a := g.post("/v1/remoteconfigs", fmt.Sprintf(`{"keys":["team"],"context":{"user":%q}}`, user))
		if a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return fmt.Sprint(a.json(t)["team"].(map[string]any)["value"]), a.header.Get("Cache-Status")
	}
	for n := range 3 {
		for i := range rows + 1 {
			user, want := fmt.Sprintf("u%d-%d", i, n), fmt.Sprintf("team-%d", i)
			if i == rows {
				want = "nobody"
			}
			if value, status := ask(user); value != want || status != "Cadenza; fwd=miss" {
				t.Errorf("%s: %s, Cache-Status %q", user, value, status)
			}
			// The cache stores an entry a moment later.
			eventually(t, user+" is remembered", func() bool {
				value, status := ask(user)
				if value != want {
					t.Fatalf("%s, again: %s, Cache-Status %q", user, value, status)
				}
				return status == "Cadenza; hit"
			})
		}
	}
	for _, result := range []string{"hit", "miss"} {
		eventually(t, result+" is counted", func() bool { return lookups(g, "decisions", result) >= 3*(rows+1) })
	}
	// After an edit, decisions are made again: the same teams, by other rows.
	moved := strings.SplitAfter(text, "matrix:\n")
	lines := slices.Collect(strings.Lines(moved[1]))
	slices.Reverse(lines)
	revision := func() string {
		return g.post("/v1/remoteconfigs", `{"keys":["checkout"]}`).header.Get("Cadenza-Revision")
	}
	before := revision()
	g.write("definitions/remoteconfigs/team.yaml", moved[0]+strings.Join(lines, ""))
	eventually(t, "the edit is served", func() bool { return revision() != before })
	for i := range rows {
		if value, _ := ask(fmt.Sprintf("u%d-0", i)); value != fmt.Sprintf("team-%d", i) {
			t.Errorf("u%d-0 after an edit: %s", i, value)
		}
	}
	// A table that costs less than a lookup has no cache.
	if a := g.post("/v1/remoteconfigs", `{"keys":["limits"],"context":{"plan":"pro"}}`); a.status != 200 || a.header.Get("Cache-Status") != "" {
		t.Errorf("%d, Cache-Status %q", a.status, a.header.Get("Cache-Status"))
	}
}
