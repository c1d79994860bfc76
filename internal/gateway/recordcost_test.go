//go:build !race

package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// maxRecordBytes is the maximum number of bytes in the store's file for the members of
// a decision, for a table that reads five fields, one of them by a split.
const maxRecordBytes = 340

// TestBytesOfADecision measures the store's file with and without the members of
// 10,000 decisions.
func TestBytesOfADecision(t *testing.T) {
	t.Parallel()
	g := startGateway(t, decidedFiles(), options)
	const traces = 10_000
	w, reader := &discard{header: make(http.Header)}, bytes.NewReader(nil)
	for n := range traces {
		body := fmt.Sprintf(`{"keys":["new_checkout"],"context":{"environment":"production","plan":"pro","locale":"nl-BE","beta":false,"customer_id":"c-%d"}}`, n)
		reader.Reset([]byte(body))
		request := httptest.NewRequest(http.MethodPost, "/v1/remoteconfigs", io.NopCloser(reader))
		request.Header.Set("Authorization", "Bearer "+testKey)
		request.ContentLength = int64(len(body))
		if g.serve(w, request); w.status != http.StatusOK {
			t.Fatal(w.status)
		}
		if n%1000 == 999 { // the queue can't take all at once
			eventually(t, "the traces are stored", func() bool { return rowsOf(t, g, "traces") == n+1 })
		}
	}
	size := func(name, change string) (bytes float64) {
		t.Helper()
		path := filepath.Join(g.dir, name)
		if _, err := g.database().Exec("VACUUM INTO ?", path); err != nil {
			t.Fatal(err)
		}
		copied := gatewaytest.Database(t, path)
		if _, err := copied.Exec(change + "; VACUUM"); err != nil {
			t.Fatal(err)
		}
		if err := copied.QueryRow("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").Scan(&bytes); err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	with := size("with.db", "SELECT 1")
	without := size("without.db", "UPDATE traces SET decision_id = NULL, reason = NULL, arm = NULL, splits = NULL, read_versions = NULL, inputs = NULL")
	if each := (with - without) / traces; each > maxRecordBytes || each < 50 {
		t.Errorf("a decision takes %.0f bytes of a trace's %.0f, at most %d are allowed", each, with/traces, maxRecordBytes)
	} else {
		t.Logf("a decision takes %.0f bytes of a trace's %.0f", each, with/traces)
	}
	if n := rowsOf(t, g, "traces WHERE reason = 'split' AND arm IS NOT NULL AND splits IS NOT NULL AND inputs IS NOT NULL"); n != traces {
		t.Errorf("%d traces have a decision", n)
	}
}

// allocationsOf returns the allocations of a request: the fewest of several measurements,
// because a collection empties the pools, and the gateway's background work allocates, too.
func allocationsOf(serve func()) float64 {
	fewest := testing.AllocsPerRun(200, serve)
	for range 4 {
		fewest = min(fewest, testing.AllocsPerRun(200, serve))
	}
	return fewest
}

// TestAllocationsOfRequests checks that a request allocates for its placeholders and the
// ids of its headers, and nothing for its evidence or its record. An answer of more than
// 2 KB also allocates for the header with its length.
func TestAllocationsOfRequests(t *testing.T) {
	for _, policy := range []definition.LogPolicy{definition.LogNone, definition.LogMetadata, definition.LogContent} {
		check := func(server func(work) func(), kind work, allowed float64) {
			t.Helper()
			serve := server(kind)
			if n := allocationsOf(serve); n > allowed {
				t.Errorf("%s, %s: %.0f allocations, at most %.0f are allowed", kind.name, policy, n, allowed)
			}
		}
		server := workServer(t, workFiles(), policy)
		check(server, works[0], 2)
		check(server, works[1], 2)
		check(server, works[2], 3)
		check(workServer(t, decidedFiles(), policy), work{"split", "/v1/remoteconfigs", decidedBody}, 2)
	}
}
