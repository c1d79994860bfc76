package adminapi

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestFollowPoints: a point says how far rows and calls are known, for half an hour.
func TestFollowPoints(t *testing.T) {
	const now = int64(14_363_000_000_123)
	for _, mark := range []int64{now, now - 1, now - 8000, now - markMask} {
		for _, seq := range []int64{0, 1, 1 << 28} {
			if gotSeq, gotMark := splitPoint(followPoint(seq, mark), now); gotSeq != seq || gotMark != mark {
				t.Errorf("%d and %d came back as %d and %d", seq, mark, gotSeq, gotMark)
			}
		}
	}
	for _, old := range []int64{0, 1841, markMask} { // of a version without marks, or of the beginning
		if seq, mark := splitPoint(old, now); seq != old || mark != 0 {
			t.Errorf("%d is %d and %d", old, seq, mark)
		}
	}
}

// TestPagesHaveRunningCalls at their places: none is on two pages, and none twice.
func TestPagesHaveRunningCalls(t *testing.T) {
	id := func(n byte) trace.ID { return trace.ID{n} }
	for name, test := range map[string]struct {
		stored, calls []byte
		next, before  byte
		limit         int
		want          []byte
		wantNext      byte
	}{
		"none stored":            {nil, []byte{1, 2}, 0, 0, 5, []byte{2, 1}, 0},
		"between":                {[]byte{9, 5}, []byte{1, 7}, 0, 0, 5, []byte{9, 7, 5, 1}, 0},
		"ended meanwhile":        {[]byte{9, 5}, []byte{5, 9}, 0, 0, 5, []byte{9, 5}, 0},
		"of the page before":     {[]byte{3}, []byte{8, 2}, 0, 5, 5, []byte{3, 2}, 0},
		"of the next page":       {[]byte{9, 5}, []byte{4, 6}, 5, 0, 3, []byte{9, 6, 5}, 5},
		"no room":                {[]byte{9, 5}, []byte{7}, 5, 0, 2, []byte{9, 7}, 7},
		"no room, the last page": {[]byte{9}, []byte{7, 8}, 0, 0, 2, []byte{9, 8}, 8},
	} {
		page := sqlite.Page{Next: id(test.next)}
		for _, n := range test.stored {
			page.Records = append(page.Records, &trace.Record{ID: id(n), State: trace.StateEnded})
		}
		var calls []runningCall
		for _, n := range test.calls {
			calls = append(calls, runningCall{&trace.Record{ID: id(n), State: trace.StateStarted}, 1})
		}
		addRunning(&page, calls, id(test.before), test.limit)
		var got []byte
		for _, r := range page.Records {
			got = append(got, r.ID[0])
			if r.State == trace.StateStarted && slices.Contains(test.stored, r.ID[0]) {
				t.Errorf("%s: %d is shown as a call, and it has ended", name, r.ID[0])
			}
		}
		if !slices.Equal(got, test.want) || page.Next != id(test.wantNext) {
			t.Errorf("%s: %d, next %d; want %d, next %d", name, got, page.Next[0], test.want, test.wantNext)
		}
	}
}

// TestExportHasCallsThatEndMeanwhile: a call whose end is stored when the export has
// passed its place is exported as it ended, unless the filter is of others.
func TestExportHasCallsThatEndMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	authority, err := trace.NewAuthority(make([]byte, 32), "w")
	if err != nil {
		t.Fatal(err)
	}
	at := time.UnixMilli(1790000000000)
	record := func(at time.Time) *trace.Record {
		return &trace.Record{ID: authority.New(trace.KindEndpoint, at), Time: at, Workspace: "w", Kind: trace.KindEndpoint, Key: "k"}
	}
	commit := func(r *trace.Record) {
		t.Helper()
		if err := store.Commit(t.Context(), &recorder.Batch{Records: []*trace.Record{r}}); err != nil {
			t.Fatal(err)
		}
	}
	for state, want := range map[trace.State]int{trace.StateEnded: 2, trace.StateStarted: 0} {
		call, later := record(at), record(at.Add(time.Second))
		at = at.Add(time.Minute)
		commit(later)
		w := &Workspace{
			Workspace: &gateway.Workspace{WorkspaceConfig: gateway.WorkspaceConfig{Name: "w"}},

			Mark: func() int64 { return 1 },
			Calls: func(yield func(*trace.Record, int64) bool) {
				started := *call
				started.State = trace.StateStarted
				yield(&started, 1)
			},
			Call: func(trace.ID) *trace.Record {
				commit(call)
				return nil
			},
		}
		reader, err := sqlite.OpenReader(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		f := trace.Filter{Workspace: "w", Since: call.Time}
		if state == trace.StateStarted {
			f.State = &state
		}
		var ids []trace.ID
		if err := w.exportRunning(t.Context(), reader, f, func(r *trace.Record, _ []trace.Metrics) error {
			ids = append(ids, r.ID)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if len(ids) != want || want > 0 && ids[0] != call.ID {
			t.Errorf("%s: exported %v; the call is %v", state, ids, call.ID)
		}
	}
}
