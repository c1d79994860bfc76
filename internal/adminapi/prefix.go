package adminapi

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// leastPrefix is how many hexadecimal digits of an id its beginning has at
	// least: ids of one minute have eight in common.
	leastPrefix = 8

	// maxCandidates is how many traces the error for an ambiguous beginning names.
	maxCandidates = 10
)

// parsePrefix reads the beginning of a trace id, with or without its hyphens, and
// returns the first and the last id that begin so.
func parsePrefix(text string) (first, last trace.ID, ok bool) {
	digits := strings.ReplaceAll(text, "-", "")
	if len(digits) < leastPrefix || len(digits) > 2*len(first) {
		return first, last, false
	}
	missing := 2*len(first) - len(digits)
	_, err := hex.Decode(first[:], []byte(digits+strings.Repeat("0", missing)))
	if err == nil {
		_, err = hex.Decode(last[:], []byte(digits+strings.Repeat("f", missing)))
	}
	return first, last, err == nil
}

// complete finds the trace whose id begins as text does, in the named workspace,
// or in any if the name is empty.
func (all workspaces) complete(ctx context.Context, text, workspace string) (id trace.ID, err error) {
	first, last, ok := parsePrefix(text)
	if !ok {
		return id, apiError(http.StatusBadRequest, "%q is no trace id: give its 36 characters, or the first %d or more of its hexadecimal digits", text, leastPrefix)
	}
	names, err := all.searched(workspace)
	if err != nil {
		return id, err
	}
	var found []trace.Record
	var more bool
	var failure error
	for _, name := range names {
		some, others, err := all[name].between(ctx, first, last)
		if err != nil {
			failure = err // another workspace may have it
		}
		found, more = append(found, some...), more || others
	}
	switch {
	case len(found) == 1 && !more:
		return found[0].ID, nil
	case len(found) > 0 || more:
		return id, ambiguous(text, found, more)
	case failure != nil:
		return id, failure
	}
	return id, apiError(http.StatusNotFound, "there is no trace whose id begins with %s: it was not recorded, is past the retention, or is another gateway's", text)
}

func (w *Workspace) between(ctx context.Context, first, last trace.ID) ([]trace.Record, bool, error) {
	reader, err := w.openTraces(ctx)
	if err != nil {
		return nil, false, err
	}
	defer reader.Close()
	found, more, err := reader.Between(ctx, w.Name, first, last)
	if err != nil {
		return nil, false, w.unreadable(err)
	}
	return found, more, nil
}

// ambiguous returns the error for a beginning of several ids. It names them, the
// first at least.
func ambiguous(text string, found []trace.Record, more bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s begins the ids of ", text)
	if more {
		b.WriteString("many traces: give more digits")
	} else {
		fmt.Fprintf(&b, "%d traces: give more digits", len(found))
	}
	for _, rec := range found[:min(len(found), maxCandidates)] {
		fmt.Fprintf(&b, "\n  %s  %s %s", rec.ID, rec.Kind, rec.Key)
	}
	if more || len(found) > maxCandidates {
		b.WriteString("\n  and others")
	}
	return apiError(http.StatusConflict, "%s", b.String())
}
