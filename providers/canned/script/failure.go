package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/providers"
)

// The ways to fail.
const (
	kindStatus   = "status"   // an HTTP status
	kindConnect  = "connect"  // no answer
	kindRefuse   = "refuse"   // the content policy
	kindHang     = "hang"     // silence until the call is cancelled
	kindTruncate = "truncate" // the answer stops without its end
	kindError    = "error"    // an error inside the answer
)

// kinds are the ways to fail.
var kinds = []string{kindStatus, kindConnect, kindRefuse, kindHang, kindTruncate, kindError}

// Failure is the member fail.
type Failure struct {
	Kind       string          `json:"kind"`
	Status     int             `json:"status"`
	Code       string          `json:"code"`
	Message    string          `json:"message"`
	RetryAfter json.RawMessage `json:"retry_after"`
	Times      int             `json:"times"` // tries at the target that fail; 0 means all
	After      int             `json:"after"` // words said before
	Rate       float64         `json:"rate"`  // share of the tries that fail; 0 means all

	retryAfter time.Duration
}

// always reports whether every try fails.
func (f *Failure) always() bool { return f.Times == 0 && (f.Rate == 0 || f.Rate == 1) }

func parseFailure(raw json.RawMessage) (*Failure, error) {
	f := new(Failure)
	if err := decode(raw, f, "kind", "status", "code", "message", "retry_after", "times", "after", "rate"); err != nil {
		return nil, err
	}
	if f.Kind == "" {
		f.Kind = kindStatus
		if f.Status == 0 && f.After > 0 {
			f.Kind = kindTruncate
		}
	}
	if !slices.Contains(kinds, f.Kind) {
		return nil, fmt.Errorf("has the unknown kind %q%s", f.Kind, document.DidYouMean(f.Kind, kinds))
	}
	if f.Kind == kindStatus && f.Status == 0 {
		f.Status = 500
	}
	if f.Kind == kindStatus && (f.Status < 400 || f.Status > 599) {
		return nil, errors.New("has a status that is no failure: it must be 400 to 599")
	}
	if f.After > 0 && (f.Kind == kindStatus || f.Kind == kindConnect || f.Kind == kindRefuse) {
		return nil, errors.New("has words before a failure that comes before all words: after goes with truncate, error and hang")
	}
	if f.Times < 0 || f.After < 0 || f.Rate < 0 || f.Rate > 1 {
		return nil, errors.New("needs times and after of 0 or more, and a rate of 0 to 1")
	}
	if f.RetryAfter != nil {
		var err error
		if f.retryAfter, err = parseDuration(f.RetryAfter); err != nil {
			return nil, fmt.Errorf("retry_after %w", err)
		}
	}
	return f, nil
}

// Error makes the failure of a call, or of an answer that began.
func (f *Failure) Error(ctx context.Context, began bool) error {
	e := &providers.Error{Provider: Provider, Kind: providers.Status, Status: http.StatusOK, Code: f.Code, Message: f.Message}
	switch {
	case f.Kind == kindHang:
		<-ctx.Done()
		return ctx.Err()
	case f.Kind == kindConnect:
		return &providers.ConnectError{Err: errors.New("a connection failure was asked for")}
	case f.Kind == kindRefuse:
		e.Kind = providers.Refused
	case f.Kind == kindError:
		e.Kind = providers.Reported
	case began:
		e.Kind, e.Code = providers.Truncated, ""
	default:
		e.Status, e.RetryAfter = f.Status, f.retryAfter
	}
	return e
}

// InStream reports whether the failure comes in an answer that began.
func (f *Failure) InStream() bool {
	return f.After > 0 || f.Kind == kindTruncate || f.Kind == kindError
}

// Applies reports whether this attempt is one that fails: the tries at the
// target count within each call, so that no state outlives it.
func (f *Failure) Applies(ctx context.Context) bool {
	if f == nil {
		return false
	}
	if f.Times > 0 {
		if budget := providers.BudgetFrom(ctx); budget != nil && budget.Tries() > f.Times {
			return false
		}
	}
	return f.Rate == 0 || rand.Float64() < f.Rate
}
