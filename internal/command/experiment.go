package command

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// exitMismatch is the exit status of `experiment NAME` while the units are not divided as
// the split says.
const exitMismatch = 2

func experimentCommand() *cobra.Command {
	var client gatewayClient
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "experiment [NAME]",
		Short: "Shows what can be said of an experiment now: which arm won, by how much",
		Long: `
Shows what can be said of an experiment of a running gateway, however often one
looks. Without NAME it lists the experiments.

The first line says the whole. Then come the units that each arm has, and how
many the split's shares expect: while these do not agree (mismatch), nothing is
called better or worse. Each metric has its number in each arm, the difference
to the control with the interval that has the true one, the state, and what it
waits for:

  collecting  more units are needed, or the difference may still be none
  better      by the metric's goal; of a guardrail as well
  worse       of a guardrail: by more than it tolerates
  no_effect   none that is as large as the smallest that matters
  mismatch    the units are not divided as the split says
  no_data     there are no numbers

Once it is better, worse or no_effect, that stays, with its date. Below are the
intervals by day, what does not count, and what was edited since the start. Of a
guarded split there are also the rows of its rollout.

The exit status is 2 for a mismatch, and 1 where the gateway can't be asked.
It is asked by its admin API, as with caddy reload.`,
		Example: "  caddy cadenza experiment\n  caddy cadenza experiment buttons\n  caddy cadenza experiment buttons --json | jq .state",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				_, err := show(cmd, &client, "/cadenza/experiments", nil, asJSON, writeExperiments)
				return err
			}
			answer, err := show(cmd, &client, "/cadenza/experiments/"+url.PathEscape(args[0]), nil, asJSON, func(b *bytes.Buffer, st styles, e *experiment.Readout) {
				writeExperiment(b, st, e)
				var guarded gateway.Rollout // most splits have no guard, and a gateway before this version has none
				if client.get("/cadenza/rollouts/"+url.PathEscape(e.On+"/"+e.Rule), nil, &guarded) == nil {
					r := experimentReport{report: report{b: b, st: st}}
					r.rolloutRows("rollout", guarded.Rows)
				}
			})
			if err == nil && answer.State == experiment.Mismatch {
				return exitSilently(cmd, exitMismatch)
			}
			return err
		},
	}
	client.addFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write the answer of the admin API")
	return cmd
}

// writeExperiments lists experiments.
func writeExperiments(b *bytes.Buffer, st styles, answer *adminapi.Experiments) {
	if len(answer.Experiments) == 0 {
		b.WriteString("no experiments\n")
		return
	}
	writeStatsTable(b, st, []statsColumn[adminapi.ListedExperiment]{
		{"name", false, visibleText(func(e *adminapi.ListedExperiment) string { return e.Name }), 10, 0},
		{"state", false, func(e *adminapi.ListedExperiment) string { return string(e.State) }, 0, 0},
		{"end", false, func(e *adminapi.ListedExperiment) string { return startText(e.End, "day", st) }, 0, 2},
		{"owner", false, visibleText(func(e *adminapi.ListedExperiment) string { return e.Owner }), 8, 1},
		{"says", false, visibleText(func(e *adminapi.ListedExperiment) string { return e.Says }), 20, 0},
	}, answer.Experiments)
}

// experimentReport writes a readout.
type experimentReport struct {
	*experiment.Readout
	report
}

