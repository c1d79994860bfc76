package caddymodule_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestFormerStoreIsClosed checks that the store of a previous configuration is closed as
// soon as its last request has ended.
func TestFormerStoreIsClosed(t *testing.T) {
	g := startGateway(t, workspace, options)
	g.site(options, observed)
	g.post("/v1/prompts", `{"keys":["hello"]}`).ok(t)
	open := func(name string) bool {
		return strings.Contains(g.scrape(), `cadenza_store_up{store="`+filepath.Join(g.dir, "data", name)+`"} 1`)
	}
	eventually(t, "the store is open", func() bool { return open("cadenza.db") })
	g.site(strings.Replace(options, "cadenza.db", "other.db", 1), observed)
	eventually(t, "the former store is closed", func() bool { return open("other.db") && !open("cadenza.db") })
}
