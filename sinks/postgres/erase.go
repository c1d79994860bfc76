package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/cadenza-gateway/cadenza/trace"
)

// clockAllowance is how far one gateway's clock may be ahead of another's whose
// erasure must find the first one's rows.
const clockAllowance = 5 * time.Second

// erase deletes the rows of all gateways that a selector chooses and that are no
// later than the erasure. Erasures can arrive late or twice: a row of the same
// person that was written afterwards belongs to the next erasure, as in the store.
//
// A trace is deleted if it is no later than the erasure and if its own metadata, or
// a report that is no later either, names the person. Its reports that are no later
// are deleted with it; a later report stays, without a trace, and chooses nothing.
// Reports on decisions are as [trace.Selector] says.
//
// The times are by the gateways' clocks; a call's is its beginning. A row of a
// gateway whose clock was further ahead than clockAllowance stays. A later erasure
// deletes it.
//
// If the database never got a report, the erasure names the rows that the report
// chose by their ids.
//
// By a member of the metadata it reads the whole tables, unless the database's
// owner made an index of the kind gin (metadata jsonb_path_ops) on both.
func (s *Sink) erase(ctx context.Context, tx pgx.Tx, e trace.Erasure) error {
	workspace := cleanText(e.Workspace)
	until := clampTime(e.Time.Add(clockAllowance))
	if len(e.ReportedOn) > 0 {
		ids := make([]pgtype.UUID, len(e.ReportedOn))
		for i, id := range e.ReportedOn {
			ids[i] = uuid(id)
		}
		if _, err := tx.Exec(ctx, s.sql.eraseReported, workspace, ids, until); err != nil {
			return err
		}
	}
	if e.ConversationID != "" {
		_, err := tx.Exec(ctx, s.sql.eraseConversation, workspace, cleanText(e.ConversationID), until)
		return err
	}
	if !e.Decision.IsZero() {
		_, err := tx.Exec(ctx, s.sql.eraseDecision, workspace, uuid(e.Decision), until)
		return err
	}
	if e.Unit != "" {
		return s.eraseUnit(ctx, tx, e, workspace, until)
	}
	name, err := json.Marshal(e.MetadataName)
	if err != nil {
		return err
	}
	member := append(append(append(append([]byte{'{'}, name...), ':'), e.MetadataValue...), '}')
	_, err = tx.Exec(ctx, s.sql.eraseMetadata, workspace, string(cleanJSON(member)), until)
	return err
}

// eraseUnit deletes what a unit chooses, and the unit from rollouts unless they saw it for
// the first time later. It reads all traces.
func (s *Sink) eraseUnit(ctx context.Context, tx pgx.Tx, e trace.Erasure, workspace string, until time.Time) error {
	field, err := json.Marshal(e.UnitField)
	if err != nil {
		return err
	}
	inputs := []string{fmt.Sprintf(`{%s:{"hash":%q}}`, field, e.Unit)}
	if e.UnitValue != "" {
		inputs = append(inputs, string(cleanJSON(fmt.Appendf(nil, `{%s:%s}`, field, e.UnitValue))))
	}
	if _, err := tx.Exec(ctx, s.sql.eraseUnit, workspace, cleanText(e.UnitField), until, e.Unit, fmt.Sprintf(`[{"unit":%q}]`, e.Unit), inputs); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, s.sql.eraseRolloutUnit, workspace, until, e.Unit)
	return err
}
