package sqlite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// maintain runs maintenance until nothing is left to do.
func maintain(t testing.TB, s *Store, now time.Time) (steps int) {
	t.Helper()
	for more := true; more; steps++ {
		var err error
		if more, err = s.Maintain(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if steps > 10_000 {
			t.Fatal("there is no end to it")
		}
	}
	return steps
}

// commitAged commits count traces of that age, with a report on each.
func commitAged(t testing.TB, s *Store, authority *trace.Authority, workspace string, at time.Time, count, size int) (ids []trace.ID) {
	t.Helper()
	var batch recorder.Batch
	for range count {
		r := fullRecord(authority.New(trace.KindPrompt, at), at)
		r.Workspace, r.Response = workspace, bytes.Repeat([]byte("x"), size)
		m := metricsOf(r.ID)
		m.Workspace = workspace
		batch.Records, batch.Metrics = append(batch.Records, r), append(batch.Metrics, m)
		ids = append(ids, r.ID)
	}
	mustCommit(t, s, batch)
	return ids
}

func wantStored(t testing.TB, s *Store, name string, ids []trace.ID, want int) {
	t.Helper()
	list, err := json.Marshal(ids)
	if err != nil {
		t.Fatal(err)
	}
	var traces, metrics int
	if err := s.Reader.db.QueryRowContext(t.Context(), `
WITH ids AS MATERIALIZED (SELECT unhex(replace(value, '-', '')) AS id FROM json_each(?))
SELECT (SELECT count(*) FROM traces WHERE id IN ids), (SELECT count(*) FROM metrics WHERE trace_id IN ids)`, string(list)).Scan(&traces, &metrics); err != nil {
		t.Fatal(err)
	}
	if traces != want || metrics != want {
		t.Errorf("%s: %d of %d traces and %d metrics are stored, want %d", name, traces, len(ids), metrics, want)
	}
}

func TestRetentionSparesWhatIsUndelivered(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	now := time.Now()
	sinks := []string{"default/copy", "third/copy"}
	s := mustOpen(t, Config{Path: path, CurrentRetention: always(time.Hour), Sinks: func() []string { return sinks }})
	authority := mustAuthority(t)
	old := now.Add(-3 * time.Hour)
	delivered := commitAged(t, s, authority, "default", old, deleteRows+50, 1)
	o, sink := mustOutbox(t, path), newCopySink()
	sink.drain(t, o, 1000)
	// More rows than one step looks at, and before the others in order.
	spared := commitAged(t, s, authority, "default", old.Add(time.Minute), scanRows+100, 1)
	others := commitAged(t, s, authority, "other", old.Add(2*time.Minute), 30, 1)

	maintain(t, s, now)
	wantStored(t, s, "delivered", delivered, 0)
	wantStored(t, s, "undelivered", spared, len(spared))
	wantStored(t, s, "without a sink", others, 0)

	maintain(t, s, now)
	wantStored(t, s, "still undelivered", spared, len(spared))
	sink.drain(t, o, 1000)
	maintain(t, s, now)
	wantStored(t, s, "delivered in the end", spared, 0)

	given := commitAged(t, s, authority, "default", old.Add(3*time.Minute), 5, 1)
	sinks = nil // it was taken out of the configuration
	maintain(t, s, now)
	wantStored(t, s, "of a sink that is gone", given, 0)
}

func TestSizeIsACeiling(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	log := &logBuffer{}
	limit := int64(0)
	lost := map[string]int64{}
	s := mustOpen(t, Config{
		Path: path, CurrentMaxSize: func() int64 { return limit }, Logger: slog.New(slog.NewTextHandler(log, nil)),
		Sinks:  func() []string { return []string{"default/copy"} },
		OnLoss: func(sink string, rows int64) { lost[sink] += rows },
	})
	used := func() int64 {
		t.Helper()
		n, err := queryInt(t.Context(), s.conn, usedSQL)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	authority, now := mustAuthority(t), time.Now()
	mustCommit(t, s, recorder.Batch{
		Versions: []trace.Version{{Workspace: "default", Kind: trace.KindPrompt, Key: "k", Version: "v", Content: []byte("{}"), Time: now}},
		Replies:  []*trace.Reply{replyOf("kept", 1, now)},
	})
	bare := used()
	delivered := commitAged(t, s, authority, "default", now.Add(-3*time.Hour), 300, 2000)
	o, sink := mustOutbox(t, path), newCopySink()
	sink.drain(t, o, 1000)
	undelivered := commitAged(t, s, authority, "default", now.Add(-2*time.Hour), 300, 2000)
	others := commitAged(t, s, authority, "other", now.Add(-time.Hour), 100, 2000)
	young := commitAged(t, s, authority, "default", now, 300, 2000)
	// By a wrong clock: they must not be taken for old, nor stop anything.
	future := commitAged(t, s, authority, "default", now.AddDate(5, 0, 0), 3, 2000)
	full := used()
	perTrace := (full - bare) / 1003

	maintain(t, s, now)
	wantStored(t, s, "without a bound", delivered, len(delivered))

	limit = full - 150*perTrace
	maintain(t, s, now)
	if got := used(); got > limit || got < limit-50*perTrace {
		t.Errorf("%d bytes are used, want at most %d and not much less", got, limit)
	}
	wantStored(t, s, "what is enough", undelivered, len(undelivered))
	if len(lost) != 0 || strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("lost: %v, although all of it was delivered: %s", lost, log)
	}

	limit = full - 750*perTrace
	if steps := maintain(t, s, now); steps < 2 {
		t.Logf("in %d steps", steps)
	}
	if got := used(); got > limit {
		t.Errorf("%d bytes are used, want at most %d", got, limit)
	}
	wantStored(t, s, "the oldest", delivered, 0)
	wantStored(t, s, "undelivered", undelivered, 0)
	wantStored(t, s, "of another workspace", others, 0)
	wantStored(t, s, "of the future", future, len(future))
	youngLost := int64(0)
	for _, id := range young {
		if _, err := s.Trace(t.Context(), id); err != nil {
			youngLost++
		}
	}
	if youngLost == 0 || youngLost > 100 {
		t.Errorf("%d of the young were deleted, want about 50", youngLost)
	}
	if want := 2 * (int64(len(undelivered)) + youngLost); lost["default/copy"] < want-shrinkRows || lost["default/copy"] > want+shrinkRows {
		t.Errorf("%v rows were lost, want about %d", lost, want)
	}
	if text := log.String(); strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, "sink=default/copy") ||
		!strings.Contains(text, fmt.Sprintf("lost=%d", lost["default/copy"])) {
		t.Errorf("the log tells: %s", text)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}

	limit = 1 // no deletion reaches it
	maintain(t, s, now)
	maintain(t, s, now)
	if counts, err := s.Counts(t.Context()); err != nil || counts != (Counts{Versions: 1}) {
		t.Errorf("%+v, %v; want the version alone", counts, err)
	}
	if _, err := s.Reader.Reply(t.Context(), replyOf("kept", 1, now).ReplyKey); !errors.Is(err, ErrNotFound) {
		t.Errorf("the reply, whose share is nothing: %v", err)
	}
	if got := strings.Count(log.String(), "no traces are left"); got != 1 {
		t.Errorf("the log tells %d times that the file is too large: %s", got, log)
	}
}

