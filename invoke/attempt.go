package invoke

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
)

// attempt is what the attempts at one target share.
type attempt struct {
	*call
	target *Target
	index  int // of target
	later  int // targets that may be tried after this one
	limit  time.Duration
	timer  *time.Timer // until the first content, or the whole answer; nil for none
}

// restart gives the attempt that begins after wait its full time. It is called
// where the HTTP client repeats a request within do.
func (a *attempt) restart(wait time.Duration) {
	if a.timer != nil {
		a.timer.Reset(wait + a.limit)
	}
}

// start bounds an attempt: a streamed one until its first content, a whole one
// by its share of the time that is left. The last target has all of that.
func (a *attempt) start(cancel context.CancelCauseFunc) {
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
	a.timer = time.AfterFunc(a.limit, func() { cancel(cause) })
}

func (a *attempt) stop() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

// do makes one attempt.
func (a *attempt) do(req *providers.Request) (providers.Result, error) {
	ctx, cancel := context.WithCancelCause(a.ctx)
	defer cancel(nil)
	a.start(cancel)
	defer a.stop()
	stream, err := a.target.Provider.Invoke(ctx, req)
	if err != nil {
		return providers.Result{}, a.cause(ctx, err)
	}
	defer stream.Close()
	if a.Stream {
		return a.stream(ctx, cancel, stream)
	}
	return a.whole(ctx, stream)
}

// whole reads an answer to its end and only then hands it on.
func (a *attempt) whole(ctx context.Context, stream providers.Stream) (providers.Result, error) {
	var first string
	var rest strings.Builder
	for {
		d, err := stream.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return stream.Result(), a.cause(ctx, err)
		}
		switch {
		case len(first)+rest.Len()+len(d.Content) > maxContent:
			return stream.Result(), &providers.Error{
				Provider: a.target.Name, Kind: providers.Invalid,
				Message: fmt.Sprintf("the answer has more than %d bytes", maxContent),
			}
		case first == "":
			first = d.Content
		default:
			if rest.Len() == 0 {
				rest.WriteString(first)
			}
			rest.WriteString(d.Content)
		}
	}
	// A call that was cancelled while the last bytes arrived has nobody to
	// answer.
	if err := a.parent.Err(); err != nil {
		return stream.Result(), a.cause(ctx, err)
	}
	content := first
	if rest.Len() > 0 {
		content = rest.String()
	}
	a.committed = true
	if err := a.emit(providers.Delta{Content: content}); err != nil {
		return stream.Result(), gone(err)
	}
	return stream.Result(), nil
}

// stream hands on each piece as it arrives.
func (a *attempt) stream(ctx context.Context, cancel context.CancelCauseFunc, stream providers.Stream) (providers.Result, error) {
	var idle *time.Timer
	defer func() {
		if idle != nil {
			idle.Stop()
		}
	}()
	for {
		d, err := stream.Next()
		if errors.Is(err, io.EOF) {
			return stream.Result(), nil
		}
		if err != nil {
			return stream.Result(), a.cause(ctx, err)
		}
		switch {
		case idle != nil:
			idle.Stop()
		case d.Content == "":
			continue
		case !a.timer.Stop():
			// It fired while this piece arrived.
			<-ctx.Done()
			return stream.Result(), a.cause(ctx, ctx.Err())
		}
		if d.Content != "" {
			if !a.committed {
				a.committed = true
				a.budget.Content()
				if a.Committed != nil {
					a.Committed(a.index, len(a.budget.Records())+1)
				}
				a.result.FirstToken = time.Since(a.started)
			}
			// The time that a slow caller takes is not the provider's.
			if err := a.emit(d); err != nil {
				return stream.Result(), gone(err)
			}
		}
		if idle == nil {
			idle = time.AfterFunc(a.policy.Idle, func() { cancel(errIdle) })
		} else {
			idle.Reset(a.policy.Idle)
		}
	}
}

func gone(err error) error { return fmt.Errorf("%w: %w", errClientGone, err) }

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
