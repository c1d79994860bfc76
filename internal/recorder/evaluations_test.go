package recorder

import (
	"slices"
	"testing"

	"github.com/cadenza-gateway/cadenza/trace"
)

// TestRequestIsBounded records the answers of a request whose contents exceed
// the bound: all traces are there, and the ones without their content have a
// note.
func TestRequestIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		sizes []int // of the contents
		left  int   // contents that stay
	}{
		"as much as may be":   {[]int{8<<20 - overhead, 8<<20 - overhead}, 2},
		"one byte more":       {[]int{8<<20 - overhead, 8<<20 - overhead + 1}, 1},
		"one that is too big": {[]int{MaxRequestSize, 1000, 1000}, 2},
		"many":                {slices.Repeat([]int{1 << 20}, 100), 15},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, Options{MaxBytes: 1 << 30}, func(t *testing.T, r *Recorder, s *memStore) {
				contents, notes := 0, 0
				s.seen = func(record *trace.Record) {
					if len(record.Context) > 0 {
						contents++
					}
					if slices.Contains(record.Notes, contentLeftOut) {
						notes++
					}
				}
				open(t, r)
				var records []*trace.Record
				for n, size := range test.sizes {
					records = append(records, recordOf("w", byte(n), size))
				}
				r.Evaluations(records)
				if err := r.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				if contents != test.left || notes != len(test.sizes)-test.left || len(s.records) != len(test.sizes) {
					t.Errorf("of %d traces %d have their content, want %d, and %d say that it was left out", len(s.records), contents, test.left, notes)
				}
				if stats := r.Stats(); stats.ContentLeftOut != uint64(notes) || stats.Drops.Total() != 0 {
					t.Errorf("%+v", stats)
				}
			})
		})
	}
}

// A single record is bounded too: an end, an evaluation, a start.
func TestRecordIsBounded(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		without := 0
		s.seen = func(record *trace.Record) {
			if len(record.Response) == 0 && slices.Contains(record.Notes, contentLeftOut) {
				without++
			}
		}
		open(t, r)
		big := func(n byte) *trace.Record {
			record := evaluation(n)
			record.Response = make([]byte, MaxRecordSize)
			return record
		}
		started := big(3)
		if !r.Evaluation(big(1)) || !r.End(big(2)) || !r.Start(t.Context(), started) {
			t.Error("a record was dropped for its content")
		}
		if len(started.Response) != MaxRecordSize || len(started.Notes) != 0 {
			t.Error("the caller's record was changed")
		}
		if err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if without != 2 {
			t.Errorf("%d of 2 are stored without their content", without)
		}
		if call := r.Call(started.ID); call == nil || len(call.Response) > 0 || !slices.Contains(call.Notes, contentLeftOut) {
			t.Errorf("the start is kept as %+v", call)
		}
		endless := evaluation(4)
		endless.Metadata = make([]byte, MaxRecordSize)
		if r.Evaluation(endless) {
			t.Error("a record that is too large without content is taken")
		}
		if drops := r.Stats().Drops; drops.TooLarge != 1 {
			t.Errorf("%+v", drops)
		}
	})
}
