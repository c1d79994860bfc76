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

func TestCopiesHaveTheirOwnBuffers(t *testing.T) {
	source := &Record{Metadata: []byte("{}"), Attempts: []Attempt{{Provider: "p"}}, Notes: []string{"n"}}
	var r Record
	r.CopyFrom(source)
	source.Metadata[0], source.Attempts[0].Provider, source.Notes[0] = '!', "other", "other"
	if string(r.Metadata) != "{}" || r.Attempts[0].Provider != "p" || r.Notes[0] != "n" {
		t.Errorf("the copy became %+v", r)
	}
}

// TestDropContent drops a record's own content and the content in its Shared.
func TestDropContent(t *testing.T) {
	content, bare := &Shared{Metadata: []byte("{}"), Context: []byte(`{"a":1}`)}, &Shared{Metadata: []byte("{}")}
	for name, test := range map[string]struct {
		record Record
		some   bool
		shared *Shared
	}{
		"none":                         {Record{Metadata: []byte("{}")}, false, nil},
		"its own":                      {Record{Response: []byte("x")}, true, nil},
		"shared":                       {Record{Shared: content, SharesContent: true}, true, bare},
		"of the decision, not shown":   {Record{Shared: content}, false, content},
		"shared, of which there is no": {Record{Shared: bare, SharesContent: true}, false, bare},
	} {
		r := test.record
		if some := r.DropContent(); some != test.some || len(r.Response) > 0 || some && r.SharesContent {
			t.Errorf("%s: dropped %v, left %q, shares content: %t", name, some, r.Response, r.SharesContent)
		}
		if diff := cmp.Diff(test.shared, r.Shared, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
