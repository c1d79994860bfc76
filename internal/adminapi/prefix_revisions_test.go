package adminapi

import (
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// TestCandidates: an error for the beginning of several revisions names them.
func TestCandidates(t *testing.T) {
	at := time.Date(2026, 11, 22, 3, 13, 5, 0, time.UTC)
	found := []sqlite.ServedRevision{{Revision: "aaaa22222222", Served: at}, {Revision: "aaaa11111111", Served: at.Add(-time.Hour)}}
	const both = "\n  aaaa22222222  served 2026-11-22T03:13:05Z\n  aaaa11111111  served 2026-11-22T02:13:05Z"
	if got := candidates(found); got != both {
		t.Errorf("%q, want %q", got, both)
	}
	for len(found) <= maxCandidates {
		found = append(found, sqlite.ServedRevision{Revision: "aaaa00000000", Served: at})
	}
	if got, want := candidates(found), "\n  aaaa00000000  served 2026-11-22T03:13:05Z\n  and others"; got[len(got)-len(want):] != want {
		t.Errorf("%q does not end with %q", got, want)
	}
}
