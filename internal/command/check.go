package command

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/internal/regular"
	"github.com/cadenza-gateway/cadenza/internal/visible"
	"github.com/cadenza-gateway/cadenza/trace"
)

func checkCommand() *cobra.Command {
	var asJSON, strict, all bool
	var format, config, adapter, against string
	var client gatewayClient
	cmd := &cobra.Command{
		Use:   "check [DIR|FILE] [--against OLD] [--config CADDYFILE]",
		Short: "Loads a workspace, analyses its tables and runs its tests",
		Long: `
Loads a workspace as the gateway would, analyses its tables and runs its tests.
Exits with status 1 if there is an error: the gateway would not serve the
workspace. With --strict a warning counts as an error. A remark, which is often
intended, never does; --all adds rows with different values that match the same
context, and contexts that only the default answers.

Of a file, the workspace that it is in is loaded, and what is about the file is
reported.

Of revision:ID, a revision that a running gateway stores is checked
(caddy cadenza revisions lists them).

With --against the workspace is compared with an earlier version of it, a
directory or revision:ID: remarks say where an edit of a split moves units to
another arm, and how many.

With --config the definitions of each workspace of a Caddyfile are checked, also
for what only the Caddyfile has, such as its providers. No secret is
read.

A model that ends within 90 days, or ended, is a warning. With --address the
gateway there is asked for the share of last week's decisions that pick it, and
for the units that came to the split of each experiment in the last two weeks:
remarks say how many its metrics need, and how long that takes.`,
		Example: "  caddy cadenza check ./definitions\n  caddy cadenza check --strict --format github ./definitions\n  caddy cadenza check ./definitions/prompts/summary.yaml\n  caddy cadenza check --config /etc/caddy/Caddyfile",
		RunE: func(cmd *cobra.Command, args []string) error {
			kinds := definition.RemarksUsual
			if all {
				kinds |= definition.RemarkOverlaps | definition.RemarkGaps
			}
			if asJSON && cmd.Flags().Changed("format") && format != "json" {
				return fmt.Errorf("--json is --format json: give one of them")
			}
			if asJSON {
				format = "json"
			}
			write, known := checkFormats[format]
			if !known {
				return visible.Error(fmt.Errorf("unknown format %q%s", format, document.DidYouMean(format, checkFormatNames)))
			}
			switch {
			case config == "" && len(args) == 0:
				return errors.New("DIR|FILE is missing: caddy cadenza check DIR|FILE, or --config CADDYFILE (--help says more)")
			case config != "" && len(args) > 0:
				return errors.New("a directory and --config exclude each other: the configuration names the directories")
			case config != "" && against != "":
				return errors.New("--against and --config exclude each other: give the directory of one workspace")
			}
			var asked *gatewayClient // for the decisions that pick models which end
			if client.address != "" {
				if err := client.resolve(); err != nil {
					return err
				}
				asked = &client
			}
			if config != "" {
				return checkConfig(cmd, config, adapter, format, strict, kinds, asked)
			}
			place, err := client.place(args[0])
			if err != nil {
				return err
			}
			file := ""
			if place.Past != nil {
				asked = &client
			} else if place.Dir, file, err = workspaceOf(args[0]); err != nil {
				return err
			}
			c, err := checkPlace(place, strict, kinds)
			if err != nil {
				return err
			}
			c.target = args[0]
			if against != "" && c.snapshot != nil {
				if err := c.compare(&client, against); err != nil {
					return err
				}
			}
			if err := c.checkModels(nil, price.NewTable(nil), asked); err != nil {
				return err
			}
			if err := c.checkExperiments(asked); err != nil {
				return err
			}
			if err := c.checkRollouts(asked); err != nil {
				return err
			}
			if file != "" {
				c.only(file)
			}
			if err := write(cmd, c); err != nil {
				return err
			}
			if !c.OK {
				return fmt.Errorf("%s: %s", args[0], c.counts())
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&against, "against", "", "Compare with an earlier version of the workspace: a directory or revision:ID")
	cmd.Flags().StringVarP(&config, "config", "c", "", "Check the definitions of each workspace of this configuration")
	cmd.Flags().StringVarP(&adapter, "adapter", "a", "", "The adapter of the configuration, where its name does not tell")
	cmd.Flags().StringVar(&client.address, "address", "", "The address of a gateway's admin API, to ask for revision:ID and for recorded decisions")
	cmd.Flags().StringVarP(&client.workspace, "workspace", "w", "", "The workspace there, where there are several")
	cmd.Flags().StringVar(&format, "format", "text", "text, json, github (annotations of a workflow), sarif (2.1.0) or junit")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(checkFormatNames, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().BoolVar(&asJSON, "json", false, "The same as --format json")
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
	// Elsewhere is the number of errors in other files than the one to check. With
	// such errors no test is run and no table analysed.
	Elsewhere int `json:"elsewhere,omitempty"`

	place  definition.Place // of the workspace
	target string           // the argument: the workspace or a file in it
	strict bool

	snapshot *definition.Snapshot // nil after errors
}

// workspaceOf returns the workspace of a path. For the path of a file, below a folder of
// definitions or beside one, it returns the file too.
func workspaceOf(path string) (dir, file string, err error) {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		return path, "", nil // the loader reports a path that can't be read
	}
	whole, err := filepath.Abs(path)
	if err != nil {
		return "", "", err
	}
	isFolder := func(path string) bool { return kind.InFolder(filepath.Base(path)) != nil }
	dir = filepath.Dir(path)
	has := func(folder string) bool {
		info, err := os.Stat(filepath.Join(dir, folder))
		return err == nil && info.IsDir()
	}
	if !isFolder(filepath.Dir(whole)) && slices.ContainsFunc(kind.Folders(), has) {
		return dir, path, nil
	}
	up := dir
	for folder := filepath.Dir(whole); folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		if up = filepath.Join(up, ".."); isFolder(folder) && !isFolder(filepath.Dir(folder)) {
			return up, path, nil
		}
	}
	if base := filepath.Base(path); strings.TrimSuffix(base, filepath.Ext(base)) == "context" {
		return dir, path, nil
	}
	return "", "", fmt.Errorf("%s is in no workspace, which has %s", path, definition.Layout())
}

// checkPlace loads a workspace and reports on it. The report has the mistakes of its
// definitions; the error is for other failures.
func checkPlace(place definition.Place, strict bool, kinds definition.Remark, known ...definition.Configuration) (*check, error) {
	c := &check{Errors: []inspect.Finding{}, Warnings: []inspect.Finding{}, Remarks: []inspect.Finding{}, place: place, strict: strict}
	s, err := place.Load(known...)
	if mistakes, ok := inspect.Mistakes(err); ok {
		c.Errors = mistakes
		if e, ok := errors.AsType[*definition.LoadError](err); ok {
			c.Warnings = inspect.Findings(e.Warnings)
		}
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	counts := inspect.Count(s)
	c.snapshot, c.Revision, c.Definitions, c.Tests = s, s.Revision, &counts, s.Tests
	c.Warnings = inspect.Findings(s.Warnings)
	c.Remarks = inspect.Findings(s.Remarks(time.Now(), kinds))
	c.judge()
	return c, nil
}

// compare adds remarks on the units of splits that get another arm than in an earlier
// version of the workspace.
func (c *check) compare(client *gatewayClient, against string) error {
	place, err := client.place(against)
	if err != nil {
		return err
	}
	before, err := place.Load()
	if err != nil {
		return fmt.Errorf("--against %s: %w", against, err)
	}
	c.Remarks = append(c.Remarks, inspect.MovedUnits(before, c.snapshot, time.Now())...)
	return nil
}

// only keeps the findings in one file, by the path of the argument.
func (c *check) only(file string) {
	// The paths of one file may differ.
	whole, _ := filepath.Abs(file)
	other := func(f inspect.Finding) bool {
		path, err := filepath.Abs(f.File)
		return err != nil || path != whole
	}
	total := len(c.Errors)
	c.Errors = slices.DeleteFunc(c.Errors, other)
	c.Warnings = slices.DeleteFunc(c.Warnings, other)
	c.Remarks = slices.DeleteFunc(c.Remarks, other)
	c.Elsewhere = total - len(c.Errors)
	for _, list := range [][]inspect.Finding{c.Errors, c.Warnings, c.Remarks} {
		for i := range list {
			list[i].File = file
		}
	}
	c.judge()
}

// judge sets OK by the findings.
func (c *check) judge() { c.OK = len(c.Errors) == 0 && (!c.strict || len(c.Warnings) == 0) }

// warnings returns the number of warnings, including those that others sum up.
func (c *check) warnings() int {
	n := 0
	for _, f := range c.Warnings {
		n += max(f.More, 1)
	}
	return n
}

// counts returns the numbers of errors and warnings as text, or "" if there are none.
func (c *check) counts() string {
	var parts []string
	if n := len(c.Errors); n > 0 {
		parts = append(parts, plural(n, "error"))
	}
	if n := c.warnings(); n > 0 {
		parts = append(parts, plural(n, "warning"))
	}
	return strings.Join(parts, ", ")
}

// write writes the report for people. Files that are not read come first, because they
// may be the cause of errors.
func (c *check) write(b *bytes.Buffer, st styles) {
	lines := &sourceLines{place: c.place, lines: make(map[string][]string)}
	notRead := func(f inspect.Finding) bool { return f.Rule == "not-read" }
	warning := st.yellow + "warning" + st.reset
	for _, f := range c.Warnings {
		if notRead(f) {
			writeFinding(b, f, warning, st, lines)
		}
	}
	for _, f := range c.Errors {
		writeFinding(b, f, st.red+"error"+st.reset, st, lines)
	}
	for _, f := range c.Warnings {
		if !notRead(f) {
			writeFinding(b, f, warning, st, lines)
		}
	}
	for _, f := range c.Remarks {
		writeFinding(b, f, st.dim+"remark"+st.reset, st, lines)
	}
	c.writeVerdict(b, st)
}

// writeVerdict writes the line below all findings. It writes none for a workspace with
// errors, which are verdict enough.
func (c *check) writeVerdict(b *bytes.Buffer, st styles) {
	verdict := st.green + "ok" + st.reset
	if !c.OK {
		verdict = st.red + "not ok" + st.reset
	}
	d := c.Definitions
	switch {
	case c.Elsewhere > 0 && c.OK:
		fmt.Fprintf(b, "%s, but the workspace %s has %s in other files: its tests were not run\n", verdict, visible.Line(c.place.Dir), plural(c.Elsewhere, "error"))
		return
	case d == nil:
		return
	case c.target != c.place.Dir:
		fmt.Fprintf(b, "%s: %s", verdict, visible.Line(c.target))
	default:
		fmt.Fprintf(b, "%s: %s, %s, %s, %s", verdict, plural(d.Prompts, "prompt"), plural(d.Endpoints, "endpoint"),
			plural(d.RemoteConfigs, "remote configuration"), plural(c.Tests, "test"))
		if d.Experiments > 0 {
			fmt.Fprintf(b, ", %s", plural(d.Experiments, kind.Experiment.Noun))
		}
	}
	if n := c.counts(); n != "" {
		fmt.Fprintf(b, ", %s", n)
	}
	fmt.Fprintf(b, " (revision %s)\n", c.Revision)
}

// writeFinding writes a finding, and below it the line of its place.
func writeFinding(b *bytes.Buffer, f inspect.Finding, label string, st styles, lines *sourceLines) {
	pos := document.Position{File: f.File, Line: f.Line, Column: f.Column}
	fmt.Fprintf(b, "%s%s%s: %s: %s\n", st.bold, visible.Line(pos.String()), st.reset, label, visible.Lines(f.Message))
	line := lines.get(f.File, f.Line)
	if strings.TrimSpace(line) == "" {
		return
	}
	runes := []rune(strings.ReplaceAll(line, "\t", " "))
	column := min(max(f.Column-1, 0), len(runes))
	// A long line is cut to the part around the place.
	const lead, shown = 60, 110
	start := 0
	if len(runes) > shown && column > lead {
		start = column - lead
	}
	before, behind := visible.Line(string(runes[start:column])), visible.Line(string(runes[column:min(len(runes), start+shown)]))
	fmt.Fprintf(b, "%s%5d |%s %s%s\n", st.dim, f.Line, st.reset, before, behind)
	fmt.Fprintf(b, "%s      |%s %s^\n", st.dim, st.reset, strings.Repeat(" ", visible.Width(before)))
}

// sourceLines reads the lines that a report shows, and keeps them by file. It reads
// only below the workspace: a link out of the workspace is a mistake, and its target
// may be a secret.
type sourceLines struct {
	place definition.Place
	lines map[string][]string
}

// get returns a line of a file, or "" if it can't show the line.
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
	if past := s.place.Past; past != nil {
		i := slices.IndexFunc(past.Files, func(f trace.File) bool { return filepath.Join(s.place.Dir, f.Path) == file })
		if i < 0 {
			return nil
		}
		return splitLines(past.Files[i].Content)
	}
	root, err := os.OpenRoot(s.place.Dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	// The path of a file in the workspace .. may lack the two dots.
	base, _ := filepath.Abs(s.place.Dir)
	whole, _ := filepath.Abs(file)
	name, err := filepath.Rel(base, whole)
	if err != nil {
		return nil
	}
	data, err := regular.ReadFileIn(root, name, document.MaxFileBytes)
	if err != nil {
		return nil
	}
	return splitLines(string(data))
}

func splitLines(text string) []string {
	return strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
}
