package adminapi

import (
	"context"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// flushTimeout bounds how long an erasure waits for recorded traces to be
// stored.
const flushTimeout = 2 * time.Second

// serveErase answers DELETE /cadenza/traces: it erases the traces of a conversation
// or a decision, or with a value in their metadata, from the store, whose outbox
// tells the sinks to erase the same.
func serveErase(w http.ResponseWriter, r *http.Request) error {
	q, err := newTraceQuery(r, "workspace", "conversation_id", "decision")
	if err != nil {
		return err
	}
	workspace, filter := q.workspace, q.filter
	by := len(filter.Metadata)
	for _, given := range []bool{filter.ConversationID != "", !filter.Decision.IsZero()} {
		if given {
			by++
		}
	}
	if by != 1 {
		return apiError(http.StatusBadRequest, "what is to be erased? Give one of conversation_id=ID, decision=ID and metadata.NAME=VALUE")
	}
	selectors := []trace.Selector{{Workspace: workspace.Name, ConversationID: filter.ConversationID, Decision: filter.Decision}}
	if len(filter.Metadata) > 0 {
		match := filter.Metadata[0]
		selectors[0].MetadataName, selectors[0].MetadataValue = match.Name, match.Value
		if match.OrText {
			asText := selectors[0]
			asText.MetadataValue = quoted(match.Value)
			selectors = append(selectors, asText)
		}
	}
	// A trace of an answer just given may still wait to be stored. If the store
	// fails, the erasure below fails with it.
	flushing, cancel := context.WithTimeout(r.Context(), flushTimeout)
	defer cancel()
	_ = workspace.Flush(flushing)
	var erased trace.Erased
	for _, selector := range selectors {
		more, err := sqlite.Erase(r.Context(), workspace.Store, selector)
		erased.Traces += more.Traces
		erased.Metrics += more.Metrics
		erased.Replies += more.Replies
		if err != nil {
			return apiError(http.StatusServiceUnavailable, "not all could be erased, try again: %v", err)
		}
	}
	workspace.Logger.Info("traces erased",
		zap.Int64("traces", erased.Traces), zap.Int64("metrics", erased.Metrics), zap.Int64("replies", erased.Replies))
	return writeJSON(w, map[string]any{"erased": map[string]int64{
		"traces": erased.Traces, "metrics": erased.Metrics, "replies": erased.Replies,
	}})
}
