package command

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/visible"
	"github.com/cadenza-gateway/cadenza/trace"
)

// shownTrace is a trace as the admin API gives it.
type shownTrace struct{ adminapi.ListedTrace }

// The columns of a list of traces.
const (
	idColumn = iota
	timeColumn
	kindColumn
	keyColumn
	rowColumn
	armColumn
	statusColumn
	modelColumn
	latencyColumn
	tokensColumn
	costColumn
	scoreColumn
	traceColumns
)

// newTraceTable returns the table of a list of traces. Later rows should not shift its
// columns, so it has room for the longest kind or, on a terminal, which has less room,
// for an id's prefix.
func newTraceTable(st styles) columns {
	table := columns{
		widths: []int{idColumn: textIDLength, timeColumn: len(fullTime), kindColumn: len("remoteconfig")},
		right:  []bool{latencyColumn: true, tokensColumn: true, costColumn: true, scoreColumn: true},
		fair:   []int{keyColumn: 20, rowColumn: 12, armColumn: 12, statusColumn: 16, modelColumn: 20},
		least:  []int{keyColumn: 10, rowColumn: 6, armColumn: 6, statusColumn: 12, modelColumn: 8},
		drop:   []int{costColumn, tokensColumn, kindColumn, rowColumn, modelColumn, armColumn},
	}
	if st.width > 0 {
		table.widths = []int{idColumn: leastPrefix, timeColumn: len(timeOfDay)}
	}
	return table
}

// traceHead returns the head of a list of traces. On a terminal it leaves out the names of
// columns without a value, such as the model of remote configurations, and so these
// columns. It leaves out scores everywhere until a trace has one.
func traceHead(st styles, table *columns) []cell {
	head := make([]cell, 0, traceColumns)
	for i, name := range [traceColumns]string{"id", "time", "kind", "key", "row", "arm", "status", "model", "latency", "tokens", "cost", "score"} {
		if (st.width > 0 || i == scoreColumn) && (i >= len(table.widths) || table.widths[i] == 0) {
			name = ""
		}
		head = append(head, cell{name, st.dim})
	}
	if st.width > 0 {
		head[timeColumn].text = "UTC"
	}
	return head
}

// row returns the trace as a row of the list. On a terminal, the id has so many digits,
// and the time leaves out the parts that it shares with now.
func (t *shownTrace) row(st styles, digits int, now time.Time) []cell {
	status := cell{t.outcome(), ""}
	switch {
	case t.Code != "" || t.State == trace.StateInterrupted:
		status.color = st.red
	case t.State == trace.StateStarted || t.wasCut():
		status.color = st.yellow
	}
	tokens := ""
	if t.HasUsage {
		tokens = strconv.FormatInt(t.TotalTokens, 10)
	}
	score := ""
	if t.Score != nil {
		score = strconv.FormatFloat(*t.Score, 'f', -1, 64)
	}
	id, at := t.ID.String(), timeText(t.Time)
	if st.width > 0 {
		id, at = idDigits(t.ID)[:digits], shortTime(t.Time, now)
	}
	return []cell{
		idColumn: {id, st.dim}, timeColumn: plainCell(at), kindColumn: plainCell(t.Kind.String()),
		keyColumn: plainCell(visible.Line(t.Key)), rowColumn: plainCell(visible.Line(cmp.Or(t.Row, "default"))), armColumn: plainCell(visible.Line(t.listedArm(st))), statusColumn: status,
		modelColumn: plainCell(visible.Line(target(t.Provider, t.Model))), latencyColumn: plainCell(elapsed(t.Latency)),
		tokensColumn: plainCell(tokens), costColumn: plainCell(t.costText()), scoreColumn: plainCell(score),
	}
}

const (
	textIDLength = 36 // of an id with its hyphens

	leastPrefix = 12 // digits of an id: its millisecond

	requestPrefix = 24 // digits of an id, in which the ids of a request differ
)

// idDigits returns the digits of an id. A double click on a terminal selects all of them;
// with hyphens it would select a part.
func idDigits(id trace.ID) string { return strings.ReplaceAll(id.String(), "-", "") }

// uniquePrefix returns the number of digits that tell the ids apart, at least leastPrefix.
// Equal ids count as one. Ids of one request differ late, in their 24th digit:
//
//	01a2007064e6 8552 8000 0001 …
//	01a2007064e6 8552 8000 0002 …
func uniquePrefix(ids []trace.ID) int {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, func(a, b trace.ID) int { return bytes.Compare(a[:], b[:]) })
	ids = slices.Compact(ids)
	digits := leastPrefix
	for i := range ids[:max(len(ids)-1, 0)] {
		a, b := idDigits(ids[i]), idDigits(ids[i+1])
		same := 0
		for a[same] == b[same] {
			same++
		}
		digits = max(digits, same+1)
	}
	return digits
}

const (
	fullTime  = "2006-01-02T15:04:05.000Z"
	timeOfDay = "15:04:05"
)

// shortTime returns a time in UTC without the parts that it has in common with now: the
// date for a time of today, the year for another day of this year.
func shortTime(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	switch {
	case t.IsZero():
		return ""
	case t.Format(time.DateOnly) == now.Format(time.DateOnly):
		return t.Format(timeOfDay)
	case t.Year() == now.Year():
		return t.Format("01-02 15:04:05")
	}
	return t.Format("2006-01-02 15:04")
}
