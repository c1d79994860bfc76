package caddymodule_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestFormerStoreIsClosed has the store of a former configuration closed as soon
// as its last request has ended.
func TestFormerStoreIsClosed(t *testing.T) {
	g := startGateway(t, workspace, options)
	g.site(options, observed)
	if a := g.post("/v1/prompts", `{"keys":["hello"]}`); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	open := func(name string) bool {
		return strings.Contains(g.scrape(), `cadenza_store_up{store="`+filepath.Join(g.dir, "data", name)+`"} 1`)
	}
	eventually(t, "the store is open", func() bool { return open("cadenza.db") })
	g.site(strings.Replace(options, "cadenza.db", "other.db", 1), observed)
	eventually(t, "the former store is closed", func() bool { return open("other.db") && !open("cadenza.db") })
}
