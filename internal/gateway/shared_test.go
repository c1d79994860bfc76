package gateway_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/internal/redact"
)

// rowsOf counts the rows of a table of the store.
func rowsOf(t testing.TB, g *gateway, table string) int {
	t.Helper()
	return gatewaytest.Rows(t, g.database(), table)
}

// idsOf returns the trace ids of an answer, by key.
func idsOf(t *testing.T, a answer) map[string]string {
	t.Helper()
	if a.status != http.StatusOK {
		t.Fatalf("%d %.200s", a.status, a.body)
	}
	return gatewaytest.TraceIDs(t, a.body)
}

// TestWhatIsSmallIsStoredWithEachTrace checks that small members are stored with each trace,
// because an extra row would cost more than copies, and so are members of a single answer.
func TestWhatIsSmallIsStoredWithEachTrace(t *testing.T) {
	t.Parallel()
	files := maps.Clone(workspace)
	files["definitions/prompts/hello.yaml"] += "log: metadata\n"
	g := startGateway(t, files, logContent, with(func(c *gw.WorkspaceConfig) { c.Redact = redact.Card }))
	large := strings.Repeat("card 4111 1111 1111 1111, ", 500)
	for body, want := range map[string]int{
		`{"keys":["hello","reply"],"variables":{"question":"a"}}`:                                                                                2,
		`{"keys":["hello"],"metadata":{"user":"ada","note":"` + large + `"},"variables":{"question":"a"}}`:                                       1,
		`{"keys":["hello","reply"],"metadata":{"user":"ada"},"context":{"locale":"nl"},"variables":{"question":"4111 1111 1111 1111","more":1}}`: 2,
	} {
		ids := idsOf(t, g.post("/v1/prompts", body))
		var sent struct{ Metadata, Context, Variables json.RawMessage }
		if err := json.Unmarshal([]byte(body), &sent); len(ids) != want || err != nil {
			t.Fatalf("%v: %v, %v", body, ids, err)
		}
		redacted := func(text json.RawMessage) string {
			return strings.ReplaceAll(string(text), "4111 1111 1111 1111", "[redacted:card]")
		}
		for key, id := range ids {
			record := g.ended(t, id)
			if got, want := string(record.Metadata), redacted(sent.Metadata); got != want {
				t.Errorf("%s: metadata %.100s, want %.100s", key, got, want)
			}
			if key == "hello" {
				if len(record.Context) > 0 || len(record.Variables) > 0 {
					t.Errorf("%s: context %s, variables %s", key, record.Context, record.Variables)
				}
				continue
			}
			if got, want := string(record.Context), redacted(sent.Context); got != want {
				t.Errorf("%s: context %s, want %s", key, got, want)
			}
			if got, want := string(record.Variables), redacted(sent.Variables); got != want {
				t.Errorf("%s: variables %s, want %s", key, got, want)
			}
		}
	}
	if n := rowsOf(t, g, "decisions"); n != 0 {
		t.Errorf("%d decisions are stored", n)
	}
}
