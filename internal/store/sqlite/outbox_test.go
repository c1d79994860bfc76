package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

func mustOutbox(t testing.TB, path string) *Outbox {
	t.Helper()
	o, err := OpenOutbox(t.Context(), path, "default", "default/copy")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close() })
	return o
}

func mustCommit(t testing.TB, s *Store, batch recorder.Batch) {
	t.Helper()
	if err := s.Commit(t.Context(), &batch); err != nil {
		t.Fatal(err)
	}
}

// copySink takes deliveries as a sink does that keeps rows under their ids.
type copySink struct {
	records  map[trace.ID]*trace.Record
	metrics  map[[16]byte]*trace.Metrics
	versions map[string]trace.Version
	answers  map[trace.ID]int
	empty    int // deliveries without rows
	largest  int
}

func newCopySink() *copySink {
	return &copySink{
		records: make(map[trace.ID]*trace.Record), metrics: make(map[[16]byte]*trace.Metrics), versions: make(map[string]trace.Version), answers: make(map[trace.ID]int),
	}
}

func (c *copySink) take(d *trace.Delivery) {
	for _, r := range d.Records {
		c.records[r.ID] = r
	}
	for _, m := range d.Metrics {
		c.metrics[m.UUID] = m
	}
	for _, v := range d.Versions {
		c.versions[v.Kind.String()+"/"+v.Key+"/"+v.Version] = v
	}
	for _, e := range d.Exposures {
		c.answers[e.TraceID] = e.Answers
	}
	for _, e := range d.Erasures {
		c.erase(e)
	}
	if d.Len() == 0 {
		c.empty++
	}
	c.largest = max(c.largest, d.Len())
}

// erase deletes the rows of an erasure, for selectors of a conversation.
func (c *copySink) erase(s trace.Erasure) {
	doomed := make(map[trace.ID]bool)
	for _, id := range s.ReportedOn {
		doomed[id] = true
	}
	for _, m := range c.metrics {
		if m.ConversationID != nil && *m.ConversationID == s.ConversationID {
			doomed[m.TraceID] = true
		}
	}
	for id, r := range c.records {
		if bytes.Contains(r.Metadata, fmt.Appendf(nil, `"conversation_id":%q`, s.ConversationID)) {
			doomed[id] = true
		}
	}
	maps.DeleteFunc(c.metrics, func(_ [16]byte, m *trace.Metrics) bool { return doomed[m.TraceID] })
	maps.DeleteFunc(c.records, func(id trace.ID, _ *trace.Record) bool { return doomed[id] })
}

