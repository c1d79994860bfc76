package trace

import (
	"strings"
	"testing"
)

func TestPositionMin(t *testing.T) {
	p, q := Position{Traces: 1, Metrics: 5, Versions: 3, Erasures: 9, Exposures: 4}, Position{Traces: 2, Metrics: 4, Versions: 3, Exposures: 6}
	want := Position{Traces: 1, Metrics: 4, Versions: 3, Exposures: 4}
	if got := p.Min(q); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := q.Min(p); got != want {
		t.Errorf("the other way round: %+v, want %+v", got, want)
	}
}

func TestSelectorValidate(t *testing.T) {
	for name, test := range map[string]struct {
		selector Selector
		want     string // of the error; empty: none
	}{
		"conversation":        {Selector{Workspace: "w", ConversationID: "c"}, ""},
		"text":                {Selector{Workspace: "w", MetadataName: "a", MetadataValue: `"b"`}, ""},
		"null":                {Selector{Workspace: "w", MetadataName: "a", MetadataValue: `null`}, ""},
		"no workspace":        {Selector{ConversationID: "c"}, "workspace"},
		"nothing":             {Selector{Workspace: "w"}, "conversation id or a member"},
		"a value of nothing":  {Selector{Workspace: "w", MetadataValue: `1`}, "conversation id or a member"},
		"both":                {Selector{Workspace: "w", ConversationID: "c", MetadataName: "a", MetadataValue: `1`}, "either"},
		"decision":            {Selector{Workspace: "w", Decision: ID{1}}, ""},
		"decision and more":   {Selector{Workspace: "w", Decision: ID{1}, ConversationID: "c"}, "either"},
		"unit":                {Selector{Workspace: "w", UnitField: "a", Unit: "h"}, ""},
		"unit and more":       {Selector{Workspace: "w", UnitField: "a", Unit: "h", ConversationID: "c"}, "either"},
		"a field of no unit":  {Selector{Workspace: "w", UnitField: "a"}, "a unit"},
		"decision and value":  {Selector{Workspace: "w", Decision: ID{1}, MetadataName: "a", MetadataValue: `1`}, "either"},
		"a name of no value":  {Selector{Workspace: "w", MetadataName: "a"}, "JSON"},
		"text without quotes": {Selector{Workspace: "w", MetadataName: "a", MetadataValue: `b`}, "JSON"},
		"two values":          {Selector{Workspace: "w", MetadataName: "a", MetadataValue: `1 2`}, "JSON"},
		"an array":            {Selector{Workspace: "w", MetadataName: "a", MetadataValue: `[1]`}, "text, a number"},
	} {
		err := test.selector.Validate()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
