package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// watchedErasure is an erasure whose transactions are counted. It stops in place of the
// commit number failAt, from 1.
type watchedErasure struct {
	*erasure
	failAt, commits int
	rows, mostRows  int // of a transaction
}

func watchErasure(t *testing.T, path string, selector trace.Selector, failAt int) *watchedErasure {
	t.Helper()
	db, err := openDatabase(secondWriterDSN(path), 1)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := &watchedErasure{erasure: &erasure{conn: conn, turn: turnOf(path), selector: selector}, failAt: failAt}
	hook := func(row sqlite.PreUpdateHookFn, commit sqlite.CommitHookFn) {
		if err := conn.Raw(func(driver any) error {
			hooks := driver.(sqlite.HookRegisterer)
			hooks.RegisterPreUpdateHook(row)
			hooks.RegisterCommitHook(commit)
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	hook(func(change sqlite.SQLitePreUpdateData) {
		if change.DatabaseName == "main" && change.TableName != "reply_totals" { // a sum, which the deletion of a row changes
			w.rows++
		}
	}, func() int32 {
		if w.rows == 0 {
			return 0 // of its own tables
		}
		w.mostRows, w.rows = max(w.mostRows, w.rows), 0
		if w.commits++; w.commits == w.failAt {
			return 1
		}
		return 0
	})
	t.Cleanup(func() {
		hook(nil, nil)
		_ = conn.Close()
		_ = db.Close()
	})
	return w
}

func (w *watchedErasure) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{w.begin, w.find, w.delete} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// TestErasureThatBreaksOffIsDoneAgain stops an erasure at each of its transactions. None is
// long, however many rows a trace has, and another try finds the remaining rows.
func TestErasureThatBreaksOffIsDoneAgain(t *testing.T) {
	t.Parallel()
	conversation := trace.Selector{Workspace: "default", ConversationID: "c1"}
	member := trace.Selector{Workspace: "default", MetadataName: "user", MetadataValue: `"u"`}
	byConversation := func(m *trace.Metrics) { m.ConversationID = new("c1") }
	byMember := func(m *trace.Metrics) { m.Metadata = []byte(`{"user":"u"}`) }
	for name, test := range map[string]struct {
		selector trace.Selector
		record   string                                    // its metadata, unless empty
		naming   func(n, reports int) func(*trace.Metrics) // changes the nth report
	}{
		"the first report tells":       {conversation, `{}`, func(n, _ int) func(*trace.Metrics) { return onlyIf(n == 0, byConversation) }},
		"a report in the middle tells": {member, `{}`, func(n, reports int) func(*trace.Metrics) { return onlyIf(n == reports/2, byMember) }},
		"the last report tells":        {conversation, ``, func(n, reports int) func(*trace.Metrics) { return onlyIf(n == reports-1, byConversation) }},
		"each report tells":            {conversation, `{}`, func(int, int) func(*trace.Metrics) { return byConversation }},
		"the trace tells":              {conversation, `{"conversation_id":"c1"}`, func(int, int) func(*trace.Metrics) { return nil }},
		"the trace and a report tell":  {member, `{"user":"u"}`, func(n, _ int) func(*trace.Metrics) { return onlyIf(n == 1, byMember) }},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.db")
			batch := storeDoomed(t, path, test.record, test.naming)
			whole := trace.Erased{Traces: int64(len(batch.Records)), Metrics: int64(len(batch.Metrics)), Replies: int64(len(batch.Replies))}
			stored, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for failAt, broke := 1, true; broke; failAt += fewer {
				path := filepath.Join(t.TempDir(), "a.db")
				if err := os.WriteFile(path, stored, 0o600); err != nil {
					t.Fatal(err)
				}
				w := watchErasure(t, path, test.selector, failAt)
				err := w.run(t.Context())
				if broke = w.commits == failAt; broke != (err != nil) {
					t.Fatalf("broken off at %d of %d commits: %v", failAt, w.commits, err)
				}
				if w.mostRows > eraseRows {
					t.Fatalf("a transaction deleted %d rows, more than %d", w.mostRows, eraseRows)
				}
				if !broke && (w.commits < 6 || w.erased != whole) {
					t.Errorf("erased %+v in %d commits, want %+v in more", w.erased, w.commits, whole)
				}
				again, err := Erase(t.Context(), path, test.selector)
				if err != nil {
					t.Fatal(err)
				}
				again.Traces, again.Metrics, again.Replies = again.Traces+w.erased.Traces, again.Metrics+w.erased.Metrics, again.Replies+w.erased.Replies
				if again != whole {
					t.Errorf("broken off at commit %d and done again it erased %+v, want %+v", failAt, again, whole)
				}
				for table, want := range map[string]int64{"traces": 0, "metrics": 1, "replies": 0} {
					if left, err := queryInt(t.Context(), w.conn, "SELECT count(*) FROM "+table); err != nil || left != want {
						t.Errorf("broken off at commit %d and done again it left %d %s, want %d (%v)", failAt, left, table, want, err)
					}
				}
			}
		})
	}
}

// storeDoomed writes two traces, one of them with very many reports and replies, and a
// report on another.
func storeDoomed(t *testing.T, path, metadata string, naming func(n, reports int) func(*trace.Metrics)) (batch recorder.Batch) {
	t.Helper()
	s := mustOpen(t, Config{Path: path})
	authority, now := mustAuthority(t), time.Now()
	for _, reports := range []int{2*eraseRows + 10, 2} {
		id := authority.New(trace.KindPrompt, now)
		if metadata != "" {
			record := fullRecord(id, now)
			record.Metadata = []byte(metadata)
			batch.Records = append(batch.Records, record)
		}
		for n := range reports {
			m := metricsOf(id)
			if say := naming(n, reports); say != nil {
				say(m)
			}
			batch.Metrics = append(batch.Metrics, m)
		}
		for n := range reports/2 + 1 {
			reply := replyOf(fmt.Sprint(id, n), 1, now)
			reply.TraceID = id
			batch.Replies = append(batch.Replies, reply)
		}
	}
	mustCommit(t, s, recorder.Batch{Metrics: []*trace.Metrics{metricsOf(authority.New(trace.KindPrompt, now))}})
	mustCommit(t, s, batch)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return batch
}

func onlyIf(yes bool, say func(*trace.Metrics)) func(*trace.Metrics) {
	if yes {
		return say
	}
	return nil
}

// Rows may be megabytes: a transaction deletes fewer of them.
func TestErasureIsBoundedByContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	id, large := mustAuthority(t).New(trace.KindPrompt, time.Now()), string(make([]byte, eraseBytes/4))
	var batch recorder.Batch
	for n := range 13 {
		m := metricsOf(id)
		m.ConversationID = new("c1")
		switch {
		case n == 5:
			m.LLMResponse = new(large + large + large + large + large) // more than a transaction deletes
		case n%2 == 0:
			m.LLMResponse = &large
		default:
			m.Metadata = []byte(large)
		}
		batch.Metrics = append(batch.Metrics, m)
	}
	mustCommit(t, s, batch)
	w := watchErasure(t, path, trace.Selector{Workspace: "default", ConversationID: "c1"}, 0)
	if err := w.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The begin, and the trace for the sinks; 4 and 1; the large one; 4 and 2; and the
	// report that named the trace.
	if w.erased.Metrics != 13 || w.mostRows != 4 || w.commits != 8 {
		t.Errorf("erased %+v in %d commits of up to %d rows", w.erased, w.commits, w.mostRows)
	}
}

