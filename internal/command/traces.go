package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/visible"
	"github.com/cadenza-gateway/cadenza/trace"
)

// followInterval is the least time between two requests of --follow. Each request waits
// for traces, but a gateway that stops ends the wait.
const followInterval = 500 * time.Millisecond

func tracesCommand() *cobra.Command {
	l := traceList{every: followInterval}
	var follow bool
	var sort string
	cmd := &cobra.Command{
		Use:   "traces [ID]",
		Short: "Lists the traces of a running gateway, or shows all about one",
		Long: `
Lists the newest traces of a workspace of a running gateway, or shows all about
one: the decision with the splits and inputs that it rests on, the other answers
of the same decision, the attempts at providers, the metrics that were reported,
and the question and the answer if the log policy keeps them. By the id of a
decision (Cadenza-Decision-Id, decision_id) it shows all its answers. ID may be
the beginning of an id, as a list shows it on a terminal.

A trace must pass all flags. --since and --until take a time (RFC 3339), a date,
or how long ago it was, such as 2h or 7d. A VALUE of --metadata such as 8842 or
true matches the number or truth value and the text; in quotes of its own
('"8842"'), the text only. --follow shows traces as they are recorded, until it
is interrupted; it waits while the gateway restarts.

The gateway is asked by its admin API, as with caddy reload.`,
		Example: "  caddy cadenza traces --status error --since 2h\n  caddy cadenza traces --key support_chat --follow\n  caddy cadenza traces --since 1d --sort latency --limit 20\n  caddy cadenza traces --score ..20 --sort score --since 1d --limit 20",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := l.client.resolve(); err != nil {
				return err
			}
			l.cmd = cmd
			if len(args) == 1 {
				return l.story(args[0])
			}
			if l.definition {
				return errors.New("--definition goes with the ID of a trace")
			}
			var err error
			if l.values, err = filterValues(cmd, time.Now()); err != nil {
				return err
			}
			if l.limit < 1 && !(follow && l.limit == 0) {
				return fmt.Errorf("--limit must be at least 1, this is %d", l.limit)
			}
			switch sort {
			case "time":
			case "latency", "cost", "score":
				l.values.Set("sort", sort)
			default:
				return fmt.Errorf("--sort takes time, latency, cost or score, this is %q", sort)
			}
			switch {
			case follow && sort != "time":
				return fmt.Errorf("--sort %s sorts a list: it can't be combined with --follow", sort)
			case follow && l.values.Has("score"):
				return errors.New("--score can't be combined with --follow: a score is reported after its trace was written")
			}
			if follow {
				ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
				defer stop()
				context.AfterFunc(ctx, stop) // a second signal ends the process as usual
				return l.follow(ctx)
			}
			return l.list()
		},
	}
	l.client.addFlags(cmd)
	addFilterFlags(cmd)
	cmd.Flags().IntVarP(&l.limit, "limit", "n", adminapi.DefaultTraces, "How many traces to show at most; with --follow, how many older ones")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "Show traces as they are recorded, too")
	cmd.Flags().StringVar(&sort, "sort", "time", "time, the newest first; latency or cost, the highest of all first; or score, the lowest of all first")
	cmd.Flags().BoolVar(&l.definition, "definition", false, "With ID: show the content of the definition that answered, too")
	cmd.Flags().BoolVar(&l.asJSON, "json", false, "Write each trace as a line of JSON")
	return cmd
}

// traceList lists and follows traces.
type traceList struct {
	cmd *cobra.Command
	// definition asks for the content of a trace's definition.
	definition bool
	client     gatewayClient
	values     url.Values
	limit      int
	every      time.Duration
	asJSON     bool
	table      columns
	began      bool       // reports whether a trace was shown
	ids        []trace.ID // of the latest rows
	digits     int        // shown of an id
	warned     bool       // reports whether waiting records were mentioned
}

// tracePage is a page of a list in the form of the admin API.
type tracePage struct {
	Traces []json.RawMessage `json:"traces"`
	Next   string            `json:"next"`
	Follow int64             `json:"follow"`
	// Waiting is nil unless the store takes no records.
	Waiting *struct {
		Records int    `json:"records"`
		Reason  string `json:"reason"`
	} `json:"waiting"`
}

// list lists the newest traces, newest first. It writes lines of JSON page by page, and a
// table at the end, so that its columns fit all rows.
func (l *traceList) list() error {
	var rows []json.RawMessage
	use := l.write
	if !l.asJSON {
		use = func(page []json.RawMessage) error {
			rows = append(rows, page...)
			return nil
		}
	}
	_, err := l.pages(use)
	if err == nil {
		err = l.write(rows)
	}
	if err == nil && !l.began {
		fmt.Fprintln(l.cmd.ErrOrStderr(), "no traces")
	}
	return err
}

