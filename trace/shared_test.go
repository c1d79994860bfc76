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
	r := NewRecorder(Options{MaxBytes: MaxRecordSize / 4})
	shared := &Shared{Context: make([]byte, 1000)}
	records := []*Record{AcquireRecord(), AcquireRecord(), AcquireRecord()}
	records[0].Response = make([]byte, MaxRecordSize/2)
	for _, record := range records {
		record.Shared, record.SharesContent = shared, true
	}
	r.Evaluations(records)
	if got, want := r.Stats().QueuedBytes, int64(3*recordOverhead+1000); got != want {
		t.Errorf("%d bytes wait, want %d", got, want)
	}
}

// TestSharedContentIsBounded: what a request shares and what each of its records
// has are not larger together than a request may be.
func TestSharedContentIsBounded(t *testing.T) {
	const each = MaxRequestSize / 4
	for _, test := range []struct {
		name               string
		shared, own, count int
		left               int // records that have content
	}{
		{"at it", each - recordOverhead, each - recordOverhead, 3, 3},
		{"one byte above it", each - recordOverhead + 1, each - recordOverhead, 3, 2},
		{"what they share is", MaxRequestSize, 100, 3, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := NewRecorder(Options{})
			records := make([]*Record, test.count)
			shared := &Shared{Metadata: []byte("{}"), Context: make([]byte, test.shared-2)}
			for i := range records {
				records[i] = AcquireRecord()
				records[i].Response = make([]byte, test.own)
				records[i].Shared, records[i].SharesContent = shared, true
			}
			r.Evaluations(records)
			left := 0
			for _, waiting := range r.queue.records.all() {
				record := waiting.record
				if len(record.Response) == test.own && record.SharesContent && record.Shared == shared {
					left++
				} else if len(record.Response) > 0 || record.SharesContent || len(record.Shared.Context) > 0 || len(record.Shared.Metadata) != 2 {
					t.Errorf("%d bytes of content, %d shared", len(record.Response), len(record.Shared.Context))
				}
			}
			stats := r.Stats()
			if left != test.left || stats.Queued != test.count || stats.ContentLeftOut != uint64(test.count-test.left) || stats.QueuedBytes > MaxRequestSize+int64(test.count*2*recordOverhead) {
				t.Errorf("%d of %d have their content, want %d; %d bytes wait", left, stats.Queued, test.left, stats.QueuedBytes)
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
	if kind, ok := a.Verify(id); ok || id.Kind() != KindDecision || !id.isForm() {
		t.Errorf("%s is valid (%t) and of kind %v", id, ok, kind)
	}
}
