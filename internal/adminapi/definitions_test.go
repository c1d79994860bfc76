package adminapi

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

func TestDataFields(t *testing.T) {
	var errs document.Errors
	model := document.Parse("context.yaml", []byte(`
timezone: Europe/Amsterdam
fields:
  plan:    { type: string, values: [free, pro, "10"] }
  country: { type: string, path: address.country }
  tags:    { type: list }
computed: { big: "seats > 10" }
`), &errs)
	want := []DataField{
		{Name: "plan", Type: "string", Values: []string{"free", "pro", "10"}},
		{Name: "country", Type: "string", Path: "address.country"},
		{Name: "tags", Type: "list"},
	}
	if diff := cmp.Diff(want, dataFields(model)); diff != "" || errs.Len() > 0 {
		t.Errorf("%v %s", errs.Err(), diff)
	}
	if list := dataFields(nil); list == nil || len(list) > 0 {
		t.Errorf("no data model: %v", list)
	}
}
