package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// RecordedDecision is what a trace says of a decision, as the store has it. Its bytes are
// there until the next one is read.
type RecordedDecision struct {
	ID   trace.ID
	Time time.Time
	// Answers is how many answers the trace stands for, with its own.
	Answers int64

	Kind, Key, APIKey, Revision, Reason, Row, Arm, Variant, EndpointVariant, EndpointRow sql.RawBytes
	Splits, Read, Inputs, Context                                                        sql.RawBytes // JSON, or empty
	Notes                                                                                [2]sql.RawBytes
	Call                                                                                 sql.RawBytes // its members of a trace, as JSON
}

const (
	// A read looks at recordedWindow traces and takes about recordedBytes of them at most.
	recordedWindow = 2048
	recordedBytes  = 4 << 20

	// maxReplayedContext bounds the context of a trace that is read whole, in bytes: a larger
	// one is left out, as if it had not been kept.
	maxReplayedContext = 64 << 10
)

// recordedList are the columns of a RecordedDecision, in the order of its targets.
var recordedList = fmt.Sprintf("id, time_ms, 1 + coalesce((SELECT answers FROM exposures WHERE trace_id = id), 0), %s, CASE WHEN octet_length(%[2]s) <= %[3]d THEN %[2]s END, notes, %[4]s, %[5]s",
	"kind, key, api_key, revision, reason, matched_row, arm, variant, endpoint_variant, endpoint_row, splits, read_versions, inputs",
	shownMember("context", showsContent), maxReplayedContext, notesOfDecision, recordedCall)

// recordedCall is what a call of an endpoint used, took and cost. Few decisions are calls.
const recordedCall = `CASE WHEN kind = 'endpoint' THEN json_object(
	'provider', provider, 'model', model, 'status', status, 'latency_ms', latency_us / 1000.0, 'cost_usd', cost, 'cached', json(iif(cached, 'true', 'false')),
	'usage', CASE WHEN total_tokens > 0 THEN json_object('prompt_tokens', prompt_tokens, 'completion_tokens', completion_tokens) END,
	'attempts', CASE WHEN json_valid(attempts) THEN json(attempts) END
) END`

func (d *RecordedDecision) scan(rows *sql.Rows) error {
	var id sql.RawBytes
	var millis int64
	err := rows.Scan(&id, &millis, &d.Answers, &d.Kind, &d.Key, &d.APIKey, &d.Revision, &d.Reason, &d.Row, &d.Arm, &d.Variant, &d.EndpointVariant, &d.EndpointRow,
		&d.Splits, &d.Read, &d.Inputs, &d.Context, &d.Notes[0], &d.Notes[1], &d.Call)
	copy(d.ID[:], id)
	d.Time = time.UnixMilli(millis)
	return err
}

// Recorded reads the decisions of a workspace, newest first, a little at a time: as many as
// there are block no checkpoint and no writer.
type Recorded struct {
	// Of is how many traces of all workspaces the time has in the store, and Seen how many of
	// them were looked at.
	Of, Seen int64

	reader      *Reader
	source      source
	where       clauses
	cursor, end trace.ID // of the window
	floor       trace.ID
	more        bool // behind the window
}

// Recorded returns the decisions from a time on.
func (r *Reader) Recorded(ctx context.Context, workspace string, since time.Time) (*Recorded, error) {
	d := &Recorded{reader: r, source: source{table: "traces", id: "id", index: "sqlite_autoindex_traces_1"}, cursor: lastID, end: lastID, floor: trace.FirstID(since), more: true}
	d.where.add("workspace = ? AND reason IS NOT NULL", workspace)
	var err error
	d.Of, err = queryInt(ctx, r.db, "SELECT count(*) FROM traces INDEXED BY sqlite_autoindex_traces_1 WHERE id >= ?", d.floor[:])
	return d, err
}

// Next calls yield with the next decisions, and reports whether there may be more.
func (d *Recorded) Next(ctx context.Context, yield func(*RecordedDecision)) (more bool, err error) {
	if d.cursor == d.end {
		if !d.more {
			return false, nil
		}
		if d.end, d.more, err = d.source.window(ctx, d.reader.db, newestFirst, d.cursor, d.floor, recordedWindow); err != nil {
			return false, err
		}
	}
	query, args := d.source.read(recordedList, newestFirst, d.cursor, d.end, d.where, recordedWindow)
	rows, err := d.reader.db.QueryContext(ctx, query, args...)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var one RecordedDecision
	for size := 0; rows.Next(); {
		if err := one.scan(rows); err != nil {
			return false, err
		}
		yield(&one)
		if size += len(one.Inputs) + len(one.Splits) + len(one.Context); size >= recordedBytes {
			d.cursor = one.ID
			return true, nil
		}
	}
	if d.cursor = d.end; d.more {
		d.Seen += recordedWindow
	} else {
		d.Seen = max(d.Seen, d.Of)
	}
	return d.more, rows.Err()
}
