package caddymodule_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestMetadataCeiling goes to the ceiling of metadata on every route that takes
// it, by default and with the option.
func TestMetadataCeiling(t *testing.T) {
	g := startGateway(t, workspace, options)
	metadata := func(bytes int) string { return `{"n":"` + strings.Repeat("x", bytes-len(`{"n":""}`)) + `"}` }
	id := g.post("/v1/prompts", `{"keys":["hello"]}`).header.Get("Cadenza-Trace-Id")
	check := func(limit int) {
		t.Helper()
		for path, body := range map[string]string{
			"/v1/prompts":                    `{"keys":["hello"],"metadata":`,
			"/v1/remoteconfigs":              `{"keys":["limits"],"metadata":`,
			"/v1/endpoints":                  `{"key":"chat","variables":{"question":"?"},"metadata":`,
			"/v1/metrics":                    `{"metadata":`,
			"/v2/prompts/" + id + "/metrics": `{"metadata":`,
		} {
			if a := g.post(path, body+metadata(limit)+"}"); a.status != http.StatusOK {
				t.Errorf("%s at the ceiling of %d: %d %s", path, limit, a.status, a.body)
			}
			a := g.post(path, body+metadata(limit+1)+"}")
			if a.status != http.StatusBadRequest {
				t.Errorf("%s past the ceiling of %d: %d", path, limit, a.status)
			}
			checkError(t, a, "invalid_request", "metadata")
		}
	}
	check(16 << 10)
	if err := g.load(options + "max_metadata_size 100B\n"); err != nil {
		t.Fatal(err)
	}
	check(100)
}
