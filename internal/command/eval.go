package command

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

func evalCommand() *cobra.Command {
	var context, variables, at, kind string
	var explain, asJSON bool
	var client gatewayClient
	cmd := &cobra.Command{
		Use:   "eval DIR KEY",
		Short: "Shows what a request would be answered, and why",
		Long: `
Shows the answer of a definition: the value of a remote configuration, a
rendered prompt, or the prompt that an endpoint sends to its model, with the row
of the table that decided. An endpoint with variants has a table of its own: its
row and variant are shown as well. --explain says for each row why it matches,
or which of its cells is the first that does not.

Context and variables are JSON, or YAML in one line, which needs fewer quotes.
The context may have fields of the gateway that tables read, by their names:
budget.daily: 85, health.openai: down.
@FILE reads them from a file, @- from the standard input.

DIR may be revision:ID, a revision that a running gateway stores
(caddy cadenza revisions lists them).`,
		Example: "  caddy cadenza eval ./definitions limits --context '{plan: pro}' --explain",
		RunE: func(cmd *cobra.Command, args []string) error {
			q := inspect.Query{Key: args[1], Explain: explain}
			var errs [4]error
			q.Kind, errs[0] = inspect.ParseKind(kind)
			q.At, errs[1] = inspect.ParseInstant(at)
			q.Context, errs[2] = readObject(cmd, "--context", context)
			q.Variables, errs[3] = readObject(cmd, "--variables", variables)
			if err := cmp.Or(errs[:]...); err != nil {
				return err
			}
			place, err := client.place(args[0])
			if err != nil {
				return err
			}
			s, err := place.Load()
			if err != nil {
				return err
			}
			answer, err := inspect.Evaluate(s, q)
			if err != nil {
				return err
			}
			err = writeReport(cmd, answer, asJSON, func(b *bytes.Buffer, st styles) { writeAnswer(b, st, answer) })
			if err == nil && answer.Problem != "" {
				err = errors.New("the gateway would refuse the request: " + answer.Problem)
			}
			return err
		},
	}
	client.addFlags(cmd)
	cmd.Flags().StringVarP(&context, "context", "c", "", "The request's context")
	cmd.Flags().StringVar(&variables, "variables", "", "The request's variables, for prompts and endpoints")
	cmd.Flags().StringVar(&at, "at", "", "When the request comes (RFC 3339 or a date); default: now")
	cmd.Flags().StringVar(&kind, "kind", "", "prompt, endpoint or remoteconfig, where several have the key")
	cmd.Flags().BoolVar(&explain, "explain", false, "Say for each row why it matches or not")
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write the answer as JSON")
	return cmd
}

// readObject reads the value of a flag that takes an object.
func readObject(cmd *cobra.Command, flag, value string) (*fastjson.Value, error) {
	text, err := readArgument(cmd, value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return inspect.ParseObject(flag, text)
}

// writeAnswer writes an answer for people.
func writeAnswer(b *bytes.Buffer, st styles, a *inspect.Answer) {
	var rows [][]cell
	add := func(label, text string) { rows = append(rows, plainRow(label, text)) }
	about := a.Kind
	if a.Type != "" {
		about += " of type " + a.Type
	}
	add("key", fmt.Sprintf("%s (%s, version %s)", visible.Line(a.Key), about, a.Version))
	if a.EndpointVariant != "" {
		add("endpoint variant", visible.Line(a.EndpointVariant))
		add("endpoint row", rowText(a.EndpointRow, a.EndpointReason, a.EndpointPosition))
	}
	if a.Variant != "" {
		add("variant", visible.Line(a.Variant))
	}
	label := "targets"
	for _, target := range a.Targets {
		text := strings.TrimSpace(target.Provider + " " + target.Model)
		if target.Weight > 0 {
			text += fmt.Sprintf(" (weight %d)", target.Weight)
		}
		add(label, visible.Line(text))
		label = ""
	}
	if a.Accept != nil {
		add("accept", string(visible.JSON(a.Accept)))
	}
	add("row", rowText(a.Row, a.Reason, a.Position))
	if a.History != "" {
		add("history", a.History)
	}
	if a.Variant == "" && a.Arm != "" {
		add("arm", visible.Line(a.Arm))
	}
	for _, r := range a.Read {
		add("read", visible.Line(r.Key)+", "+rowText(r.Row, r.Reason, r.Position))
	}
	for _, note := range a.Notes {
		add("note", visible.Line(note))
	}
	if a.Value != nil {
		label := "value"
		for line := range strings.SplitSeq(layoutContent(visible.JSON(a.Value)), "\n") {
			add(label, line)
			label = ""
		}
	}
	new(columns).write(b, st, rows...)
	heading := ""
	if len(a.EndpointRows) > 0 {
		writeRows(b, st, "table of the endpoint\n", a.EndpointRows)
		heading = "table of the prompt\n"
	}
	writeRows(b, st, heading, a.Rows)
}

// rowText returns the row that answered, with the reason and its place.
func rowText(row, reason, position string) string {
	if reason != row {
		row += " (" + reason + ")"
	}
	if position != "" {
		row += ", " + position
	}
	return visible.Line(row)
}

// writeRows writes for each row why it matches or does not.
func writeRows(b *bytes.Buffer, st styles, heading string, all []inspect.Row) {
	if len(all) == 0 {
		return
	}
	b.WriteByte('\n')
	b.WriteString(heading)
	rows := make([][]cell, len(all))
	decided := false
	for i, r := range all {
		sign, color := "+ ", st.green
		var text string
		switch {
		case !r.Matched:
			sign, color = "- ", st.dim
			text = fmt.Sprintf("%s must be %s, is %s", visible.Line(r.Field), visible.Line(r.Cell), visible.Line(r.Value))
		case decided:
			text = "matches, but a row above answered"
		default:
			text, decided = "matches: answers", true
		}
		rows[i] = []cell{{sign + visible.Line(r.Row), color}, {text, color}, plainCell(visible.Line(r.Position))}
	}
	table := columns{widest: []int{1: 60}}
	table.write(b, st, rows...)
}
