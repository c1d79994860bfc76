package sqlite

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// openRecorder returns a recorder on the file, ready for metrics.
func openRecorder(t testing.TB, config Config) *recorder.Recorder {
	t.Helper()
	return openRecorderBy(t, config, opener(config))
}

// openRecorderBy is openRecorder with a function that opens the file.
func openRecorderBy(t testing.TB, config Config, open func(context.Context) (recorder.Store, error)) *recorder.Recorder {
	t.Helper()
	r := recorder.New(recorder.Options{Open: open, Calls: config.Path, Logger: config.Logger})
	r.Open()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Errorf("closing the recorder: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := r.TraceKey(ctx); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the store to be available", func() bool { return r.Stats().Availability == recorder.Available })
	return r
}

func waitFor(t testing.TB, event string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", event)
		}
	}
}

func metricsOf(id trace.ID) *trace.Metrics {
	return &trace.Metrics{TraceID: id, Workspace: "default", Time: time.Now(), Score: new(50.0)}
}

// countStored counts the ids for which the file has metrics.
func countStored(t testing.TB, path string, ids []trace.ID) int {
	t.Helper()
	r, err := OpenReader(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Check(t.Context()); err != nil {
		t.Error(err)
	}
	stored := 0
	for _, id := range ids {
		metrics, err := r.MetricsFor(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if len(metrics) > 0 {
			stored++
		}
	}
	return stored
}

func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	authority := mustAuthority(t)
	s := mustOpen(t, Config{Path: path, maxPages: 40})
	batch := func(id trace.ID) *recorder.Batch {
		m := metricsOf(id)
		m.Metadata = bytes.Repeat([]byte("x"), 3000)
		return &recorder.Batch{Metrics: []*trace.Metrics{m}}
	}
	var acknowledged []trace.ID
	var err error
	for range 100 {
		id := authority.New(trace.KindPrompt, time.Now())
		if err = s.Commit(t.Context(), batch(id)); err != nil {
			break
		}
		acknowledged = append(acknowledged, id)
	}
	if err == nil || errors.Is(err, recorder.ErrBroken) {
		t.Fatalf("a full disk: %v, want an error that can be retried on the same connection", err)
	}
	if len(acknowledged) == 0 {
		t.Fatal("nothing was stored before the disk was full")
	}
	if err := limitPages(s.writer.once, 1000); err != nil {
		t.Fatal(err)
	}
	id := authority.New(trace.KindPrompt, time.Now())
	if err := s.Commit(t.Context(), batch(id)); err != nil {
		t.Fatalf("after there was room again: %v", err)
	}
	acknowledged = append(acknowledged, id)
	if got := countStored(t, path, acknowledged); got != len(acknowledged) {
		t.Errorf("%d of %d are stored", got, len(acknowledged))
	}
}

func TestLockedDatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	r := openRecorder(t, Config{Path: path})
	authority := mustAuthority(t)
	before := authority.New(trace.KindPrompt, time.Now())
	if err := r.Metrics(t.Context(), metricsOf(before)); err != nil {
		t.Fatal(err)
	}
	other := mustOpen(t, Config{Path: path})
	if err := other.writer.repeat("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	during := authority.New(trace.KindPrompt, began)
	record := trace.AcquireRecord()
	record.ID, record.Workspace, record.Kind = during, "default", trace.KindPrompt
	if !r.Evaluation(record) || time.Since(began) > busyTimeoutMillis*time.Millisecond/2 {
		t.Errorf("an evaluation was held up or dropped by a lock")
	}
	if err := r.Metrics(t.Context(), metricsOf(during)); !errors.Is(err, recorder.ErrUnavailable) {
		t.Errorf("metrics under a lock that lasts: %v, want ErrUnavailable", err)
	}
	if err := other.writer.repeat("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	after := authority.New(trace.KindPrompt, time.Now())
	waitFor(t, "metrics to be stored again", func() bool { return r.Metrics(t.Context(), metricsOf(after)) == nil })
	if got := countStored(t, path, []trace.ID{before, after}); got != 2 {
		t.Errorf("%d of 2 are stored", got)
	}
	if _, err := other.Trace(t.Context(), during); err != nil {
		t.Errorf("the evaluation under the lock: %v", err)
	}
}

func TestDamagedFileIsSetAside(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	tests := map[string]struct {
		damage  func([]byte) []byte
		keepKey bool
	}{
		"not a database": {damage: func([]byte) []byte { return bytes.Repeat([]byte("no database at all\n"), 500) }},
		"header": {damage: func(b []byte) []byte {
			for i := range 100 {
				b[i] = byte(random.Uint32())
			}
			return b
		}},
		"end is garbage": {keepKey: true, damage: func(b []byte) []byte {
			for i := len(b) / 2; i < len(b); i++ {
				b[i] = byte(random.Uint32())
			}
			return b
		}},
		"end is zero": {keepKey: true, damage: func(b []byte) []byte {
			clear(b[len(b)/2:])
			return b
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.db")
			s := mustOpen(t, Config{Path: path})
			key, err := s.TraceKey(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var batch recorder.Batch
			authority := mustAuthority(t)
			for range 400 { // so many that the tables, which are made first, are in the first half
				m := metricsOf(authority.New(trace.KindPrompt, time.Now()))
				m.Metadata = bytes.Repeat([]byte("x"), 1000)
				batch.Metrics = append(batch.Metrics, m)
			}
			if err := errors.Join(s.Commit(t.Context(), &batch), s.Close()); err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			damaged := test.damage(content)
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}

			log := &logBuffer{}
			r := openRecorder(t, Config{Path: path, Logger: slog.New(slog.NewTextHandler(log, nil))})
			var aside []string
			waitFor(t, "the damage to be noticed", func() bool {
				// Metrics, because damage is reported with a commit.
				_ = r.Metrics(t.Context(), metricsOf(authority.New(trace.KindPrompt, time.Now())))
				aside, err = filepath.Glob(path + ".corrupt-*Z")
				return err == nil && len(aside) == 1
			})
			if kept, err := os.ReadFile(aside[0]); err != nil || !bytes.HasPrefix(kept, damaged[:16]) {
				t.Errorf("what was set aside is not the damaged file: %v", err)
			}
			if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), aside[0]) {
				t.Errorf("the log does not tell: %s", log)
			}
			after := authority.New(trace.KindPrompt, time.Now())
			waitFor(t, "metrics to be stored", func() bool { return r.Metrics(t.Context(), metricsOf(after)) == nil })
			if countStored(t, path, []trace.ID{after}) != 1 {
				t.Error("metrics are not in the new file")
			}
			reader, err := OpenReader(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			newKey, err := storedTraceKey(t.Context(), reader.db)
			if err != nil || bytes.Equal(newKey, key) != test.keepKey {
				t.Errorf("the new file has key %x (%v), the old one had %x; kept must be %v", newKey, err, key, test.keepKey)
			}
		})
	}
}

// TestCloseEmptiesTheLog closes stores while they check their files. Whoever copies the file
// afterwards must have all of it.
func TestCloseEmptiesTheLog(t *testing.T) {
	t.Parallel()
	authority := mustAuthority(t)
	for range 100 {
		s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
		m := metricsOf(authority.New(trace.KindPrompt, time.Now()))
		if err := errors.Join(s.Commit(t.Context(), &recorder.Batch{Metrics: []*trace.Metrics{m}}), s.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(s.path + "-wal"); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("the log is left: %v", err)
		}
	}
}

// TestRandomDamage opens a file with random bytes in random places. The store
// must not panic, and must work in the end.
func TestRandomDamage(t *testing.T) {
	t.Parallel()
	source := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: source})
	var batch recorder.Batch
	authority := mustAuthority(t)
	for range 50 {
		m := metricsOf(authority.New(trace.KindPrompt, time.Now()))
		m.Metadata = bytes.Repeat([]byte("x"), 500)
		batch.Metrics = append(batch.Metrics, m)
		batch.Records = append(batch.Records, fullRecord(m.TraceID, m.Time))
	}
	if err := errors.Join(s.Commit(t.Context(), &batch), s.Close()); err != nil {
		t.Fatal(err)
	}
	sound, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	rounds := 60 / fewer
	if testing.Short() {
		rounds = 10
	}
	for range rounds {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "a.db")
		content := bytes.Clone(sound)
		for range 1 + random.IntN(40) {
			content[random.IntN(len(content))] = byte(random.Uint32())
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		store, err := Open(t.Context(), Config{Path: path})
		if err != nil {
			// A byte may have turned it into another application's file.
			if !strings.Contains(err.Error(), path) {
				t.Errorf("the error does not name the file: %v", err)
			}
			continue
		}
		err = store.Commit(t.Context(), &batch)
		if err != nil && !errors.Is(err, recorder.ErrBroken) && resultCode(err) == 0 {
			t.Errorf("commit: %v", err)
		}
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

func TestDeletedFileIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	r := openRecorder(t, Config{Path: path})
	authority := mustAuthority(t)
	if err := r.Metrics(t.Context(), metricsOf(authority.New(trace.KindPrompt, time.Now()))); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil {
			t.Skipf("this system does not delete open files: %v", err)
		}
	}
	var acknowledged []trace.ID
	waitFor(t, "metrics to be stored again", func() bool {
		id := authority.New(trace.KindPrompt, time.Now())
		if r.Metrics(t.Context(), metricsOf(id)) == nil {
			acknowledged = append(acknowledged, id)
		}
		return len(acknowledged) == 3
	})
	if got := countStored(t, path, acknowledged); got != len(acknowledged) {
		t.Errorf("%d of %d that were acknowledged after the file was deleted are stored", got, len(acknowledged))
	}
}

