package console

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
)

// TestReviewIsBounded shows a review with more answers than a page has.
func TestReviewIsBounded(t *testing.T) {
	change := inspect.Change{Answers: make([]inspect.AnswerChange, mostShown+5)}
	p := &editPage{Review: &adminapi.Review{OK: true, Comparison: &inspect.Comparison{Definitions: []inspect.Change{change}}}}
	p.addAnswers(nil)
	if len(p.Answers) != mostShown || p.More != 5 {
		t.Errorf("%d answers, %d more", len(p.Answers), p.More)
	}
	p.Answers = p.Answers[:1]
	p.Answers[0].Context = json.RawMessage("null")
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, "edit.main", p); err != nil || !strings.Contains(b.String(), "<td>no context</td>") {
		t.Errorf("%s %v", &b, err)
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
		if got := tryAddress(tryFields(fields, json.RawMessage(context)), &at); got != want {
			t.Errorf("%s: %s", context, got)
		}
	}
}
