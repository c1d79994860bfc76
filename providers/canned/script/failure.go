package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/providers"
)

// kind is a way to fail.
type kind string

// The ways to fail.
const (
	kindStatus   kind = "status"   // an HTTP status
	kindConnect  kind = "connect"  // no answer
	kindRefuse   kind = "refuse"   // the content policy
	kindHang     kind = "hang"     // silence until the call is cancelled
	kindTruncate kind = "truncate" // the answer stops without its end
	kindError    kind = "error"    // an error inside the answer
)

// Failure is the member fail.
type Failure struct {
	kind       kind
	status     int
	code       string
	message    string
	retryAfter time.Duration
	times      int     // tries at the target that fail; 0 means all
	after      int     // words said before
	rate       float64 // share of the tries that fail; 0 means all
}

// always reports whether every try fails.
func (f *Failure) always() bool { return f.times == 0 && (f.rate == 0 || f.rate == 1) }

func parseFailure(raw json.RawMessage) (*Failure, error) {
	var members struct {
		Kind       kind            `json:"kind"`
		Status     int             `json:"status"`
		Code       string          `json:"code"`
		Message    string          `json:"message"`
		RetryAfter json.RawMessage `json:"retry_after"`
		Times      int             `json:"times"`
		After      int             `json:"after"`
		Rate       float64         `json:"rate"`
	}
	if err := decode(raw, &members, "kind", "status", "code", "message", "retry_after", "times", "after", "rate"); err != nil {
		return nil, err
	}
	f := &Failure{
		kind: members.Kind, status: members.Status, code: members.Code, message: members.Message,
		times: members.Times, after: members.After, rate: members.Rate,
	}
	switch f.kind {
	case "":
		f.kind = kindStatus
		if f.status == 0 && f.after > 0 {
			f.kind = kindTruncate
		}
	case kindStatus, kindConnect, kindRefuse, kindHang, kindTruncate, kindError:
	default:
		return nil, fmt.Errorf("has the unknown kind %q%s", f.kind,
			document.DidYouMean(string(f.kind), []string{"status", "connect", "refuse", "hang", "truncate", "error"}))
	}
	if f.kind == kindStatus && f.status == 0 {
		f.status = 500
	}
	if f.kind == kindStatus && (f.status < 400 || f.status > 599) {
		return nil, errors.New("has a status that is no failure: it must be 400 to 599")
	}
	if f.after > 0 && (f.kind == kindStatus || f.kind == kindConnect || f.kind == kindRefuse) {
		return nil, errors.New("has words before a failure that comes before all words: after goes with truncate, error and hang")
	}
	if f.times < 0 || f.after < 0 || f.rate < 0 || f.rate > 1 {
		return nil, errors.New("needs times and after of 0 or more, and a rate of 0 to 1")
	}
	if members.RetryAfter != nil {
		var err error
		if f.retryAfter, err = parseDuration(members.RetryAfter); err != nil {
			return nil, fmt.Errorf("retry_after %w", err)
		}
	}
	return f, nil
}

// Before makes the failure of a call that gets no answer.
func (f *Failure) Before(ctx context.Context) error {
	switch f.kind {
	case kindHang:
		<-ctx.Done()
		return ctx.Err()
	case kindConnect:
		return &providers.ConnectError{Err: errors.New("a connection failure was asked for")}
	case kindRefuse:
		return &providers.Error{Provider: Provider, Kind: providers.Refused, Status: http.StatusOK, Code: f.code, Message: f.message}
	}
	return &providers.Error{
		Provider: Provider, Kind: providers.Status, Status: f.status,
		Code: f.code, Message: f.message, RetryAfter: f.retryAfter,
	}
}

// During makes the failure of an answer that began.
func (f *Failure) During(ctx context.Context) error {
	switch f.kind {
	case kindHang:
		<-ctx.Done()
		return ctx.Err()
	case kindError:
		return &providers.Error{Provider: Provider, Kind: providers.Reported, Status: http.StatusOK, Code: f.code, Message: f.message}
	}
	return &providers.Error{Provider: Provider, Kind: providers.Truncated, Status: http.StatusOK, Message: f.message}
}

// InStream reports whether the failure comes in an answer that began.
func (f *Failure) InStream() bool {
	return f.after > 0 || f.kind == kindTruncate || f.kind == kindError
}

// After returns how many words are said before the failure.
func (f *Failure) After() int { return f.after }

// AtOnce returns the failure without words before it.
func (f *Failure) AtOnce() *Failure {
	return &Failure{kind: f.kind, code: f.code, message: f.message}
}

// Applies reports whether this attempt is one that fails: the tries at the
// target count within each call, so that no state outlives it.
func (f *Failure) Applies(ctx context.Context) bool {
	if f == nil {
		return false
	}
	if f.times > 0 {
		if budget := providers.BudgetFrom(ctx); budget != nil && budget.Tries() > f.times {
			return false
		}
	}
	return f.rate == 0 || rand.Float64() < f.rate
}
