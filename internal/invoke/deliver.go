package invoke

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
)

// deliver hands an attempt's answer on to the caller, on the goroutine of Invoke's
// caller. From here on no other attempt is made.
func (k *call) deliver(a *attempt) {
	verdict := false
	defer func() {
		if !verdict { // a panic of emit
			a.close()
			a.health.release()
		}
	}()
	err := k.handOn(a)
	verdict = true
	if err == nil {
		a.succeeded(k)
		if a.result.Model == "" {
			a.result.Model = a.target.Model
		}
		a.result.LeftOut = append(slices.Clip(a.result.LeftOut), a.lost...)
		k.result.Result, k.result.Served = a.result, a.index
		return
	}
	f := a.failed(err)
	k.broken = &f
	if k.committed {
		// The part of the answer that arrived is paid for, too.
		k.result.Result = a.result
	}
}

func (k *call) handOn(a *attempt) error {
	// The caller may have left while the first bytes arrived.
	if err := k.parent.Err(); err != nil {
		return k.cause(a.ctx, err)
	}
	if !k.Stream {
		return k.give(a, &providers.Delta{Content: a.first.Content})
	}
	if !a.done {
		k.result.FirstToken = time.Since(k.started)
	}
	if k.wants(&a.first) {
		if err := k.give(a, &a.first); err != nil {
			return err
		}
	}
	if !a.done {
		if err := k.relay(a); err != nil {
			return err
		}
	}
	return k.giveRest(a)
}

// relay hands on the pieces after the first, and closes the stream.
func (k *call) relay(a *attempt) error {
	a.clock.follow(k.policy.Idle)
	defer a.reading.close()
	for {
		d, err := a.stream.Next()
		switch {
		case errors.Is(err, io.EOF):
			return a.target.ended(a.stream)
		case err != nil:
			return k.cause(a.ctx, err)
		}
		if a.heard.add(&d); a.heard.tooMuch() {
			return a.target.tooLarge(extraParts)
		}
		if k.wants(&d) {
			a.clock.pause()
			if err := k.give(a, &d); err != nil {
				return err
			}
		}
		a.clock.resume()
	}
}

// give hands one piece to the caller.
func (k *call) give(a *attempt, d *providers.Delta) error {
	if !k.committed {
		k.committed = true
		if k.Stream && k.Committed != nil {
			k.Committed(a.index, k.begun(), append(slices.Clip(a.leftOut), a.lost...))
		}
	}
	if err := k.emit(*d); err != nil {
		return fmt.Errorf("%w: %w", errClientGone, err)
	}
	return nil
}

// begun counts the attempts begun so far.
func (k *call) begun() int {
	now := time.Since(k.started)
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, l := range k.lanes {
		for i := range l.records {
			if l.records[i].Started <= now {
				n++
			}
		}
	}
	return n
}