// The size does not depend on time: it is enforced under a doubted clock too.
func TestSizeHoldsUnderAWrongClock(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db"), CurrentMaxSize: always[int64](500_000), CurrentRetention: always(time.Hour)})
	authority, now := mustAuthority(t), time.Now()
	ids := commitAged(t, s, authority, "default", now, 100, 10_000)
	maintain(t, s, now.AddDate(1, 0, 0))
	counts, err := s.Counts(t.Context())
	if err != nil || counts.Traces == 0 || counts.Traces > 50 {
		t.Errorf("%+v of %d, %v; want what fits", counts, len(ids), err)
	}
}

// A file of exactly the bound keeps all.
func TestSizeAtItsBound(t *testing.T) {
	var limit int64
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db"), CurrentMaxSize: func() int64 { return limit }})
	commitAged(t, s, mustAuthority(t), "default", time.Now(), 40, 1000)
	used, err := queryInt(t.Context(), s.conn, usedSQL)
	if err != nil {
		t.Fatal(err)
	}
	for _, over := range []int64{0, 1} {
		limit = used - over
		_, err := s.shrink(t.Context())
		if counts, countErr := s.Counts(t.Context()); err != nil || countErr != nil || (counts.Traces < 40) != (over > 0) {
			t.Errorf("%d traces are left of 40 where %d bytes may be %d: %v, %v", counts.Traces, used, limit, err, countErr)
		}
	}
}

// Rows of megabytes take more than the others: a step must not overshoot.
func TestSizeWithLargeRows(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db"), CurrentMaxSize: always[int64](30 << 20)})
	authority, now := mustAuthority(t), time.Now()
	for range 40 {
		commitAged(t, s, authority, "default", now, 1, 1<<20)
	}
	maintain(t, s, now)
	if counts, err := s.Counts(t.Context()); err != nil || counts.Traces > 30 || counts.Traces < 30-shrinkRows {
		t.Errorf("%+v, %v; want almost 30", counts, err)
	}
}

func TestErasuresAreForgotten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	var sinks []string
	s := mustOpen(t, Config{Path: path, Sinks: func() []string { return sinks }})
	now := time.Now()
	erase := func() {
		t.Helper()
		if _, err := Erase(t.Context(), path, trace.Selector{Workspace: "default", ConversationID: "c1"}); err != nil {
			t.Fatal(err)
		}
	}
	kept := func(after time.Duration, want int64) {
		t.Helper()
		s.clock = clockGuard{} // it would doubt such jumps
		maintain(t, s, now.Add(after))
		if got, err := queryInt(t.Context(), s.conn, "SELECT count(*) FROM erasures"); err != nil || got != want {
			t.Errorf("%d erasures after %s with sinks %v, %v; want %d", got, after, sinks, err, want)
		}
	}
	erase()
	kept(time.Minute, 0) // there is no sink
	sinks = []string{"default/copy"}
	erase()
	kept(erasureLifetime-time.Hour, 1)
	kept(erasureLifetime+time.Hour, 1) // no sink has it yet
	o := mustOutbox(t, path)
	newCopySink().drain(t, o, 10)
	kept(erasureLifetime+time.Hour, 0)
	erase()
	if rows, _, err := o.Pending(t.Context()); rows != 1 || err != nil {
		t.Errorf("%d pending, %v; a later erasure must come after the forgotten one", rows, err)
	}
	sinks = nil
	kept(time.Minute, 1) // the sink may come back
}
