package command

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

func costsCommand() *cobra.Command {
	var source costSource
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "costs",
		Short: "Shows what calls of endpoints cost, by key, variant, model, API key or metadata",
		Long: `
Sums what the calls of endpoints used and cost, by what --by names: workspace,
key, variant, endpoint_variant, version (of the endpoint, and after a / that of
its prompt), api_key, provider, model, day (UTC) or metadata.NAME, or several of
these with commas between. All attempts at providers count, also those that
failed, were cancelled or lost to a hedge: they are paid for.

in is all of the prompts, of which cached was read from providers' caches and
written was written to them; out is all of the answers, of which reasoning was
thought. unanswered are the attempts that did not answer, with their part of the
cost, and estimated is the part whose tokens no provider counted. differs is
what providers said that their answers cost, less what they cost by the price
list. no price counts attempts that used tokens of a model without a price:
their cost is not known, and not in the sum.

The rows that cost the most are shown, up to --top, and the others in one.
--since and --until take a time (RFC 3339), a date, or how long ago it was, such
as 2h or 7d.

The gateway is asked by its admin API, as with caddy reload, for all its
workspaces or for that of -w. --store reads the file of a store instead, without
a gateway.`,
		Example: "  caddy cadenza costs --by model --since 30d\n  caddy cadenza costs --by day,model --since 2026-11-01 --until 2026-12-01",
		RunE: func(cmd *cobra.Command, _ []string) error {
			values, err := filterValues(cmd, time.Now(), "by")
			if err != nil {
				return err
			}
			if top := cmd.Flags().Lookup("top"); top.Changed {
				values.Set("top", top.Value.String())
			}
			costs, err := source.costs(cmd, values)
			if err != nil {
				return err
			}
			var leftOut []string
			if err := writeReport(cmd, costs, asJSON, func(b *bytes.Buffer, st styles) { leftOut = writeCosts(b, st, costs) }); err != nil {
				return err
			}
			for _, note := range costNotes(costs) {
				fmt.Fprintln(cmd.ErrOrStderr(), note)
			}
			tellLeftOut(cmd, leftOut)
			return nil
		},
	}
	source.addFlags(cmd)
	addFilterFlags(cmd, "key", "api-key", "version", "variant")
	cmd.Flags().String("provider", "", "Attempts at this provider")
	cmd.Flags().String("model", "", "Attempts at this model, as definitions name it")
	cmd.Flags().StringArray("metadata", nil, "Calls with this member of the metadata, as NAME=VALUE; repeatable")
	cmd.Flags().String("by", "key", "What a row is of, several with commas between: "+strings.Join(sqlite.CostParts, ", ")+" or metadata.NAME")
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(append(slices.Clone(sqlite.CostParts), "metadata."), cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	cmd.Flags().Int("top", sqlite.DefaultCostRows, fmt.Sprintf("How many rows to show at most, up to %d", sqlite.MaxCostRows))
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write the costs as JSON")
	return cmd
}

// costSource is the source of costs: a running gateway, or a store's file.
type costSource struct {
	client gatewayClient
	store  string
}

func (s *costSource) addFlags(cmd *cobra.Command) {
	s.client.addFlags(cmd)
	cmd.Flags().StringVar(&s.store, "store", "", "Read this file of a store, and ask no gateway")
}

// costs asks for costs by the parameters of the admin API.
func (s *costSource) costs(cmd *cobra.Command, values url.Values) (*adminapi.Costs, error) {
	if s.store != "" {
		if s.client.address+s.client.config != "" {
			return nil, fmt.Errorf("--store reads a file: give it without --address and --config")
		}
		q, err := adminapi.ParseCosts(values, time.Now())
		if err != nil {
			return nil, err
		}
		return adminapi.ReadCosts(cmd.Context(), s.store, s.client.workspace, q)
	}
	if err := s.client.resolve(); err != nil {
		return nil, err
	}
	var costs adminapi.Costs
	return &costs, s.client.get("/cadenza/costs", values, &costs)
}

