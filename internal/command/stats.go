package command

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

func statsCommand() *cobra.Command {
	var client gatewayClient
	var asJSON, units bool
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Counts a running gateway's answers per key and variant, arm or version",
		Long: `
Counts the answers of a running gateway per key and variant: errors, times,
tokens, costs and the scores that were reported. length and filtered are the
answers that a limit of tokens or a content policy cut. For a remote
configuration, the variant is the row that decided. Times are those that 50, 95
and 99 of 100 answers took at most, within 5 %.

Below are the scores and the values by names of your own that were reported, one
beside the other for each variant: how many, their mean, standard deviation, and
what 50, 95 and 99 of 100 are at most. --by arm or --by version counts for each
of these instead, --by arm,version for each pair. --variant, --arm and --version
choose one.

--units counts units, such as customers, instead of answers for the scores and
values: each unit that a split decided for counts once, for the first row of its
key that answered it, with the mean of what was reported on that row's answers.
units are how many there are, moved those that another row answered, too, and
unitless the answers of no split, or whose unit is not recorded.

--since and --until take a time (RFC 3339), a date, or how long ago it was,
such as 2h or 7d. They are widened to whole hours. --interval splits by hour or
by day (UTC).

The gateway is asked by its admin API, as with caddy reload.`,
		Example: "  caddy cadenza stats --since 7d --interval day --key support_chat\n  caddy cadenza stats --by arm --key support_reply",
		RunE: func(cmd *cobra.Command, _ []string) error {
			more := []string{"interval", "by"}
			if units {
				more = append(more, "units")
			}
			return showRows(cmd, &client, "/cadenza/stats", asJSON, writeStats, statsNotes, more...)
		},
	}
	client.addFlags(cmd)
	addFilterFlags(cmd, "kind", "key", "version", "variant", "arm")
	cmd.Flags().String("by", "variant", "variant, arm or version, or several of them with commas between")
	cmd.Flags().String("interval", "all", "hour, day or all")
	cmd.Flags().BoolVar(&units, "units", false, "Count units instead of reports for the scores and values")
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write the statistics as JSON")
	return cmd
}

// statsNotes returns notes on what statistics lack.
func statsNotes(a *adminapi.Stats) (notes []string) {
	if len(a.Rows) == 0 {
		notes = append(notes, "no traces")
	}
	if a.Units && !slices.ContainsFunc(a.Rows, func(r sqlite.StatsRow) bool { return r.Units > 0 }) {
		notes = append(notes, "no split decided, or its unit is not recorded: there are no units")
	}
	if a.Pending > 0 {
		notes = append(notes, fmt.Sprintf("recorded and not counted yet: %d", a.Pending))
	}
	return notes
}

// writeStats writes statistics for people: the counts, and below them the scores
// and named values. It returns the names of the columns for which the terminal has
// no room.
func writeStats(b *bytes.Buffer, st styles, a *adminapi.Stats) (leftOut []string) {
	text := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	quantile := func(q *sqlite.Quantiles, value float64) string {
		if q.Count == 0 {
			return ""
		}
		return millis(&value)
	}
	row := func(r *sqlite.StatsRow) *sqlite.StatsRow { return r }
	all := slices.Concat(statsKeys(st, a.Interval, row), statsGroups(row), []statsColumn[sqlite.StatsRow]{
		{"answers", true, func(r *sqlite.StatsRow) string { return strconv.FormatInt(r.Traces, 10) }, 0, 0},
		{"units", true, func(r *sqlite.StatsRow) string { return text(r.Units) }, 0, 0},
		{"moved", true, func(r *sqlite.StatsRow) string { return text(r.UnitsMoved) }, 0, 15},
		{"unitless", true, func(r *sqlite.StatsRow) string { return text(r.Unitless) }, 0, 16},
		{"errors", true, func(r *sqlite.StatsRow) string { return share(r.Errors, r.Traces) }, 0, 0},
		{"interrupted", true, func(r *sqlite.StatsRow) string { return text(r.Interrupted) }, 0, 9},
		{"cached", true, func(r *sqlite.StatsRow) string { return share(r.Cached, r.Traces) }, 0, 10},
		{"length", true, func(r *sqlite.StatsRow) string { return share(r.FinishReasons.Length, r.Traces) }, 0, 6},
		{"filtered", true, func(r *sqlite.StatsRow) string { return share(r.FinishReasons.ContentFilter, r.Traces) }, 0, 5},
		{"p50", true, func(r *sqlite.StatsRow) string { return quantile(&r.Latency, r.Latency.P50) }, 0, 0},
		{"p95", true, func(r *sqlite.StatsRow) string { return quantile(&r.Latency, r.Latency.P95) }, 0, 0},
		{"p99", true, func(r *sqlite.StatsRow) string { return quantile(&r.Latency, r.Latency.P99) }, 0, 7},
		{"first p50", true, func(r *sqlite.StatsRow) string { return quantile(&r.FirstToken, r.FirstToken.P50) }, 0, 11},
		{"first p95", true, func(r *sqlite.StatsRow) string { return quantile(&r.FirstToken, r.FirstToken.P95) }, 0, 3},
		{"reported p50", true, func(r *sqlite.StatsRow) string { return quantile(&r.ReportedLatency, r.ReportedLatency.P50) }, 0, 2},
		{"reported p95", true, func(r *sqlite.StatsRow) string { return quantile(&r.ReportedLatency, r.ReportedLatency.P95) }, 0, 1},
		{"tokens", true, func(r *sqlite.StatsRow) string { return text(r.TotalTokens) }, 0, 12},
		{"cost", true, func(r *sqlite.StatsRow) string { return dollars(r.Cost) }, 0, 13},
		{"reports", true, func(r *sqlite.StatsRow) string { return text(r.Reports) }, 0, 4},
		{"score", true, func(r *sqlite.StatsRow) string {
			if r.ScoreMean == nil {
				return ""
			}
			return strconv.FormatFloat(*r.ScoreMean, 'f', 1, 64)
		}, 0, 14},
	})
	leftOut = writeStatsTable(b, st, all, a.Rows)
	if values := reportedValues(a.Rows); len(values) > 0 {
		b.WriteByte('\n')
		for _, name := range writeValues(b, st, a.Interval, values) {
			if !slices.Contains(leftOut, name) {
				leftOut = append(leftOut, name)
			}
		}
	}
	return leftOut
}

