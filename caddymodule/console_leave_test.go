package caddymodule_test

import (
	"bytes"
	"context"
	"errors"
	"runtime/pprof"
	"testing"
)

// TestConsoleQueriesEndWithTheirRequests has a page and a route whose query would never end.
// It ends once the browser has left.
func TestConsoleQueriesEndWithTheirRequests(t *testing.T) {
	g := startConsoleSite(t)
	viewer := g.signIn("our_viewer")
	if _, err := g.database().ExecContext(t.Context(), `
DROP TABLE limit_peaks;
CREATE VIEW limit_peaks AS WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n)
SELECT iif(i < 0, 'default', 'none') AS workspace, i AS hour, '' AS limit_name, 'x' AS subject, 0 AS percent, '' AS measure, '' AS ceiling, 0.0 AS used FROM n`); err != nil {
		t.Fatal(err)
	}
	reading := func() bool {
		var stacks bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&stacks, 2); err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(stacks.Bytes(), []byte("sqlite.(*Reader).Peaks"))
	}
	for _, path := range []string{"/console/limits?subject=x", "/console/api/peaks?subject=x"} {
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			response, err := g.send(ctx, "GET", path, "", viewer)
			if err == nil {
				err = errors.Join(errors.New("it answers"), response.Body.Close())
			}
			left <- err
		}()
		eventually(t, path+" is read", reading)
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", path, err)
		}
		eventually(t, "the query of "+path+" ends", func() bool { return !reading() })
	}
}
