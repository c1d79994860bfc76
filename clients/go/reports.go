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
	"time"
)

const collect = time.Second // in which reports gather

// Report queues a record, whose members docs/http-api.md has, on a trace or, where the
// trace id is empty, on the decision_id in it. When it returns, the record is on the disk.
// [ErrLost] says that there is no room for it.
func (c *Client) Report(traceID string, record Object) error {
	if traceID != "" {
		record = merge(record, Object{"trace_id": traceID})
	}
	body, err := json.Marshal(record)
	if err == nil {
		err = c.queueUp(rand.Text() + " " + string(body))
	}
	if err != nil {
		err = fmt.Errorf("cadenza: %w", err)
		c.OnError(err)
	}
	return err
}

func (c *Client) queueUp(line string) error {
	c.spooling.Lock()
	defer c.spooling.Unlock()
	if c.closing.Err() != nil || c.size+len(line) > c.SpoolSize {
		c.lost.Add(1)
		return fmt.Errorf("%w: %d wait already, or the client is closed: %s", ErrLost, len(c.queue), line)
	}
	c.queue, c.size = append(c.queue, line), c.size+len(line)
	// A line begins with the end of the one before, of which a full disk may have left half.
	return c.write(c.Spool, os.O_APPEND, "\n"+line)
}

// Lost is how many reports there was no room for, or the gateway refused.
func (c *Client) Lost() int { return int(c.lost.Load()) }

// Close flushes, and ends all that runs. Reports that are left stay in the spool.
func (c *Client) Close(ctx context.Context) (left int) {
	if c.closing.Err() == nil {
		c.end()
		c.sending.Lock()
		c.retryAt = time.Time{} // there is no later
		c.sending.Unlock()
	}
	return c.Flush(ctx)
}

// Flush sends what is queued, where the wait after a failure is over, and returns how many
// reports are left.
func (c *Client) Flush(ctx context.Context) (left int) {
	for _, err := range c.send(ctx) {
		c.tell(err)
	}
	c.spooling.Lock()
	defer c.spooling.Unlock()
	return len(c.queue)
}

// open reads what is left in the spool, and has it sent, and what comes.
func (c *Client) open() error {
	text, err := os.ReadFile(c.Spool)
	if err != nil && c.Spool != "" && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cadenza: %w", err)
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if _, body, _ := strings.Cut(line, " "); json.Valid([]byte(body)) {
			c.queue = append(c.queue, line)
		} else if line != "" {
			c.OnError(fmt.Errorf("cadenza: %s: half a line, as a crash leaves it: %.80s", c.Spool, line))
		}
	}
	if err = c.rewrite(); err != nil {
		return fmt.Errorf("cadenza: %w", err)
	}
	go func() {
		for sleep(c.closing, collect) {
			c.Flush(c.closing)
		}
	}()
	return nil
}

// send sends what waits until one is not taken, which goes behind the others. It returns
// its errors, because the app may flush when it hears of them.
func (c *Client) send(ctx context.Context) (errs []error) {
	type taken struct {
		OK      bool
		Ignored []string
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	if time.Now().Before(c.retryAt) {
		return nil
	}
	c.spooling.Lock()
	batch := c.queue
	c.spooling.Unlock()
	for sent, line := range batch {
		id, body, _ := strings.Cut(line, " ")
		answer, _, err := post(ctx, c, max(patience, c.Timeout), "/v1/metrics", []byte(body), http.Header{"Idempotency-Key": {id}}, func(t taken) bool { return t.OK })
		e, _ := errors.AsType[Error](err)
		switch {
		case e.refused():
			c.lost.Add(1)
			err = fmt.Errorf("%w: %w: %s", err, ErrLost, body)
		case err != nil && ctx.Err() != nil: // its caller left
			return append(errs, c.settle(sent, 0))
		case err != nil:
			c.failed++
			c.retryAt = time.Now().Add(max(e.RetryAfter, backoff(c.failed)))
			return append(errs, err, c.settle(sent, 1))
		case answer.Ignored != nil:
			err = fmt.Errorf("cadenza: a report has what its trace does not take, %v: %s", answer.Ignored, body)
		}
		c.failed = 0
		errs = append(errs, err)
	}
	return append(errs, c.settle(len(batch), 0))
}

// settle takes what was sent out of the queue, and has what comes again wait behind the others.
func (c *Client) settle(sent, again int) error {
	c.spooling.Lock()
	defer c.spooling.Unlock()
	c.queue = slices.Concat(c.queue[sent+again:], c.queue[sent:sent+again])
	if sent == 0 {
		return nil
	}
	return c.rewrite() // without it they are sent once more after a restart, with the same ids
}

// rewrite writes the spool anew, with what waits.
func (c *Client) rewrite() error {
	text := strings.Join(c.queue, "\n")
	c.size = len(text)
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