// drain delivers all pending rows to the sink.
func (c *copySink) drain(t testing.TB, o *Outbox, limit int) {
	t.Helper()
	for {
		from, err := o.Position(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		d, err := o.Next(t.Context(), from, limit)
		if err != nil {
			t.Fatal(err)
		}
		if d == nil {
			return
		}
		c.take(d)
		if err := o.Advance(t.Context(), from, d.Position); err != nil {
			t.Fatal(err)
		}
	}
}

// check compares the sink's rows with the rows of the store.
func (c *copySink) check(t testing.TB, s *Store) {
	t.Helper()
	want := newCopySink()
	o := &Outbox{path: s.path, file: s.file, workspace: "default", reader: s.Reader.db}
	for from := (trace.Position{}); ; {
		d, err := o.Next(t.Context(), from, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if d == nil {
			break
		}
		d.Erasures = nil // they are done
		want.take(d)
		from = d.Position
	}
	if diff := cmp.Diff(want.records, c.records); diff != "" {
		t.Errorf("records (-store +sink):\n%s", diff)
	}
	if diff := cmp.Diff(want.metrics, c.metrics); diff != "" {
		t.Errorf("metrics (-store +sink):\n%s", diff)
	}
	if diff := cmp.Diff(want.versions, c.versions); diff != "" {
		t.Errorf("versions (-store +sink):\n%s", diff)
	}
}

func startOf(id trace.ID, at time.Time) *trace.Record {
	return &trace.Record{ID: id, Time: at, Workspace: "default", Kind: trace.KindEndpoint, Key: "k", State: trace.StateInterrupted}
}

func TestOutboxDeliversWhatIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	o := mustOutbox(t, path)
	authority, at := mustAuthority(t), time.UnixMilli(1790000000123)
	if d, err := o.Next(t.Context(), trace.Position{}, 10); d != nil || err != nil {
		t.Fatalf("of an empty store: %+v, %v", d, err)
	}

	full := fullRecord(authority.New(trace.KindEndpoint, at), at)
	metrics := &trace.Metrics{
		TraceID: full.ID, Workspace: "default", APIKey: "app", Time: at, Score: new(1.0), LLMResponse: new("x"),
		ConversationID: new("c"), TotalTokens: new(int64(3)), Metadata: []byte(`{"n":1}`),
	}
	version := trace.Version{Workspace: "default", Kind: trace.KindPrompt, Key: "a", Version: "v1", Content: []byte("{}"), Time: at}
	mustCommit(t, s, recorder.Batch{Interrupted: []*trace.Record{startOf(full.ID, at)}})
	first, err := o.Next(t.Context(), trace.Position{}, 10)
	if err != nil || len(first.Records) != 1 || first.Records[0].State != trace.StateInterrupted {
		t.Fatalf("interrupted: %+v, %v", first, err)
	}
	mustCommit(t, s, recorder.Batch{
		Records: []*trace.Record{full}, Metrics: []*trace.Metrics{metrics}, Versions: []trace.Version{version},
	})
	second, err := o.Next(t.Context(), first.Position, 10)
	if err != nil {
		t.Fatal(err)
	}
	want := &trace.Delivery{
		Records: []*trace.Record{full}, Metrics: []*trace.Metrics{metrics}, Versions: []trace.Version{version}, Position: second.Position,
	}
	if diff := cmp.Diff(want, second, cmpopts.IgnoreFields(trace.Metrics{}, "UUID")); diff != "" {
		t.Errorf("the end (-written +delivered):\n%s", diff)
	}
	stored, err := s.MetricsFor(t.Context(), full.ID)
	if err != nil || stored[0].UUID != second.Metrics[0].UUID || stored[0].UUID == ([16]byte{}) {
		t.Errorf("delivered as %x, stored as %x, %v", second.Metrics[0].UUID, stored[0].UUID, err)
	}
	if d, err := o.Next(t.Context(), second.Position, 10); d != nil || err != nil {
		t.Errorf("after all: %+v, %v", d, err)
	}
	// A follower that starts late sees the end alone.
	if late, err := o.Next(t.Context(), trace.Position{}, 10); err != nil || len(late.Records) != 1 || late.Records[0].State != trace.StateEnded {
		t.Errorf("late: %+v, %v", late, err)
	}
}

// Deleting the greatest rows must not make the numbers of later ones begin
// below a sink's position.
func TestOutboxMissesNothingAfterADeletion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	now := time.Now()
	s := mustOpen(t, Config{Path: path, CurrentRetention: always(time.Hour)})
	o := mustOutbox(t, path)
	authority, sink := mustAuthority(t), newCopySink()
	commit := func(at time.Time) {
		id := authority.New(trace.KindPrompt, at)
		metrics := metricsOf(id)
		mustCommit(t, s, recorder.Batch{Records: []*trace.Record{fullRecord(id, at)}, Metrics: []*trace.Metrics{metrics}})
	}
	for range 5 {
		commit(now.Add(-2 * time.Hour))
	}
	sink.drain(t, o, 10)
	if _, err := s.Maintain(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if counts, err := s.Counts(t.Context()); err != nil || counts != (Counts{}) {
		t.Fatalf("%+v, %v; want nothing left", counts, err)
	}
	sink = newCopySink()
	for range 3 {
		commit(now)
		sink.drain(t, o, 10)
	}
	sink.check(t, s)
	if len(sink.records) != 3 || len(sink.metrics) != 3 {
		t.Errorf("%d records and %d metrics were delivered, want 3 of each", len(sink.records), len(sink.metrics))
	}
}

// TestUnknownKindsAreErrors: a row of a kind that a later version added is neither
// delivered nor shown as another kind, and stays for that version.
func TestUnknownKindsAreErrors(t *testing.T) {
	for _, table := range []string{"traces", "versions"} {
		t.Run(table, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.db")
			s := mustOpen(t, Config{Path: path})
			at := time.UnixMilli(1790000000123)
			record := fullRecord(mustAuthority(t).New(trace.KindEndpoint, at), at)
			mustCommit(t, s, recorder.Batch{
				Records:  []*trace.Record{record},
				Versions: []trace.Version{{Workspace: "default", Kind: trace.KindPrompt, Key: "a", Version: "v1", Content: []byte("{}"), Time: at}},
			})
			if err := s.writer.once("UPDATE " + table + " SET kind = 'flag'"); err != nil {
				t.Fatal(err)
			}
			const want = `the kind "flag", which this version of Cadenza does not know`
			if d, err := mustOutbox(t, path).Next(t.Context(), trace.Position{}, 10); d != nil || err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("delivered %+v, %v", d, err)
			}
			if _, err := s.Trace(t.Context(), record.ID); table == "traces" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("shown: %v", err)
			}
		})
	}
}

