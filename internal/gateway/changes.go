package gateway

import (
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// maxChanges is the largest number of added, changed or removed definitions that a log
// line names.
const maxChanges = 20

// changes returns the differences between two snapshots as fields of a log line. It names a
// definition by its kind and key, such as "prompt shop/hello". last is nil at a start, and
// then there are no fields.
func changes(last, next *definition.Snapshot) []zap.Field {
	if last == nil || last.Awaited || last.Revision == next.Revision {
		return nil
	}
	type name struct {
		kind *kind.Kind
		key  string
	}
	olds := make(map[name]*definition.Definition)
	for _, d := range last.Definitions {
		olds[name{d.Kind, d.Key}] = d
	}
	var added, changed, removed []string
	if last.Context() != next.Context() {
		changed = append(changed, "context.yaml")
	}
	for _, d := range next.Definitions {
		n := name{d.Kind, d.Key}
		switch old := olds[n]; {
		case old == nil:
			added = append(added, nameOf(d))
		case old.Version != d.Version, !slices.Equal(old.Aliases, d.Aliases):
			changed = append(changed, nameOf(d))
		}
		delete(olds, n)
	}
	for _, d := range last.Definitions {
		if olds[name{d.Kind, d.Key}] != nil {
			removed = append(removed, nameOf(d))
		}
	}
	for _, d := range experiment.Differences(last.Experiments, next.Experiments) {
		name := kind.Experiment.String() + " " + visible.Line(d.Name)
		switch {
		case d.Before == nil:
			added = append(added, name)
		case d.After == nil:
			removed = append(removed, name)
		default:
			changed = append(changed, name)
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
