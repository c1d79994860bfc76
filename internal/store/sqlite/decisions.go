package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/trace"
)

// The members that the traces of one request share are stored once, in a row of
// decisions to which the traces refer by decision_id. The row is written with the
// first of them, in the same transaction, and a trigger deletes it with the last.

// shown is the value of the column shared: the members of its decision that a trace shows.
// NULL means none: the trace has members of its own.
type shown int64

const (
	showsMetadata shown = 1 // and notes
	showsContent  shown = 2 // context and variables too
)

func shownBy(r *trace.Record) shown {
	if r.SharesContent {
		return showsContent
	}
	return showsMetadata
}

// shownOf returns the value of the column shared of a trace.
func shownOf(r *trace.Record) any {
	if r.Shared == nil {
		return nil
	}
	return shownBy(r)
}

// sharedMembers are the columns that a trace may take from its decision, each with the
// least value of shared for which it does.
var sharedMembers = map[string]shown{"metadata": showsMetadata, "context": showsContent, "variables": showsContent}

var (
	shownMetadata   = shownMember("metadata", showsMetadata)
	notesOfDecision = decisionMember("notes", showsMetadata)
)

// shownMember returns the expression of a member in a query of the table traces.
func shownMember(column string, level shown) string {
	return fmt.Sprintf("CASE WHEN shared IS NULL THEN traces.%s ELSE %s END", column, decisionMember(column, level))
}

func decisionMember(column string, level shown) string {
	return fmt.Sprintf("(SELECT d.%s FROM decisions AS d WHERE d.id = traces.decision_id AND traces.shared >= %d)", column, level)
}

// decisionSQL inserts a decision, or adds the content to a row without it: a trace that
// shows it may come after others.
const decisionSQL = `
INSERT INTO decisions (id, time_ms, workspace, notes, metadata, context, variables) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET context = excluded.context, variables = excluded.variables
WHERE context IS NULL AND variables IS NULL AND (excluded.context IS NOT NULL OR excluded.variables IS NOT NULL)`

// keepDecision stores the members that r shares, unless this batch did. It stores the
// content only if r shows it.
func (s *statements) keepDecision(r *trace.Record) error {
	shows := shownBy(r)
	if s.decided[r.Decision] >= shows {
		return nil
	}
	if s.decided == nil {
		s.decided = make(map[trace.ID]shown)
	}
	s.decided[r.Decision] = shows
	notes, err := jsonArray(r.Shared.Notes)
	if err != nil {
		return err
	}
	var requestContext, variables value
	if shows == showsContent {
		requestContext, variables = content(r.Shared.Context), content(r.Shared.Variables)
	}
	return s.decision.run(blobValue(r.Decision[:]), integerValue(r.Time.UnixMilli()), textValue(r.Workspace),
		notes, content(r.Shared.Metadata), requestContext, variables)
}

// A report on a decision is stored once. Its trace_id is the id of the decision, which
// begins with the time as ids of traces do: code that finds, keeps or deletes reports by
// their trace ids need not know decisions. A query of a trace joins it, with the members
// that the trace's kind takes.

// isDecision reports whether an id is a decision's, and no trace's.
func isDecision(id trace.ID) bool { return id.Kind() == trace.KindDecision }

// ofDecision is a condition on reports.
const ofDecision = "m.decision_id = m.trace_id"

// tracesOfDecision selects the ids of a decision's traces, which lie close to its own. Its
// arguments are those of rangesOf.
var tracesOfDecision = func() string {
	queries := make([]string, len(kind.All))
	for i := range kind.All {
		queries[i] = fmt.Sprintf("SELECT id FROM traces INDEXED BY sqlite_autoindex_traces_1 WHERE id BETWEEN ?%d AND ?%d AND decision_id = ?1", 2*i+2, 2*i+3)
	}
	return strings.Join(queries, " UNION ALL ")
}()

// rangesOf returns the arguments of tracesOfDecision.
func rangesOf(decision trace.ID) []any {
	args := []any{decision[:]}
	for _, k := range kind.All {
		first, last := trace.TracesOf(decision, k.Trace)
		args = append(args, first[:], last[:])
	}
	return args
}

// readTracesOf returns the ids of the traces of a decision.
func readTracesOf(ctx context.Context, db querier, decision trace.ID) ([]trace.ID, error) {
	return collect(ctx, db, scanID, tracesOfDecision, rangesOf(decision)...)
}

// reduced returns a report on a decision as a trace of the kind shows it, and reports
// whether there is anything to show.
func reduced(m trace.Metrics, kind trace.Kind) (trace.Metrics, bool) {
	m.Reduce(kind)
	shows := slices.ContainsFunc(trace.MetricsFields, func(f trace.Field[trace.Metrics]) bool {
		switch member := f.At(&m).(type) {
		case *[]byte:
			return len(*member) > 0
		case **string:
			return *member != nil
		case **int64:
			return *member != nil
		case **float64:
			return *member != nil
		}
		return false // a member that identifies the report
	})
	return m, shows
}
