package command

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/private"
	"github.com/cadenza-gateway/cadenza/internal/visible"
	"github.com/cadenza-gateway/cadenza/trace"
)

func exportCommand() *cobra.Command {
	var client gatewayClient
	var file string
	var verify bool
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Writes a running gateway's traces and metrics as JSON lines",
		Long: `
Writes all traces and metrics that a running gateway has recorded in a time
range, oldest first, as JSON lines: {"trace": {…}, "metrics": [{…}]}. Metrics
without a trace have a line of their own. --since and --until take a time (RFC
3339), a date, or how long ago it was, such as 2h or 7d. The other flags choose
traces as those of traces do.

With --verify the gateway says of each trace whether it is what was recorded, in
"verification": {"result": "valid", "key": "9c2f1a0b"}. The result is valid,
changed, other_key (the seal is under a trace key that the gateway does not
have) or none (there is no seal). The error output has how many there are of
each, and the first that were changed. The exit status is then 1 where one was
changed or no trace was verified, and 2 where none was changed but the gateway
can't say of one.

A file (--output) appears once it is whole. Only its owner can read it: it may
hold questions and answers. The gateway is asked by its admin API, as with caddy
reload.`,
		Example: "  caddy cadenza export --since 2026-11-01 --until 2026-12-01 -o november.jsonl\n  caddy cadenza export --since 1d --verify -o day.jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := client.resolve(); err != nil {
				return err
			}
			values, err := filterValues(cmd, time.Now())
			if err != nil {
				return err
			}
			var verified *verifications
			if verify {
				values.Set("verify", "true")
				verified = &verifications{out: cmd.ErrOrStderr(), results: make(map[string]int), keys: make(map[string]int)}
			}
			resp, err := client.do(http.MethodGet, "/cadenza/export", values)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if file == "" {
				_, err = copyLines(cmd.OutOrStdout(), resp.Body, verified)
			} else {
				var n int
				if n, err = exportTo(file, resp.Body, verified); err == nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", file, plural(n, "line"))
				}
			}
			if err == nil && verify {
				err = verified.conclude()
			}
			return exitOf(cmd, err)
		},
	}
	client.addFlags(cmd)
	addFilterFlags(cmd)
	cmd.Flags().BoolVar(&verify, "verify", false, "Have the gateway verify the seal of each trace")
	cmd.Flags().StringVarP(&file, "output", "o", "", "The file to write; default: the standard output")
	return cmd
}

// namedChanges bounds the changed traces that are named.
const namedChanges = 20

// verifications counts the verdicts on the seals of an export.
type verifications struct {
	out             io.Writer
	traces, removed int
	results, keys   map[string]int // traces by result, and traces under other keys by key
}

// add counts the verdict on the seal of a line's trace.
func (v *verifications) add(line []byte) error {
	var exported struct {
		Trace struct {
			TraceID string `json:"trace_id"`
			Kind    string `json:"kind"`
			Key     string `json:"key"`
		} `json:"trace"`
		Verification trace.Verification `json:"verification"`
	}
	if err := json.Unmarshal(line, &exported); err != nil {
		return fmt.Errorf("a line can't be read: %w", err)
	}
	t, found := exported.Trace, exported.Verification
	if found.Result == "" {
		return nil // reports without a trace, or a call that is under way
	}
	v.traces++
	v.results[found.Result]++
	if len(found.Removed) > 0 {
		v.removed++
	}
	switch {
	case found.Result == trace.SealOtherKey:
		v.keys[found.Key]++
	case found.Result == trace.SealChanged && v.results[found.Result] <= namedChanges:
		what := "changed"
		if len(found.Changed) > 0 {
			what += ": " + strings.Join(found.Changed, ", ")
		}
		_, err := fmt.Fprintf(v.out, "%s  %s %s  %s\n", t.TraceID, t.Kind, visible.Line(t.Key), what)
		return err
	}
	return nil
}

// conclude writes the number of traces by result, and returns the error that ends the
// command.
func (v *verifications) conclude() error {
	if v.traces == 0 {
		return errors.New("no traces pass the flags: nothing was verified")
	}
	changed, unknown := v.results[trace.SealChanged], v.results[trace.SealOtherKey]+v.results[trace.SealNone]
	text := fmt.Sprintf("%s verified: %d valid, %d changed, %d without a seal, %d under other trace keys", plural(v.traces, "trace"),
		v.results[trace.SealValid], changed, v.results[trace.SealNone], v.results[trace.SealOtherKey])
	if len(v.keys) > 0 {
		text += " (" + visible.Line(strings.Join(slices.Sorted(maps.Keys(v.keys)), ", ")) + ")"
	}
	if v.removed > 0 {
		text += fmt.Sprintf("; of %d, content was removed", v.removed)
	}
	if _, err := fmt.Fprintln(v.out, text); err != nil {
		return err
	}
	switch {
	case changed > 0:
		return errors.New("traces were changed after they were recorded")
	case unknown > 0:
		return errUnproved
	}
	return nil
}

// exportTo writes lines to a file, which appears when it is whole, and returns their
// number.
func exportTo(name string, lines io.Reader, verified *verifications) (n int, err error) {
	temporary, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = temporary.Close() // closed already if renaming failed
			err = errors.Join(err, os.Remove(temporary.Name()))
		}
	}()
	private.RestrictFile(temporary)
	if n, err = copyLines(temporary, lines, verified); err != nil {
		return n, err
	}
	if err = temporary.Sync(); err != nil {
		return n, err
	}
	if err = temporary.Close(); err != nil {
		return n, err
	}
	return n, os.Rename(temporary.Name(), name)
}

// copyLines copies lines of JSON, made visible, and returns their number. A
// last line that is cut is not copied. verified counts the lines, unless it is nil.
func copyLines(w io.Writer, lines io.Reader, verified *verifications) (n int, err error) {
	in, out := bufio.NewReaderSize(lines, 64<<10), bufio.NewWriterSize(w, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return n, out.Flush()
		}
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			// The lines before are whole, so they are written.
			return n, errors.Join(fmt.Errorf("the export broke off after %s (the gateway's log says more): %w", plural(n, "line"), err), out.Flush())
		}
		if _, err := out.Write(visible.JSON(line)); err != nil {
			return n, err
		}
		if verified != nil {
			if err := verified.add(line); err != nil {
				return n, err
			}
		}
		n++
	}
}
