package command

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/visible"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

func importReportsCommand() *cobra.Command {
	var client gatewayClient
	cmd := &cobra.Command{
		Use:   "import-reports FILE.csv",
		Short: "Stores reports on units that happened in the past, from a CSV file",
		Long: `
Sends a CSV file to a running gateway as reports on units: what came of answers,
as another system knows it. The first line names the columns:

    customer_id,time,event_id,paid,amount
    c-7,2026-11-28T09:30:00Z,invoice-8831,1,42.50

time is when it happened, however long ago: an instant with its zone, such as
2026-11-28T09:30:00Z or 2026-11-28 09:30:00+01. The first other column is a
field of the data model, whose value is the unit, and each further one is a
number by a name of your own; an empty cell has none.

An event is stored once: event_id stands for it. In a file without that column
the content of the file and the line do. So an import that broke off is run
again as it was, and what was stored is not stored twice.

Rows that the gateway refuses are named with their lines, and the others are
stored. The exit status is 1 if there are any. The gateway is asked by its admin
API, as with caddy reload.`,
		Example: "  caddy cadenza import-reports conversions.csv",
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			i := &reportImport{client: &client, name: args[0], errors: cmd.ErrOrStderr()}
			if err := i.open(file); err != nil {
				return err
			}
			if err := client.resolve(); err != nil {
				return err
			}
			if err := i.run(); err != nil {
				return fmt.Errorf("%w\n%s so far: run the same again to go on", err, i.sum())
			}
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), i.sum()); err != nil {
				return err
			}
			if i.stopped > 0 {
				return fmt.Errorf("the import stopped at line %d: mend it, and import the rows from there on as a file of their own", i.stopped)
			}
			if i.refused > 0 {
				return fmt.Errorf("%s refused", plural(i.refused, "row"))
			}
			return nil
		},
	}
	client.addFlags(cmd)
	return cmd
}

const (
	// One request has at most importRows reports, and ends once it has importBytes.
	importRows  = 1000
	importBytes = 1 << 20
)

// reportImport sends the rows of a file.
type reportImport struct {
	client *gatewayClient
	name   string
	errors io.Writer
	rows   *csv.Reader
	file   string // stands for its content

	names             []string // of the columns
	unit, time, event int      // columns; -1: there is none

	batch                     bytes.Buffer
	lines                     []int // of the batch
	stored, repeated, refused int
	stopped                   int // the line that could not be read; 0: all could
}

// open reads the file once, for what stands for its content, and its first line.
func (i *reportImport) open(file io.ReadSeeker) error {
	digest := sha256.New()
	if _, err := io.Copy(digest, file); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	i.file = fmt.Sprintf("%x", digest.Sum(nil)[:12])
	content := bufio.NewReader(file)
	if mark, _ := content.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = content.Discard(len(mark)) // it is in the buffer
	}
	i.rows = csv.NewReader(content)
	names, err := i.rows.Read()
	if err != nil {
		return fmt.Errorf("%s: the first line must name the columns, separated by commas: %w", i.name, err)
	}
	i.names, i.time, i.event = names, slices.Index(names, "time"), slices.Index(names, "event_id")
	i.unit = slices.IndexFunc(names, func(name string) bool { return name != "time" && name != "event_id" })
	switch {
	case notUTF8(names) >= 0:
		return fmt.Errorf("%s: the first line is not UTF-8: export the file as UTF-8", i.name)
	case i.time < 0 && len(names) == 1 && strings.ContainsAny(names[0], ";\t"):
		return fmt.Errorf("%s: a column time is missing: columns must be separated by commas", i.name)
	case i.time < 0:
		return fmt.Errorf("%s: a column time is missing: when it happened", i.name)
	case i.unit < 0 || len(names) < 3+min(i.event+1, 1):
		return fmt.Errorf("%s: the columns %s lack a field of the data model and a value", i.name, visible.Line(strings.Join(names, ", ")))
	}
	for n, name := range names {
		if n != i.unit && !wire.LegalKey(name) || slices.Index(names, name) != n {
			return fmt.Errorf("%s: %q can't name a column of values, or does so twice: a name is formed as a key is", i.name, visible.Line(name))
		}
	}
	return nil
}

