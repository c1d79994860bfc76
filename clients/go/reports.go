package cadenza

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const collect = time.Second // in which reports gather

// report is one that waits, and a line of the spool.
type report struct{ ID, Body string } // its Idempotency-Key and what is sent

type reports struct {
	c       *Client
	wake    chan struct{}
	ended   chan struct{}
	lost    atomic.Int64
	sending sync.Mutex // and what failed in a row
	failed  int

	mu            sync.Mutex
	queue         []report
	size, written int // bytes of bodies in the queue, and of the file
	file          *os.File
	closed        bool
}

// Report queues a record, whose members docs/http-api.md has, on a trace or, where the
// trace id is empty, on the decision_id in it. When it returns, the record is on the disk.
// [ErrLost] says that there is no room for it.
func (c *Client) Report(traceID string, record Object) error {
	if traceID != "" {
		record = merge(record, Object{"trace_id": traceID})
	} else if record["decision_id"] == nil {
		return errors.New("cadenza: a report needs a trace id or a decision_id")
	}
	body, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("cadenza: %w", err)
	}
	if err = c.reports.add(report{rand.Text(), string(body)}); err != nil {
		c.OnError(err)
	}
	return err
}

// Lost is how many reports there was no room for, or the gateway refused.
func (c *Client) Lost() int { return int(c.reports.lost.Load()) }

// Flush sends what is queued, and returns how many reports are left.
func (c *Client) Flush(ctx context.Context) (left int) {
	c.reports.send(ctx)
	c.reports.mu.Lock()
	defer c.reports.mu.Unlock()
	return len(c.reports.queue)
}

// Close flushes, and ends all that runs. Reports that are left stay in the spool.
func (c *Client) Close(ctx context.Context) (left int) {
	c.end()
	<-c.reports.ended
	left = c.Flush(ctx)
	c.reports.mu.Lock()
	defer c.reports.mu.Unlock()
	if c.reports.file != nil {
		_ = c.reports.file.Close() // all of it is on the disk
	}
	c.reports.closed, c.reports.file = true, nil
	return left
}

// open reads what is left in the spool, and has it sent.
func (r *reports) open(c *Client) error {
	r.c, r.wake, r.ended = c, make(chan struct{}, 1), make(chan struct{})
	if c.Spool != "" {
		text, err := os.ReadFile(c.Spool)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("cadenza: %w", err)
		}
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			if one := decode[report](line); one != nil {
				r.queue, r.size = append(r.queue, *one), r.size+len(one.Body)
				r.wakeUp()
			} else if len(line) > 0 {
				c.OnError(fmt.Errorf("cadenza: %s: half a line, as a crash leaves it: %.80s", c.Spool, line))
			}
		}
		if err := r.rewrite(); err != nil {
			return fmt.Errorf("cadenza: %w", err)
		}
	}
	go r.run()
	return nil
}

func (r *reports) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *reports) run() {
	defer close(r.ended)
	for {
		select {
		case <-r.wake:
		case <-r.c.closing.Done():
			return
		}
		for wait := collect; wait > 0; wait = r.send(r.c.closing) {
			if !sleep(r.c.closing, wait) {
				return
			}
		}
	}
}

func (r *reports) add(one report) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.size+len(one.Body) > r.c.SpoolSize {
		r.lost.Add(1)
		return fmt.Errorf("cadenza: %w: %d wait already, or the client is closed: %s", ErrLost, len(r.queue), one.Body)
	}
	r.queue, r.size = append(r.queue, one), r.size+len(one.Body)
	r.wakeUp()
	if r.file == nil {
		return nil
	}
	if r.written > 2*r.c.SpoolSize { // the queue was never empty for long
		return r.rewrite()
	}
	line, err := json.Marshal(one)
	// A line begins with the end of the one before, of which a full disk may have left half.
	n, err2 := r.file.Write(append([]byte("\n"), line...))
	r.written += n
	return cmp.Or(err, err2, r.file.Sync())
}

// send sends one report after the other until nothing is left, or one is not taken, which
// goes behind the others. It returns how long to wait.
func (r *reports) send(ctx context.Context) time.Duration {
	r.sending.Lock()
	defer r.sending.Unlock()
	for {
		r.mu.Lock()
		if len(r.queue) == 0 {
			r.mu.Unlock()
			return 0
		}
		one := r.queue[0]
		r.mu.Unlock()
		_, text, err := r.c.post(ctx, max(patience, r.c.Timeout), "/v1/metrics", []byte(one.Body), http.Header{"Idempotency-Key": {one.ID}})
		answer := decode[struct {
			OK      bool
			Ignored []string
		}](text)
		if err == nil && (answer == nil || !answer.OK) {
			err = fmt.Errorf("cadenza: /v1/metrics: no answer of a gateway: %.80s", text)
		}
		keep := err != nil && !refused(err)
		r.pop(keep)
		switch {
		case ctx.Err() != nil: // its caller left
		case keep:
			r.c.OnError(err)
		case err != nil:
			r.lost.Add(1)
			r.c.OnError(fmt.Errorf("%w: %w: %s", err, ErrLost, one.Body))
		case answer.Ignored != nil:
			r.c.OnError(fmt.Errorf("cadenza: a report has what its trace does not take, %v: %s", answer.Ignored, one.Body))
		}
		if r.failed++; keep {
			return max(retryAfter(err), backoff(r.failed))
		}
		r.failed = 0
	}
}

// pop takes the first report out of the queue, or has it wait behind the others. A spool
// of which nothing is to be sent any more is emptied.
func (r *reports) pop(keep bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.queue[0]
	if r.queue = r.queue[1:]; keep {
		r.queue = append(r.queue, one)
	} else if r.size -= len(one.Body); len(r.queue) == 0 && r.file != nil {
		_, r.written = r.file.Truncate(0), 0 // otherwise they are sent once more, with the same ids
	}
}

// rewrite writes the spool anew, with what is still to be sent.
func (r *reports) rewrite() error {
	var text []byte
	for _, one := range r.queue {
		line, _ := json.Marshal(one) // strings always can be
		text = append(append(text, '\n'), line...)
	}
	fresh := r.c.Spool + ".new"
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		return err
	}
	if r.file != nil {
		_ = r.file.Close() // all of it is in the new one
	}
	err := os.Rename(fresh, r.c.Spool)
	file, err2 := os.OpenFile(r.c.Spool, os.O_WRONLY|os.O_APPEND, 0)
	r.file, r.written = file, len(text)
	return cmp.Or(err, err2, file.Sync())
}