// reported are the numbers that were reported under a name for a row of statistics.
type reported struct {
	row  *sqlite.StatsRow
	name string
	sqlite.Values
	scores bool // only their mean is known
}

// reportedValues returns the scores and the named values of rows. The values of one name
// and key follow each other, so that they can be compared.
func reportedValues(rows []sqlite.StatsRow) (all []reported) {
	named := false
	for i := range rows {
		r := &rows[i]
		if r.ScoreMean != nil {
			all = append(all, reported{r, "score", sqlite.Values{Count: r.Scores, Mean: *r.ScoreMean}, true})
		}
		for name, values := range r.Values {
			all = append(all, reported{r, name, values, false})
			named = true
		}
		if r.OtherValues != nil {
			all = append(all, reported{r, "(others)", *r.OtherValues, false})
			named = true
		}
	}
	if !named {
		return nil // the table above has the scores
	}
	slices.SortStableFunc(all, func(a, b reported) int {
		return cmp.Or(a.row.Start.Compare(b.row.Start), strings.Compare(a.row.Kind, b.row.Kind), strings.Compare(a.row.Key, b.row.Key),
			cmp.Compare(valueRank(&a), valueRank(&b)), strings.Compare(a.name, b.name))
	})
	return all
}

// valueRank puts scores first, and values without a name last.
func valueRank(v *reported) int {
	switch {
	case v.scores:
		return 0
	case v.name == "(others)":
		return 2
	}
	return 1
}

// writeValues writes scores and named values. It returns the names of the columns
// that it left out.
func writeValues(b *bytes.Buffer, st styles, interval string, values []reported) []string {
	number := func(value func(*reported) float64) func(*reported) string {
		return func(v *reported) string {
			if v.scores {
				return ""
			}
			return numberText(value(v))
		}
	}
	row := func(v *reported) *sqlite.StatsRow { return v.row }
	name := statsColumn[reported]{"value", false, func(v *reported) string { return visible.Line(v.name) }, 8, 0}
	return writeStatsTable(b, st, slices.Concat(statsKeys(st, interval, row), []statsColumn[reported]{name}, statsGroups(row), []statsColumn[reported]{
		{"count", true, func(v *reported) string { return strconv.FormatInt(v.Count, 10) }, 0, 0},
		{"mean", true, func(v *reported) string { return numberText(v.Mean) }, 0, 0},
		{"deviation", true, func(v *reported) string {
			if v.Deviation == nil {
				return ""
			}
			return numberText(*v.Deviation)
		}, 0, 0},
		{"min", true, number(func(v *reported) float64 { return v.Min }), 0, 6},
		{"p50", true, number(func(v *reported) float64 { return v.P50 }), 0, 11},
		{"p95", true, number(func(v *reported) float64 { return v.P95 }), 0, 10},
		{"p99", true, number(func(v *reported) float64 { return v.P99 }), 0, 9},
		{"max", true, number(func(v *reported) float64 { return v.Max }), 0, 7},
	}), values)
}

