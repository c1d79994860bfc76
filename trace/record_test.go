package trace

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestSizeCountsFailures(t *testing.T) {
	r := &Record{Attempts: []Attempt{{}, {}}}
	before := r.Size()
	if r.Attempts[1].Error = "a failure"; r.Size() != before+len("a failure") {
		t.Errorf("%d, and %d without the text", r.Size(), before)
	}
}

func TestReleasedRecordsAreEmpty(t *testing.T) {
	r := AcquireRecord()
	*r = Record{
		ID: ID{1}, Key: "k", Attempts: []Attempt{{Provider: "p"}}, Notes: []string{"n"}, Metadata: []byte("{}"),
		Context: make([]byte, maxKeptBuffer+1), HasUsage: true, Cost: 1,
	}
	ReleaseRecord(r)
	if diff := cmp.Diff(&Record{}, r, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-empty +released):\n%s", diff)
	}
	if cap(r.Context) != 0 {
		t.Errorf("a buffer of %d bytes is kept", cap(r.Context))
	}
}
