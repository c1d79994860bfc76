package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/document/format"
	"github.com/cadenza-gateway/cadenza/internal/regular"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

func fmtCommand() *cobra.Command {
	var write, diff, check bool
	cmd := &cobra.Command{
		Use:   "fmt [-w | --diff | --check] PATH...",
		Short: "Aligns the matrices of definition files",
		Long: `
Aligns the cells of every matrix below the names of their columns. Only spaces
between cells change. Rows that span several lines, JSON and CSV files are left
alone.

In a folder, all YAML files are laid out. Without a flag the result is written
to the standard output.`,
		Example: "  caddy cadenza fmt -w ./definitions\n  caddy cadenza fmt --check ./definitions",
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := yamlFiles(args)
			if err != nil {
				return err
			}
			var problems []error
			unformatted := 0
			for _, file := range files {
				changed, err := formatFile(cmd.OutOrStdout(), file, write, diff, check)
				if err != nil {
					problems = append(problems, err)
				}
				if changed {
					unformatted++
				}
			}
			if check && unformatted > 0 {
				problems = append(problems, fmt.Errorf("%s not laid out: run caddy cadenza fmt -w", plural(unformatted, "file")))
			}
			return errors.Join(problems...)
		},
	}
	cmd.Flags().BoolVarP(&write, "write", "w", false, "Change the files")
	cmd.Flags().BoolVar(&diff, "diff", false, "Show what would change")
	cmd.Flags().BoolVar(&check, "check", false, "List the files that would change, and exit with status 1 if there are any")
	cmd.MarkFlagsMutuallyExclusive("write", "diff", "check")
	return cmd
}

// yamlFiles returns the files that paths name, and all YAML files below the folders that
// they name. It leaves out hidden files and folders, as the gateway does.
func yamlFiles(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if name != path && strings.HasPrefix(entry.Name(), ".") {
				if entry.IsDir() {
					return filepath.SkipDir
				}
				return nil
			}
			ext := strings.ToLower(filepath.Ext(name))
			switch {
			case name == path && !entry.IsDir():
				files = append(files, name)
			case !entry.IsDir() && (ext == ".yaml" || ext == ".yml"):
				if err := checkInside(path, name); err != nil {
					return err
				}
				files = append(files, name)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// checkInside returns an error for a link out of the folder and for anything but
// a regular file.
func checkInside(folder, file string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	name, err := filepath.Rel(folder, file)
	if err != nil {
		return err
	}
	info, err := root.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// formatFile lays a file out and reports whether the layout changes it. The
// result goes to the file, to out as a list or a diff, or to out as it is.
func formatFile(out io.Writer, file string, write, diff, check bool) (changed bool, err error) {
	before, err := readFile(file)
	if err != nil {
		return false, err
	}
	after, err := format.Source(file, before)
	if err != nil {
		return false, err
	}
	changed = !bytes.Equal(before, after)
	switch {
	case !write && !diff && !check:
		if isTerminal(out) {
			after = []byte(visible.Lines(string(after)))
		}
		_, err = out.Write(after)
	case !changed:
	case write:
		err = regular.ReplaceFile(file, after)
	case check:
		_, err = fmt.Fprintln(out, visible.Line(file))
	case diff:
		err = writeLineDiff(out, file, before, after)
	}
	return changed, err
}

// readFile reads a definition file. Of a file that is too large it returns one byte more
// than the largest may have, so that the parser refuses it.
func readFile(file string) ([]byte, error) {
	f, err := regular.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, document.MaxFileBytes+1))
}

// writeLineDiff writes a unified diff. A layout keeps the number of each line,
// so line n is compared with line n.
func writeLineDiff(w io.Writer, file string, before, after []byte) error {
	const context = 2
	a, b := bytes.SplitAfter(before, []byte{'\n'}), bytes.SplitAfter(after, []byte{'\n'})
	var out bytes.Buffer
	fmt.Fprintf(&out, "--- %[1]s\n+++ %[1]s\n", visible.Line(file))
	differs := func(i int) bool { return !bytes.Equal(a[i], b[i]) }
	line := func(sign byte, text []byte) {
		if len(text) == 0 {
			return // after the last line
		}
		out.WriteByte(sign)
		out.WriteString(visible.Lines(string(bytes.TrimRight(text, "\r\n"))))
		out.WriteByte('\n')
	}
	for i := 0; i < len(a); i++ {
		if !differs(i) {
			continue
		}
		start, end := max(i-context, 0), i+1
		for j := end; j < len(a) && j < end+2*context+1; j++ {
			if differs(j) {
				end = j + 1
			}
		}
		end = min(end+context, len(a))
		if len(a[end-1]) == 0 {
			end--
		}
		fmt.Fprintf(&out, "@@ -%d,%d +%d,%d @@\n", start+1, end-start, start+1, end-start)
		for j := start; j < end; {
			if !differs(j) {
				line(' ', a[j])
				j++
				continue
			}
			from := j
			for ; j < end && differs(j); j++ {
				line('-', a[j])
			}
			for k := from; k < j; k++ {
				line('+', b[k])
			}
		}
		i = end - 1
	}
	_, err := w.Write(out.Bytes())
	return err
}
