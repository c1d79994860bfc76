package command

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/bill"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// errBill says that a bill differs from what was counted.
var errBill = errors.New("the bill differs from what was counted")

func reconcileCommand() *cobra.Command {
	var source costSource
	var providers []string
	var tolerance string
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "reconcile FILE...",
		Short: "Holds a provider's export of usage or costs against what was counted",
		Long: `
Compares exports of OpenAI and Anthropic with the traces, by model and day (UTC), and
says what explains a difference. A FILE has JSON pages of their APIs for usage and
costs, one after the other or in a list, or is a CSV file of their consoles. Several
are of one bill together, such as one of usage and one of costs. - is the standard
input. A date in a model's name is left out, so gpt-4o-mini-2024-07-18 is gpt-4o-mini.

The attempts are those at providers whose names begin with openai or anthropic, or that
--provider names. What is in a file and not known is named, and not counted.

It fails where the tokens or the cost of a model on a day differ by more than
--tolerance, in percent, and by a cent at least. So a scheduled job can tell.

The gateway is asked by its admin API, as with caddy reload, for all its workspaces or
for that of -w. --store reads the file of a store instead, without a gateway.`,
		Example: "  caddy cadenza reconcile usage.json costs.json\n  caddy cadenza reconcile --tolerance 2% --provider openai --provider openai_eu completions_usage.csv",
		RunE: func(cmd *cobra.Command, files []string) error {
			part, err := parseTolerance(tolerance)
			if err != nil {
				return err
			}
			exports, err := readExports(cmd, files)
			if err != nil {
				return err
			}
			r := &reconciled{}
			known := &bill.Known{Now: time.Now(), Providers: providers, Tolerance: part}
			first, last := "", ""
			for i, e := range exports {
				r.Files = append(r.Files, reconciledFile{files[i], e.Vendor, e.Shape, e.First, e.Last, e.Lines, e.Unknown, e.More})
				if e.First != "" && (first == "" || e.First < first) {
					first = e.First
				}
				last = max(last, e.Last)
			}
			if first == "" {
				return errors.New("the files have no days: nothing is to be compared")
			}
			ours, err := countedBetween(cmd, &source, first, last, known)
			if err != nil {
				return err
			}
			r.Report = bill.Compare(exports, ours, known)
			if err := writeReport(cmd, r, asJSON, func(b *bytes.Buffer, st styles) { r.write(b, st, all) }); err != nil {
				return err
			}
			if !r.Matches {
				return errBill
			}
			return nil
		},
	}
	source.addFlags(cmd)
	cmd.Flags().StringArrayVar(&providers, "provider", nil, "A provider whose attempts are on the bill; repeatable. Default: those whose names begin with openai or anthropic")
	cmd.Flags().StringVar(&tolerance, "tolerance", "1%", "By how much a model's tokens and cost of a day may differ")
	cmd.Flags().BoolVar(&all, "all", false, "Show the models and days that match, too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write the comparison as JSON")
	return cmd
}

// parseTolerance reads a percentage, and returns it as a part of 1.
func parseTolerance(text string) (float64, error) {
	percent, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || !(percent >= 0 && percent <= 100) {
		return 0, fmt.Errorf("--tolerance takes a percentage from 0%% to 100%%, this is %q", text)
	}
	return percent / 100, nil
}