func TestOutboxDeliversInterruptedCalls(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	at := time.UnixMilli(1790000000123)
	authority, sink := mustAuthority(t), newCopySink()
	start := fullRecord(authority.New(trace.KindEndpoint, at), at)
	start.State = trace.StateInterrupted
	mustCommit(t, s, recorder.Batch{Interrupted: []*trace.Record{start}})
	o := mustOutbox(t, path)
	sink.drain(t, o, 10)
	if diff := cmp.Diff(start, sink.records[start.ID]); diff != "" {
		t.Errorf("(-want +delivered):\n%s", diff)
	}
	if counts, err := s.Counts(t.Context()); err != nil || counts.Traces != 1 {
		t.Errorf("%+v, %v", counts, err)
	}
}

func TestOutboxPassesOverOtherWorkspaces(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	authority, now := mustAuthority(t), time.Now()
	const others = 2*deliveryScan + 10
	for n := 0; n < others; n += 1000 {
		var batch recorder.Batch
		for range 1000 {
			batch.Records = append(batch.Records, &trace.Record{ID: authority.New(trace.KindPrompt, now), Time: now, Workspace: "other", Kind: trace.KindPrompt})
		}
		mustCommit(t, s, batch)
	}
	mustCommit(t, s, recorder.Batch{
		Records:  []*trace.Record{fullRecord(authority.New(trace.KindPrompt, now), now)},
		Metrics:  []*trace.Metrics{{Workspace: "other"}, metricsOf(authority.New(trace.KindPrompt, now))},
		Versions: []trace.Version{{Workspace: "other", Kind: trace.KindPrompt}},
	})
	o := mustOutbox(t, path)
	sink := newCopySink()
	sink.drain(t, o, 100)
	sink.check(t, s)
	if len(sink.records) != 1 || len(sink.metrics) != 1 || len(sink.versions) != 0 {
		t.Errorf("%d records, %d metrics, %d versions; want 1, 1 and 0", len(sink.records), len(sink.metrics), len(sink.versions))
	}
	if sink.empty == 0 || sink.empty > 3 {
		t.Errorf("%d empty deliveries, want one for each %d rows or so", sink.empty, deliveryScan)
	}
	if rows, oldest, err := o.Pending(t.Context()); rows != 0 || !oldest.IsZero() || err != nil {
		t.Errorf("%d rows from %s pending, %v", rows, oldest, err)
	}
}

func TestDeliveriesAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	authority, now := mustAuthority(t), time.Now()
	for _, size := range []int{3 << 20, 3 << 20, 10 << 20, 1, 1, 1} {
		record := fullRecord(authority.New(trace.KindPrompt, now), now)
		record.Response = bytes.Repeat([]byte("x"), size)
		mustCommit(t, s, recorder.Batch{Records: []*trace.Record{record}})
	}
	o := mustOutbox(t, path)
	var got []int
	for from := (trace.Position{}); ; {
		d, err := o.Next(t.Context(), from, 2)
		if err != nil {
			t.Fatal(err)
		}
		if d == nil {
			break
		}
		got = append(got, len(d.Records))
		from = d.Position
	}
	if want := []int{2, 1, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("deliveries of %v records, want %v", got, want)
	}
}

