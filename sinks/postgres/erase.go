package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// clockAllowance is how far the clock of a gateway may be ahead of that of
// another, whose erasure is to find its rows.
const clockAllowance = 5 * time.Second

// erase deletes what a selector chooses, whichever gateway it came from, of the
// time until the erasure. It may come late, or again, and whoever was forgotten
// may be back by then: what is later is another erasure's, as it is in the store.
//
// So a trace goes that was there by then, if by then its own metadata or a report
// on it told whose it is. Of the reports on it those go that were there too; a
// later one stays, without a trace. A later report chooses nothing.
//
// The times are those of the gateways' clocks; a call's is when it began. A row of one that was further
// ahead than clockAllowance stays, and goes with an erasure of after its time.
//
// By a member of the metadata it reads the whole tables, unless the database's
// owner made an index of the kind gin (metadata jsonb_path_ops) on both.
func (s *Sink) erase(ctx context.Context, tx *transaction, e trace.Erasure) error {
	workspace := cleanText(e.Workspace)
	until := clampTime(e.Time.Add(clockAllowance))
	if e.ConversationID != "" {
		_, err := tx.conn.Exec(ctx, s.sql.eraseConversation, workspace, cleanText(e.ConversationID), until)
		return err
	}
	name, err := json.Marshal(e.MetadataName)
	if err != nil {
		return err
	}
	member := append(append(append(append([]byte{'{'}, name...), ':'), e.MetadataValue...), '}')
	_, err = tx.conn.Exec(ctx, s.sql.eraseMetadata, workspace, string(cleanJSON(member)), until)
	return err
}
