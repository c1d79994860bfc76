package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// inUse is a file to which a recorder writes.
type inUse struct {
	*recorder.Recorder
	config    Config
	path      string
	ids       *trace.Authority
	before    []trace.ID // that metrics were acknowledged for
	log       *logBuffer
	setAside  atomic.Int64 // how often the store said so
	asideName atomic.Pointer[string]
}

func replyKey(n int) trace.ReplyKey {
	return trace.ReplyKey{Workspace: "default", Route: "metrics", Key: fmt.Sprint("key ", n)}
}

func useFile(t *testing.T) *inUse {
	t.Helper()
	u := &inUse{path: filepath.Join(t.TempDir(), "a.db"), ids: mustAuthority(t), log: &logBuffer{}}
	u.config = Config{
		Path: u.path, CurrentRetention: always(time.Hour), Logger: slog.New(slog.NewTextHandler(u.log, nil)),
		OnSetAside: func(aside string) {
			u.setAside.Add(1)
			u.asideName.Store(&aside)
		},
	}
	// A store that counts, checks and copies the file by itself may find the damage before
	// the test does.
	u.Recorder = openRecorderBy(t, u.config, func(ctx context.Context) (recorder.Store, error) {
		s, err := Open(ctx, u.config)
		if err != nil {
			return nil, err
		}
		s.stop()
		s.background.Wait()
		return s, nil
	})
	u.fill(t)
	return u
}

