package command

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/regular"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

func checkCommand() *cobra.Command {
	var asJSON, strict, all bool
	cmd := &cobra.Command{
		Use:   "check DIR",
		Short: "Loads a workspace, analyses its tables and runs its tests",
		Long: `
Loads a workspace as the gateway would, analyses its tables and runs its tests.
Exits with status 1 if there is an error: the gateway would not serve the
workspace. With --strict a warning counts as an error. A remark, which is often
intended, never does; --all adds rows with different values that match the same
context, and contexts that only the default answers.`,
		Example: "  caddy cadenza check ./definitions\n  caddy cadenza check --strict --json ./definitions",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			kinds := definition.RemarksUsual
			if all {
				kinds |= definition.RemarkOverlaps | definition.RemarkGaps
			}
			c, err := checkDirectory(args[0], strict, kinds)
			if err != nil {
				return err
			}
			err = writeReport(cmd, c, asJSON, func(b *bytes.Buffer, st styles) { c.write(b, st, args[0]) })
			if err == nil && !c.OK {
				err = fmt.Errorf("%s: %s", args[0], c.counts())
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write the report as JSON")
	cmd.Flags().BoolVar(&strict, "strict", false, "Fail on warnings, too")
	cmd.Flags().BoolVar(&all, "all", false, "Also remark on overlapping rows and on gaps")
	return cmd
}

// check is the report on a workspace.
type check struct {
	OK          bool              `json:"ok"`
	Revision    string            `json:"revision,omitempty"`
	Definitions *inspect.Counts   `json:"definitions,omitempty"`
	Tests       int               `json:"tests"`
	Errors      []inspect.Finding `json:"errors"`
	Warnings    []inspect.Finding `json:"warnings"`
	Remarks     []inspect.Finding `json:"remarks"`

	warnings int // with those that Warnings sums up
}

// checkDirectory loads a workspace and reports on it. Mistakes of its
// definitions are in the report; the error is for other failures.
func checkDirectory(dir string, strict bool, kinds definition.Remark) (*check, error) {
	c := &check{Errors: []inspect.Finding{}, Warnings: []inspect.Finding{}, Remarks: []inspect.Finding{}}
	s, err := definition.Load(dir)
	if mistakes, ok := inspect.Mistakes(err); ok {
		c.Errors = mistakes
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	counts := inspect.Count(s)
	c.Revision, c.Definitions, c.Tests = s.Revision, &counts, s.Tests
	c.Warnings, c.warnings = inspect.Findings(s.Warnings), definition.CountWarnings(s.Warnings)
	c.Remarks = inspect.Findings(s.Remarks(time.Now(), kinds))
	c.OK = !strict || len(c.Warnings) == 0
	return c, nil
}

// counts returns the numbers of errors and warnings as text, empty where there
// are none.
func (c *check) counts() string {
	var parts []string
	if n := len(c.Errors); n > 0 {
		parts = append(parts, plural(n, "error"))
	}
	if c.warnings > 0 {
		parts = append(parts, plural(c.warnings, "warning"))
	}
	return strings.Join(parts, ", ")
}

// write writes the report for people. dir is the workspace.
func (c *check) write(b *bytes.Buffer, st styles, dir string) {
	lines := &sourceLines{dir: dir, lines: make(map[string][]string)}
	for _, group := range []struct {
		name, color string
		list        []inspect.Finding
	}{{"error", st.red, c.Errors}, {"warning", st.yellow, c.Warnings}, {"remark", st.dim, c.Remarks}} {
		for _, f := range group.list {
			writeFinding(b, f, group.color+group.name+st.reset, st, lines)
		}
	}
	if d := c.Definitions; d != nil {
		verdict := st.green + "ok" + st.reset
		if !c.OK {
			verdict = st.red + "not ok" + st.reset
		}
		fmt.Fprintf(b, "%s: %s, %s, %s, %s", verdict, plural(d.Prompts, "prompt"), plural(d.Endpoints, "endpoint"),
			plural(d.RemoteConfigs, "remote configuration"), plural(c.Tests, "test"))
		if n := c.counts(); n != "" {
			fmt.Fprintf(b, ", %s", n)
		}
		fmt.Fprintf(b, " (revision %s)\n", c.Revision)
	}
}

// writeFinding writes a finding, and below it the line that it is about.
func writeFinding(b *bytes.Buffer, f inspect.Finding, label string, st styles, lines *sourceLines) {
	pos := document.Position{File: f.File, Line: f.Line, Column: f.Column}
	place := pos.String()
	if f.Line == 0 {
		place = f.File
	}
	fmt.Fprintf(b, "%s%s%s: %s: %s\n", st.bold, visible.Line(place), st.reset, label, visible.Lines(f.Message))
	line := lines.get(f.File, f.Line)
	if strings.TrimSpace(line) == "" {
		return
	}
	runes := []rune(strings.ReplaceAll(line, "\t", " "))
	column := min(max(f.Column-1, 0), len(runes))
	// Of a long line, the part around the place is shown.
	const lead, most = 60, 110
	start := 0
	if len(runes) > most && column > lead {
		start = column - lead
	}
	before, behind := visible.Line(string(runes[start:column])), visible.Line(string(runes[column:min(len(runes), start+most)]))
	fmt.Fprintf(b, "%s%5d |%s %s%s\n", st.dim, f.Line, st.reset, before, behind)
	fmt.Fprintf(b, "%s      |%s %s^\n", st.dim, st.reset, strings.Repeat(" ", utf8.RuneCountInString(before)))
}

// sourceLines reads the lines that a report shows, and keeps them by file. It
// reads below the workspace alone: a link out of the workspace is a mistake, and
// its target may be a secret.
type sourceLines struct {
	dir   string
	lines map[string][]string
}

// get returns a line of a file, or "" where there is none to show.
func (s *sourceLines) get(file string, line int) string {
	if line == 0 {
		return ""
	}
	lines, ok := s.lines[file]
	if !ok {
		lines = s.read(file)
		s.lines[file] = lines
	}
	if line > len(lines) {
		return ""
	}
	return lines[line-1]
}

func (s *sourceLines) read(file string) []string {
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	name, err := filepath.Rel(s.dir, file)
	if err != nil {
		return nil
	}
	data, err := regular.ReadFileIn(root, name, document.MaxFileBytes)
	if err != nil {
		return nil
	}
	return strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")
}
