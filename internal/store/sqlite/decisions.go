package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/trace"
)

// The members that the traces of one request share are stored once, in a row of
// decisions to which the traces refer by decision_id. The row is written with the
// first of them, in the same transaction, and a trigger deletes it with the last.

// shown is what a trace shows of its decision, as the column shared has it. NULL
// is nothing: the trace has members of its own.
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

// sharedMembers are the columns that a trace may take from its decision, each with
// the value of shared from which on it does.
var sharedMembers = map[string]shown{"metadata": showsMetadata, "context": showsContent, "variables": showsContent}

var (
	shownMetadata   = shownMember("metadata", showsMetadata)
	notesOfDecision = decisionMember("notes", showsMetadata)
)

// shownMember is the expression of a member in a query of the table traces.
func shownMember(column string, from shown) string {
	return fmt.Sprintf("CASE WHEN shared IS NULL THEN traces.%s ELSE %s END", column, decisionMember(column, from))
}

func decisionMember(column string, from shown) string {
	return fmt.Sprintf("(SELECT d.%s FROM decisions AS d WHERE d.id = traces.decision_id AND traces.shared >= %d)", column, from)
}

// decisionSQL adds the content to a row that has none: that of a trace that shows
// it may come after others.
const decisionSQL = `
INSERT INTO decisions (id, time_ms, workspace, notes, metadata, context, variables) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET context = excluded.context, variables = excluded.variables
WHERE context IS NULL AND variables IS NULL AND (excluded.context IS NOT NULL OR excluded.variables IS NOT NULL)`

// keepDecision stores what r shares, unless this batch did. What no trace of the
// store shows is not stored.
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

// A report on a decision is stored once. Its trace_id is the id of the decision,
// which begins with the time as those of traces do: what finds, keeps or deletes
// reports by the ids of their traces has it in its place. It is joined to each
// trace of the decision where that is read, with what the trace's kind takes.

// isDecision reports whether an id is a decision's, and no trace's.
func isDecision(id trace.ID) bool { return id.Kind() == trace.KindDecision }

// ofDecision is a condition on reports.
const ofDecision = "m.decision_id = m.trace_id"

// The kinds of traces that a decision has.
var decidedKinds = []trace.Kind{trace.KindPrompt, trace.KindEndpoint, trace.KindRemoteConfig}

// tracesOfDecision is the query of the ids of a decision's traces, with the
// arguments of rangesOf. Their ids lie close to that of the decision. Those that
// an earlier version recorded do not, but they share a row of decisions.
var tracesOfDecision = func() string {
	var query strings.Builder
	for i := range decidedKinds {
		fmt.Fprintf(&query, "SELECT id FROM traces INDEXED BY sqlite_autoindex_traces_1 WHERE id BETWEEN ?%d AND ?%d AND decision_id = ?1 UNION ", 2*i+2, 2*i+3)
	}
	return query.String() + "SELECT id FROM traces INDEXED BY traces_decision WHERE decision_id = ?1 AND shared IS NOT NULL"
}()

// rangesOf are the arguments of tracesOfDecision.
func rangesOf(decision trace.ID) []any {
	args := []any{decision[:]}
	for _, kind := range decidedKinds {
		first, last := trace.TracesOf(decision, kind)
		args = append(args, first[:], last[:])
	}
	return args
}

// readTracesOf returns the ids of the traces of a decision.
func readTracesOf(ctx context.Context, on querier, decision trace.ID) ([]trace.ID, error) {
	return collect(ctx, on, scanID, tracesOfDecision, rangesOf(decision)...)
}

// reduced returns a report on a decision as a trace of the kind shows it. It
// reports whether there is anything to show.
func reduced(m trace.Metrics, kind trace.Kind) (trace.Metrics, bool) {
	m.Reduce(kind)
	some := slices.ContainsFunc(trace.MetricsFields, func(f trace.Field[trace.Metrics]) bool {
		switch at := f.At(&m).(type) {
		case *[]byte:
			return len(*at) > 0
		case **string:
			return *at != nil
		case **int64:
			return *at != nil
		case **float64:
			return *at != nil
		}
		return false // what says which report it is
	})
	return m, some
}
