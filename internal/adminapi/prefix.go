package adminapi

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
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

// complete finds the trace whose id begins as text does or, where there is none,
// the decision, in the named workspace, or in any if the name is empty.
func (all workspaces) complete(ctx context.Context, text, workspace string) (id trace.ID, err error) {
	first, last, ok := parsePrefix(text)
	if !ok {
		return id, apiError(http.StatusBadRequest, "%q is no trace id: give its 36 characters, or the first %d or more of its hexadecimal digits", text, leastPrefix)
	}
	names, err := all.searched(workspace)
	if err != nil {
		return id, err
	}
	var failure error
	for _, of := range []struct {
		name string
		find func(*Workspace) ([]candidate, bool, error)
	}{
		{"traces", func(w *Workspace) ([]candidate, bool, error) { return w.tracesBetween(ctx, first, last) }},
		{"decisions", func(w *Workspace) ([]candidate, bool, error) { return w.decisionsBetween(ctx, first, last) }},
	} {
		var found []candidate
		var more bool
		for _, name := range names {
			some, others, err := of.find(all[name])
			if err != nil {
				failure = err // another workspace may have it
			}
			found, more = append(found, some...), more || others
		}
		if len(found) > 0 || more {
			return only(text, of.name, found, more)
		}
	}
	if failure != nil {
		return id, failure
	}
	return id, apiError(http.StatusNotFound, "there is no trace whose id begins with %s: it was not recorded, is past the retention, or is another gateway's", text)
}

// decision reads the id of a decision, or finds the one whose id begins as text
// does.
func (w *Workspace) decision(ctx context.Context, text string) (trace.ID, error) {
	id, whole := trace.ParseID(text)
	first, last, ok := parsePrefix(text)
	switch {
	case !ok:
		return id, apiError(http.StatusBadRequest, "decision must be the id of a decision, or the first %d or more of its hexadecimal digits, this is %q", leastPrefix, text)
	case whole && id.Kind() != trace.KindDecision:
		return id, apiError(http.StatusBadRequest, "%s is no id of a decision: that is decision_id of a trace, and the header Cadenza-Decision-Id of an answer", text)
	case whole:
		return id, nil
	}
	found, more, err := w.decisionsBetween(ctx, first, last)
	if err != nil {
		return id, err
	}
	if len(found) == 0 && !more {
		return id, apiError(http.StatusNotFound, "there is no decision whose id begins with %s: it was not recorded, is past the retention, or is another gateway's", text)
	}
	return only(text, "decisions", found, more)
}

// candidate is a trace or a decision whose id begins as was asked.
type candidate struct {
	id trace.ID
	of string // such as "prompt support_reply"
}

func (w *Workspace) tracesBetween(ctx context.Context, first, last trace.ID) (found []candidate, more bool, err error) {
	calls := w.running(0, w.Mark())
	reader, err := w.openTraces(ctx)
	if err != nil {
		return nil, false, err
	}
	defer reader.Close()
	records, more, err := reader.Between(ctx, w.Name, first, last)
	if err != nil {
		return nil, false, w.unreadable(err)
	}
	for _, r := range records {
		found = append(found, candidate{r.ID, strings.TrimSpace(r.Kind.String() + " " + r.Key)})
	}
	for _, call := range calls {
		found = addCandidate(found, candidate{call.ID, call.Kind.String() + " " + call.Key}, first, last)
	}
	return found, more, nil
}

func (w *Workspace) decisionsBetween(ctx context.Context, first, last trace.ID) (found []candidate, more bool, err error) {
	calls := w.running(0, w.Mark())
	reader, err := w.openTraces(ctx)
	if err != nil {
		return nil, false, err
	}
	defer reader.Close()
	ids, more, err := reader.DecisionsBetween(ctx, w.Name, first, last)
	if err != nil {
		return nil, false, w.unreadable(err)
	}
	for _, id := range ids {
		found = append(found, candidate{id, "decision"})
	}
	for _, call := range calls {
		if call.Decision.Kind() == trace.KindDecision {
			found = addCandidate(found, candidate{call.Decision, "decision"}, first, last)
		}
	}
	return found, more, nil
}

// addCandidate adds one whose id is between two, unless it is there.
func addCandidate(found []candidate, c candidate, first, last trace.ID) []candidate {
	at, is := slices.BinarySearchFunc(found, c.id, func(c candidate, id trace.ID) int { return bytes.Compare(c.id[:], id[:]) })
	if is || bytes.Compare(c.id[:], first[:]) < 0 || bytes.Compare(c.id[:], last[:]) > 0 {
		return found
	}
	return slices.Insert(found, at, c)
}

// only returns the id of the one candidate, or the error for several.
func only(text, what string, found []candidate, more bool) (trace.ID, error) {
	if len(found) == 1 && !more {
		return found[0].id, nil
	}
	return trace.ID{}, ambiguous(text, what, found, more)
}

// ambiguous returns the error for a beginning of several ids. It names them, the
// first at least.
func ambiguous(text, what string, found []candidate, more bool) error {
	var b strings.Builder
	count := "many"
	if !more {
		count = strconv.Itoa(len(found))
	}
	fmt.Fprintf(&b, "%s begins the ids of %s %s: give more digits", text, count, what)
	for _, c := range found[:min(len(found), maxCandidates)] {
		fmt.Fprintf(&b, "\n  %s  %s", c.id, c.of)
	}
	if more || len(found) > maxCandidates {
		b.WriteString("\n  and others")
	}
	return apiError(http.StatusConflict, "%s", b.String())
}
