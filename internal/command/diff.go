package command

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

func diffCommand() *cobra.Command {
	var client gatewayClient
	var at string
	var asJSON, exitCode bool
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Shows what two versions of a workspace answer differently",
		Long: `
Compares two workspaces, given by their directories: which definitions were
added, removed and changed, and for tables, which contexts get another answer.
There is one example for each pair of the row that answered and the row that
answers now, of a split or ramp, how many of its units get another arm, and of
messages, the lines that differ. A definition that was not
changed can be affected: by the data model, by another configuration that it
asks for, or as an endpoint by its prompt.

A directory may be revision:ID, a revision that a running gateway stores
(caddy cadenza revisions lists them).

The comparison begins at the present; --at moves it.`,
		Example: "  git worktree add /tmp/main main\n  caddy cadenza diff /tmp/main/definitions ./definitions\n  caddy cadenza diff revision:9abb3beb ./definitions",
		RunE: func(cmd *cobra.Command, args []string) error {
			now, err := inspect.ParseInstant(at)
			if err != nil {
				return err
			}
			before, err := client.place(args[0])
			if err != nil {
				return err
			}
			after, err := client.place(args[1])
			if err != nil {
				return err
			}
			c, err := inspect.Compare(before, after, now)
			if err != nil {
				return err
			}
			err = writeReport(cmd, c, asJSON, func(b *bytes.Buffer, st styles) { writeComparison(b, st, c) })
			if err == nil && exitCode && !c.Empty() {
				err = errors.New("the workspaces differ")
			}
			return err
		},
	}
	client.addFlags(cmd)
	cmd.Flags().StringVar(&at, "at", "", "The instant from which on schedules are compared; default: now")
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write the comparison as JSON")
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "Exit with status 1 when the workspaces differ")
	return cmd
}

// writeComparison writes a comparison for people.
func writeComparison(b *bytes.Buffer, st styles, c *inspect.Comparison) {
	if c.Empty() {
		fmt.Fprintf(b, "no difference (revision %s)\n", c.New)
	}
	if c.Model {
		fmt.Fprintf(b, "%schanged%s data model (context.yaml)\n", st.yellow, st.reset)
	}
	colors := map[string]string{inspect.Added: st.green, inspect.Removed: st.red, inspect.Changed: st.yellow, inspect.Affected: st.yellow}
	for _, d := range c.Definitions {
		fmt.Fprintf(b, "%s%s%s %s %s%s%s", colors[d.Change], d.Change, st.reset, d.Kind, st.bold, visible.Line(d.Key), st.reset)
		if d.Change == inspect.Changed && d.OldVersion != d.NewVersion {
			fmt.Fprintf(b, " (version %s -> %s)", d.OldVersion, d.NewVersion)
		}
		if d.Prompt != "" {
			fmt.Fprintf(b, " by its prompt %s", visible.Line(d.Prompt))
		}
		if len(d.Configs) > 0 {
			fmt.Fprintf(b, " by what its variables read of %s", visible.Line(strings.Join(d.Configs, ", ")))
		}
		if d.AliasOf != "" {
			fmt.Fprintf(b, ": %s answers by this name", visible.Line(d.AliasOf))
		}
		b.WriteByte('\n')
		if len(d.NewAliases) > 0 {
			fmt.Fprintf(b, "  also answers as %s\n", visible.Line(strings.Join(d.NewAliases, ", ")))
		}
		if len(d.LostAliases) > 0 {
			fmt.Fprintf(b, "  nothing answers as %s any more\n", visible.Line(strings.Join(d.LostAliases, ", ")))
		}
		for _, m := range d.Members {
			if !slices.ContainsFunc(d.Texts, func(t inspect.TextChange) bool { return slices.Contains(t.Paths, m) }) {
				fmt.Fprintf(b, "  %s\n", visible.Line(m))
			}
		}
		for _, t := range d.Texts {
			writeTextChange(b, st, t)
		}
		writeAnswerChanges(b, st, d.Answers)
		for _, u := range d.Units {
			fmt.Fprintf(b, "  %s\n", visible.Line(u.String()))
		}
		if d.Undecided {
			more := "contexts that get another answer"
			if len(d.Answers) > 0 {
				more = "more of them"
			}
			fmt.Fprintf(b, "  not decided: there may be %s\n", more)
		}
	}
}

// writeTextChange writes the lines of messages that differ.
func writeTextChange(b *bytes.Buffer, st styles, t inspect.TextChange) {
	fmt.Fprintf(b, "  %s\n", visible.Line(strings.Join(t.Paths, ", ")))
	for _, line := range t.Lines {
		color := ""
		switch line[0] {
		case '-':
			color = st.red
		case '+':
			color = st.green
		}
		fmt.Fprintf(b, "    %s%s %s%s\n", color, line[:1], visible.Line(line[1:]), st.reset)
	}
}

// writeAnswerChanges writes the contexts that get another answer as a table.
func writeAnswerChanges(b *bytes.Buffer, st styles, changes []inspect.AnswerChange) {
	if len(changes) == 0 {
		return
	}
	rows := [][]cell{plainRow("  for example", "old answer", "new answer")}
	for _, a := range changes {
		context := string(a.Context)
		if context == "null" {
			context = "no context"
		}
		if a.At != nil {
			context += " at " + a.At.UTC().Format(time.RFC3339)
		}
		rows = append(rows, plainRow("  "+visible.Line(context), sideText(a.Old), sideText(a.New)))
	}
	new(columns).write(b, st, rows...)
}

// sideText returns the answer of one version, with the row that gave it.
func sideText(s inspect.Side) string {
	if s.Refused != "" {
		return visible.Line("refused: " + s.Refused)
	}
	value := string(s.Value)
	if value == "" {
		value = "no variant" // of an endpoint without variants
	}
	return visible.Line(visible.Clip(value, 60) + " (" + s.Row + ")")
}
