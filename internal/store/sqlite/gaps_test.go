package sqlite

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// countGaps counts the pages of trees that have bytes which no cell uses.
func countGaps(t testing.TB, s *Store) int {
	t.Helper()
	size, err := queryInt(t.Context(), s.conn, "PRAGMA page_size")
	if err != nil {
		t.Fatal(err)
	}
	count, err := queryInt(t.Context(), s.conn, "PRAGMA page_count")
	if err != nil {
		t.Fatal(err)
	}
	all := []int64{1}
	for first := int64(2); first <= count; first += size/5 + 1 {
		pages, err := treePages(t.Context(), s.conn, first, min(first+size/5, count), size)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, pages...)
	}
	// SQLite's own account of them.
	trees, err := collect(t.Context(), s.conn, func(scan func(...any) error) (n int64, err error) { return n, scan(&n) },
		"SELECT pageno FROM dbstat WHERE pagetype IN ('internal', 'leaf') ORDER BY pageno")
	if err != nil || !slices.Equal(all, trees) {
		t.Errorf("the maps tell of %d pages of trees, SQLite of %d, %v", len(all), len(trees), err)
	}
	gaps, err := gapsIn(t.Context(), s.conn, all)
	if err != nil {
		t.Fatal(err)
	}
	return len(gaps)
}

