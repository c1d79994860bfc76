package sqlite

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// countGaps counts the b-tree pages that have unused bytes other than zero.
func countGaps(t testing.TB, s *Store) int {
	t.Helper()
	count, err := queryInt(t.Context(), s.conn, "PRAGMA page_count")
	if err != nil {
		t.Fatal(err)
	}
	var all []int64
	n := 0
	for first := int64(2); first <= count; first += mappedPages + 1 {
		pages, err := readTreePages(t.Context(), s.conn, first, mappedBy(first))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pages {
			all = append(all, p.number)
			if zeroGaps(p.data, p.number == 1) {
				n++
			}
		}
	}
	// SQLite's own count of them.
	trees, err := collect(t.Context(), s.conn, func(scan func(...any) error) (n int64, err error) { return n, scan(&n) },
		"SELECT pageno FROM dbstat WHERE pagetype IN ('internal', 'leaf') ORDER BY pageno")
	if err != nil || !slices.Equal(all, trees) {
		t.Errorf("the maps tell of %d pages of trees, SQLite of %d, %v", len(all), len(trees), err)
	}
	return n
}

// TestErasureLeavesNoGaps has an erasure zero the unused bytes of a file with more than one
// map, and no other bytes.
func TestErasureLeavesNoGaps(t *testing.T) {
	alone(t)
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	s.stop() // the statistics would leave gaps of their own
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
	// The file can still be written.
	commitAged(t, s, authority, "default", now, 300, 2000)
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestErasureNeedsMaps: an erasure refuses a file that SQLite's shell filled from a dump,
// before it deletes a row, as the file has no maps. The advice in its error helps.
func TestErasureNeedsMaps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	makeFile(t, path, "PRAGMA page_size = 8192;"+schema+fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, format))
	s := mustOpen(t, Config{Path: path})
	m := metricsOf(mustAuthority(t).New(trace.KindMetrics, time.Now()))
	m.ConversationID, m.LLMResponse = new("c1"), new("the secret")
	mustCommit(t, s, recorder.Batch{Metrics: []*trace.Metrics{m}})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	selector := trace.Selector{Workspace: "default", ConversationID: "c1"}
	erased, err := Erase(t.Context(), path, selector)
	if err == nil || erased != (trace.Erased{}) {
		t.Fatalf("erased %+v, %v", erased, err)
	}
	_, advice, found := strings.Cut(err.Error(), `have sqlite3 run "`)
	if !found {
		t.Fatal(err)
	}
	makeFile(t, path, strings.TrimSuffix(advice, `"`))
	erased, err = Erase(t.Context(), path, selector)
	if err != nil || erased.Metrics != 1 || bytes.Contains(rawBytes(t, path), []byte("the secret")) {
		t.Errorf("erased %+v, %v", erased, err)
	}
}

// pageOf returns a b-tree page whose bytes name their use: h a header, c a cell, f the head
// of a free block, and x an unused byte.
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

// A damaged page may contain anything.
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
