package trace

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestSharedMembersAreCountedOnce in the bytes that wait, with the first record
// that is taken, and are given back.
func TestSharedMembersAreCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		r := NewRecorder(Options{Open: store.open, MaxRecords: 150})
		request := func(count, content int) {
			shared := &Shared{Metadata: make([]byte, 100_000), Context: make([]byte, 1<<20), Notes: []string{"context.a: unknown_field"}}
			records := make([]*Record, count)
			for i := range records {
				records[i] = AcquireRecord()
				records[i].ID = ID{byte(i), byte(count)}
				records[i].Decision, records[i].Shared, records[i].SharesContent = ID{1}, shared, true
				records[i].Response = append(records[i].Response[:0], make([]byte, content)...)
			}
			r.Evaluations(records)
		}
		const common = recordOverhead + 100_000 + 1<<20 + 16 + len("context.a: unknown_field")
		request(100, 10)
		if got, want := r.Stats().QueuedBytes, int64(100*(recordOverhead+10)+common); got != want {
			t.Errorf("%d bytes wait, want %d", got, want)
		}
		request(100, 0) // of which there is room for 50
		stats := r.Stats()
		if want := int64(150*recordOverhead + 100*10 + 2*common); stats.QueuedBytes != want || stats.Drops.QueueFull != 50 {
			t.Errorf("%d bytes wait (want %d), %+v", stats.QueuedBytes, want, stats.Drops)
		}
		r.Open()
		if err := r.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		if stats := r.Stats(); stats.QueuedBytes != 0 || stats.Stored != 150 {
			t.Errorf("%+v", stats)
		}
		if err := r.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestSharedMembersAreCountedWithoutTheFirst record, where that is dropped.
func TestSharedMembersAreCountedWithoutTheFirst(t *testing.T) {
	for name, size := range map[string]int{"it is too large": MaxRecordSize, "there is no room for it": MaxRecordSize / 2} {
		r := NewRecorder(Options{MaxBytes: MaxRecordSize / 4})
		shared := &Shared{Context: make([]byte, 1000)}
		records := []*Record{AcquireRecord(), AcquireRecord(), AcquireRecord()}
		records[0].Response = make([]byte, size)
		for _, record := range records {
			record.Shared, record.SharesContent = shared, true
		}
		r.Evaluations(records)
		if got, want := r.Stats().QueuedBytes, int64(3*recordOverhead+1000); got != want {
			t.Errorf("%s: %d bytes wait, want %d", name, got, want)
		}
	}
}

// TestAnswersOfARequestHaveACeiling: they are taken as long as they are not larger
// together than one record may be.
func TestAnswersOfARequestHaveACeiling(t *testing.T) {
	const each = MaxRecordSize / 4
	for _, test := range []struct {
		name               string
		shared, own, count int
		taken              int
	}{
		{"at it", each - recordOverhead, each - recordOverhead - each/3, 3, 3},
		{"with what they share, above it", each + each, each - recordOverhead, 3, 1},
		{"without, above it", 0, each - recordOverhead, 6, 4},
		{"what they share is above it", MaxRecordSize, 0, 3, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := NewRecorder(Options{})
			records := make([]*Record, test.count)
			shared := &Shared{Context: make([]byte, test.shared)}
			for i := range records {
				records[i] = AcquireRecord()
				records[i].Response = make([]byte, test.own)
				if test.shared > 0 {
					records[i].Shared, records[i].SharesContent = shared, true
				}
			}
			r.Evaluations(records)
			stats := r.Stats()
			if stats.Queued != test.taken || stats.Drops.TooLarge != uint64(test.count-test.taken) || stats.QueuedBytes > MaxRecordSize {
				t.Errorf("%d wait, in %d bytes; %d were too large; want %d", stats.Queued, stats.QueuedBytes, stats.Drops.TooLarge, test.taken)
			}
		})
	}
}

// TestDecisionsAreNoTraces: what names a request is not taken for the id of an
// answer, on which something could be reported.
func TestDecisionsAreNoTraces(t *testing.T) {
	a, err := NewAuthority(make([]byte, MinKeyLength), "w")
	if err != nil {
		t.Fatal(err)
	}
	id := a.New(KindDecision, time.Now())
	if kind, ok := a.Verify(id); ok || id.kind() != KindDecision || !id.isForm() {
		t.Errorf("%s is valid (%t) and of kind %v", id, ok, kind)
	}
}
