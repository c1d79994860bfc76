package sqlite

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// replyBy returns a reply to a request with an API key.
func replyBy(apiKey, key string, at time.Time, body int) *trace.Reply {
	r := replyOf(key, 1, at)
	r.APIKey, r.Body = apiKey, []byte(strings.Repeat("x", body))
	return r
}

// wantTotals checks that the sums agree with the rows.
func wantTotals(t testing.TB, s *Store) {
	t.Helper()
	const totals = "SELECT workspace, api_key, replies, bytes FROM reply_totals WHERE replies <> 0 OR bytes <> 0"
	const sums = "SELECT workspace, api_key, count(*), sum(size) FROM replies GROUP BY 1, 2"
	n, err := queryInt(t.Context(), s.conn, fmt.Sprintf("SELECT count(*) FROM (SELECT * FROM (%[1]s EXCEPT %[2]s) UNION ALL SELECT * FROM (%[2]s EXCEPT %[1]s))", totals, sums))
	if err != nil || n != 0 {
		t.Errorf("%d sums of replies are wrong, %v", n, err)
	}
}

// countReplies counts the replies of an API key that sent so many, the oldest first: the
// remaining ones must be the newest.
func countReplies(t testing.TB, s *Store, apiKey string, sent int) int64 {
	t.Helper()
	n, err := queryInt(t.Context(), s.conn, "SELECT count(*) FROM replies WHERE api_key = ?", apiKey)
	if err != nil {
		t.Fatal(err)
	}
	newest, err := queryInt(t.Context(), s.conn, "SELECT count(*) FROM replies WHERE api_key = ? AND key >= ?",
		apiKey, fmt.Sprintf("%s-%0250d", apiKey, int64(sent)-n))
	if err != nil || newest != n {
		t.Errorf("%d of the %d replies of %s that are left are the newest, %v", newest, n, apiKey, err)
	}
	return n
}

// TestRepliesNeverTakeMetrics has one API key fill a small store with replies to
// idempotency keys: no report that another key had acknowledged is deleted.
func TestRepliesNeverTakeMetrics(t *testing.T) {
	t.Parallel()
	log := &logBuffer{}
	evicted := map[string]int64{}
	s := mustOpen(t, Config{
		Path: filepath.Join(t.TempDir(), "a.db"), CurrentMaxSize: always[int64](2 << 20), Logger: slog.New(slog.NewTextHandler(log, nil)),
		OnEvicted: func(table string, rows int64, _ time.Time) { evicted[table] += rows },
	})
	authority, now := mustAuthority(t), time.Now()
	report := func(apiKey, key string, at time.Time) *trace.Metrics {
		m := metricsOf(authority.New(trace.KindMetrics, at))
		m.APIKey, m.Reply = apiKey, replyBy(apiKey, key, at, 11)
		return m
	}
	var batch recorder.Batch
	var acknowledged []trace.ID
	for n := range 200 {
		m := report("victim", fmt.Sprintf("victim-%0250d", n), now.Add(-time.Hour))
		if n >= 10 {
			m.Reply = nil
		}
		batch.Metrics = append(batch.Metrics, m)
		acknowledged = append(acknowledged, m.TraceID)
	}
	mustCommit(t, s, batch)
	batch = recorder.Batch{}
	const flood = 6000
	for n := range flood {
		batch.Metrics = append(batch.Metrics, report("attacker", fmt.Sprintf("attacker-%0250d", n), now.Add(time.Duration(n)*time.Millisecond)))
	}
	mustCommit(t, s, batch)

	maintain(t, s, now)
	for _, id := range acknowledged {
		if stored, err := s.MetricsFor(t.Context(), id); err != nil || len(stored) != 1 {
			t.Fatalf("acknowledged metrics: %d stored, %v", len(stored), err)
		}
	}
	left := countReplies(t, s, "attacker", flood)
	if most := int64(2<<20/replySharePart/replyKeyPart) / replySize(batch.Metrics[0].Reply); left > most || left < most-shrinkRows {
		t.Errorf("%d replies of the attacker are left, want almost %d", left, most)
	}
	if n := countReplies(t, s, "victim", 10); n != 10 {
		t.Errorf("%d replies of the victim are left, want 10", n)
	}
	if evicted["replies"] != flood-left || evicted["metrics"] != 0 {
		t.Errorf("evicted: %v", evicted)
	}
	if text := log.String(); strings.Count(text, "idempotency keys") != 1 || !strings.Contains(text, "api_key=attacker") ||
		!strings.Contains(text, fmt.Sprintf("replies=%d", flood-left)) {
		t.Errorf("the log tells: %s", text)
	}
	wantTotals(t, s)
}