// TestReportsComeInBesideAnErasure erases a trace with very many reports while others come
// in.
func TestReportsComeInBesideAnErasure(t *testing.T) {
	const reports = 40_000
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	authority := mustAuthority(t)
	id, text := authority.New(trace.KindPrompt, time.Now()), string(make([]byte, 120))
	for range reports / 2000 {
		var batch recorder.Batch
		for range 2000 {
			m := metricsOf(id)
			m.ConversationID, m.LLMResponse = new("c1"), &text
			batch.Metrics = append(batch.Metrics, m)
		}
		mustCommit(t, s, batch)
	}
	var (
		erasing sync.WaitGroup
		erased  trace.Erased
		failed  error
		done    = make(chan struct{})
	)
	erasing.Go(func() {
		defer close(done)
		erased, failed = Erase(context.WithoutCancel(t.Context()), path, trace.Selector{Workspace: "default", ConversationID: "c1"})
	})
	other, commits, longest := authority.New(trace.KindPrompt, time.Now()), 0, time.Duration(0)
	for over := false; !over; commits++ {
		began := time.Now()
		mustCommit(t, s, recorder.Batch{Metrics: []*trace.Metrics{metricsOf(other)}})
		longest = max(longest, time.Since(began))
		select {
		case <-done:
			over = true
		case <-time.After(time.Millisecond):
		}
	}
	erasing.Wait()
	if failed != nil || erased != (trace.Erased{Metrics: reports}) {
		t.Errorf("erased %+v, %v", erased, failed)
	}
	if stored, err := s.MetricsFor(t.Context(), other); err != nil || len(stored) != commits {
		t.Errorf("%d of %d reports that came in meanwhile are stored, %v", len(stored), commits, err)
	}
	t.Logf("%d commits meanwhile, the longest took %s", commits, longest)
}
