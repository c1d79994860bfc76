package cadenza

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const collect = time.Second // in which reports gather

type reports struct {
	lost    atomic.Int64
	sending sync.Mutex // and what failed in a row
	failed  int
	mu      sync.Mutex
	queue   []string // each is its Idempotency-Key, a space, and what is sent: a line of the spool
	size    int      // bytes of them
}

// Report queues a record, whose members docs/http-api.md has, on a trace or, where the
// trace id is empty, on the decision_id in it. When it returns, the record is on the disk.
// [ErrLost] says that there is no room for it.
func (c *Client) Report(traceID string, record Object) error {
	if traceID != "" {
		record = merge(record, Object{"trace_id": traceID})
	}
	body, err := json.Marshal(record)
	if err == nil {
		err = c.add(rand.Text() + " " + string(body))
	}
	if err != nil {
		err = fmt.Errorf("cadenza: %w: %.200s", err, body)
		c.OnError(err)
	}
	return err
}

func (c *Client) add(line string) error {
	c.reports.mu.Lock()
	defer c.reports.mu.Unlock()
	if c.closing.Err() != nil || c.reports.size+len(line) > c.SpoolSize {
		c.reports.lost.Add(1)
		return fmt.Errorf("%w: %d wait already, or the client is closed", ErrLost, len(c.reports.queue))
	}
	c.reports.queue, c.reports.size = append(c.reports.queue, line), c.reports.size+len(line)
	// A line begins with the end of the one before, of which a full disk may have left half.
	return c.write(c.Spool, os.O_APPEND, "\n"+line)
}

// Lost is how many reports there was no room for, or the gateway refused.
func (c *Client) Lost() int { return int(c.reports.lost.Load()) }

// Close flushes, and ends all that runs. Reports that are left stay in the spool.
func (c *Client) Close(ctx context.Context) (left int) {
	c.end()
	return c.Flush(ctx)
}

// Flush sends what is queued, and returns how many reports are left.
func (c *Client) Flush(ctx context.Context) (left int) {
	c.send(ctx)
	c.reports.mu.Lock()
	defer c.reports.mu.Unlock()
	return len(c.reports.queue)
}

// open reads what is left in the spool, and has it sent, and what comes.
func (c *Client) open() error {
	text, err := os.ReadFile(c.Spool)
	if err != nil && c.Spool != "" && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cadenza: %w", err)
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if _, body, _ := strings.Cut(line, " "); json.Valid([]byte(body)) {
			c.reports.queue = append(c.reports.queue, line)
		} else if line != "" {
			c.OnError(fmt.Errorf("cadenza: %s: half a line, as a crash leaves it: %.80s", c.Spool, line))
		}
	}
	if err = c.keep(c.reports.queue); err != nil {
		return fmt.Errorf("cadenza: %w", err)
	}
	go func() {
		for wait := collect; sleep(c.closing, wait); {
			wait = c.send(c.closing)
		}
	}()
	return nil
}

// send sends what waits until one is not taken, which goes behind the others. It returns
// how long to wait.
func (c *Client) send(ctx context.Context) (wait time.Duration) {
	r := &c.reports
	r.sending.Lock()
	defer r.sending.Unlock()
	r.mu.Lock()
	batch, sent, again := r.queue, 0, 0
	r.mu.Unlock()
	for wait = collect; sent < len(batch) && again == 0; {
		wait, again = c.deliver(ctx, batch[sent])
		sent += 1 - again
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	queue := slices.Concat(r.queue[sent+again:], batch[sent:sent+again])
	if sent == 0 {
		r.queue = queue
	} else if err := c.keep(queue); err != nil {
		c.OnError(fmt.Errorf("cadenza: %w", err)) // what was sent may be sent once more, with the same id
	}
	return wait
}

// deliver sends a report. Where it is not taken, it returns 1, and how long to wait.
func (c *Client) deliver(ctx context.Context, line string) (wait time.Duration, again int) {
	type taken struct {
		OK      bool
		Ignored []string
	}
	id, body, _ := strings.Cut(line, " ")
	header := http.Header{"Idempotency-Key": {id}}
	answer, _, err := post(ctx, c, max(patience, c.Timeout), "/v1/metrics", []byte(body), header, func(t taken) bool { return t.OK })
	e, _ := errors.AsType[Error](err)
	c.reports.failed++
	if err != nil && !e.refused() {
		if ctx.Err() == nil { // else its caller left
			c.OnError(err)
		}
		return max(e.RetryAfter, backoff(c.reports.failed)), 1
	}
	c.reports.failed = 0
	if err != nil {
		c.reports.lost.Add(1)
		c.OnError(fmt.Errorf("%w: %w: %s", err, ErrLost, body))
	} else if answer.Ignored != nil {
		c.OnError(fmt.Errorf("cadenza: a report has what its trace does not take, %v: %s", answer.Ignored, body))
	}
	return collect, 0
}

// keep has these reports wait, and writes the spool anew.
func (c *Client) keep(queue []string) error {
	text := strings.Join(queue, "\n")
	c.reports.queue, c.reports.size = queue, len(text)
	if err := c.write(c.Spool+".new", os.O_TRUNC, text); err != nil || c.Spool == "" {
		return err
	}
	return os.Rename(c.Spool+".new", c.Spool)
}

// write writes to a file, and has it on the disk, where there is a spool.
func (c *Client) write(name string, how int, text string) error {
	if c.Spool == "" {
		return nil
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|how, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Sync(), file.Close())
}
