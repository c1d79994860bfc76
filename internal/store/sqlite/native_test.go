package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// The library gives a connection the same answers, whoever calls it.
func TestNativeErrorsAreTheDrivers(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	for query, code := range map[string]int{
		"SELECT nothing": sqlite3.SQLITE_ERROR,
		"INSERT INTO cursors (sink) VALUES ('stats')": sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
		"PRAGMA journal_size_limit = 1; SELECT":       0, // text after a statement is ignored
	} {
		err := s.writer.once(query)
		_, want := s.conn.ExecContext(t.Context(), strings.Split(query, ";")[0])
		if fmt.Sprint(err) != fmt.Sprint(want) || extendedCode(err) != code {
			t.Errorf("%s:\n%v (%d)\nwant\n%v (%d)", query, err, extendedCode(err), want, code)
		}
	}
}

func TestClosedWriterIsBroken(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	batch := &recorder.Batch{Records: []*trace.Record{{Workspace: "w"}}}
	mustCommit(t, s, *batch)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), batch); !errors.Is(err, recorder.ErrBroken) {
		t.Errorf("a commit after the end: %v", err)
	}
	if err := s.writer.close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// The connection of the batches finds damage, like all others.
func TestWriterFindsDamage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	mustKeep(t, s) // no other connection finds it
	authority, now := mustAuthority(t), time.Now()
	var batch recorder.Batch
	for range 300 {
		r := fullRecord(authority.New(trace.KindEndpoint, now), now)
		r.Messages = []byte(strings.Repeat("m", 1000))
		batch.Records = append(batch.Records, r)
	}
	mustCommit(t, s, batch)
	(&inUse{path: path}).overwrite(t)
	if err := s.writer.once("SELECT sum(length(messages)) FROM traces"); !isCorrupt(err) {
		t.Errorf("reading what was overwritten: %v", err)
	}
	select {
	case <-s.Broken():
	default:
		t.Error("the store does not tell")
	}
	if err := s.Commit(t.Context(), &recorder.Batch{Records: []*trace.Record{{Workspace: "w"}}}); !errors.Is(err, recorder.ErrReplaced) {
		t.Errorf("a commit to a damaged file: %v", err)
	}
}

// A value that a statement bound for a row must not be in the next row, nor may a text be
// that is larger than the buffer.
func TestStatementsForgetTheRowBefore(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	authority, at := mustAuthority(t), time.UnixMilli(1790000000123)
	var records []*trace.Record
	for n := range 6 {
		r := &trace.Record{
			ID: authority.New(trace.KindEndpoint, at), Time: at, Workspace: "default", Kind: trace.KindEndpoint,
			ToolCalls: []byte(`[1]`), // so that all are in one list
		}
		if n%2 == 0 {
			r = fullRecord(r.ID, at)
			r.Response = []byte(strings.Repeat(fmt.Sprint(n), n*textBufferBytes/2))
		}
		records = append(records, r)
		mustCommit(t, s, recorder.Batch{Records: []*trace.Record{r}})
	}
	mustHave(t, s, records)
	for _, r := range records {
		r.ID = authority.New(trace.KindEndpoint, at)
	}
	mustCommit(t, s, recorder.Batch{Records: records})
	mustHave(t, s, records)
}

// TestTextBufferIsSmall: a large text leaves no memory allocated, also if it is the first
// one.
func TestTextBufferIsSmall(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	buffer := &textBuffer{tls: s.writer.tls}
	defer buffer.free()
	for _, size := range []int{textBufferBytes, 1, textBufferBytes} {
		text := []byte(strings.Repeat("m", size))
		at, err := buffer.copy(text)
		if err != nil || string(memory(at, size)) != string(text) {
			t.Fatalf("a text of %d bytes: %v", size, err)
		}
		buffer.clear()
		if len(buffer.unused) > textBufferBytes || len(buffer.more) > 0 {
			t.Errorf("%d bytes and %d blocks are left after a text of %d", len(buffer.unused), len(buffer.more), size)
		}
	}
}