func TestAdvance(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	mustOpen(t, Config{Path: path})
	o := mustOutbox(t, path)
	far, near := trace.Position{Traces: 9, Metrics: 8, Versions: 7, Erasures: 6}, trace.Position{Traces: 3, Metrics: 8}
	for _, step := range []struct {
		from, to trace.Position
		moved    bool
	}{
		{far, near, true}, // there is none yet
		{trace.Position{}, far, false},
		{trace.Position{}, near, true},
		{near, far, true},
		{far, far, false},
		{far, near, false}, // back, as after a restored copy
		{near, trace.Position{}, false},
		{trace.Position{}, near, false},
		// Two positions that differ in their erasures alone.
		{near, trace.Position{Erasures: 4}, false},
		{trace.Position{}, far, true},
		{trace.Position{Erasures: 3}, far, true},
		{trace.Position{Erasures: 4}, near, false},
	} {
		err := o.Advance(t.Context(), step.from, step.to)
		if errors.Is(err, trace.ErrMoved) != step.moved || err != nil && !step.moved {
			t.Fatalf("from %+v to %+v: %v, want moved %v", step.from, step.to, err, step.moved)
		}
		if got, err := o.Position(t.Context()); err != nil || !step.moved && got != step.to {
			t.Fatalf("%+v, %v; want %+v", got, err, step.to)
		}
	}
	other, err := OpenOutbox(t.Context(), path, "default", "default/other")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if got, err := other.Position(t.Context()); err != nil || got != (trace.Position{}) {
		t.Errorf("another sink's: %+v, %v", got, err)
	}
}

func TestPending(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	o := mustOutbox(t, path)
	authority, at := mustAuthority(t), time.UnixMilli(1790000000123)
	for i := range 3 {
		at := at.Add(time.Duration(i) * time.Minute)
		metrics := metricsOf(authority.New(trace.KindPrompt, at))
		metrics.Time = at.Add(time.Second)
		mustCommit(t, s, recorder.Batch{Records: []*trace.Record{fullRecord(metrics.TraceID, at)}, Metrics: []*trace.Metrics{metrics}})
	}
	for _, step := range []struct {
		to   trace.Position
		rows int64
		want time.Time
	}{
		{trace.Position{}, 6, at},
		{trace.Position{Traces: 1}, 5, at.Add(time.Second)},
		{trace.Position{Traces: 1, Metrics: 1}, 4, at.Add(time.Minute)},
		{trace.Position{Traces: 3, Metrics: 3}, 0, time.Time{}},
	} {
		from, err := o.Position(t.Context())
		if err := errors.Join(err, o.Advance(t.Context(), from, step.to)); err != nil {
			t.Fatal(err)
		}
		if rows, oldest, err := o.Pending(t.Context()); rows != step.rows || !oldest.Equal(step.want) || err != nil {
			t.Errorf("at %+v: %d from %s, %v; want %d from %s", step.to, rows, oldest, err, step.rows, step.want)
		}
	}
}

// TestErasureOfWhatOnlyAReportNames erases while a sink has the traces, and not yet
// the reports that say whose they are.
func TestErasureOfWhatOnlyAReportNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	authority, now := mustAuthority(t), time.UnixMilli(1790000000123)
	o, sink := mustOutbox(t, path), newCopySink()
	const traces = eraseIDs + 2
	batch, reports := recorder.Batch{}, recorder.Batch{}
	for range traces {
		r := &trace.Record{ID: authority.New(trace.KindPrompt, now), Kind: trace.KindPrompt, State: trace.StateEnded, Time: now, Workspace: "default", Key: "k"}
		batch.Records = append(batch.Records, r)
		reports.Metrics = append(reports.Metrics, &trace.Metrics{UUID: [16]byte(r.ID), TraceID: r.ID, Time: now, Workspace: "default", ConversationID: new("c1")})
	}
	mustCommit(t, s, batch)
	sink.drain(t, o, 1000)
	mustCommit(t, s, reports)
	erased, err := Erase(t.Context(), path, trace.Selector{Workspace: "default", ConversationID: "c1"})
	if err != nil || erased.Traces != traces {
		t.Fatalf("%+v were erased, want %d traces: %v", erased, traces, err)
	}
	sink.drain(t, o, 1000)
	if n := len(sink.records); n != 0 {
		t.Errorf("the sink keeps %d of %d traces that were erased", n, traces)
	}
}

func TestOutboxNoticesThatTheFileWasReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	o := mustOutbox(t, path)
	id := o.StoreID()
	check := func(when string, want error) {
		t.Helper()
		_, positionErr := o.Position(t.Context())
		_, nextErr := o.Next(t.Context(), trace.Position{}, 1)
		_, _, pendingErr := o.Pending(t.Context())
		advanceErr := o.Advance(t.Context(), trace.Position{}, trace.Position{})
		for _, err := range []error{positionErr, nextErr, pendingErr, advanceErr} {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", when, err, want)
			}
		}
	}
	check("before", nil)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := setAside(path, o.file); err != nil {
		t.Skipf("this system does not move open files: %v", err)
	}
	check("moved", recorder.ErrBroken)
	if _, err := OpenOutbox(t.Context(), path, "default", "default/copy"); err == nil {
		t.Error("the outbox of no file was opened")
	}
	mustOpen(t, Config{Path: path})
	check("replaced", recorder.ErrBroken)
	if again := mustOutbox(t, path); again.StoreID() == id || again.StoreID() == ([16]byte{}) {
		t.Errorf("the new file has the id %x, the old one had %x", again.StoreID(), id)
	}
}

func TestStoreIDIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	id := mustOutbox(t, path).StoreID()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, Config{Path: path})
	if again := mustOutbox(t, path).StoreID(); again != id {
		t.Errorf("%x after a restart, %x before", again, id)
	}
}