// numberText returns a number for people: of four digits, or whole up to 1e12.
func numberText(x float64) string {
	if size := math.Abs(x); size >= 1000 && size < 1e12 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}

// statsColumn is a column of statistics.
type statsColumn[T any] struct {
	name  string
	right bool
	cell  func(*T) string
	least int // the width to which it may be cut
	drop  int // the order in which columns are left out, from 1 on; 0: never
}

// visibleText returns the cells of a column of recorded texts.
func visibleText[T any](value func(*T) string) func(*T) string {
	return func(row *T) string { return visible.Line(value(row)) }
}

// statsKeys are the columns for the interval and the key of a row.
func statsKeys[T any](st styles, interval string, row func(*T) *sqlite.StatsRow) []statsColumn[T] {
	return []statsColumn[T]{
		{"start", false, func(v *T) string {
			if row(v).Start.IsZero() {
				return ""
			}
			return startText(row(v).Start, interval, st)
		}, 0, 0},
		{"kind", false, func(v *T) string { return visible.Line(row(v).Kind) }, 7, 8},
		{"key", false, func(v *T) string { return visible.Line(cmp.Or(row(v).Key, "-")) }, 10, 0},
	}
}

// statsGroups are the columns in which the rows of a key differ.
func statsGroups[T any](row func(*T) *sqlite.StatsRow) []statsColumn[T] {
	return []statsColumn[T]{
		{"variant", false, func(v *T) string { return visible.Line(row(v).Variant) }, 8, 0},
		{"arm", false, func(v *T) string { return visible.Line(row(v).Arm) }, 8, 0},
		{"version", false, func(v *T) string { return visible.Line(row(v).Version) }, 0, 0},
		{"prompt", false, func(v *T) string { return visible.Line(row(v).PromptVersion) }, 0, 0},
	}
}

// showRows asks for an answer by the command's flags, and writes it: as JSON as the admin
// API wrote it, or as a table by write, which returns the names of the columns for which
// the terminal has no room. more are flags as those of filterValues.
func showRows[T any](cmd *cobra.Command, g *gatewayClient, path string, asJSON bool, write func(*bytes.Buffer, styles, *T) []string, notes func(*T) []string, more ...string) error {
	values, err := filterValues(cmd, time.Now(), more...)
	if err != nil {
		return err
	}
	var leftOut []string
	answer, err := show(cmd, g, path, values, asJSON, func(b *bytes.Buffer, st styles, answer *T) { leftOut = write(b, st, answer) })
	if err != nil {
		return err
	}
	for _, note := range notes(answer) {
		fmt.Fprintln(cmd.ErrOrStderr(), note)
	}
	tellLeftOut(cmd, leftOut)
	return nil
}

// tellLeftOut names the columns for which a table has no room.
func tellLeftOut(cmd *cobra.Command, columns []string) {
	if len(columns) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "left out: %s (a wider terminal, a pipe or --json shows all)\n", strings.Join(columns, ", "))
	}
}

// writeStatsTable writes rows of statistics without empty columns: most workspaces have
// no scores, and many no costs. It returns the names of the columns for which the
// terminal has no room.
func writeStatsTable[T any](b *bytes.Buffer, st styles, all []statsColumn[T], values []T) (leftOut []string) {
	if len(values) == 0 {
		return nil
	}
	rows := make([][]cell, 1+len(values))
	var table columns
	var names []string
	var order []int
	for _, c := range all {
		cells := make([]cell, len(values))
		used := false
		for i := range values {
			cells[i].text = c.cell(&values[i])
			used = used || cells[i].text != ""
			if c.name == "errors" {
				cells[i].color = st.red
			}
		}
		if !used {
			continue
		}
		names = append(names, c.name)
		order = append(order, c.drop)
		table.right, table.least, table.fair = append(table.right, c.right), append(table.least, c.least), append(table.fair, 2*c.least)
		rows[0] = append(rows[0], cell{c.name, st.dim})
		for i := range cells {
			rows[i+1] = append(rows[i+1], cells[i])
		}
	}
	for next := range len(all) {
		if i := slices.Index(order, next+1); i >= 0 {
			table.drop = append(table.drop, i)
		}
	}
	table.write(b, st, rows...)
	for i, width := range table.shown {
		if width == 0 {
			leftOut = append(leftOut, names[i])
		}
	}
	return leftOut
}

// startText returns the start of an interval. On a terminal it is as short as the
// interval allows.
func startText(start time.Time, interval string, st styles) string {
	switch {
	case st.width == 0:
		return start.UTC().Format(time.RFC3339)
	case interval == "day":
		return start.UTC().Format(time.DateOnly)
	}
	return start.UTC().Format("01-02 15:04")
}