func TestReplyCeilings(t *testing.T) {
	t.Parallel()
	now := time.Now()
	const share = 400_000
	const perKey = share / replyKeyPart
	for name, test := range map[string]struct {
		config Config
		keys   map[string]int // replies of 1,000 bytes, about
		want   map[string]int
	}{
		"below":                  {Config{replyShare: share}, map[string]int{"a": 99, "b": 99}, map[string]int{"a": 99, "b": 99}},
		"one key":                {Config{replyShare: share}, map[string]int{"a": 150, "b": 20}, map[string]int{"a": 100, "b": 20}},
		"all together":           {Config{replyShare: share}, map[string]int{"a": 80, "b": 80, "c": 80, "d": 80, "e": 80, "f": 80}, map[string]int{"a": 0, "b": 80, "c": 80, "d": 80, "e": 80, "f": 80}},
		"both":                   {Config{replyShare: share}, map[string]int{"a": 50, "b": 99, "c": 99, "d": 99, "e": 300}, map[string]int{"a": 3, "b": 99, "c": 99, "d": 99, "e": 100}},
		"of the size":            {Config{CurrentMaxSize: always[int64](10 * share)}, map[string]int{"a": 150, "b": 20}, map[string]int{"a": 100, "b": 20}},
		"the size goes before":   {Config{CurrentMaxSize: always[int64](10 * share), replyShare: 1}, map[string]int{"a": 150}, map[string]int{"a": 100}},
		"without any, much more": {Config{}, map[string]int{"a": 500}, map[string]int{"a": 500}},
	} {
		t.Run(name, func(t *testing.T) {
			test.config.Path = filepath.Join(t.TempDir(), "a.db")
			s := mustOpen(t, test.config)
			for i, apiKey := range []string{"a", "b", "c", "d", "e", "f"} { // a's are the oldest
				var batch recorder.Batch
				for n := range test.keys[apiKey] {
					key := fmt.Sprintf("%s-%0250d", apiKey, n)
					r := replyBy(apiKey, key, now.Add(time.Duration(i*1000+n)*time.Millisecond), 0)
					r.Body = []byte(strings.Repeat("x", 1000-int(replySize(r))))
					batch.Replies = append(batch.Replies, r)
				}
				mustCommit(t, s, batch)
			}
			maintain(t, s, now)
			for apiKey, want := range test.want {
				if got := countReplies(t, s, apiKey, test.keys[apiKey]); got != int64(want) {
					t.Errorf("%d replies of %s are left, want %d (of %d for a key)", got, apiKey, want, perKey/1000)
				}
			}
			wantTotals(t, s)
		})
	}
}

// TestReplyTotals changes replies in every way.
func TestReplyTotals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	now := time.Now()
	old := replyOf("old", 1, time.UnixMilli(1790000000000))
	mustCommit(t, s, recorder.Batch{Replies: []*trace.Reply{old}})
	wantTotals(t, s)
	if n, err := queryInt(t.Context(), s.conn, "SELECT size FROM replies"); err != nil || n != replySize(old) {
		t.Errorf("a reply counts %d bytes, %v", n, err)
	}
	id := mustAuthority(t).New(trace.KindMetrics, now)
	named := replyBy("a", "named", now, 100)
	named.TraceID = id
	conversation := "c1"
	m := metricsOf(id)
	m.ConversationID = &conversation
	mustCommit(t, s, recorder.Batch{
		Metrics: []*trace.Metrics{m},
		Replies: []*trace.Reply{named, replyBy("b", "again", now.Add(-48*time.Hour), 50), replyBy("b", "kept", now, 70)},
	})
	wantTotals(t, s)
	// One that expired is replaced by one of another API key.
	mustCommit(t, s, recorder.Batch{Replies: []*trace.Reply{replyBy("c", "again", now, 500), replyBy("c", "kept", now, 500)}})
	wantTotals(t, s)
	if n, err := queryInt(t.Context(), s.conn, "SELECT replies FROM reply_totals WHERE api_key = 'b'"); err != nil || n != 1 {
		t.Errorf("%d replies of b, %v", n, err)
	}
	if erased, err := Erase(t.Context(), path, trace.Selector{Workspace: "default", ConversationID: conversation}); err != nil || erased.Replies != 1 {
		t.Errorf("%+v, %v", erased, err)
	}
	wantTotals(t, s)
	maintain(t, s, now) // of 2026, and so the old one expires
	wantTotals(t, s)
}
