package sqlite

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// answersOf returns the records of a request of the default workspace with several keys.
// Every second record logs its content.
func answersOf(authority *trace.Authority, at time.Time, count int, shared *trace.Shared) []*trace.Record {
	records := make([]*trace.Record, count)
	decision := authority.New(trace.KindDecision, at)
	for i := range records {
		records[i] = &trace.Record{
			ID: authority.New(trace.KindRemoteConfig, at), Time: at, Workspace: "default", APIKey: "app",
			Kind: trace.KindRemoteConfig, Key: fmt.Sprintf("k%d", i), Version: "0123456789ab", Revision: "ba9876543210",
			Status: 200, Latency: 40 * time.Microsecond, Response: []byte("1"),
			Decision: decision, Shared: shared, SharesContent: i%2 == 1,
		}
	}
	return records
}

// shownAs returns a record that shares members as it is read: with them.
func shownAs(r *trace.Record) *trace.Record {
	shown := *r
	if s := shown.Shared; s != nil {
		shown.Notes = slices.Concat(s.Notes, shown.Notes)
		shown.Metadata = s.Metadata
		if shown.SharesContent {
			shown.Context, shown.Variables = s.Context, s.Variables
		}
	}
	shown.Shared, shown.SharesContent = nil, false
	return &shown
}

func fullShared(text string) *trace.Shared {
	return &trace.Shared{
		Notes:    []string{"context.seats: type_mismatch"},
		Metadata: fmt.Appendf(nil, `{"user":%q}`, text), Context: fmt.Appendf(nil, `{"plan":%q}`, text), Variables: fmt.Appendf(nil, `{"q":%q}`, text),
	}
}

// countDecisions counts the rows of decisions, and the rows with content.
func countDecisions(t testing.TB, s *Store) (rows, contents int64) {
	t.Helper()
	err := s.conn.QueryRowContext(t.Context(), "SELECT count(*), count(coalesce(context, variables)) FROM decisions").Scan(&rows, &contents)
	if err != nil {
		t.Fatal(err)
	}
	return rows, contents
}

func wantDecisions(t testing.TB, s *Store, when string, rows, contents int64) {
	t.Helper()
	if gotRows, gotContents := countDecisions(t, s); gotRows != rows || gotContents != contents {
		t.Errorf("%s: %d decisions, %d with content; want %d and %d", when, gotRows, gotContents, rows, contents)
	}
}

// TestSharedMembersAreShownOnEveryTrace reads traces in every way: they show the members
// that are stored once.
func TestSharedMembersAreShownOnEveryTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	at := time.UnixMilli(1790000000123)
	authority := mustAuthority(t)
	records := answersOf(authority, at, 6, fullShared("ada"))
	records[0].Notes = []string{"1 undeclared variables"}
	// One trace of a prompt, and one with all members that a call has.
	records[2].Kind, records[2].Variant, records[2].Provider, records[2].Model = trace.KindPrompt, "nl", "openai", "m"
	full := fullRecord(authority.New(trace.KindEndpoint, at), at)
	full.Metadata, full.Context, full.Variables = nil, nil, nil
	full.Decision, full.Shared, full.SharesContent = records[0].Decision, records[0].Shared, true
	alone := fullRecord(authority.New(trace.KindEndpoint, at), at)
	alone.Decision = records[0].Decision // it belongs to the decision, and has members of its own
	records = append(records, full, alone)
	mustCommit(t, s, recorder.Batch{Records: records[:4]})
	mustCommit(t, s, recorder.Batch{Records: records[4:]})
	wantDecisions(t, s, "after two batches", 1, 1)

	var want, short []*trace.Record
	for _, r := range records {
		want = append(want, shownAs(r))
		listed := *shownAs(r)
		listed.Context, listed.Variables, listed.Messages, listed.Response, listed.ToolCalls = nil, nil, nil, nil, nil
		short = append(short, &listed)
	}
	check := func(name string, want, got []*trace.Record, err error) {
		t.Helper()
		byID := cmpopts.SortSlices(func(a, b *trace.Record) bool { return compareIDs(a.ID, b.ID) < 0 })
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), byID); diff != "" || err != nil {
			t.Errorf("%s (-want +got): %v\n%s", name, err, diff)
		}
	}
	var got []*trace.Record
	for _, r := range records {
		record, err := s.Trace(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, record)
	}
	check("each", want, got, nil)
	filter := trace.Filter{Workspace: "default"}
	page, err := s.Traces(t.Context(), filter, trace.ID{}, 100, time.Minute)
	check("the list", short, page.Records, err)
	got, _, err = s.Follow(t.Context(), filter, 0, 100)
	check("following", short, got, err)
	got = nil
	err = s.Export(t.Context(), filter, func(r *trace.Record, _ []trace.Metrics) error {
		got = append(got, r)
		return nil
	})
	check("the export", want, got, err)
	d, err := mustOutbox(t, path).Next(t.Context(), trace.Position{}, 100)
	check("a sink", want, d.Records, err)

	filter.Metadata = []trace.MetadataMatch{{Name: "user", Value: `"ada"`}}
	page, err = s.Traces(t.Context(), filter, trace.ID{}, 100, time.Minute)
	check("the list by metadata", short[:7], page.Records, err)
	filter.Metadata[0].Value = `"bob"`
	page, err = s.Traces(t.Context(), filter, trace.ID{}, 100, time.Minute)
	check("the list by other metadata", nil, page.Records, err)
}

