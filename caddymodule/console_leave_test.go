package caddymodule_test

import (
	"bytes"
	"context"
	"errors"
	"runtime/pprof"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// TestConsoleQueriesEndWithTheirRequests has a page and a route whose query would never end.
// It ends once the browser has left.
func TestConsoleQueriesEndWithTheirRequests(t *testing.T) {
	g := startConsoleSite(t)
	viewer := g.signIn("our_viewer")
	gatewaytest.EndlessPeaks(t, g.database())
	// SQLite forgets an interruption that comes before the query runs.
	reading := func() (begun, running bool) {
		var stacks bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&stacks, 2); err != nil {
			t.Fatal(err)
		}
		for stack := range bytes.SplitSeq(stacks.Bytes(), []byte("\n\n")) {
			if bytes.Contains(stack, []byte("sqlite.(*Reader).Peaks")) {
				return true, bytes.Contains(stack, []byte("sqlite3VdbeExec"))
			}
		}
		return false, false
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
		eventually(t, path+" is read", func() bool { _, running := reading(); return running })
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", path, err)
		}
		eventually(t, "the query of "+path+" ends", func() bool { begun, _ := reading(); return !begun })
	}
}
