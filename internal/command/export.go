package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/private"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

func exportCommand() *cobra.Command {
	var client gatewayClient
	var file string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Writes a running gateway's traces and metrics as JSON lines",
		Long: `
Writes all traces and metrics that a running gateway has recorded in a time
range, oldest first, as JSON lines: {"trace": {…}, "metrics": [{…}]}. Metrics
without a trace have a line of their own. --since and --until take a time (RFC
3339), a date, or how long ago it was, such as 2h or 7d. The other flags choose
traces as those of traces do.

A file (--output) appears once it is whole. Only its owner can read it: it may
hold questions and answers. The gateway is asked by its admin API, as with caddy
reload.`,
		Example: "  caddy cadenza export --since 2026-11-01 --until 2026-12-01 -o november.jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := client.resolve(); err != nil {
				return err
			}
			values, err := filterValues(cmd, time.Now())
			if err != nil {
				return err
			}
			resp, err := client.do(http.MethodGet, "/cadenza/export", values)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if file == "" {
				_, err := copyLines(cmd.OutOrStdout(), resp.Body)
				return err
			}
			n, err := exportTo(file, resp.Body)
			if err == nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", file, plural(n, "line"))
			}
			return err
		},
	}
	client.addFlags(cmd)
	addFilterFlags(cmd)
	cmd.Flags().StringVarP(&file, "output", "o", "", "The file to write; default: the standard output")
	return cmd
}

// exportTo writes lines to a file, which appears once it is whole, and returns
// their number.
func exportTo(name string, lines io.Reader) (n int, err error) {
	temporary, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = temporary.Close() // closed already where renaming failed
			err = errors.Join(err, os.Remove(temporary.Name()))
		}
	}()
	private.RestrictFile(temporary)
	if n, err = copyLines(temporary, lines); err != nil {
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
// last line that is cut is not copied.
func copyLines(w io.Writer, lines io.Reader) (n int, err error) {
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
			// The lines before are whole: they are written.
			return n, errors.Join(fmt.Errorf("the export broke off after %s (the gateway's log says more): %w", plural(n, "line"), err), out.Flush())
		}
		if _, err := out.Write(visible.JSON(line)); err != nil {
			return n, err
		}
		n++
	}
}
