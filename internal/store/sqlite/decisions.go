package sqlite

import (
	"context"
	"fmt"

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
func (s *statements) keepDecision(ctx context.Context, r *trace.Record) error {
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
	var requestContext, variables any
	if shows == showsContent {
		requestContext, variables = content(r.Shared.Context), content(r.Shared.Variables)
	}
	_, err = s.decision.ExecContext(ctx, r.Decision[:], r.Time.UnixMilli(), r.Workspace,
		notes, content(r.Shared.Metadata), requestContext, variables)
	return err
}