func (i *reportImport) run() error {
	for {
		row, err := i.rows.Read()
		var fault *csv.ParseError
		switch {
		case err == io.EOF:
			return i.send()
		case errors.Is(err, csv.ErrFieldCount):
			line, _ := i.rows.FieldPos(0)
			i.refuse(line, fmt.Sprintf("it has %d cells, the first line %d", len(row), len(i.names)))
			continue
		case errors.As(err, &fault):
			// A quote out of place: where the next row begins is a guess.
			i.stopped = fault.StartLine
			i.refuse(fault.StartLine, fault.Err.Error())
			return i.send()
		case err != nil:
			return errors.Join(i.send(), fmt.Errorf("%s: %w", i.name, err))
		}
		line, _ := i.rows.FieldPos(0)
		report, err := i.report(row, line)
		if err != nil {
			i.refuse(line, err.Error())
			continue
		}
		i.batch.Write(append(report, '\n'))
		if i.lines = append(i.lines, line); len(i.lines) == importRows || i.batch.Len() >= importBytes {
			if err := i.send(); err != nil {
				return err
			}
		}
	}
}

const byteOrderMark = "\ufeff"

// notUTF8 returns the index of the first cell that is not UTF-8, or -1.
func notUTF8(row []string) int {
	return slices.IndexFunc(row, func(cell string) bool { return !utf8.ValidString(cell) })
}

// report returns the report of a row.
func (i *reportImport) report(row []string, line int) ([]byte, error) {
	if n := notUTF8(row); n >= 0 {
		return nil, fmt.Errorf("the cell of %s is not UTF-8: export the file as UTF-8", i.names[n])
	}
	if strings.TrimSpace(row[i.unit]) == "" {
		return nil, fmt.Errorf("%s is empty, and must have the unit", i.names[i.unit])
	}
	at, err := parseHappened(row[i.time])
	if err != nil {
		return nil, err
	}
	event := fmt.Sprintf("import-%s-%d", i.file, line)
	if i.event >= 0 && row[i.event] != "" {
		event = row[i.event]
	}
	values := make(map[string]any)
	for n, cell := range row {
		switch cell = strings.TrimSpace(cell); {
		case n == i.unit || n == i.time || n == i.event || cell == "":
		default:
			values[i.names[n]] = cell // if it is no number, the gateway says so
			if number, err := strconv.ParseFloat(cell, 64); err == nil && !math.IsInf(number, 0) && !math.IsNaN(number) {
				values[i.names[n]] = number
			}
		}
	}
	return json.Marshal(map[string]any{
		"unit": map[string]string{i.names[i.unit]: row[i.unit]}, "time": at, "event_id": event, "values": values,
	})
}

// happenedLayouts are how databases write instants.
var happenedLayouts = []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05Z07", "2006-01-02 15:04:05 UTC"}

func parseHappened(text string) (time.Time, error) {
	for _, layout := range happenedLayouts {
		if at, err := time.Parse(layout, strings.TrimSpace(text)); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("time is %q, and must be an instant with its zone, such as 2026-01-31T12:00:00Z", text)
}

// send sends the batch.
func (i *reportImport) send() error {
	if len(i.lines) == 0 {
		return nil
	}
	var answer adminapi.Results
	body := i.batch.Bytes()
	i.batch = bytes.Buffer{} // net/http may read the body's end after the answer
	if err := i.client.post(http.MethodPost, "/cadenza/reports", nil, bytes.NewReader(body), &answer); err != nil {
		return err
	}
	if len(answer.Results) != len(i.lines) {
		return errors.New("the gateway's answer has another number of results; is it of another version?")
	}
	for n, result := range answer.Results {
		switch {
		case result.Error != nil:
			i.refuse(i.lines[n], result.Error.Message)
		case result.Repeated:
			i.repeated++
		default:
			i.stored++
		}
	}
	i.lines = i.lines[:0]
	return nil
}

// refuse names a row that was not stored.
func (i *reportImport) refuse(line int, why string) {
	i.refused++
	fmt.Fprintf(i.errors, "%s:%d: %s\n", visible.Line(i.name), line, visible.Line(why))
}

func (i *reportImport) sum() string {
	return fmt.Sprintf("%s stored, %d were stored before, %d refused", plural(i.stored, "report"), i.repeated, i.refused)
}
