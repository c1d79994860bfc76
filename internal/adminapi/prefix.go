package adminapi

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// leastPrefix is the least number of hexadecimal digits of an id's beginning. Ids of
	// one minute have eight digits in common.
	leastPrefix = 8

	// maxCandidates bounds the ids in the error for an ambiguous beginning.
	maxCandidates = 10
)

// answerID matches the ids of answers in the forms of other APIs, which have the trace's id
// in them, such as chatcmpl-018f… and, of the first part of an answer, msg_018f…_0.
var answerID = regexp.MustCompile(`^(?:chatcmpl-|(?:resp|msg|rs|fc|ctc|cmp)_)([0-9A-Fa-f]+)(?:_[0-9]+)?$`)

// withinAnswerID returns the trace's id in the id of an answer. Any other text stays as it
// is.
func withinAnswerID(text string) string { return answerID.ReplaceAllString(text, "$1") }

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

// complete finds the trace whose id begins with the text or, if there is no such trace,
// the decision. It searches the named workspace, or all if the name is empty.
func (all workspaces) complete(ctx context.Context, text, workspace string) (id trace.ID, err error) {
	first, last, ok := parsePrefix(withinAnswerID(text))
	if !ok {
		return id, apiError(http.StatusBadRequest, "%q is no trace id: give its 36 characters, or the first %d or more of its hexadecimal digits", text, leastPrefix)
	}
	names, err := all.searched(workspace)
	if err != nil {
		return id, err
	}
	var failure error
	for _, decisions := range []bool{false, true} {
		var found []candidate
		var more bool
		for _, name := range names {
			some, others, err := all[name].idsBetween(ctx, decisions, first, last)
			if err != nil {
				failure = err // another workspace may have it
			}
			found, more = append(found, some...), more || others
		}
		if len(found) > 0 || more {
			return only(text, decisions, found, more)
		}
	}
	if failure != nil {
		return id, failure
	}
	return id, apiError(http.StatusNotFound, "there is no trace whose id begins with %s: it was not recorded, is past the retention, or is another gateway's", text)
}

// decision reads the id of a decision, or finds the decision whose id begins with the
// text.
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
	found, more, err := w.idsBetween(ctx, true, first, last)
	if err != nil {
		return id, err
	}
	if len(found) == 0 && !more {
		return id, apiError(http.StatusNotFound, "there is no decision whose id begins with %s: it was not recorded, is past the retention, or is another gateway's", text)
	}
	return only(text, true, found, more)
}

// candidate is a trace or a decision whose id has the beginning.
type candidate struct {
	id   trace.ID
	name string // such as "prompt support_reply"
}

// idsBetween returns the traces, or the decisions, whose ids are between two.
func (w *Workspace) idsBetween(ctx context.Context, decisions bool, first, last trace.ID) (found []candidate, more bool, err error) {
	calls := w.running(0, w.Mark())
	reader, err := w.openTraces(ctx)
	if err != nil {
		return nil, false, err
	}
	defer reader.Close()
	if decisions {
		var ids []trace.ID
		ids, more, err = reader.DecisionsBetween(ctx, w.Name, first, last)
		for _, id := range ids {
			found = append(found, candidate{id, "decision"})
		}
	} else {
		var records []trace.Record
		records, more, err = reader.Between(ctx, w.Name, first, last)
		for _, r := range records {
			found = append(found, candidate{r.ID, strings.TrimSpace(r.Kind.String() + " " + r.Key)})
		}
	}
	if err != nil {
		return nil, false, w.unreadable(err)
	}
	for _, call := range calls {
		switch {
		case !decisions:
			found = addCandidate(found, candidate{call.ID, call.Kind.String() + " " + call.Key}, first, last)
		case call.Decision.Kind() == trace.KindDecision:
			found = addCandidate(found, candidate{call.Decision, "decision"}, first, last)
		}
	}
	return found, more, nil
}

// addCandidate adds a candidate whose id is between two, unless the list has it.
func addCandidate(found []candidate, c candidate, first, last trace.ID) []candidate {
	at, known := slices.BinarySearchFunc(found, c.id, func(c candidate, id trace.ID) int { return bytes.Compare(c.id[:], id[:]) })
	if known || bytes.Compare(c.id[:], first[:]) < 0 || bytes.Compare(c.id[:], last[:]) > 0 {
		return found
	}
	return slices.Insert(found, at, c)
}

// only returns the id of the only candidate. The error for several names the first
// maxCandidates.
func only(text string, decisions bool, found []candidate, more bool) (trace.ID, error) {
	if len(found) == 1 && !more {
		return found[0].id, nil
	}
	what := "traces"
	if decisions {
		what = "decisions"
	}
	var b strings.Builder
	count := "many"
	if !more {
		count = strconv.Itoa(len(found))
	}
	fmt.Fprintf(&b, "%s begins the ids of %s %s: give more digits", text, count, what)
	for _, c := range found[:min(len(found), maxCandidates)] {
		fmt.Fprintf(&b, "\n  %s  %s", c.id, c.name)
	}
	if more || len(found) > maxCandidates {
		b.WriteString("\n  and others")
	}
	return trace.ID{}, apiError(http.StatusConflict, "%s", b.String())
}