// fill records 300 answers with a report each, and waits until they are written.
func (u *inUse) fill(t *testing.T) {
	t.Helper()
	for n := range 300 {
		id := u.ids.New(trace.KindEndpoint, time.Now())
		record := trace.AcquireRecord()
		*record = *fullRecord(id, time.Now())
		record.Messages = bytes.Repeat([]byte("m"), 500)
		u.Evaluation(record)
		m := metricsOf(id)
		m.Metadata = []byte(`{"x":"` + strings.Repeat("x", 500) + `"}`)
		m.Reply = &trace.Reply{ReplyKey: replyKey(n), Time: m.Time, Status: 200, Body: bytes.Repeat([]byte("b"), 500)}
		if err := u.Metrics(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		u.before = append(u.before, id)
	}
	if err := u.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// copyLog copies the log into the database.
func (u *inUse) copyLog(t *testing.T) {
	t.Helper()
	db, err := openDatabase(secondWriterDSN(u.path), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	waitFor(t, "the log to be copied", func() bool {
		var busy, length, copied int
		err := db.QueryRow("PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &length, &copied)
		return err == nil && busy == 0
	})
}

// keepLog keeps all later writes in the log: no checkpoint copies frames that a reader's
// transaction began before.
func (u *inUse) keepLog(t *testing.T) {
	t.Helper()
	reader, err := OpenReader(t.Context(), u.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close() })
	tx, err := reader.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	var n int
	if err := tx.QueryRow("SELECT count(*) FROM sqlite_schema").Scan(&n); err != nil {
		t.Fatal(err)
	}
}

// overwrite puts garbage over most of the file, as a disk may, or an operator's command. It
// leaves the schema and the store's own tables.
func (u *inUse) overwrite(t *testing.T) {
	t.Helper()
	u.copyLog(t)
	var schema []int64 // its pages, which move to the end when a table is made
	if err := u.read(t, func(ctx context.Context, r *Reader) (err error) {
		schema, err = collect(ctx, r.db, func(scan func(...any) error) (page int64, err error) {
			err = scan(&page)
			return page, err
		}, "SELECT pageno FROM dbstat WHERE name = 'sqlite_schema'")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(u.path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		t.Fatal(err)
	}
	garbage := make([]byte, pageBytes)
	random := rand.New(rand.NewPCG(7, 8))
	for page := int64(65); page <= size/pageBytes; page++ { // after the store's own tables
		for i := range garbage {
			garbage[i] = byte(random.Uint32())
		}
		if slices.Contains(schema, page) {
			continue
		}
		if _, err := file.WriteAt(garbage, (page-1)*pageBytes); err != nil {
			t.Fatal(err)
		}
	}
}

// read reads from the file as the admin API does.
func (u *inUse) read(t *testing.T, with func(context.Context, *Reader) error) error {
	t.Helper()
	reader, err := OpenReader(t.Context(), u.path)
	if err != nil {
		return err
	}
	defer reader.Close()
	return with(t.Context(), reader)
}

// mustBeSetAside waits for the damaged file to be set aside, once and loudly.
func (u *inUse) mustBeSetAside(t *testing.T) {
	t.Helper()
	waitFor(t, "the file to be set aside", func() bool { return u.setAside.Load() > 0 })
	aside, err := filepath.Glob(u.path + ".corrupt-*Z")
	if err != nil || len(aside) != 1 || u.setAside.Load() != 1 || aside[0] != *u.asideName.Load() {
		t.Fatalf("set aside: %q (%v), told %d times, the last time of %q", aside, err, u.setAside.Load(), *u.asideName.Load())
	}
	if log := u.log.String(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, aside[0]) {
		t.Errorf("the log does not tell: %s", log)
	}
}

// mustStore reports on new traces, none of which may be refused or be missing
// from the file.
func (u *inUse) mustStore(t *testing.T) {
	t.Helper()
	var acknowledged []trace.ID
	for range 20 {
		id := u.ids.New(trace.KindEndpoint, time.Now())
		if err := u.Metrics(t.Context(), metricsOf(id)); err != nil {
			t.Fatalf("metrics after the damage was found: %v", err)
		}
		acknowledged = append(acknowledged, id)
	}
	if got := countStored(t, u.path, acknowledged); got != len(acknowledged) {
		t.Errorf("%d of %d that were acknowledged after the damage was found are stored", got, len(acknowledged))
	}
}

// TestDamageInUse damages a file under a running recorder. Each way to find the damage has
// the file set aside at once. The new file has all rows that are acknowledged later.
func TestDamageInUse(t *testing.T) {
	t.Parallel()
	type finder func(*testing.T, *inUse) error
	reading := func(with func(context.Context, *Reader, *inUse) error) finder {
		return func(t *testing.T, u *inUse) error {
			return u.read(t, func(ctx context.Context, r *Reader) error { return with(ctx, r, u) })
		}
	}
	each := func(read func(context.Context, *Reader, trace.ID) error) finder {
		return reading(func(ctx context.Context, r *Reader, u *inUse) error {
			for _, id := range u.before {
				if err := read(ctx, r, id); err != nil {
					return err
				}
			}
			return nil
		})
	}
	finders := map[string]finder{
		"a trace is read": each(func(ctx context.Context, r *Reader, id trace.ID) error {
			_, err := r.Get(ctx, "default", id)
			return err
		}),
		"metrics are read": each(func(ctx context.Context, r *Reader, id trace.ID) error {
			_, err := r.MetricsFor(ctx, id)
			return err
		}),
		"traces are listed": reading(func(ctx context.Context, r *Reader, _ *inUse) error {
			_, err := r.Traces(ctx, trace.Filter{Workspace: "default"}, trace.ID{}, 1000, time.Minute)
			return err
		}),
		"traces are exported": reading(func(ctx context.Context, r *Reader, _ *inUse) error {
			return r.Export(ctx, trace.Filter{Workspace: "default"}, func(*trace.Record, []trace.Metrics) error { return nil })
		}),
		"traces are followed": reading(func(ctx context.Context, r *Reader, _ *inUse) error {
			_, _, err := r.Follow(ctx, trace.Filter{Workspace: "default"}, 0, 1000)
			return err
		}),
		"statistics are read": reading(func(ctx context.Context, r *Reader, _ *inUse) error {
			_, err := r.Stats(ctx, StatsQuery{Workspace: "default", Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)})
			return err
		}),
		"the file is checked": reading(func(ctx context.Context, r *Reader, _ *inUse) error { return r.Check(ctx) }),
		"a sink takes it": func(t *testing.T, u *inUse) error {
			box, err := OpenOutbox(t.Context(), u.path, "default", "default/test")
			if err != nil {
				return err
			}
			defer box.Close()
			_, err = box.Next(t.Context(), trace.Position{}, 1000)
			return err
		},
		"an erasure": func(t *testing.T, u *inUse) error {
			_, err := Erase(t.Context(), u.path, trace.Selector{Workspace: "default", MetadataName: "x", MetadataValue: `"y"`})
			return err
		},
		"an idempotency key": func(t *testing.T, u *inUse) error {
			for n := range 300 {
				if _, err := u.Reply(t.Context(), replyKey(n), time.Now()); err != nil {
					return err
				}
			}
			return nil
		},
		"the retention": func(t *testing.T, u *inUse) error {
			// The writer of the same file in another configuration.
			config := u.config
			config.CurrentRetention = always(time.Nanosecond)
			s, err := Open(t.Context(), config)
			if err != nil {
				return err
			}
			defer func() { _ = s.Close() }()
			for more := true; more && err == nil; {
				more, err = s.Maintain(t.Context(), time.Now().Add(time.Second))
			}
			return err
		},
	}
	for name, find := range finders {
		t.Run(name, func(t *testing.T) {
			u := useFile(t)
			u.overwrite(t)
			if err := find(t, u); err == nil {
				t.Fatal("the damage was not met")
			}
			u.mustStore(t)
			u.mustBeSetAside(t)
		})
	}
}

// TestIdleStoreIsReplaced has only a read find the damage.
func TestIdleStoreIsReplaced(t *testing.T) {
	t.Parallel()
	u := useFile(t)
	key, err := u.TraceKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u.overwrite(t)
	if err := u.read(t, func(ctx context.Context, r *Reader) error { return r.Check(ctx) }); err == nil {
		t.Fatal("the damage was not met")
	}
	u.mustBeSetAside(t)
	waitFor(t, "a new file", func() bool {
		return u.read(t, func(ctx context.Context, r *Reader) error {
			kept, err := storedTraceKey(ctx, r.db)
			if err == nil && !bytes.Equal(kept, key) {
				t.Error("the new file has another trace key")
			}
			return err
		}) == nil
	})
	u.mustStore(t)
}

// TestShortFileIsDamage cuts off the end of a file, and of a log, in use.
func TestShortFileIsDamage(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{"", "-wal"} {
		t.Run("file"+suffix, func(t *testing.T) {
			u := useFile(t)
			if suffix == "" {
				u.copyLog(t)
			} else {
				u.keepLog(t)
				u.fill(t)
			}
			if err := os.Truncate(u.path+suffix, 10*pageBytes); err != nil {
				t.Skipf("this system does not cut open files: %v", err)
			}
			if err := u.read(t, func(ctx context.Context, r *Reader) error { return r.Check(ctx) }); err == nil {
				t.Fatal("the damage was not met")
			}
			u.mustStore(t)
			u.mustBeSetAside(t)
		})
	}
}

// TestDamageElsewhere finds damage in a file that was moved away: the file in its place
// goes on.
func TestDamageElsewhere(t *testing.T) {
	t.Parallel()
	u := useFile(t)
	stale, err := OpenReader(t.Context(), u.path)
	if err != nil {
		t.Fatal(err)
	}
	defer stale.Close()
	u.overwrite(t)
	for _, suffix := range []string{"-wal", "-shm", ""} {
		if err := os.Rename(u.path+suffix, u.path+".moved"+suffix); err != nil {
			t.Skipf("this system does not move open files: %v", err)
		}
	}
	u.mustStore(t)
	if err := stale.Check(t.Context()); !isCorrupt(err) {
		t.Fatalf("the old file: %v", err)
	}
	u.mustStore(t)
	if n := u.setAside.Load(); n != 0 {
		t.Errorf("%d files were set aside", n)
	}
}

// TestNoFalseDamage has a file fail in other ways, for which it is not set aside.
func TestNoFalseDamage(t *testing.T) {
	for _, code := range []int{
		sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_IOERR_READ,
		sqlite3.SQLITE_IOERR_CORRUPTFS, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_ERROR,
	} {
		if isDamage(code) {
			t.Errorf("%d is taken for damage", code)
		}
	}
	for _, code := range []int{
		sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CORRUPT_INDEX, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR_SHORT_READ,
	} {
		if !isDamage(code) {
			t.Errorf("%d is not taken for damage", code)
		}
	}
}

// TestFileOfAnotherIsLeftAlone has another process set the damaged file aside first: this
// process uses the file that the other began.
func TestFileOfAnotherIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	if err := mustOpen(t, Config{Path: path}).Close(); err != nil {
		t.Fatal(err)
	}
	damaged, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := mustOpen(t, Config{Path: path}).Close(); err != nil {
		t.Fatal(err)
	}
	begun, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	config := Config{Path: path, Logger: slog.New(slog.DiscardHandler), OnSetAside: func(aside string) { t.Errorf("%s was set aside", aside) }}
	s, err := replace(t.Context(), config, path, damaged, errCheckFailed)
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(s.file, begun) {
		t.Error("the file that another began is not used")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
