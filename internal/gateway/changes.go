package gateway

import (
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/visible"
	"github.com/cadenza-gateway/cadenza/trace"
)

// maxChanges is how many definitions a log line names that were added, changed or
// removed.
const maxChanges = 20

// changes returns what a snapshot adds to the last one, changes and removes, as
// fields of a log line. A definition is named by its kind and key, such as "prompt
// shop/hello". There are none at a start, when there is no last one.
func changes(last, next *definition.Snapshot) []zap.Field {
	if last == nil || last.Revision == next.Revision {
		return nil
	}
	type name struct {
		kind trace.Kind
		key  string
	}
	olds := make(map[name]*definition.Definition)
	for d := range last.All() {
		olds[name{d.Kind, d.Key}] = d
	}
	var added, changed, removed []string
	if last.Context() != next.Context() {
		changed = append(changed, "context.yaml")
	}
	for d := range next.All() {
		n := name{d.Kind, d.Key}
		switch old := olds[n]; {
		case old == nil:
			added = append(added, nameOf(d))
		case old.Version != d.Version, !slices.Equal(old.Aliases, d.Aliases):
			changed = append(changed, nameOf(d))
		}
		delete(olds, n)
	}
	for d := range last.All() {
		if olds[name{d.Kind, d.Key}] != nil {
			removed = append(removed, nameOf(d))
		}
	}
	var fields []zap.Field
	for _, group := range []struct {
		field string
		names []string
	}{{"added", added}, {"changed", changed}, {"removed", removed}} {
		if more := len(group.names) - maxChanges; more > 0 {
			group.names = append(group.names[:maxChanges], fmt.Sprintf("and %d more", more))
		}
		if len(group.names) > 0 {
			fields = append(fields, zap.Strings(group.field, group.names))
		}
	}
	return fields
}

func nameOf(d *definition.Definition) string { return d.Kind.String() + " " + visible.Line(d.Key) }
