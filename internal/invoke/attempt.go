package invoke

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
)

// attempt is one attempt at a target and, after a failure, the next one at the
// same target.
type attempt struct {
	*lane
	target *Target
	place  int // of the target in the order
	index  int // of the target in Call.Targets
	health *admission
	later  int           // targets that may be tried after this one
	tries  int           // at the target, the running one included; guarded by call.mu
	limit  time.Duration // until the first content, or the whole answer; 0 for none
	share  time.Time     // the end of the target's share of a whole answer's time; zero: the call's
	tryAt  time.Time     // when the running try began
	waited time.Duration // until its first content, or its whole answer

	clock      *clock
	firstClock clock           // memory for the first try
	ctx        context.Context // the clock's, with the budget
	obeys      bool            // the provider returns when its context ends
	own        work            // the work of this goroutine, where the provider obeys
	abandoned  bool            // the provider runs on although its context has ended

	reading
}

// reading is the part of an answer that was read.
type reading struct {
	stream  providers.Stream // nil before an answer began, and once it was closed
	result  providers.Result // as known when the stream was closed
	first   providers.Delta  // first piece of a stream; or the whole content
	done    bool             // the answer is complete
	leftOut []string         // of a stream that has begun, see providers.Result
	err     error            // of the provider, or of its answer
	heard   heard
}

// start begins an attempt with its bounds. A streamed attempt has Policy.FirstToken
// until its first content. All tries of a whole answer at one target have together its
// share of the time that is left: with 90 s and two targets after it, 30 s. The last
// target has all of it.
func (a *attempt) start() {
	cause := errFirstToken
	a.limit = a.policy.FirstToken
	if !a.Stream {
		cause, a.limit = errWhole, 0
		if a.later > 0 {
			if a.share.IsZero() {
				a.share = time.Now().Add(a.timeLeft(a.lane.ctx) / time.Duration(a.later+1))
			}
			a.limit = max(time.Until(a.share), 1)
		}
	}
	a.clock = &a.firstClock
	if a.clock.cancel != nil {
		a.clock = new(clock)
	}
	a.clock.start(a.lane.ctx, a.deadline, a.limit, cause)
	a.ctx = providers.WithBudget(a.clock, a)
}

// open makes one attempt and returns once there is something to hand on: the
// first content of a stream, or the end of a whole answer.
func (a *attempt) open(req *providers.Request) (err error) {
	a.reading, a.abandoned, a.tryAt = reading{}, false, time.Now()
	a.start()
	opened := false
	defer func() {
		if !opened { // also by a panic
			a.close()
		}
	}()
	if a.obeys {
		a.target.read(a.ctx, &a.reading, req, a.Stream, a.Pieces)
	} else if !a.awaitRead(req) {
		return a.cause(a.ctx, a.ctx.Err())
	}
	a.waited = time.Since(a.tryAt)
	if a.err == nil && a.Stream && !a.done {
		a.err = a.began()
	}
	if a.err != nil {
		return a.cause(a.ctx, a.err)
	}
	opened = true
	return nil
}

// awaitRead reads on a goroutine of its own. It returns false where it has abandoned
// the provider.
func (a *attempt) awaitRead(req *providers.Request) bool {
	t, ctx, stream, pieces := a.target, a.ctx, a.Stream, a.Pieces
	r, ok := await(a, func(*work) (r reading) {
		t.read(ctx, &r, req, stream, pieces)
		return r
	}, func(r reading) { r.close() })
	if ok {
		a.reading = r
	}
	return ok
}

// read calls the provider and reads its answer until there is something to hand
// on. It leaves the stream open where more is to come.
func (t *Target) read(ctx context.Context, r *reading, req *providers.Request, stream, pieces bool) {
	open := false
	defer func() {
		if !open { // also by a panic
			r.close()
		}
	}()
	if r.stream, r.err = t.Provider.Invoke(ctx, req); r.err == nil {
		if stream {
			t.readFirst(r, pieces)
		} else {
			t.readWhole(r)
		}
	}
	open = r.err == nil && !r.done
}

// began records that a stream has its first content, and ends the limit for it.
func (a *attempt) began() error {
	if !a.clock.content() {
		// The time was up while this piece arrived.
		return a.ctx.Err()
	}
	a.hasContent()
	return nil
}

// close releases the upstream. It may be called again.
func (a *attempt) close() {
	a.clock.stop()
	switch {
	case a.stream == nil:
	case a.obeys:
		a.reading.close()
	default:
		a.awaitClose()
	}
}

// awaitClose closes the stream on a goroutine of its own.
func (a *attempt) awaitClose() {
	left := a.reading
	left, _ = await(a, func(*work) reading { left.close(); return left }, func(reading) {})
	a.result, a.stream = left.result, nil
}

// close closes the stream, if there is one.
func (r *reading) close() {
	if r.stream != nil {
		r.result = withShortNames(r.stream.Result())
		r.stream.Close()
		r.stream = nil
	}
}

// readWhole reads an answer to its end.
func (t *Target) readWhole(r *reading) {
	var rest strings.Builder
	var held providers.Held
	defer held.Release()
	for {
		d, err := r.stream.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			r.err = err
			return
		}
		r.heard.add(&d)
		switch {
		case r.heard.content > maxContent:
			r.err = t.tooLarge("the answer")
			return
		case r.heard.tooMuch():
			r.err = t.tooLarge(besideTheAnswer)
			return
		case r.first.Content == "":
			r.first.Content = d.Content
		default:
			room := rest.Cap()
			if rest.Len() == 0 {
				rest.WriteString(r.first.Content)
			}
			rest.WriteString(d.Content)
			if more := rest.Cap() - room; more > 0 {
				if r.err = held.Take(more); r.err != nil {
					return
				}
			}
		}
	}
	if rest.Len() > 0 {
		r.first.Content = rest.String()
	}
	r.done = true
	r.err = t.ended(r.stream)
}

// ended checks an answer at its end. JSON that was cut by a limit of tokens is no
// answer, even where it happens to parse.
func (t *Target) ended(stream providers.Stream) error {
	format := t.Parameters.ResponseFormat
	if format == nil || format.Type == providers.FormatText || stream.Result().FinishReason != providers.FinishLength {
		return nil
	}
	return &providers.Error{
		Provider: t.Name, Kind: providers.Invalid, Status: http.StatusOK, Code: string(providers.FinishLength),
		Reason: "JSON was asked for, and the limit of tokens cut it: raise max_tokens, or ask for less",
	}
}

// readFirst reads a stream up to its first content, or to the first piece of a
// tool call, even where the caller gets that with the end of the answer alone. A
// caller that wants all pieces gets a thought as the first one, too.
func (t *Target) readFirst(r *reading, pieces bool) {
	for said := false; !said; {
		d, err := r.stream.Next()
		if errors.Is(err, io.EOF) {
			r.done = true
			r.err = t.ended(r.stream)
			return
		}
		if err != nil {
			r.err = err
			return
		}
		r.first = d
		r.heard.add(&d)
		if r.heard.tooMuch() {
			r.err = t.tooLarge(besideTheAnswer)
			return
		}
		said = d.Content != "" || len(d.Calls) > 0 || pieces && speaks(&d)
	}
	r.leftOut = r.stream.Result().LeftOut
}

// cause returns why an attempt failed: the reason for which its context ended,
// if it did, else err.
func (k *call) cause(ctx context.Context, err error) error {
	if k.parent.Err() != nil {
		if errors.Is(k.parent.Err(), context.DeadlineExceeded) {
			return errTotal
		}
		return errClientGone
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