// writeExperiment shows an experiment.
func writeExperiment(b *bytes.Buffer, st styles, e *experiment.Readout) {
	r := experimentReport{e, report{b: b, st: st}}
	b.WriteString(st.bold)
	r.line("", "", e.Says)
	b.WriteString(st.reset)
	if e.Hypothesis != "" {
		r.line("  ", "hypothesis", e.Hypothesis)
	}
	r.line("  ", "split", e.On+", row "+e.Rule+", by "+e.Unit)
	time := moment(e.Start) + " to " + moment(e.End)
	if e.Begun.After(e.Start) {
		time += ", anew since " + moment(e.Begun)
	}
	r.line("  ", "time", time)
	if e.Owner != "" {
		r.line("  ", "owner", e.Owner)
	}
	b.WriteByte('\n')
	var units int64
	for _, a := range e.Arms {
		units += a.Units
	}
	writeStatsTable(b, st, []statsColumn[experiment.Seen]{
		{"arm", false, func(a *experiment.Seen) string { return r.arm(a.Arm) }, 8, 0},
		{"units", true, func(a *experiment.Seen) string { return strconv.FormatInt(a.Units, 10) }, 0, 0},
		{"part", true, func(a *experiment.Seen) string { return percentText(float64(a.Units) / float64(max(units, 1))) }, 0, 0},
		{"expected", true, func(a *experiment.Seen) string { return percentText(a.Expected) }, 0, 0},
		{"fell back", true, func(a *experiment.Seen) string { return share(a.FellBack, a.Units) }, 0, 1},
	}, e.Arms)
	if e.Split.Mismatch {
		fmt.Fprintf(b, "%sthe units are not divided as the split says: the factor against its shares is %s, from 1000 on nothing is said%s\n", st.red, numberText(e.Split.Factor), st.reset)
	}
	b.WriteByte('\n')
	r.metrics()
	r.days()
	r.lists()
}

// arm returns the name of an arm in a table.
func (r *experimentReport) arm(name string) string {
	if name == r.Control {
		name += " (control)"
	}
	return visible.Line(name)
}

// experimentRow is a row of the table of metrics: a metric in an arm.
type experimentRow struct {
	metric, arm, units, reported, value, difference, relative, served, state string
}

// metrics writes the table of metrics: of each the control, and below it the other arms; and
// then what each metric is, since when it is so, and what it waits for.
func (r *experimentReport) metrics() {
	var rows []experimentRow
	var notes []string
	for i := range r.Metrics {
		m := &r.Metrics[i]
		note := fmt.Sprintf("%s: %s %s, %s is better, %s %s", m.Name, m.Role, m.As,
			map[bool]string{true: "more", false: "less"}[m.Up], m.SmallestText()+map[bool]string{true: " of the control's"}[m.Relative], map[bool]string{true: "is tolerated", false: "matters"}[m.Role == experiment.Guardrail])
		if m.Over > 0 {
			note += ", over " + m.Over.String()
		}
		notes = append(notes, note)
		for j, a := range m.Arms {
			row := experimentRow{arm: r.arm(a.Arm), units: strconv.FormatInt(a.Units, 10), reported: strconv.FormatInt(a.Reported, 10)}
			if a.Value != nil {
				row.value = metricText(&m.Metric, *a.Value)
			}
			if j == 0 {
				row.metric = visible.Line(m.Name)
			} else {
				c := &m.Comparisons[j-1]
				row.state, row.relative = string(c.State), intervalText(c.Relative, percentText)
				absolute := func(x float64) string { return pointsText(&m.Metric, x) }
				row.difference = intervalText(c.Absolute, absolute)
				if c.Served != nil && c.Absolute != nil && *c.Served != *c.Absolute {
					row.served = intervalText(c.Served, absolute)
				}
				note := c.Why
				if !c.Since.IsZero() {
					note = strings.TrimSuffix("since "+moment(c.Since)+"; "+note, "; ")
				}
				if note != "" {
					notes = append(notes, m.Name+" in "+c.Arm+": "+note)
				}
			}
			rows = append(rows, row)
		}
	}
	leftOut := writeStatsTable(r.b, r.st, []statsColumn[experimentRow]{
		{"metric", false, func(r *experimentRow) string { return r.metric }, 8, 0},
		{"arm", false, func(r *experimentRow) string { return r.arm }, 8, 0},
		{"units", true, func(r *experimentRow) string { return r.units }, 0, 4},
		{"with a number", true, func(r *experimentRow) string { return r.reported }, 0, 3},
		{"value", true, func(r *experimentRow) string { return r.value }, 0, 0},
		{"difference", false, func(r *experimentRow) string { return r.difference }, 0, 2},
		{"relative", false, func(r *experimentRow) string { return r.relative }, 0, 0},
		{"as served", false, func(r *experimentRow) string { return r.served }, 0, 1},
		{"state", false, func(r *experimentRow) string { return r.state }, 0, 0},
	}, rows)
	if len(leftOut) > 0 {
		r.line("", "", "left out: "+strings.Join(leftOut, ", ")+" (a wider terminal, a pipe or --json shows all)")
	}
	r.list("metrics", notes)
}