// TestReplacedFileIsNoticed puts another database at the path of one in use, as an operator
// who restores a copy does.
func TestReplacedFileIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	r := openRecorder(t, Config{Path: path})
	authority := mustAuthority(t)
	before := authority.New(trace.KindPrompt, time.Now())
	if err := r.Metrics(t.Context(), metricsOf(before)); err != nil {
		t.Fatal(err)
	}
	copied, restored := path+".copy", authority.New(trace.KindPrompt, time.Now())
	s := mustOpen(t, Config{Path: copied})
	if err := errors.Join(s.Commit(t.Context(), &recorder.Batch{Metrics: []*trace.Metrics{metricsOf(restored)}}), s.Close()); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"-wal", "-shm", ""} {
		if err := os.Rename(path+suffix, path+".old"+suffix); err != nil {
			t.Skipf("this system does not move open files: %v", err)
		}
	}
	if err := os.Rename(copied, path); err != nil {
		t.Fatal(err)
	}
	after := authority.New(trace.KindPrompt, time.Now())
	if err := r.Metrics(t.Context(), metricsOf(after)); err != nil {
		t.Errorf("metrics after the file was replaced: %v", err)
	}
	if got := countStored(t, path, []trace.ID{restored, after}); got != 2 {
		t.Errorf("%d of the 2 that the restored file must hold", got)
	}
	if got := countStored(t, path+".old", []trace.ID{before, after}); got != 1 {
		t.Errorf("the file that was moved away has %d of them", got)
	}
}

// logBuffer is a buffer that a logger may write to while a test reads it.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
