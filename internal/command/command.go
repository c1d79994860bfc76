// Package command is `caddy cadenza`: the command line that checks, evaluates,
// compares and lays out definitions, and asks a running gateway by its admin
// API.
package command

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "cadenza",
		Usage: "<command>",
		Short: "Checks and evaluates Cadenza's definitions, and shows a gateway's traces",
		Long: `
Tools for a workspace: a directory with context.yaml and the folders prompts,
endpoints and remoteconfigs. They use the same engine as the gateway, and need
neither a running gateway nor a Caddyfile. status, limits, traces, stats,
experiment, rollout, refused, audit, costs, export, import-reports, erase,
revisions, checkout, pull, prove and plan ask a running gateway by its admin
API.

A command that fails says why on the standard error and exits with status 1.`,
		CobraFunc: func(cmd *cobra.Command) {
			own = cmd
			cmd.AddCommand(
				checkCommand(), evalCommand(), diffCommand(), fmtCommand(), schemaCommand(), initCommand(), keyCommand(), bundleCommand(),
				statusCommand(), limitsCommand(), tracesCommand(), statsCommand(), experimentCommand(), rolloutCommand(), refusedCommand(), auditCommand(), costsCommand(), exportCommand(), importReportsCommand(), eraseCommand(), revisionsCommand(), checkoutCommand(), pullCommand(), proveCommand(), planCommand(),
			)
			finish(cmd)
			cmd.SetHelpTemplate(cmd.HelpTemplate() + helpFooter)
			cmd.SetFlagErrorFunc(suggestFlag)
		},
	})
}

// finish gives each command below one what all have.
func finish(cmd *cobra.Command) {
	cmd.Args = noCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return errors.Join(cmd.Help(), errors.New("a command is needed"))
	}
	for _, sub := range cmd.Commands() {
		if sub.HasSubCommands() {
			finish(sub)
			continue
		}
		run := sub.RunE
		sub.RunE = func(cmd *cobra.Command, args []string) error { return visible.Error(run(cmd, args)) }
		sub.Args = func(cmd *cobra.Command, args []string) error { return visible.Error(checkArguments(cmd, args)) }
		addCompletions(sub)
	}
}

// noCommand refuses an argument where a command is expected.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return visible.Error(fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), document.DidYouMean(args[0], names)))
}

// suggestFlag adds the flag that an unknown one most likely means. pflag reads -json
// as the flags -j, -s, -o and -n; it means --json.
func suggestFlag(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	name := "--" + cmp.Or(unknown.GetSpecifiedShortnames(), unknown.GetSpecifiedName())
	return visible.Error(fmt.Errorf("%w%s", err, document.DidYouMean(name, names)))
}

// styles is the layout of a report. If its writer is no terminal, the colours are empty
// and the width is 0.
type styles struct {
	red, yellow, green, dim, bold, reset string

	width int // in columns; 0: any
}

// stylesFor returns the styles for a writer. NO_COLOR turns colours off
// (https://no-color.org).
func stylesFor(w io.Writer) styles {
	width := terminalWidth(w)
	if width == 0 || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return styles{width: width}
	}
	return styles{"\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[2m", "\x1b[1m", "\x1b[0m", width}
}

// unknownWidth is the assumed width of a terminal that does not tell its width.
const unknownWidth = 80

// terminalWidth returns the columns of a terminal, or 0 for another writer, whose reader
// gets everything. COLUMNS wins over the terminal's own width.
func terminalWidth(w io.Writer) int {
	if !isTerminal(w) {
		return 0
	}
	if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && width > 0 {
		return width
	}
	if width, _, err := term.GetSize(int(w.(*os.File).Fd())); err == nil && width > 0 {
		return width
	}
	return unknownWidth
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// writeReport writes a report as JSON, or as forPeople writes it.
func writeReport(cmd *cobra.Command, report any, asJSON bool, forPeople func(*bytes.Buffer, styles)) error {
	out := cmd.OutOrStdout()
	var b bytes.Buffer
	if !asJSON {
		forPeople(&b, stylesFor(out))
		_, err := out.Write(b.Bytes())
		return err
	}
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(report); err != nil {
		return err
	}
	_, err := out.Write(visible.JSON(b.Bytes()))
	return err
}

// plural returns a number with its noun: "1 file", "2 files".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// readArgument returns the value of a flag. @FILE stands for the content of a
// file, @- for the standard input.
func readArgument(cmd *cobra.Command, value string) ([]byte, error) {
	name, isFile := strings.CutPrefix(value, "@")
	switch {
	case !isFile:
		return []byte(value), nil
	case name == "-":
		return io.ReadAll(cmd.InOrStdin())
	}
	return os.ReadFile(name)
}