// days draws the intervals of the primary metric by day, each arm on one scale.
func (r *experimentReport) days() {
	m := &r.Metrics[0]
	low, high := 0.0, 0.0
	var days []experiment.Day
	for _, d := range r.Days {
		if d.Metric == m.Name && d.Low != nil && d.High != nil && d.Difference != nil {
			days = append(days, d)
			low, high = min(low, *d.Low), max(high, *d.High)
		}
	}
	if len(days) == 0 || low == high {
		return
	}
	name := 0
	for _, c := range m.Comparisons {
		name = max(name, visible.Width(visible.Line(c.Arm)))
	}
	const between = 2
	used := len(time.DateOnly) + name + 2*between
	width := max(cmp.Or(r.st.width, reportWidth)-used, 20)
	column := func(x float64) int { return int(math.Round((x - low) / (high - low) * float64(width-1))) }
	fmt.Fprintf(r.b, "\n%s%s by day: %s to %s, | at 0%s\n", r.st.bold, visible.Line(m.Name), pointsText(&m.Metric, low), pointsText(&m.Metric, high), r.st.reset)
	for _, d := range days {
		line := bytes.Repeat([]byte(" "), width)
		for i := column(*d.Low); i <= column(*d.High); i++ {
			line[i] = '-'
		}
		line[column(0)] = '|'
		line[column(*d.Low)], line[column(*d.High)] = '[', ']'
		line[column(*d.Difference)] = 'o'
		arm := visible.Line(d.Arm)
		fmt.Fprintf(r.b, "%s  %s%s  %s\n", d.Day.UTC().Format(time.DateOnly), arm, strings.Repeat(" ", name-visible.Width(arm)), bytes.TrimRight(line, " "))
	}
}

// lists writes what does not count, what was edited and what else to know.
func (r *experimentReport) lists() {
	var excluded, changes []string
	for _, e := range r.Excluded {
		excluded = append(excluded, fmt.Sprintf("%d %s", e.Count, e.Why))
	}
	for _, c := range r.Changes {
		changes = append(changes, moment(c.Time)+": "+c.What)
	}
	r.list("not counted", excluded)
	r.list("edited since the start", changes)
	r.list("to know", r.Warnings)
}

// list writes lines below their title, and nothing where there are none.
func (r *experimentReport) list(title string, lines []string) {
	for i, line := range lines {
		if i == 0 {
			fmt.Fprintf(r.b, "\n%s%s%s\n", r.st.bold, title, r.st.reset)
		}
		r.line("", "", "- "+line)
	}
}

// metricText returns a number of a metric: of a rate, or of a part of answers, in percent.
func metricText(m *experiment.Metric, x float64) string {
	if m.IsPart() {
		return percentText(x)
	}
	return experiment.Number(x)
}

// pointsText returns a difference of a metric's numbers: of parts, in points.
func pointsText(m *experiment.Metric, x float64) string {
	if number, part := strings.CutSuffix(metricText(m, x), " %"); part {
		return number + " points"
	}
	return experiment.Number(x)
}

// percentText returns a part in percent.
func percentText(x float64) string { return experiment.Number(100*x) + " %" }

// intervalText returns an interval with the signs of its numbers, and their unit once.
func intervalText(i *experiment.Interval, text func(float64) string) string {
	if i == nil {
		return ""
	}
	sign := func(x float64) string {
		number, _, _ := strings.Cut(text(x), " ")
		if x < 0 {
			return number
		}
		return "+" + number
	}
	all := sign(i.Difference) + " (" + sign(i.Low) + " to " + sign(i.High) + ")"
	if _, unit, has := strings.Cut(text(0), " "); has {
		all += " " + unit
	}
	return all
}
