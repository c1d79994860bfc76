package command

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
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
		Args:    cobra.NoArgs,
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
			switch {
			case asJSON:
				if err := json.Indent(&b, text, "", "  "); err != nil {
					return err
				}
				b = *bytes.NewBuffer(append(bytes.TrimSpace(visible.JSON(b.Bytes())), '\n'))
			case len(answer.Rows) > 0:
				writeStats(&b, stylesFor(out), &answer)
			}
			if len(answer.Rows) == 0 {
				fmt.Fprintln(cmd.ErrOrStderr(), "no traces")
			}
			if answer.Pending > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "recorded and not counted yet: %d\n", answer.Pending)
			}
			_, err = out.Write(b.Bytes())
			return err
		},
	}
	client.addFlags(cmd)
	addFilterFlags(cmd, "kind", "key")
	cmd.Flags().StringVar(&interval, "interval", "all", "hour, day or all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write the statistics as JSON")
	return cmd
}

// writeStats writes statistics for people. Empty columns are left out: most
// workspaces have no scores, and many no costs.
func writeStats(b *bytes.Buffer, st styles, a *adminapi.Stats) {
	type column struct {
		name  string
		right bool
		cell  func(*sqlite.StatsRow) string
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
			return r.Start.UTC().Format(time.RFC3339)
		}},
		{"kind", false, func(r *sqlite.StatsRow) string { return visible.Line(r.Kind) }},
		{"key", false, func(r *sqlite.StatsRow) string { return visible.Line(cmp.Or(r.Key, "-")) }},
		{"variant", false, func(r *sqlite.StatsRow) string { return visible.Line(r.Variant) }},
		{"answers", true, func(r *sqlite.StatsRow) string { return strconv.FormatInt(r.Traces, 10) }},
		{"errors", true, func(r *sqlite.StatsRow) string { return share(r.Errors, r.Traces) }},
		{"interrupted", true, func(r *sqlite.StatsRow) string { return text(r.Interrupted) }},
		{"cached", true, func(r *sqlite.StatsRow) string { return share(r.Cached, r.Traces) }},
		{"length", true, func(r *sqlite.StatsRow) string { return share(r.FinishReasons.Length, r.Traces) }},
		{"filtered", true, func(r *sqlite.StatsRow) string { return share(r.FinishReasons.ContentFilter, r.Traces) }},
		{"p50", true, func(r *sqlite.StatsRow) string { return quantile(&r.Latency, r.Latency.P50) }},
		{"p95", true, func(r *sqlite.StatsRow) string { return quantile(&r.Latency, r.Latency.P95) }},
		{"p99", true, func(r *sqlite.StatsRow) string { return quantile(&r.Latency, r.Latency.P99) }},
		{"first p50", true, func(r *sqlite.StatsRow) string { return quantile(&r.FirstToken, r.FirstToken.P50) }},
		{"first p95", true, func(r *sqlite.StatsRow) string { return quantile(&r.FirstToken, r.FirstToken.P95) }},
		{"reported p50", true, func(r *sqlite.StatsRow) string { return quantile(&r.ReportedLatency, r.ReportedLatency.P50) }},
		{"reported p95", true, func(r *sqlite.StatsRow) string { return quantile(&r.ReportedLatency, r.ReportedLatency.P95) }},
		{"tokens", true, func(r *sqlite.StatsRow) string { return text(r.TotalTokens) }},
		{"cost", true, func(r *sqlite.StatsRow) string { return dollars(r.Cost) }},
		{"reports", true, func(r *sqlite.StatsRow) string { return text(r.Reports) }},
		{"score", true, func(r *sqlite.StatsRow) string {
			if r.ScoreMean == nil {
				return ""
			}
			return strconv.FormatFloat(*r.ScoreMean, 'f', 1, 64)
		}},
	}
	rows := make([][]cell, 1+len(a.Rows))
	var table columns
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
		table.right = append(table.right, c.right)
		rows[0] = append(rows[0], cell{c.name, st.dim})
		for i := range cells {
			rows[i+1] = append(rows[i+1], cells[i])
		}
	}
	table.write(b, st, rows...)
}
