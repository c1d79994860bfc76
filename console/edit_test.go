package console

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/edit"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
)

// TestReviewIsBounded shows a review with more lines than a page has.
func TestReviewIsBounded(t *testing.T) {
	review := &adminapi.Review{Diff: make([]edit.Line, mostShown+5)}
	p := &editPage{Review: review}
	v := &visit{visitor: new(gateway.Visitor), status: new(adminapi.Status)}
	if err := v.showReview(p); err != nil || len(p.Diff) != mostShown || p.More != 5 {
		t.Errorf("%d lines, %d more: %v", len(p.Diff), p.More, err)
	}
}

// TestTryAddress makes the address of the page that tries a context.
func TestTryAddress(t *testing.T) {
	fields := []adminapi.DataField{{Name: "plan"}, {Name: "seats", Type: "number"}, {Name: "tags", Type: "list"}, {Name: "city", Path: "address.city"}}
	at := time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)
	for context, want := range map[string]string{
		"null": "/console/try?at=2026-01-31T09%3A00%3A00Z",
		`{"plan":"a&b","seats":1000000,"tags":["x y","z"],"address":{"city":"Gent"},"budget":{"a":1}}`: "/console/try?at=2026-01-31T09%3A00%3A00Z&field.city=Gent&field.plan=a%26b&field.seats=1000000&field.tags=x+y%2C+z",
	} {
		if got := tryAddress(json.RawMessage(context), &at, fields); got != want {
			t.Errorf("%s: %s", context, got)
		}
	}
}

// TestMarkedDiff marks what differs in a line that took the place of another.
func TestMarkedDiff(t *testing.T) {
	lines := markedDiff([]edit.Line{{Sign: "-", Text: "a: é1 # c\r\n"}, {Sign: "+", Text: "a: é22 # c\r\n"}, {Sign: "-", Text: "x"}, {Sign: "-", Text: "y"}, {Sign: "+", Text: "z"}})
	var got []string
	for _, l := range lines {
		got = append(got, l.Begin+"|"+l.Marked+"|"+l.End)
	}
	if want := []string{"a: é|1| # c", "a: é|22| # c", "x||", "y||", "z||"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
