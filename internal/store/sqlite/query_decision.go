package sqlite

import (
	"context"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// DecisionsBetween returns at most maxDecisions, and looks at maxDecisionsTraces.
	maxDecisions       = 200
	maxDecisionsTraces = 20_000
)

// DecisionsBetween returns the ids of a workspace's decisions from first to last, in order,
// if the store has a trace of them or a report. If more is true, there may be others: it
// looks at 20,000 traces at most.
func (r *Reader) DecisionsBetween(ctx context.Context, workspace string, first, last trace.ID) (found []trace.ID, more bool, err error) {
	// The traces of a decision have its millisecond.
	start, end := trace.FirstID(first.Time()), trace.FirstID(last.Time().Add(time.Millisecond))
	near, err := queryInt(ctx, r.db, "SELECT count(*) FROM (SELECT 1 FROM traces INDEXED BY sqlite_autoindex_traces_1 WHERE id >= ? AND id < ? LIMIT ?)",
		start[:], end[:], maxDecisionsTraces+1)
	if err != nil {
		return nil, false, err
	}
	found, err = collect(ctx, r.db, scanID, `
SELECT decision_id FROM (
	SELECT decision_id, workspace FROM traces INDEXED BY sqlite_autoindex_traces_1 WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3
) WHERE decision_id >= ?4 AND decision_id <= ?5 AND workspace = ?6
UNION
SELECT decision_id FROM metrics INDEXED BY metrics_trace_id
WHERE trace_id >= ?4 AND trace_id <= ?5 AND decision_id = trace_id AND workspace = ?6
ORDER BY decision_id LIMIT ?7`, start[:], end[:], maxDecisionsTraces, first[:], last[:], workspace, maxDecisions)
	return found, near > maxDecisionsTraces || len(found) == maxDecisions, err
}
