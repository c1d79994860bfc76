package adminapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// flushTimeout bounds how long an erasure waits for recorded traces to be
// stored.
const flushTimeout = 10 * time.Second

// maxEraseForm bounds the body of an erasure, in bytes.
const maxEraseForm = 64 << 10

// withForm returns a request whose query also has the parameters of its body, a form.
// The parameters identify a person, and servers log URLs.
func withForm(r *http.Request) (*http.Request, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxEraseForm))
	if err != nil {
		return nil, apiError(http.StatusBadRequest, "the body can't be read: %v", err)
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, apiError(http.StatusBadRequest, "the body must be a form, such as metadata.user_id=u-8842: %v", err)
	}
	values := r.URL.Query()
	for name, list := range form {
		values[name] = append(values[name], list...)
	}
	merged := *r
	merged.URL = &url.URL{Path: r.URL.Path, RawQuery: values.Encode()}
	return &merged, nil
}

// unitsToErase returns the selectors of the units that a request names.
func (w *Workspace) unitsToErase(values url.Values) (units []trace.Selector, err error) {
	for name, list := range values {
		field, ok := strings.CutPrefix(name, UnitParameter)
		for _, text := range list {
			if !ok {
				continue
			}
			if text == "" {
				return nil, apiError(http.StatusBadRequest, "%s is empty: give the value of the field, such as %s=c-7", name, name)
			}
			s := trace.Selector{Workspace: w.Name, UnitField: field}
			var clear bool
			if s.Unit, s.UnitValue, clear, err = w.Definitions.Snapshot().Model.RecordedUnit(field, text, w.HashOf); err != nil {
				return nil, apiError(http.StatusBadRequest, "%s: the field %v", name, err)
			}
			s.UnitHashed = !clear
			units = append(units, s)
		}
	}
	return units, nil
}

// serveErase answers DELETE /cadenza/traces. It erases from the store the traces of a
// conversation or a decision, with a value in their metadata, or of a unit. The store's outbox
// tells the sinks to erase the same traces. With dry_run it only counts them.
func serveErase(w http.ResponseWriter, r *http.Request) error {
	r, err := withForm(r)
	if err != nil {
		return err
	}
	q, err := newTraceQuery(r, "workspace", "conversation_id", "decision", "dry_run")
	if err != nil {
		return err
	}
	workspace, filter := q.workspace, q.filter
	dry, err := q.flag("dry_run")
	if err != nil {
		return err
	}
	by := len(filter.Metadata)
	units, err := workspace.unitsToErase(q.values)
	if err != nil {
		return err
	}
	by += len(units)
	for _, given := range []bool{filter.ConversationID != "", !filter.Decision.IsZero()} {
		if given {
			by++
		}
	}
	if by != 1 {
		return apiError(http.StatusBadRequest, "what is to be erased? Give one of conversation_id=ID, decision=ID, metadata.NAME=VALUE and unit.FIELD=VALUE")
	}
	selectors := []trace.Selector{{Workspace: workspace.Name, ConversationID: filter.ConversationID, Decision: filter.Decision}}
	if len(units) > 0 {
		selectors = units
	}
	if len(filter.Metadata) > 0 {
		match := filter.Metadata[0]
		selectors[0].MetadataName, selectors[0].MetadataValue = match.Name, match.Value
		if match.OrText {
			asText := selectors[0]
			asText.MetadataValue = quoted(match.Value)
			selectors = append(selectors, asText)
		}
	}
	var erased trace.Erased
	note := func(outcome string) {
		if !dry {
			workspace.audited(r.Context(), AuditErase, workspace.hashedQuery(q.values), "",
				fmt.Sprintf("%d traces, %d metrics and %d replies erased%s", erased.Traces, erased.Metrics, erased.Replies, outcome))
		}
	}
	// First the counters of the limits, or their peaks would name the subject again.
	for _, selector := range selectors {
		if dry || selector.MetadataName == "" {
			continue
		}
		if err := workspace.EraseSubject(r.Context(), selector.MetadataName, selector.MetadataValue); err != nil {
			note(", not all")
			return apiError(http.StatusServiceUnavailable, "not all could be erased, try again: %v", err)
		}
	}
	// A trace of an answer just given may still wait to be stored.
	flushing, cancel := context.WithTimeout(r.Context(), flushTimeout)
	defer cancel()
	unstored := workspace.Store.Recorder.Flush(flushing)
	erase, done := sqlite.Erase, "erased"
	if dry {
		erase, done = sqlite.CountErasure, "found"
	}
	if !dry {
		// No further answer may be counted on a trace that is going, nor on one that was still
		// recorded meanwhile.
		workspace.Store.Recorder.Forget()
		defer workspace.Store.Recorder.Forget()
	}
	for _, selector := range selectors {
		more, err := erase(r.Context(), workspace.Store.Path, selector)
		erased.Traces += more.Traces
		erased.Metrics += more.Metrics
		erased.Replies += more.Replies
		if err != nil {
			note(", not all")
			return apiError(http.StatusServiceUnavailable, "not all could be erased, try again: %v", err)
		}
	}
	if !dry {
		workspace.Logger.Info("traces erased",
			zap.Int64("traces", erased.Traces), zap.Int64("metrics", erased.Metrics), zap.Int64("replies", erased.Replies))
	}
	if unstored != nil && !dry {
		note(", not all")
		return apiError(http.StatusServiceUnavailable, "not all could be erased, try again: the store is slow, and traces of the last answers wait for it")
	}
	note("")
	return writeJSON(w, map[string]any{done: map[string]int64{
		"traces": erased.Traces, "metrics": erased.Metrics, "replies": erased.Replies,
	}})
}
