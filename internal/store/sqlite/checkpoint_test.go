package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestLogIsCopiedInTheBackground only waits until commits without a sync are in the
// database. The statistics are off: their commits have the log copied too.
func TestLogIsCopiedInTheBackground(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	s.stop()
	s.background.Wait()
	s.written.Store(false)
	db, err := openDatabase(writerDSN(path), 1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var copying sync.WaitGroup
	copying.Go(func() { s.checkpointUntil(ctx, db) })
	defer func() {
		cancel()
		copying.Wait()
		db.Close()
	}()
	size := func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	record := fullRecord(mustAuthority(t).New(trace.KindPrompt, time.Now()), time.Now())
	record.Response = make([]byte, 1<<20)
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{record}})
	waitFor(t, "the database to grow", func() bool { return size() >= before+1<<20 })
}

// TestLongLogIsBegunAnew has the writer copy the pages that a checkpoint in the background
// left, as it asks for under load.
func TestLongLogIsBegunAnew(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	s.stop() // only the writer copies here
	s.background.Wait()
	authority := mustAuthority(t)
	commit := func() {
		t.Helper()
		record := fullRecord(authority.New(trace.KindPrompt, time.Now()), time.Now())
		mustCommit(t, s, recorder.Batch{Records: []*trace.Record{record}})
	}
	logFile := s.path + "-wal"
	for range 50 {
		commit()
	}
	grown, err := os.Stat(logFile)
	if err != nil {
		t.Fatal(err)
	}
	s.finishLog.Store(true)
	for range 50 {
		commit()
	}
	after, err := os.Stat(logFile)
	if err != nil {
		t.Fatal(err)
	}
	if after.Size() > grown.Size()+64<<10 {
		t.Errorf("the log grew from %d to %d bytes, it was not begun anew", grown.Size(), after.Size())
	}
	if length, uncopied, err := checkpoint(t.Context(), s.conn); err != nil || length == 0 || uncopied != 0 {
		t.Errorf("a log of %d pages, %d not copied, %v", length, uncopied, err)
	}
}
