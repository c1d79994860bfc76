package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

func evalCommand() *cobra.Command {
	var context, variables, at, kind string
	var explain, asJSON bool
	cmd := &cobra.Command{
		Use:   "eval DIR KEY",
		Short: "Shows what a request would be answered, and why",
		Long: `
Shows what a definition of a workspace answers: the value of a remote
configuration, a rendered prompt, or the prompt that an endpoint sends to its
model, with the row of the table that decided. --explain says of every row why
it matches, or which of its cells is the first that does not.

Context and variables are JSON, or YAML in one line, which needs fewer quotes.
@FILE reads them from a file, @- from the standard input.`,
		Example: "  caddy cadenza eval ./definitions model_limits --context '{plan: pro, seats: 50}' --explain",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			q := inspect.Query{Key: args[1], Explain: explain}
			var err error
			if q.Kind, err = inspect.ParseKind(kind); err != nil {
				return err
			}
			if q.At, err = inspect.ParseInstant(at); err != nil {
				return err
			}
			if q.Context, err = readObject(cmd, "--context", context); err != nil {
				return err
			}
			if q.Variables, err = readObject(cmd, "--variables", variables); err != nil {
				return err
			}
			s, err := definition.Load(args[0])
			if err != nil {
				return err
			}
			answer, err := inspect.Evaluate(s, q)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if asJSON {
				err = writeReport(out, answer)
			} else {
				err = writeAnswer(out, stylesFor(out), answer)
			}
			if err == nil && answer.Problem != "" {
				err = errors.New("the gateway would refuse the request: " + answer.Problem)
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&context, "context", "c", "", "The request's context")
	cmd.Flags().StringVar(&variables, "variables", "", "The request's variables, for prompts and endpoints")
	cmd.Flags().StringVar(&at, "at", "", "When the request comes (RFC 3339 or a date); default: now")
	cmd.Flags().StringVar(&kind, "kind", "", "prompt, endpoint or remoteconfig, where several have the key")
	cmd.Flags().BoolVar(&explain, "explain", false, "Say of every row why it does or does not match")
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write the answer as JSON")
	return cmd
}

func readObject(cmd *cobra.Command, flag, value string) (*fastjson.Value, error) {
	text, err := readArgument(cmd, value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return inspect.ParseObject(flag, text)
}

// writeAnswer writes an answer for people.
func writeAnswer(w io.Writer, st styles, a *inspect.Answer) error {
	var b bytes.Buffer
	t := newTable(&b)
	about := a.Kind
	if a.Type != "" {
		about += " of type " + a.Type
	}
	fmt.Fprintf(t, "key\t%s (%s, version %s)\n", visible.Line(a.Key), about, a.Version)
	if a.Variant != "" {
		fmt.Fprintf(t, "variant\t%s\n", visible.Line(a.Variant))
	}
	for i, target := range a.Targets {
		label := ""
		if i == 0 {
			label = "targets"
		}
		fmt.Fprintf(t, "%s\t%s\n", label, visible.Line(strings.TrimSpace(target.Provider+" "+target.Model)))
	}
	row := a.Row
	if a.Reason != a.Row {
		row += " (" + a.Reason + ")"
	}
	if a.Position != "" {
		row += ", " + a.Position
	}
	fmt.Fprintf(t, "row\t%s\n", visible.Line(row))
	for _, note := range a.Notes {
		fmt.Fprintf(t, "note\t%s\n", visible.Line(note))
	}
	if a.Value != nil {
		fmt.Fprintf(t, "value\t%s\n", layoutJSON(visible.JSON(a.Value)))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	writeRows(&b, st, a)
	_, err := w.Write(b.Bytes())
	return err
}

// layoutJSON is a value over several lines where it is too long for one.
func layoutJSON(value []byte) string {
	const most = 100
	var b bytes.Buffer
	if len(value) <= most || json.Indent(&b, value, "", "  ") != nil {
		return string(value)
	}
	// The first line stands behind a label, the others below it.
	return strings.ReplaceAll(b.String(), "\n", "\n\t")
}

// writeRows writes why every row does or does not match.
func writeRows(b *bytes.Buffer, st styles, a *inspect.Answer) {
	if len(a.Rows) == 0 {
		return
	}
	b.WriteByte('\n')
	rows := make([][3]string, len(a.Rows))
	widths := [2]int{}
	decided := false
	for i, r := range a.Rows {
		var text string
		switch {
		case !r.Matched:
			text = fmt.Sprintf("%s must be %s, is %s", visible.Line(r.Field), visible.Line(r.Cell), visible.Line(r.Value))
		case decided:
			text = "matches, but a row above answered"
		default:
			text, decided = "matches: answers", true
		}
		rows[i] = [3]string{visible.Line(r.Row), text, visible.Line(r.Position)}
		widths[0], widths[1] = max(widths[0], len([]rune(rows[i][0]))), max(widths[1], len([]rune(text)))
	}
	// Not by tabwriter, which counts the bytes of colours.
	const widest = 60
	for i, r := range rows {
		sign, color := "-", st.dim
		if a.Rows[i].Matched {
			sign, color = "+", st.green
		}
		fmt.Fprintf(b, "%s%s %-*s  %-*s%s  %s\n", color, sign, widths[0], r[0], min(widths[1], widest), r[1], st.reset, r[2])
	}
}