// writeCosts writes costs for people. It returns the names of the columns for which
// the terminal has no room.
func writeCosts(b *bytes.Buffer, st styles, c *adminapi.Costs) (leftOut []string) {
	type row struct {
		label string // of the sum of several rows
		sqlite.CostRow
	}
	var rows []row
	for _, r := range c.Rows {
		rows = append(rows, row{CostRow: r})
	}
	if c.Others != nil {
		label := "(others)"
		if c.OtherRows > 0 {
			label = fmt.Sprintf("(%d others)", c.OtherRows)
		}
		rows = append(rows, row{label, sqlite.CostRow{CostSums: *c.Others}})
	}
	if len(rows) > 1 {
		rows = append(rows, row{"total", sqlite.CostRow{CostSums: c.Total}})
	}
	var all []statsColumn[row]
	for i, part := range c.By {
		all = append(all, statsColumn[row]{strings.TrimPrefix(part, adminapi.MetadataParameter), false, func(r *row) string {
			switch name, has := r.By[part]; {
			case r.label != "" && i > 0:
				return ""
			case r.label != "":
				return r.label
			case has:
				return cmp.Or(visible.Line(name), `""`)
			}
			return "-"
		}, 10, 0})
	}
	number := func(value func(*row) int64) func(*row) string {
		return func(r *row) string {
			if n := value(r); n != 0 {
				return strconv.FormatInt(n, 10)
			}
			return ""
		}
	}
	all = append(all,
		statsColumn[row]{"calls", true, number(func(r *row) int64 { return r.Calls }), 0, 9},
		statsColumn[row]{"attempts", true, number(func(r *row) int64 { return r.Attempts }), 0, 8},
		statsColumn[row]{"in", true, number(func(r *row) int64 { return r.PromptTokens }), 0, 12},
		statsColumn[row]{"cached", true, number(func(r *row) int64 { return r.CachedTokens }), 0, 4},
		statsColumn[row]{"written", true, number(func(r *row) int64 { return r.CacheWriteTokens + r.CacheWriteHourTokens }), 0, 3},
		statsColumn[row]{"out", true, number(func(r *row) int64 { return r.CompletionTokens }), 0, 11},
		statsColumn[row]{"reasoning", true, number(func(r *row) int64 { return r.ReasoningTokens }), 0, 2},
		statsColumn[row]{"searches", true, number(func(r *row) int64 { return r.WebSearches }), 0, 1},
		statsColumn[row]{"cost", true, func(r *row) string { return costText(&r.CostSums) }, 0, 0},
		statsColumn[row]{"estimated", true, func(r *row) string { return dollars(r.EstimatedCost) }, 0, 5},
		statsColumn[row]{"unanswered", true, func(r *row) string {
			text := number(func(r *row) int64 { return r.Unanswered })(r)
			if r.UnansweredCost != 0 {
				text += " (" + dollars(r.UnansweredCost) + ")"
			}
			return text
		}, 0, 6},
		statsColumn[row]{"differs", true, func(r *row) string { return differenceText(r.ReportedCost - r.ListCost) }, 0, 7},
		statsColumn[row]{"no price", true, number(func(r *row) int64 { return r.Unpriced }), 0, 13},
		statsColumn[row]{"interrupted", true, number(func(r *row) int64 { return r.Interrupted }), 0, 10},
	)
	return writeStatsTable(b, st, all, rows)
}

// costText returns a cost for people: "$0" for nothing, and with "+ ?" if a part of it is
// unknown.
func costText(s *sqlite.CostSums) string {
	text := cmp.Or(dollars(s.Cost), "$0")
	switch {
	case s.Unknown() && s.Cost == 0:
		return "?"
	case s.Unknown():
		return text + " + ?"
	}
	return text
}

// differenceText returns a difference of dollars with its sign, empty for less than a
// millionth.
func differenceText(amount float64) string {
	switch {
	case math.Abs(amount) < 1e-6:
		return ""
	case amount < 0:
		return "-" + dollars(-amount)
	}
	return "+" + dollars(amount)
}

// costNotes returns notes on costs that the sums lack.
func costNotes(c *adminapi.Costs) (notes []string) {
	t := &c.Total
	if t.Calls == 0 {
		notes = append(notes, "no calls of endpoints")
	}
	if t.Unpriced > 0 {
		notes = append(notes, fmt.Sprintf("no price: %s with %d tokens, whose cost is not in the sum; --by model shows which, and the option price gives them one", plural(int(t.Unpriced), "attempt"), t.UnpricedTokens))
	}
	if t.Interrupted > 0 {
		notes = append(notes, fmt.Sprintf("interrupted: %s during which the gateway's process ended, of unknown cost", plural(int(t.Interrupted), "call")))
	}
	if len(c.Unlogged) > 0 {
		notes = append(notes, "not counted, because they leave no trace (log: none): calls of "+visible.Line(strings.Join(c.Unlogged, ", ")))
	}
	if !c.Since.IsZero() && !c.Oldest.IsZero() && c.Since.Before(c.Oldest.Add(-24*time.Hour)) {
		notes = append(notes, "the oldest trace that is stored is of "+c.Oldest.UTC().Format(time.RFC3339))
	}
	return notes
}
