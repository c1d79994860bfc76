package command

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
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
	var interval string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Counts a running gateway's answers per key and variant",
		Long: `
Counts the answers of a running gateway per key and variant: errors, times,
tokens, costs and the scores that were reported. length and filtered are the
answers that a limit of tokens or a content policy cut. For a remote
configuration, the variant is the row that decided. Times are those that 50, 95
and 99 of 100 answers took at most, within 5 %.

--since and --until take a time (RFC 3339), a date, or how long ago it was,
such as 2h or 7d. They are widened to whole hours. --interval splits by hour or
by day (UTC).

The gateway is asked by its admin API, as with caddy reload.`,
		Example: "  caddy cadenza stats --since 7d --interval day --key support_chat",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := client.resolve(); err != nil {
				return err
			}
			values, err := filterValues(cmd, time.Now())
			if err != nil {
				return err
			}
			values.Set("interval", interval)
			var text json.RawMessage
			if err := client.get("/cadenza/stats", values, &text); err != nil {
				return err
			}
			var answer adminapi.Stats
			if err := decode(text, &answer); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			var b bytes.Buffer
			var leftOut []string
			switch {
			case asJSON:
				if err := json.Indent(&b, text, "", "  "); err != nil {
					return err
				}
				b = *bytes.NewBuffer(append(bytes.TrimSpace(visible.JSON(b.Bytes())), '\n'))
			case len(answer.Rows) > 0:
				leftOut = writeStats(&b, stylesFor(out), &answer)
			}
			if len(answer.Rows) == 0 {
				fmt.Fprintln(cmd.ErrOrStderr(), "no traces")
			}
			if answer.Pending > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "recorded and not counted yet: %d\n", answer.Pending)
			}
			if _, err := out.Write(b.Bytes()); err != nil {
				return err
			}
			if len(leftOut) > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "left out: %s (a wider terminal, a pipe or --json shows all)\n", strings.Join(leftOut, ", "))
			}
			return nil
		},
	}
	client.addFlags(cmd)
	addFilterFlags(cmd, "kind", "key")
	cmd.Flags().StringVar(&interval, "interval", "all", "hour, day or all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write the statistics as JSON")
	return cmd
}

// writeStats writes statistics for people. Empty columns are left out: most
// workspaces have no scores, and many no costs. It returns the names of those
// for which the terminal has no room.
func writeStats(b *bytes.Buffer, st styles, a *adminapi.Stats) (leftOut []string) {
	type column struct {
		name  string
		right bool
		cell  func(*sqlite.StatsRow) string
		least int // the width to which it may be cut
		drop  int // when it is left out: 1 is the first; 0: never
	}
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
	all := []column{
		{"start", false, func(r *sqlite.StatsRow) string {
			if r.Start.IsZero() {
				return ""
			}
			return startText(r.Start, a.Interval, st)
		}, 0, 0},
		{"kind", false, func(r *sqlite.StatsRow) string { return visible.Line(r.Kind) }, 7, 8},
		{"key", false, func(r *sqlite.StatsRow) string { return visible.Line(cmp.Or(r.Key, "-")) }, 10, 0},
		{"variant", false, func(r *sqlite.StatsRow) string { return visible.Line(r.Variant) }, 8, 0},
		{"answers", true, func(r *sqlite.StatsRow) string { return strconv.FormatInt(r.Traces, 10) }, 0, 0},
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
	}
	rows := make([][]cell, 1+len(a.Rows))
	var table columns
	var names []string
	var order []int
	for _, c := range all {
		cells := make([]cell, len(a.Rows))
		used := false
		for i := range a.Rows {
			cells[i].text = c.cell(&a.Rows[i])
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
		table.right, table.least = append(table.right, c.right), append(table.least, c.least)
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

// startText returns the start of an interval. On a terminal, it is as short as
// the interval lets it be.
func startText(start time.Time, interval string, st styles) string {
	switch {
	case st.width == 0:
		return start.UTC().Format(time.RFC3339)
	case interval == "day":
		return start.UTC().Format(time.DateOnly)
	}
	return start.UTC().Format("01-02 15:04")
}