// pages asks for pages until it has enough traces. It returns the number from which
// following misses no trace.
func (l *traceList) pages(use func([]json.RawMessage) error) (follow int64, err error) {
	values := maps.Clone(l.values)
	for left, first := l.limit, true; left > 0 || first; first = false {
		values.Set("limit", strconv.Itoa(min(max(left, 1), adminapi.MaxTraces)))
		var page tracePage
		if err := l.client.get("/cadenza/traces", values, &page); err != nil {
			return 0, err
		}
		if first {
			follow = page.Follow
			l.warnOf(&page)
		}
		found := page.Traces[:min(left, len(page.Traces))]
		if err := use(found); err != nil {
			return 0, err
		}
		left -= len(found)
		if page.Next == "" {
			break
		}
		if page.Next == values.Get("before") {
			return 0, errors.New("the gateway's list does not go on: try again with other flags")
		}
		values.Set("before", page.Next)
	}
	return follow, nil
}

// follow shows the newest traces, oldest first, and then new ones until ctx
// ends. It waits for a gateway that stops answering.
func (l *traceList) follow(ctx context.Context) error {
	var older []json.RawMessage
	after, err := l.pages(func(page []json.RawMessage) error {
		older = append(older, page...)
		return ctx.Err()
	})
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	slices.Reverse(older)
	if err := l.write(older); err != nil {
		return err
	}
	ticker := time.NewTicker(l.every)
	defer ticker.Stop()
	away := false
	for {
		err := l.followFrom(ctx, &after, func() {
			if away {
				fmt.Fprintln(l.cmd.ErrOrStderr(), "the gateway answers again")
			}
			away = false
		})
		switch failure, ok := errors.AsType[*gatewayError](err); {
		case ctx.Err() != nil:
			return nil
		case err == nil: // the wait is over, or the gateway was reloaded
		case !ok || failure.status == http.StatusBadRequest || failure.status == http.StatusConflict:
			return err
		case !away:
			away = true
			fmt.Fprintf(l.cmd.ErrOrStderr(), "waiting for the gateway: %v\n", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// followFrom makes one request with follow. It shows the traces that the gateway sends
// and sets after to the number for the next request. It calls answered when the gateway
// answers.
func (l *traceList) followFrom(ctx context.Context, after *int64, answered func()) error {
	values := maps.Clone(l.values)
	values.Set("follow", strconv.FormatInt(*after, 10))
	values.Set("wait", adminapi.MaxWait.String())
	resp, err := l.client.do(http.MethodGet, "/cadenza/traces", values)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = resp.Body.Close() })()
	defer resp.Body.Close()
	for lines := json.NewDecoder(resp.Body); ; {
		var page tracePage
		if err := lines.Decode(&page); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return &gatewayError{0, fmt.Sprintf("the gateway's answer broke off: %v", err)}
		}
		answered()
		if err := l.write(page.Traces); err != nil {
			return err
		}
		*after = page.Follow
		l.warnOf(&page)
	}
}

// warnOf writes how many records wait to be stored, when the store stops taking
// records.
func (l *traceList) warnOf(page *tracePage) {
	if w := page.Waiting; w != nil && !l.warned {
		fmt.Fprintf(l.cmd.ErrOrStderr(), "the store takes no records: %s, and not listed: %s\n", waitingText(w.Records), visible.Line(w.Reason))
	}
	l.warned = page.Waiting != nil
}

// waitingText returns text such as "1 waits".
func waitingText(records int) string {
	if records == 1 {
		return "1 waits"
	}
	return fmt.Sprintf("%d wait", records)
}

// write writes traces in their order.
func (l *traceList) write(traces []json.RawMessage) error {
	if len(traces) == 0 {
		return nil
	}
	out := l.cmd.OutOrStdout()
	var b bytes.Buffer
	if l.asJSON {
		l.began = true
		for _, text := range traces {
			b.Write(visible.JSON(text))
			b.WriteByte('\n')
		}
		_, err := out.Write(b.Bytes())
		return err
	}
	return l.writeTable(stylesFor(out), out, traces)
}

// writeTable writes traces as rows of the table.
func (l *traceList) writeTable(st styles, out io.Writer, traces []json.RawMessage) error {
	shown := make([]shownTrace, len(traces))
	for i, text := range traces {
		if err := json.Unmarshal(text, &shown[i]); err != nil {
			return fmt.Errorf("the gateway sent a trace that can't be read; is it of another version? %w", err)
		}
		l.ids = append(l.ids, shown[i].ID)
	}
	l.digits = max(l.digits, uniquePrefix(l.ids))
	l.ids = slices.Clone(l.ids[max(len(l.ids)-adminapi.MaxTraces, 0):])
	if !l.began {
		l.table = newTraceTable(st)
	}
	now := time.Now()
	rows := make([][]cell, 1, len(shown)+1)
	for i := range shown {
		rows = append(rows, shown[i].row(st, l.digits, now))
	}
	l.table.measure(rows)
	rows[0] = traceHead(st, &l.table)
	l.table.measure(rows[:1])
	if !l.table.fit(st.width) && l.began {
		rows = rows[1:]
	}
	l.began = true
	var b bytes.Buffer
	l.table.write(&b, st, rows...)
	_, err := out.Write(b.Bytes())
	return err
}