// TestSharedMembersOfAnInterruptedCall shows the members that its start shared.
func TestSharedMembersOfAnInterruptedCall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	records := answersOf(mustAuthority(t), time.UnixMilli(1790000000123), 2, fullShared("ada"))
	for _, r := range records {
		r.State = trace.StateInterrupted
	}
	mustCommit(t, s, recorder.Batch{Interrupted: records})
	for _, r := range records {
		want := shownAs(r)
		got, err := s.Trace(t.Context(), r.ID)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%v, %s", err, diff)
		}
	}
	wantDecisions(t, s, "after the crash", 1, 1)
}

// TestDecisionsGoWithTheLastOfTheirTraces, and their content with the last trace that shows
// it: no decision is left without a trace, and no trace without its row.
func TestDecisionsGoWithTheLastOfTheirTraces(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	authority, now := mustAuthority(t), time.Now()
	records := answersOf(authority, now, 4, fullShared("ada"))
	remove := func(which ...int) {
		t.Helper()
		for _, i := range which {
			if _, err := s.conn.ExecContext(t.Context(), "DELETE FROM traces WHERE id = ?", records[i].ID[:]); err != nil {
				t.Fatal(err)
			}
		}
	}
	mustCommit(t, s, recorder.Batch{Records: records[:1]})
	wantDecisions(t, s, "of a trace without content", 1, 0)
	mustCommit(t, s, recorder.Batch{Records: records[1:]})
	wantDecisions(t, s, "of some with content", 1, 1)
	mustCommit(t, s, recorder.Batch{Records: records}) // they replace themselves
	wantDecisions(t, s, "once they were replaced", 1, 1)
	remove(0, 1)
	wantDecisions(t, s, "with one of each left", 1, 1)
	remove(3)
	wantDecisions(t, s, "with one left that shows no content", 1, 0)
	mustCommit(t, s, recorder.Batch{Records: records[2:3]})
	wantDecisions(t, s, "once that was written again", 1, 0)
	remove(2)
	wantDecisions(t, s, "with none left", 0, 0)
	mustCommit(t, s, recorder.Batch{Records: records[3:]}) // the late ones
	wantDecisions(t, s, "with one that came late", 1, 1)
	if got, err := s.Trace(t.Context(), records[3].ID); err != nil || string(got.Context) != `{"plan":"ada"}` {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRetentionDeletesDecisions(t *testing.T) {
	t.Parallel()
	limit := int64(0)
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db"), CurrentRetention: always(time.Hour), CurrentMaxSize: func() int64 { return limit }})
	authority, now := mustAuthority(t), time.Now()
	text := string(bytes.Repeat([]byte("x"), 10_000))
	for _, age := range []time.Duration{2 * time.Hour, 30 * time.Minute, 0} {
		for range 20 {
			mustCommit(t, s, recorder.Batch{Records: answersOf(authority, now.Add(-age), 50, fullShared(text))})
		}
	}
	wantDecisions(t, s, "before", 60, 60)
	used := func() int64 {
		t.Helper()
		n, err := queryInt(t.Context(), s.conn, usedSQL)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	// 30 KB a request, 300 bytes a trace.
	if all := used(); all > 4<<20 {
		t.Errorf("3,000 traces of 60 requests take %d bytes", all)
	}
	maintain(t, s, now)
	wantDecisions(t, s, "after the retention", 40, 40)
	limit = used() / 2
	maintain(t, s, now)
	rows, _ := countDecisions(t, s)
	if used() > limit || rows == 0 || rows > 25 {
		t.Errorf("%d decisions are left, in %d bytes of %d", rows, used(), limit)
	}
	for part, query := range map[string]string{
		"decisions without a trace": "SELECT count(*) FROM decisions WHERE id NOT IN (SELECT decision_id FROM traces WHERE shared IS NOT NULL)",
		"traces without a decision": "SELECT count(*) FROM traces WHERE shared IS NOT NULL AND decision_id NOT IN (SELECT id FROM decisions)",
	} {
		if n, err := queryInt(t.Context(), s.conn, query); err != nil || n != 0 {
			t.Errorf("%d %s (%v)", n, part, err)
		}
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestErasureOfSharedMembers erases some of the traces of a request by reports on them, and
// then all of them by their shared members. Content that no trace shows any more is gone
// from the bytes of the file.
func TestErasureOfSharedMembers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	authority, now := mustAuthority(t), time.Now()
	for _, size := range []int{1, 2000} { // within a page, and of many
		shared := &trace.Shared{
			Metadata: []byte(`{"user":"ada","text":"` + string(bytes.Repeat([]byte("the metadata."), size)) + `"}`),
			Context:  bytes.Repeat([]byte("the context."), size), Variables: bytes.Repeat([]byte("the variables."), size),
		}
		records := answersOf(authority, now, 100, shared)
		others := answersOf(authority, now, 3, &trace.Shared{Metadata: []byte(`{"user":"bob"}`), Context: []byte("another's context")})
		batch := recorder.Batch{Records: slices.Concat(records, others)}
		for _, r := range records {
			if m := metricsOf(r.ID); r.SharesContent {
				m.ConversationID = new("c1")
				batch.Metrics = append(batch.Metrics, m)
			}
		}
		mustCommit(t, s, batch)
		check := func(text string, want bool) {
			t.Helper()
			if bytes.Contains(rawBytes(t, path), []byte(text)) != want {
				t.Errorf("%q in the file: %t, want %t", text, !want, want)
			}
		}
		check("the context.", true)

		erased, err := Erase(t.Context(), path, trace.Selector{Workspace: "default", ConversationID: "c1"})
		if err != nil || erased.Traces != 50 {
			t.Fatalf("%+v, %v", erased, err)
		}
		check("the context.", false)
		check("the variables.", false)
		check("the metadata.", true)
		if got, err := s.Trace(t.Context(), records[0].ID); err != nil || !bytes.Equal(got.Metadata, shared.Metadata) {
			t.Errorf("%+v, %v", got, err)
		}
		erased, err = Erase(t.Context(), path, trace.Selector{Workspace: "default", MetadataName: "user", MetadataValue: `"ada"`})
		if err != nil || erased.Traces != 50 {
			t.Fatalf("%+v, %v", erased, err)
		}
		check("the metadata.", false)
		check("another's context", true)
		wantDecisions(t, s, "of others", 1, 1)
		if _, err := Erase(t.Context(), path, trace.Selector{Workspace: "default", MetadataName: "user", MetadataValue: `"bob"`}); err != nil {
			t.Fatal(err)
		}
		wantDecisions(t, s, "in the end", 0, 0)
	}
}

// TestErasureCountsWhatGoesWithATrace: shared members count once in the size of a
// transaction.
func TestErasureCountsWhatGoesWithATrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	e := &erasure{conn: s.conn, turn: turnOf(path), selector: trace.Selector{Workspace: "default", MetadataName: "user", MetadataValue: `"ada"`}}
	text := bytes.Repeat([]byte("x"), eraseBytes/2)
	mustCommit(t, s, recorder.Batch{Records: answersOf(mustAuthority(t), time.Now(), 10, &trace.Shared{Metadata: []byte(`{"user":"ada"}`), Context: text})})
	if err := e.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.find(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows, err := collect(t.Context(), e.conn, scanDoomed, doomedTraces, 0, 0, e.marks.Traces, "default", eraseRows)
	if err != nil || len(rows) != 10 {
		t.Fatalf("%+v, %v", rows, err)
	}
	size := int64(0)
	for _, r := range rows {
		size += r.size
	}
	if size < eraseBytes/2 || size > eraseBytes/2+1000 {
		t.Errorf("ten traces and what they share count as %d bytes", size)
	}
}

// TestListsAreBoundedByWhatTheyShow checks lists, and following the traces.
func TestListsAreBoundedByWhatTheyShow(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	text := bytes.Repeat([]byte("x"), answerBytes/8)
	mustCommit(t, s, recorder.Batch{Records: answersOf(mustAuthority(t), time.Now(), 20, &trace.Shared{Metadata: text})})
	page, err := s.Traces(t.Context(), trace.Filter{Workspace: "default"}, trace.ID{}, 1000, time.Minute)
	if err != nil || len(page.Records) > 8 || page.Next.IsZero() {
		t.Errorf("a page of %d traces, %v", len(page.Records), err)
	}
	followed, _, err := s.Follow(t.Context(), trace.Filter{Workspace: "default"}, 0, 1000)
	if err != nil || len(followed) > 8 || len(followed) == 0 {
		t.Errorf("%d traces at once, %v", len(followed), err)
	}
}

// TestDeliveriesAreBoundedByWhatTheyShow counts the shared members of each trace, though
// they are stored once.
func TestDeliveriesAreBoundedByWhatTheyShow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	text := bytes.Repeat([]byte("x"), 1<<20)
	mustCommit(t, s, recorder.Batch{Records: answersOf(mustAuthority(t), time.Now(), 100, &trace.Shared{Metadata: []byte(`{}`), Context: text})})
	o, taken := mustOutbox(t, path), 0
	for at := (trace.Position{}); ; {
		d, err := o.Next(t.Context(), at, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if d == nil {
			break
		}
		size := 0
		for _, r := range d.Records {
			size += r.Size()
		}
		if size > maxDeliveryBytes+len(text) {
			t.Errorf("%d bytes in one delivery", size)
		}
		at, taken = d.Position, taken+len(d.Records)
	}
	if taken != 100 {
		t.Errorf("%d traces were delivered", taken)
	}
}
