package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/rollout"
)

func rolloutCommand() *cobra.Command {
	var client gatewayClient
	var asJSON bool
	var by string
	cmd := &cobra.Command{
		Use:   "rollout [NAME [hold|back|resume|finish]]",
		Short: "Shows how guarded rollouts stand, and holds, takes back or resumes one",
		Long: `
Shows how the guarded rollouts of a running gateway stand. NAME is that of the
definition and of the row with the split, such as remoteconfigs/button/colours.
Without it the rollouts are listed.

The first line says the whole. Then come the steps, the units that were seen,
and each guard with its number in both arms, what it tolerates, and how strong
the evidence of harm is: at 100 % the rollout is stopped. Below are the rows:
each start, step and stop, with why it was made.

  hold    stays at its share
  back    answers all units as the control
  resume  goes on from where it was held; after back, from the first step
  finish  gives all units the new answer

These are served when the command returns, by all gateways that share the rows
within seconds, and nothing is written into the definitions.

The gateway is asked by its admin API, as with caddy reload.`,
		Example: "  caddy cadenza rollout\n  caddy cadenza rollout remoteconfigs/button/colours\n  caddy cadenza rollout remoteconfigs/button/colours hold --by ada",
		RunE: func(cmd *cobra.Command, args []string) error {
			if by != "" && len(args) < 2 {
				return errors.New("--by goes with hold, back, resume or finish")
			}
			if len(args) == 0 {
				_, err := show(cmd, &client, "/cadenza/rollouts", nil, asJSON, writeRollouts)
				return err
			}
			path := "/cadenza/rollouts/" + url.PathEscape(args[0])
			if len(args) == 1 {
				_, err := show(cmd, &client, path, nil, asJSON, writeRollout)
				return err
			}
			if err := client.resolve(); err != nil {
				return err
			}
			body, err := json.Marshal(map[string]string{"do": args[1], "by": by})
			if err != nil {
				return err
			}
			var text json.RawMessage
			if err := client.post(http.MethodPost, path, nil, bytes.NewReader(body), &text); err != nil {
				return err
			}
			var answer gateway.Rollout
			if err := decode(text, &answer); err != nil {
				return err
			}
			return writeReport(cmd, text, asJSON, func(b *bytes.Buffer, st styles) { writeRollout(b, st, &answer) })
		},
	}
	client.addFlags(cmd)
	cmd.Flags().StringVar(&by, "by", "", "Who asks for it, which stands in the row")
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write the answer of the admin API")
	return cmd
}

// writeRollouts lists rollouts.
func writeRollouts(b *bytes.Buffer, st styles, answer *adminapi.Rollouts) {
	if len(answer.Rollouts) == 0 {
		b.WriteString("no rollouts\n")
		return
	}
	writeStatsTable(b, st, []statsColumn[gateway.Rollout]{
		{"name", false, visibleText(func(r *gateway.Rollout) string { return r.Name }), 10, 0},
		{"state", false, rolloutState, 0, 0},
		{"share", true, func(r *gateway.Rollout) string { return gateway.ShareText(r.Share) }, 0, 0},
		{"since", false, func(r *gateway.Rollout) string { return timeText(r.Since) }, 0, 2},
		{"row", true, func(r *gateway.Rollout) string { return strconv.FormatInt(r.Row, 10) }, 0, 1},
		{"says", false, visibleText(func(r *gateway.Rollout) string { return r.Says }), 20, 0},
	}, answer.Rollouts)
}

// rolloutState returns the state of a rollout in a word.
func rolloutState(r *gateway.Rollout) string {
	switch {
	case r.State == "":
		return "not begun"
	case r.Overtaken:
		return "overtaken"
	}
	return string(r.State)
}

// writeRollout shows a rollout.
func writeRollout(b *bytes.Buffer, st styles, answer *gateway.Rollout) {
	r := experimentReport{report: report{b: b, st: st}}
	p := &answer.Plan
	b.WriteString(st.bold)
	r.line("", "", strings.TrimSuffix(fmt.Sprintf("%s is %s at %s: %s", answer.Name, rolloutState(answer), gateway.ShareText(answer.Share), answer.Says), ": "))
	b.WriteString(st.reset)
	if !answer.Since.IsZero() {
		r.line("  ", "since", moment(answer.Since)+", row "+strconv.FormatInt(answer.Row, 10))
	}
	r.line("  ", "split", p.On+", row "+p.Rule+", by "+p.Unit+": "+p.New+" against "+p.Control)
	var steps []string
	for _, share := range p.Steps {
		step := gateway.ShareText(share)
		if share == answer.Share && answer.State != "" {
			step = "[" + step + "]"
		}
		steps = append(steps, step)
	}
	r.line("  ", "steps", fmt.Sprintf("%s; each for %s at least, and until %d units of %s were seen", strings.Join(steps, ", "), age(p.Every), p.Need, p.New))
	r.line("  ", "harm", map[rollout.Then]string{rollout.ThenHold: "holds the share", rollout.ThenBack: "takes it back to the control"}[p.Then])
	if e := answer.Evidence; e != nil {
		r.line("  ", "units", fmt.Sprintf("%d of %s, %d of %s, since %s", e.Units, p.New, e.Control, p.Control, moment(e.Since)))
		if e.Mismatch {
			fmt.Fprintf(b, "%sthe units are not divided as the split says: no step is taken%s\n", st.red, st.reset)
		}
		b.WriteByte('\n')
		r.guards(p, e)
	}
	r.rolloutRows("rows", answer.Rows)
}

// guards writes a table of guards, and below it what each says.
func (r *experimentReport) guards(p *rollout.Plan, e *rollout.Evidence) {
	number := func(g *rollout.Guard, x *float64) string {
		i := slices.IndexFunc(p.Stops, func(s rollout.Stop) bool { return s.Name() == g.Name })
		if x == nil || i < 0 {
			return ""
		}
		return metricText(&experiment.Metric{Value: p.Stops[i].Value, Measure: p.Stops[i].Measure, As: p.Stops[i].As}, *x)
	}
	writeStatsTable(r.b, r.st, []statsColumn[rollout.Guard]{
		{"guard", false, visibleText(func(g *rollout.Guard) string { return g.Name }), 8, 0},
		{p.New, true, func(g *rollout.Guard) string { return number(g, g.New) }, 0, 0},
		{p.Control, true, func(g *rollout.Guard) string { return number(g, g.Control) }, 0, 0},
		{"tolerated", true, func(g *rollout.Guard) string { return experiment.Number(g.Ratio) + " times" }, 0, 1},
		{"evidence", true, func(g *rollout.Guard) string { return percentText(g.Strength) }, 0, 0},
		{"state", false, func(g *rollout.Guard) string { return map[bool]string{true: "harm", false: "none"}[g.Harm] }, 0, 0},
	}, e.Guards)
	var notes []string
	for _, g := range e.Guards {
		if g.Says != "" {
			notes = append(notes, g.Name+": "+g.Says)
		}
	}
	r.list("guards", notes)
}

// rolloutRows writes the rows of a rollout below a title, the newest last.
func (r *experimentReport) rolloutRows(title string, rows []rollout.Row) {
	var lines []string
	for _, row := range rows {
		line := fmt.Sprintf("%s: %d, %s, %s", moment(row.Time), row.Number, row.Kind, gateway.ShareText(row.Share))
		if row.By != "" {
			line += ", by " + row.By
		}
		if row.Why != "" {
			line += ": " + row.Why
		}
		lines = append(lines, line)
	}
	r.list(title, lines)
}
