package console

import (
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestTurnsOfATrace finds the caller's turns among recorded messages.
func TestTurnsOfATrace(t *testing.T) {
	var p playgroundPage
	p.Chosen = &gateway.PlayableEndpoint{Variants: make([]gateway.PlayableVariant, 2)}
	placed, without := &p.Chosen.Variants[0], &p.Chosen.Variants[1]
	placed.Key, placed.Messages = "placed", slices.Grow(placed.Messages, 3)[:3]
	placed.Messages[1].History = true
	without.Key, without.Messages = "without", slices.Grow(without.Messages, 1)[:1]
	const first, last = `{"role":"system","content":"s"}`, `{"role":"user","content":"q"}`
	for _, test := range []struct {
		variant, messages string
		want              []said
	}{
		{"placed", "[" + first + "," + last + "]", nil},
		{"placed", "[" + first + `,{"role":"user","content":"a"},{"role":"assistant","content":"b"},` + last + "]", []said{{"user", "a"}, {"assistant", "b"}}},
		{"placed", "", nil},
		{"placed", "[" + first + "]", nil}, // the definition has changed
		{"without", "[" + last + "]", nil},
		{"gone", "[" + first + "," + last + "]", nil},
	} {
		if got := p.turnsOf(&trace.Record{Variant: test.variant, Messages: []byte(test.messages)}); !slices.Equal(got, test.want) {
			t.Errorf("%s of %s: %v", test.messages, test.variant, got)
		}
	}
}

// TestFormOfATrace reads the fields of a recorded context by their paths.
func TestFormOfATrace(t *testing.T) {
	values := url.Values{}
	fields := []adminapi.DataField{{Name: "plan"}, {Name: "seats"}, {Name: "labels", Path: "user.tags"}, {Name: "deep", Path: "user.deep.er"}, {Name: "none"}, {Name: "absent"}}
	setTrace(values, fields, &trace.Record{
		Kind: trace.KindPrompt, Key: "reply", Variant: "nl",
		Context:   []byte(`{"plan":"pro","seats":3,"user":{"tags":["a","b"],"deep":{"er":true}},"none":{}}`),
		Variables: []byte(`{"question":"Why?","list":[1]}`),
	})
	want := url.Values{
		"of": {"prompt/reply"}, "a.variant": {"nl"}, "field.plan": {"pro"}, "field.seats": {"3"}, "field.labels": {"a, b"}, "field.deep": {"true"},
		"field.none": {"{}"}, "variable.question": {"Why?"}, "variable.list": {"[1]"},
	}
	if values.Encode() != want.Encode() {
		t.Errorf("%v", values)
	}
}

func TestTestOfARow(t *testing.T) {
	at := time.Date(2026, 11, 28, 15, 4, 5, 6, time.UTC)
	for row, want := range map[string]string{
		"":        "tests:\n  - { at: 2026-11-28T15:04:05Z, context: {\"a\":\"b\"}, rule: \"default\" }",
		`a "row"`: "tests:\n  - { at: 2026-11-28T15:04:05Z, context: {\"a\":\"b\"}, rule: \"a \\\"row\\\"\" }",
	} {
		if got := testOf(`{"a":"b"}`, row, at); got != want {
			t.Errorf("%s: %s", row, got)
		}
	}
}
