package recorder

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/cadenza-gateway/cadenza/trace"
)

// TestSharedMembersAreCountedOnce in the bytes that wait, with the first record
// that is taken, and are given back.
func TestSharedMembersAreCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		r := New(Options{Open: store.open, MaxRecords: 150})
		request := func(count, content int) {
			shared := &trace.Shared{Metadata: make([]byte, 100_000), Context: make([]byte, 1<<20), Notes: []string{"context.a: unknown_field"}}
			records := make([]*trace.Record, count)
			for i := range records {
				records[i] = trace.AcquireRecord()
				records[i].ID = trace.ID{byte(i), byte(count)}
				records[i].Decision, records[i].Shared, records[i].SharesContent = trace.ID{1}, shared, true
				records[i].Response = append(records[i].Response[:0], make([]byte, content)...)
			}
			r.Evaluations(records)
		}
		const common = overhead + 100_000 + 1<<20 + 16 + len("context.a: unknown_field")
		request(100, 10)
		if got, want := r.Stats().QueuedBytes, int64(100*(overhead+10)+common); got != want {
			t.Errorf("%d bytes wait, want %d", got, want)
		}
		request(100, 0) // of which 50 fit
		stats := r.Stats()
		if want := int64(150*overhead + 100*10 + 2*common); stats.QueuedBytes != want || stats.Drops.QueueFull != 50 {
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

// TestSharedMembersAreCountedWithoutTheFirst: they are counted if the first
// record is dropped.
func TestSharedMembersAreCountedWithoutTheFirst(t *testing.T) {
	r := New(Options{MaxBytes: MaxRecordSize / 4})
	shared := &trace.Shared{Context: make([]byte, 1000)}
	records := []*trace.Record{trace.AcquireRecord(), trace.AcquireRecord(), trace.AcquireRecord()}
	records[0].Response = make([]byte, MaxRecordSize/2)
	for _, record := range records {
		record.Shared, record.SharesContent = shared, true
	}
	r.Evaluations(records)
	if got, want := r.Stats().QueuedBytes, int64(3*overhead+1000); got != want {
		t.Errorf("%d bytes wait, want %d", got, want)
	}
}

// TestSharedContentIsBounded: the shared content of a request and the content of
// each of its records are within the bound of a request together.
func TestSharedContentIsBounded(t *testing.T) {
	const each = MaxRequestSize / 4
	for _, test := range []struct {
		name               string
		shared, own, count int
		left               int // records that have content
	}{
		{"at it", each - overhead, each - overhead, 3, 3},
		{"one byte above it", each - overhead + 1, each - overhead, 3, 2},
		{"what they share is", MaxRequestSize, 100, 3, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := New(Options{})
			records := make([]*trace.Record, test.count)
			shared := &trace.Shared{Metadata: []byte("{}"), Context: make([]byte, test.shared-2)}
			for i := range records {
				records[i] = trace.AcquireRecord()
				records[i].Response = make([]byte, test.own)
				records[i].Shared, records[i].SharesContent = shared, true
			}
			r.Evaluations(records)
			left := 0
			for _, waiting := range r.queue.records {
				record := waiting.record
				if len(record.Response) == test.own && record.SharesContent && record.Shared == shared {
					left++
				} else if len(record.Response) > 0 || record.SharesContent || len(record.Shared.Context) > 0 || len(record.Shared.Metadata) != 2 {
					t.Errorf("%d bytes of content, %d shared", len(record.Response), len(record.Shared.Context))
				}
			}
			stats := r.Stats()
			if left != test.left || stats.Queued != test.count || stats.ContentLeftOut != uint64(test.count-test.left) || stats.QueuedBytes > MaxRequestSize+int64(test.count*2*overhead) {
				t.Errorf("%d of %d have their content, want %d; %d bytes wait", left, stats.Queued, test.left, stats.QueuedBytes)
			}
		})
	}
}