// readExports reads files, - for the standard input.
func readExports(cmd *cobra.Command, files []string) ([]*bill.Export, error) {
	var exports []*bill.Export
	for _, name := range files {
		in := cmd.InOrStdin()
		if name != "-" {
			f, err := os.Open(name)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			in = f
		}
		e, err := bill.Parse(in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		e.Name = name
		exports = append(exports, e)
	}
	return exports, nil
}

// countedBetween returns the costs of some days by provider, model and day, and puts into
// known what the gateway knows.
func countedBetween(cmd *cobra.Command, source *costSource, first, last string, known *bill.Known) ([]sqlite.CostRow, error) {
	from, err := time.Parse(time.DateOnly, first)
	if err != nil {
		return nil, err
	}
	until, err := time.Parse(time.DateOnly, last)
	if err != nil {
		return nil, err
	}
	// An attempt counts on the day on which it began, and its call may have begun on
	// the day before.
	costs, err := source.costs(cmd, url.Values{
		"by": {"provider,model,day"}, "top": {strconv.Itoa(sqlite.MaxCostRows)},
		"since": {from.Add(-time.Hour).Format(time.RFC3339)}, "until": {until.AddDate(0, 0, 1).Format(time.RFC3339)},
	})
	if err != nil {
		return nil, err
	}
	if costs.Others != nil {
		return nil, fmt.Errorf("%s to %s are more than %d models and days: compare fewer days at once", first, last, sqlite.MaxCostRows)
	}
	known.Oldest, known.Unlogged = costs.Oldest, costs.Unlogged
	return costs.Rows, nil
}

// reconciled is what reconcile reports.
type reconciled struct {
	Files []reconciledFile `json:"files"`
	*bill.Report
}

// reconciledFile is a file that was compared.
type reconciledFile struct {
	Name    string   `json:"name"`
	Vendor  string   `json:"vendor"`
	Shape   string   `json:"shape"`
	First   string   `json:"first"`
	Last    string   `json:"last"`
	Lines   int      `json:"lines"`
	Unknown []string `json:"unknown,omitempty"` // members or columns
	More    bool     `json:"more,omitempty"`    // pages are missing after its last
}

// write writes the comparison for people.
func (r *reconciled) write(b *bytes.Buffer, st styles, all bool) {
	for i := range r.Files {
		f := &r.Files[i]
		fmt.Fprintf(b, "%s: %s of %s, %s to %s, %s\n", visible.Line(f.Name), f.Shape, f.Vendor, f.First, f.Last, plural(f.Lines, "line"))
		if len(f.Unknown) > 0 {
			fmt.Fprintf(b, "  %snot known, and not counted:%s %s\n", st.yellow, st.reset, visible.Line(strings.Join(f.Unknown, ", ")))
		}
		if f.More {
			fmt.Fprintf(b, "  %sit is not whole:%s pages come after its last one (has_more)\n", st.yellow, st.reset)
		}
	}
	tokens, costs := false, false
	for i := range r.Rows {
		row := &r.Rows[i]
		tokens, costs = tokens || row.HasTokens, costs || row.HasCost
		if row.Matches && !all {
			continue
		}
		model := row.Model
		if model == "" {
			model = "all models"
		}
		state, color := "differs", st.red
		if row.Matches {
			state, color = "matches", st.green
		}
		fmt.Fprintf(b, "\n%s%s %s%s %s%s%s", st.bold, row.Day, visible.Line(model), st.reset, color, state, st.reset)
		if names := strings.Join(row.Names, ", "); len(row.Names) > 1 {
			fmt.Fprintf(b, " (%s)", visible.Line(names))
		}
		b.WriteByte('\n')
		writeSides(b, st, &row.Ours, &row.Theirs, row.HasTokens, row.HasCost)
		for _, reason := range row.Reasons {
			fmt.Fprintf(b, "  - %s\n", visible.Line(reason))
		}
	}
	fmt.Fprintf(b, "\n%stotal%s of %d models and days, of which %d differ\n", st.bold, st.reset, len(r.Rows), r.beyond())
	writeSides(b, st, &r.Ours, &r.Theirs, tokens, costs)
	for _, note := range r.Notes {
		fmt.Fprintf(b, "%s\n", visible.Line(note))
	}
}

// beyond returns the number of rows that differ.
func (r *reconciled) beyond() (n int) {
	for i := range r.Rows {
		if !r.Rows[i].Matches {
			n++
		}
	}
	return n
}

// writeSides writes what both sides have, one below the other.
func writeSides(b *bytes.Buffer, st styles, ours, theirs *bill.Counts, tokens, costs bool) {
	head := []cell{{"", ""}}
	rows := [][]cell{{plainCell("  ours")}, {plainCell("  theirs")}, {plainCell("  difference")}}
	add := func(name string, texts ...string) {
		head = append(head, cell{name, st.dim})
		for i, text := range texts {
			rows[i] = append(rows[i], plainCell(text))
		}
	}
	count := func(name string, ours, theirs int64) {
		if ours != 0 || theirs != 0 {
			add(name, strconv.FormatInt(ours, 10), strconv.FormatInt(theirs, 10), fmt.Sprintf("%+d", theirs-ours)+percentText(float64(ours), float64(theirs)))
		}
	}
	if tokens {
		if theirs.Requests != 0 { // Anthropic does not say
			count("requests", ours.Requests, theirs.Requests)
		}
		count("input", ours.Input, theirs.Input)
		count("cached", ours.Cached, theirs.Cached)
		count("written", ours.Written+ours.WrittenHour, theirs.Written+theirs.WrittenHour)
		count("output", ours.Output, theirs.Output)
	}
	if costs {
		amount := func(dollars float64) string { return fmt.Sprintf("$%.4f", dollars) }
		add("cost", amount(ours.Cost), amount(theirs.Cost), fmt.Sprintf("%+.4f", theirs.Cost-ours.Cost)+percentText(ours.Cost, theirs.Cost))
	}
	table := columns{right: make([]bool, len(head))}
	for i := 1; i < len(head); i++ {
		table.right[i] = true
	}
	table.write(b, st, append([][]cell{head}, rows...)...)
}

// percentText returns the difference to ours in percent, such as " (+1.5 %)".
func percentText(ours, theirs float64) string {
	percent := 100 * (theirs - ours) / ours
	switch {
	case ours == 0 || ours == theirs:
		return ""
	case math.Abs(percent) >= 100:
		return fmt.Sprintf(" (%+.0f %%)", percent)
	}
	return fmt.Sprintf(" (%+.3g %%)", percent)
}