// TestErasureLeavesNoGaps has an erasure take out what the trees of a file with
// more than one map have left between their cells, and nothing else.
func TestErasureLeavesNoGaps(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	s.stop() // or what is counted in the background leaves gaps of its own
	s.background.Wait()
	authority, now := mustAuthority(t), time.Now()
	var kept []*trace.Record
	for range 40 {
		var batch recorder.Batch
		for range 50 {
			r := fullRecord(authority.New(trace.KindEndpoint, now), now)
			r.Messages = bytes.Repeat([]byte("m"), 1+random.IntN(3000))
			batch.Records = append(batch.Records, r)
			m := metricsOf(r.ID)
			m.LLMResponse = new(string(bytes.Repeat([]byte("a"), random.IntN(600))))
			if random.IntN(3) == 0 {
				m.ConversationID = new("c1")
			} else {
				kept = append(kept, r)
			}
			batch.Metrics = append(batch.Metrics, m)
		}
		mustCommit(t, s, batch)
	}
	if pages, err := queryInt(t.Context(), s.conn, "PRAGMA page_count"); err != nil || pages < 900 {
		t.Fatalf("%d pages, %v: all of one map", pages, err)
	}
	if countGaps(t, s) == 0 {
		t.Fatal("there are no gaps: the test shows nothing")
	}
	if _, err := Erase(t.Context(), path, trace.Selector{Workspace: "default", ConversationID: "c1"}); err != nil {
		t.Fatal(err)
	}
	if n := countGaps(t, s); n != 0 {
		t.Errorf("%d pages have something between their cells", n)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	for _, r := range kept {
		got, err := s.Trace(t.Context(), r.ID)
		if err != nil || !bytes.Equal(got.Messages, r.Messages) || got.APIKey != r.APIKey {
			t.Fatalf("a trace that was kept: %+v, %v", got, err)
		}
	}
	// The file goes on to be written to.
	commitAged(t, s, authority, "default", now, 300, 2000)
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestErasureFromARecoveredFile erases from a file as SQLite's shell makes it out
// of a damaged one.
func TestErasureFromARecoveredFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	makeOldFile(t, path, 7)
	s := mustOpen(t, Config{Path: path})
	s.stop() // or what is counted in the background leaves gaps of its own
	s.background.Wait()
	authority, now := mustAuthority(t), time.Now()
	var batch recorder.Batch
	for n := range 300 {
		m := metricsOf(authority.New(trace.KindMetrics, now))
		m.LLMResponse = new("the text of others")
		if n%3 > 0 {
			m.ConversationID, m.LLMResponse = new("c1"), new(string(bytes.Repeat([]byte("the secret"), 600)))
		}
		batch.Metrics = append(batch.Metrics, m)
	}
	mustCommit(t, s, batch)
	for range 2 { // by now it is as any other
		if _, err := Erase(t.Context(), path, trace.Selector{Workspace: "default", ConversationID: "c1"}); err != nil {
			t.Fatal(err)
		}
		if raw := rawBytes(t, path); bytes.Contains(raw, []byte("the secret")) || !bytes.Contains(raw, []byte("the text of others")) {
			t.Error("the erased content is still there, or the other is not")
		}
		if n := countGaps(t, s); n != 0 {
			t.Errorf("%d pages have something between their cells", n)
		}
		commitAged(t, s, authority, "default", now, 100, 2000)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// pageOf is a page of a tree whose bytes name their use: h a header,
// c a cell, f the head of a free block, and x a byte without a use.
func pageOf(kind byte, isFirst bool) (page []byte, plan []byte) {
	page, plan = make([]byte, 512), bytes.Repeat([]byte("x"), 512)
	header, length := 0, 8
	if isFirst {
		header = 100
	}
	if kind == 2 || kind == 5 {
		length = 12
	}
	for i := range page {
		page[i] = 0xAA
	}
	fill := func(from, to int, with byte) {
		for i := from; i < to; i++ {
			plan[i] = with
		}
	}
	fill(0, header+length+2*2, 'h') // two cells
	fill(400, 512, 'c')
	// Two free blocks among the cells.
	fill(420, 424, 'f')
	fill(424, 430, 'x')
	fill(460, 464, 'f')
	put := func(at, n int) { binary.BigEndian.PutUint16(page[at:], uint16(n)) }
	page[header] = kind
	put(header+1, 420)
	put(header+3, 2)
	put(header+5, 400)
	put(420, 460)
	put(422, 10)
	put(460, 0)
	put(462, 4)
	return page, plan
}

func TestZeroGaps(t *testing.T) {
	for _, kind := range []byte{2, 5, 10, 13} {
		for _, isFirst := range []bool{false, true} {
			page, plan := pageOf(kind, isFirst)
			before := slices.Clone(page)
			if !zeroGaps(page, isFirst) {
				t.Errorf("kind %d: nothing changed", kind)
			}
			for i := range page {
				if want := plan[i] == 'x'; want != (page[i] == 0 && before[i] != 0) && (want || page[i] != before[i]) {
					t.Fatalf("kind %d, first %t: byte %d, which is %c, became %x", kind, isFirst, i, plan[i], page[i])
				}
			}
			if zeroGaps(page, isFirst) {
				t.Errorf("kind %d: it changed again", kind)
			}
		}
	}
	page, _ := pageOf(0, false)
	if before := slices.Clone(page); zeroGaps(page, false) || !bytes.Equal(page, before) {
		t.Error("a page of no tree was changed")
	}
}

// A damaged page may hold anything.
func TestZeroGapsOfDamagedPages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		page, _ := pageOf(rapid.SampledFrom([]byte{2, 5, 10, 13}).Draw(t, "kind"), false)
		for range rapid.IntRange(0, 20).Draw(t, "bytes") {
			at := rapid.SampledFrom([]int{1, 2, 3, 4, 5, 6, 420, 421, 422, 423, 460, 461, 462, 463}).Draw(t, "at")
			page[at] = rapid.Byte().Draw(t, "byte")
		}
		zeroGaps(page, false)
		if zeroGaps(page, false) {
			t.Fatal("it changed again")
		}
	})
}

func BenchmarkWipeGaps(b *testing.B) {
	path := filepath.Join(b.TempDir(), "a.db")
	s := mustOpen(b, Config{Path: path})
	authority, now := mustAuthority(b), time.Now()
	for range 100 {
		commitAged(b, s, authority, "default", now, 100, 10_000)
	}
	size, err := queryInt(b.Context(), s.conn, usedSQL)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	for n := 0; b.Loop(); n++ {
		if _, err := Erase(b.Context(), path, trace.Selector{Workspace: "default", ConversationID: fmt.Sprint(n)}); err != nil {
			b.Fatal(err)
		}
	}
}
