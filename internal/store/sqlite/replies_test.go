package sqlite

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

func replyOf(key string, digest byte, at time.Time) *trace.Reply {
	return &trace.Reply{
		ReplyKey: trace.ReplyKey{Workspace: "default", Route: "metrics", Key: key},
		Digest:   [32]byte{digest}, Time: at, Status: 200, Body: []byte(`{"ok":true}`),
	}
}

func TestRepliesComeBackAsTheyWere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	at := time.UnixMilli(1790000000123)
	full := &trace.Reply{
		ReplyKey: trace.ReplyKey{Workspace: "w", Route: "endpoints", Key: `"~` + strings.Repeat("k", 253)},
		Digest:   [32]byte{1, 2, 31: 3}, Time: at, TraceID: mustAuthority(t).New(trace.KindEndpoint, at),
		Decision: mustAuthority(t).New(trace.KindDecision, at),
		Status:   502, Code: "upstream_error", Body: []byte(`{"content":"é\u0000"}`),
	}
	bare := replyOf("k", 0, at)
	mustCommit(t, s, recorder.Batch{Replies: []*trace.Reply{full, bare}})
	if !s.durable {
		t.Error("replies were committed without a sync")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, Config{Path: path})
	for _, want := range []*trace.Reply{full, bare} {
		got, err := s.Reply(t.Context(), want.ReplyKey, at)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-stored +read):\n%s", diff)
		}
	}
	for _, key := range []trace.ReplyKey{
		{Workspace: "default", Route: "endpoints", Key: "k"}, {Workspace: "w", Route: "metrics", Key: "k"},
		{Workspace: "default", Route: "metrics", Key: "K"},
	} {
		if got, err := s.Reply(t.Context(), key, at); got != nil || err != nil {
			t.Errorf("%v: %+v, %v", key, got, err)
		}
		if _, err := s.Reader.Reply(t.Context(), key); !errors.Is(err, ErrNotFound) {
			t.Errorf("%v: %v", key, err)
		}
	}
}

// TestRepeatedReportHasOneID sends a report to two gateways of a fleet.
func TestRepeatedReportHasOneID(t *testing.T) {
	at := time.UnixMilli(1790000000123)
	id := func(reply *trace.Reply) trace.ID {
		t.Helper()
		s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
		m := metricsOf(trace.ID{1})
		m.Reply = reply
		mustCommit(t, s, recorder.Batch{Metrics: []*trace.Metrics{metricsOf(trace.ID{1}), m}})
		ids, err := collect(t.Context(), s.Reader.db, scanID, "SELECT id FROM metrics ORDER BY seq")
		if err != nil || len(ids) != 2 || ids[0] == ids[1] {
			t.Fatalf("ids %v: %v", ids, err)
		}
		return ids[1]
	}
	first := id(replyOf("k", 1, at))
	if again := id(replyOf("k", 1, at.Add(time.Second))); again != first {
		t.Errorf("the same report is %s on one gateway and %s on another", first, again)
	}
	elsewhere := replyOf("k", 1, at)
	elsewhere.Workspace = "other"
	for name, other := range map[string]*trace.Reply{"key": replyOf("l", 1, at), "request": replyOf("k", 2, at), "workspace": elsewhere, "none": nil} {
		if id(other) == first {
			t.Errorf("%s: two reports have one id", name)
		}
	}
}

func TestRepliesExpire(t *testing.T) {
	at := time.UnixMilli(1790000000123)
	for name, test := range map[string]struct {
		age   time.Duration
		fresh bool
	}{
		"at once":            {0, true},
		"a clock that went":  {-time.Hour, true},
		"just before":        {trace.ReplyLifetime - time.Millisecond, true},
		"when its time came": {trace.ReplyLifetime, false},
		"long after":         {30 * trace.ReplyLifetime, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
			first, second := replyOf("k", 1, at), replyOf("k", 2, at.Add(test.age))
			second.Status, second.Body = 502, []byte(`{"error":{}}`)
			for _, r := range []*trace.Reply{first, second} {
				mustCommit(t, s, recorder.Batch{Replies: []*trace.Reply{r}})
			}
			if got := second.Earlier != nil; got != test.fresh {
				t.Errorf("the commit of another found the first: %v", got)
			}
			want := second
			if test.fresh {
				want = first
			}
			got, err := s.Reply(t.Context(), first.ReplyKey, second.Time)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +kept):\n%s", diff)
			}
		})
	}
}

// TestMetricsOfAKeyAreStoredOnce reports under one key in the same commit, in
// another, and from another process.
func TestMetricsOfAKeyAreStoredOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s, other := mustOpen(t, Config{Path: path}), mustOpen(t, Config{Path: path})
	now := time.Now()
	id := mustAuthority(t).New(trace.KindPrompt, now)
	report := func(key string, digest byte) *trace.Metrics {
		m := metricsOf(id)
		m.Reply = replyOf(key, digest, now)
		return m
	}
	a, b, c, d, e := report("k", 1), report("k", 1), report("k", 1), report("k", 2), report("other", 1)
	for i, commit := range []struct {
		in      *Store
		metrics []*trace.Metrics
	}{{s, []*trace.Metrics{a, b}}, {s, []*trace.Metrics{c}}, {other, []*trace.Metrics{d, e}}} {
		if err := commit.in.Commit(t.Context(), &recorder.Batch{Metrics: commit.metrics}); err != nil {
			t.Fatalf("commit %d: %v", i, err)
		}
	}
	if a.Reply.Earlier != nil || e.Reply.Earlier != nil {
		t.Error("the first of a key is told that another came before")
	}
	for _, m := range []*trace.Metrics{b, c, d} {
		if m.Reply.Earlier == nil || m.Reply.Earlier.Digest != a.Reply.Digest {
			t.Errorf("a repetition finds %+v", m.Reply.Earlier)
		}
	}
	if stored, err := s.MetricsFor(t.Context(), id); err != nil || len(stored) != 2 {
		t.Errorf("%d records of 2 keys, %v", len(stored), err)
	}
}

func TestExpiredRepliesAreDeleted(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")}) // no retention: traces stay
	now := time.Now()
	const oldCount = 2*deleteRows + 7
	batch := recorder.Batch{Records: []*trace.Record{fullRecord(mustAuthority(t).New(trace.KindPrompt, now), now)}}
	for n := range oldCount {
		batch.Replies = append(batch.Replies, replyOf(time.Duration(n).String(), 1, now.Add(-25*time.Hour)))
	}
	fresh := replyOf("fresh", 1, now.Add(-23*time.Hour))
	batch.Replies = append(batch.Replies, fresh)
	mustCommit(t, s, batch)
	steps := 0
	for more := true; more; steps++ {
		var err error
		if more, err = s.Maintain(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	if steps < 3 {
		t.Errorf("it took %d steps; they are not small", steps)
	}
	if left, err := queryInt(t.Context(), s.conn, "SELECT count(*) FROM replies"); left != 1 || err != nil {
		t.Errorf("%d replies are left, %v", left, err)
	}
	if reply, err := s.Reply(t.Context(), fresh.ReplyKey, now); reply == nil || err != nil {
		t.Errorf("the fresh one: %v, %v", reply, err)
	}
	if counts, err := s.Counts(t.Context()); err != nil || counts.Traces != 1 {
		t.Errorf("%+v, %v", counts, err)
	}
}
