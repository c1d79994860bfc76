package invoke

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
)

// attempt is one attempt at a target, and then the next one at the same.
type attempt struct {
	*lane
	target *Target
	place  int // of the target in the order
	index  int // of the target in Call.Targets
	health *admission
	later  int // targets that may be tried after this one
	limit  time.Duration
	timer  *time.Timer // until the first content, or the whole answer; nil for none

	ctx    context.Context
	cancel context.CancelCauseFunc
	stream providers.Stream // nil before an answer began
	result providers.Result // as known when the stream was closed
	first  string           // piece of a stream, empty for a tool call; or the whole content
	more   bool             // the piece after it is at hand
	done   bool             // nothing follows
	said   int              // bytes of content
}

// permit tells whether the target may be tried again. The budget asks it.
func (a *attempt) permit() bool {
	if a.hedged() && !a.take(true) {
		return false
	}
	return a.health.permitRetry(a.later == 0)
}

// restart gives the attempt that begins after wait its full time. The budget
// calls it before each retry: for those that the HTTP client makes within open
// the timer runs.
func (a *attempt) restart(wait time.Duration) {
	a.begin(wait)
	if a.timer != nil {
		a.timer.Reset(wait + a.limit)
	}
}

// start bounds an attempt: a streamed one until its first content, a whole one
// by its share of the time that is left. The last target has all of that.
func (a *attempt) start() {
	cause := errFirstToken
	a.limit = a.policy.FirstToken
	if !a.Stream {
		if a.later == 0 {
			return
		}
		cause = errWhole
		deadline, _ := a.ctx.Deadline()
		a.limit = max(minWhole, time.Until(deadline)/time.Duration(a.later+1))
	}
	cancel := a.cancel
	a.timer = time.AfterFunc(a.limit, func() { cancel(cause) })
}

// open makes one attempt, until there is something to hand on: the first
// content of a stream, or the end of the answer.
func (a *attempt) open(req *providers.Request) (err error) {
	a.first, a.more, a.done, a.said, a.result = "", false, false, 0, providers.Result{}
	a.ctx, a.cancel = context.WithCancelCause(a.lane.ctx)
	opened := false
	defer func() {
		if !opened { // also by a panic
			a.close()
		}
	}()
	a.start()
	a.stream, err = a.target.Provider.Invoke(a.ctx, req)
	if err == nil {
		if a.Stream {
			err = a.readFirst()
		} else {
			err = a.readWhole()
		}
	}
	if err != nil {
		return a.cause(a.ctx, err)
	}
	opened = true
	return nil
}

// close lets go of the upstream. It may be called again.
func (a *attempt) close() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	if a.stream != nil {
		a.result = withShortNames(a.stream.Result())
		a.stream.Close()
		a.stream = nil
	}
	a.cancel(nil)
}

// readWhole reads an answer to its end.
func (a *attempt) readWhole() error {
	var rest strings.Builder
	for {
		d, err := a.stream.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		a.said += len(d.Content)
		switch {
		case a.said > maxContent:
			return &providers.Error{
				Provider: a.target.Name, Kind: providers.Invalid,
				Reason: fmt.Sprintf("the answer has more than %d bytes", maxContent),
			}
		case a.first == "":
			a.first = d.Content
		default:
			if rest.Len() == 0 {
				rest.WriteString(a.first)
			}
			rest.WriteString(d.Content)
		}
	}
	if rest.Len() > 0 {
		a.first = rest.String()
	}
	a.done = true
	return a.ended()
}

// ended judges an answer at its end: of JSON a part is no answer, even where it
// happens to parse.
func (a *attempt) ended() error {
	format := a.target.Parameters.ResponseFormat
	if format == nil || format.Type == providers.FormatText || a.stream.Result().FinishReason != providers.FinishLength {
		return nil
	}
	return &providers.Error{
		Provider: a.target.Name, Kind: providers.Invalid, Status: http.StatusOK, Code: string(providers.FinishLength),
		Reason: "JSON was asked for, and the limit of tokens cut it: raise max_tokens, or ask for less",
	}
}

// readFirst reads a stream up to its first content, or the first piece of a
// tool call, which the caller gets with the end.
func (a *attempt) readFirst() error {
	for said := false; !said; {
		d, err := a.stream.Next()
		if errors.Is(err, io.EOF) {
			a.done = true
			return a.ended()
		}
		if err != nil {
			return err
		}
		a.first, a.more = d.Content, d.More
		said = d.Content != "" || d.ToolCall
	}
	if !a.timer.Stop() {
		// It fired while this piece arrived.
		<-a.ctx.Done()
		return a.ctx.Err()
	}
	a.said = len(a.first)
	a.budget.Content()
	return nil
}

// used is what an attempt that ended with the class has used. Where one was
// ended before the provider counted, it was paid for all the same.
func (a *attempt) used(class Class) used {
	u := used{Usage: a.result.Usage}
	if u.Usage != (providers.Usage{}) || class != Superseded && (class == "" || a.said == 0) {
		return u
	}
	sent := 0
	for i := range a.Messages {
		sent += len(a.Messages[i].Content)
	}
	u.estimated = true
	u.PromptTokens, u.CompletionTokens = tokens(sent), tokens(a.said)
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

// tokens estimates how many tokens a text has: four bytes each, which is what
// English comes to.
func tokens(bytes int) int64 { return (int64(bytes) + 3) / 4 }

// cause finds out why an attempt failed: what ended its context, if anything
// did, else the failure itself.
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
