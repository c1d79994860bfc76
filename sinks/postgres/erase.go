package postgres

import (
	"context"
	"encoding/json"

	"github.com/cadenza-gateway/cadenza/trace"
)

// erase deletes what a selector chooses, whichever gateway it came from. By a
// member of the metadata it reads the whole tables, unless the database's owner
// made an index of the kind gin (metadata jsonb_path_ops) on both.
func (s *Sink) erase(ctx context.Context, tx *transaction, e trace.Erasure) error {
	workspace := cleanText(e.Workspace)
	if e.ConversationID != "" {
		_, err := tx.conn.Exec(ctx, s.sql.eraseConversation, workspace, cleanText(e.ConversationID))
		return err
	}
	name, err := json.Marshal(e.MetadataName)
	if err != nil {
		return err
	}
	member := append(append(append(append([]byte{'{'}, name...), ':'), e.MetadataValue...), '}')
	_, err = tx.conn.Exec(ctx, s.sql.eraseMetadata, workspace, string(cleanJSON(member)))
	return err
}