func TestOpenOutboxRefuses(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.db")
	mustOpen(t, Config{Path: good})
	old, later, foreign, empty := filepath.Join(dir, "old.db"), filepath.Join(dir, "later.db"), filepath.Join(dir, "foreign.db"), filepath.Join(dir, "empty.db")
	makeFile(t, old, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = 18", applicationID))
	makeFile(t, later, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = 99", applicationID))
	makeFile(t, foreign, "CREATE TABLE a (b)")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ path, workspace, sink, want string }{
		"absent":                {filepath.Join(dir, "absent.db"), "default", "default/a", "absent.db"},
		"empty":                 {empty, "default", "default/a", "not a trace store"},
		"foreign":               {foreign, "default", "default/a", "not a trace store"},
		"old":                   {old, "default", "default/a", "format 18"},
		"later":                 {later, "default", "default/a", "format 99"},
		"another's sink":        {good, "default", "other/a", "must be named default/NAME"},
		"a sink without a name": {good, "", "a", "must be named"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := OpenOutbox(t.Context(), test.path, test.workspace, test.sink)
			if err == nil {
				_ = o.Close()
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "absent.db")); err == nil {
		t.Error("the outbox made a file")
	}
}

// makeFile makes a database by a script.
func makeFile(t testing.TB, path, script string) {
	t.Helper()
	db, err := sql.Open("sqlite", fileURI(path, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), script); err != nil {
		t.Fatal(err)
	}
}

// TestSinkEndsWithWhatTheStoreHas has a sink follow a store through all that may happen to
// it, in random order, and sometimes loses the sink's last deliveries.
func TestSinkEndsWithWhatTheStoreHas(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1 + 3/fewer) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			path := filepath.Join(t.TempDir(), "a.db")
			s := mustOpen(t, Config{Path: path})
			o := mustOutbox(t, path)
			authority, sink, now := mustAuthority(t), newCopySink(), time.UnixMilli(1790000000123)
			var started, known []trace.ID
			for range 300 {
				now = now.Add(time.Second)
				switch n := random.IntN(20); {
				case n < 4:
					id := authority.New(trace.KindEndpoint, now)
					mustCommit(t, s, recorder.Batch{Interrupted: []*trace.Record{startOf(id, now)}})
					started, known = append(started, id), append(known, id)
				case n < 8 && len(started) > 0:
					i := random.IntN(len(started))
					record := fullRecord(started[i], now)
					record.Metadata = fmt.Appendf(nil, `{"conversation_id":"c%d"}`, random.IntN(5))
					mustCommit(t, s, recorder.Batch{Records: []*trace.Record{record}})
					started = slices.Delete(started, i, i+1)
				case n < 12 && len(known) > 0:
					m := metricsOf(known[random.IntN(len(known))])
					m.Time = now
					if random.IntN(2) == 0 {
						m.ConversationID = new(fmt.Sprintf("c%d", random.IntN(5)))
					}
					mustCommit(t, s, recorder.Batch{Metrics: []*trace.Metrics{m, {Workspace: "other", ConversationID: m.ConversationID}}})
				case n < 13:
					if _, err := Erase(t.Context(), path, trace.Selector{Workspace: "default", ConversationID: fmt.Sprintf("c%d", random.IntN(5))}); err != nil {
						t.Fatal(err)
					}
				case n == 13 && random.IntN(2) == 0:
					shared := &trace.Shared{Metadata: fmt.Appendf(nil, `{"conversation_id":"c%d"}`, random.IntN(5)), Context: []byte(`{}`)}
					records := answersOf(authority, now, 1+random.IntN(5), shared)
					mustCommit(t, s, recorder.Batch{Records: records})
					known = append(known, records[0].ID)
				case n == 13 && random.IntN(5) == 0:
					if err := s.Close(); err != nil { // and the other calls in started are interrupted
						t.Fatal(err)
					}
					s = mustOpen(t, Config{Path: path})
				case n == 14:
					// The sink was replaced by an empty one, and knows nothing.
					position, err := o.Position(t.Context())
					if err := errors.Join(err, o.Advance(t.Context(), position, trace.Position{})); err != nil {
						t.Fatal(err)
					}
					sink = newCopySink()
				default:
					position, err := o.Position(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					d, err := o.Next(t.Context(), position, 1+random.IntN(10))
					if err != nil {
						t.Fatal(err)
					}
					if d == nil {
						continue
					}
					sink.take(d)
					if random.IntN(3) > 0 { // or it comes again
						if err := o.Advance(t.Context(), position, d.Position); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			sink.drain(t, o, 7)
			sink.check(t, s)
			if len(sink.records) == 0 || len(sink.metrics) == 0 {
				t.Error("nothing was left to compare")
			}
		})
	}
}

// TestOutboxBesideAWriter drains while a recorder writes.
func TestOutboxBesideAWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	r := openRecorder(t, Config{Path: path})
	o := mustOutbox(t, path)
	authority, sink := mustAuthority(t), newCopySink()
	ctx, cancel := context.WithCancel(t.Context())
	written := make(chan int)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			now := time.Now()
			record := trace.AcquireRecord()
			fillBare(record, authority.New(trace.KindEndpoint, now), now)
			r.Start(context.Background(), record)
			r.End(record)
			if n%10 == 0 {
				_ = r.Metrics(context.Background(), metricsOf(authority.New(trace.KindPrompt, now)))
			}
		}
		written <- n
	}()
	for began := time.Now(); time.Since(began) < 500*time.Millisecond; {
		sink.drain(t, o, 50)
	}
	cancel()
	want := <-written
	waitFor(t, "the recorder to write all", func() bool { return r.Stats().Queued == 0 })
	// A batch that is being committed is in no queue any more: it may have the end of a
	// call whose start the sink has.
	waitFor(t, "the sink to have all, and their ends", func() bool {
		sink.drain(t, o, 50)
		ended := 0
		for _, record := range sink.records {
			if record.State == trace.StateEnded {
				ended++
			}
		}
		return len(sink.records) == want && ended == want && len(sink.metrics) == (want+9)/10
	})
}

func fillBare(r *trace.Record, id trace.ID, now time.Time) {
	r.ID, r.Time, r.Workspace, r.Kind, r.Key = id, now, "default", trace.KindEndpoint, "k"
}
