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
	lost   []string      // what the provider did not get, see providers.Request.FitSearch

	clock      *clock
	firstClock clock           // memory for the first try
	ctx        context.Context // the clock's, with the budget

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
	a.reading, a.tryAt = reading{}, time.Now()
	a.start()
	opened := false
	defer func() {
		if !opened { // also by a panic
			a.close()
		}
	}()
	r, t := &a.reading, a.target
	if a.Ask != nil {
		r.stream, r.err = a.Ask(a.ctx, a.index, req)
	} else {
		r.stream, r.err = t.Provider.Invoke(a.ctx, req)
	}
	if r.err == nil {
		if a.Stream {
			t.readFirst(r, a.Pieces)
		} else {
			t.readWhole(r)
		}
	}
	if r.err != nil || r.done {
		r.close()
	}
	a.waited = time.Since(a.tryAt)
	switch {
	case r.err != nil:
		return a.cause(a.ctx, r.err)
	case !a.Stream || r.done:
	case a.clock.content():
		a.hasContent()
	default:
		// The time was up while this piece arrived.
		return a.cause(a.ctx, a.ctx.Err())
	}
	opened = true
	return nil
}

// close releases the upstream. It may be called again.
func (a *attempt) close() {
	a.clock.stop()
	a.reading.close()
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
			r.err = t.tooLarge(extraParts)
			return
		case r.first.Content == "":
			r.first.Content = d.Content
		default:
			more := len(d.Content)
			if rest.Len() == 0 {
				more += len(r.first.Content)
			}
			// The memory is taken before it is made. Grow doubles it, so that an answer of
			// many pieces leaves little to the garbage collector.
			if room := rest.Cap(); rest.Len()+more > room {
				if r.err = held.Take(room + more); r.err != nil {
					return
				}
				rest.Grow(more)
			}
			if rest.Len() == 0 {
				rest.WriteString(r.first.Content)
			}
			rest.WriteString(d.Content)
		}
	}
	if rest.Len() > 0 {
		r.first.Content = rest.String()
	}
	r.done = true
	r.err = t.ended(r.stream)
}

// ended checks a complete answer. JSON that was cut by a limit of tokens is no
// answer, even if it happens to parse.
func (t *Target) ended(stream providers.Stream) error {
	format := t.Parameters.ResponseFormat
	if format == nil || format.Type == providers.FormatText {
		return nil
	}
	if r := stream.Result(); r.FinishReason != providers.FinishLength || r.Paused {
		return nil
	}
	return &providers.Error{
		Provider: t.Name, Kind: providers.Invalid, Status: http.StatusOK, Code: string(providers.FinishLength),
		Reason: "JSON was asked for, and the limit of tokens cut it: raise max_tokens, or ask for less",
	}
}

// readFirst reads a stream up to its first content or the first piece of a tool
// call, even if the caller gets tool calls only with the end of the answer. For
// a caller that wants all pieces, a thought counts as well.
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
			r.err = t.tooLarge(extraParts)
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
		err = context.Cause(ctx)
		if err == errSuperseded && !time.Now().Before(k.deadline) {
			err = errTotal // the other lane ended at the same moment
		}
	}
	return err
}
