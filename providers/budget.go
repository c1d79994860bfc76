package providers

import (
	"context"
	"time"
)

// Budget is a call's allowance for its provider beyond the first try. It
// travels in the context of Invoke, so that an HTTP client below the provider
// can repeat a request that got no answer. The gateway repeats everything else
// itself.
type Budget interface {
	// Repeat asks for another try after one that failed before an answer began,
	// mostly with a [ConnectError]. If it is true the failure is recorded, and
	// the next try is to begin after the wait. If it is false the provider
	// returns the failure.
	Repeat(ctx context.Context, failure error) (wait time.Duration, ok bool)
	// Tries counts the tries of this call at the provider's target, the running
	// one included.
	Tries() int
}

type budgetKey struct{}

// WithBudget returns a context that carries the budget.
func WithBudget(ctx context.Context, b Budget) context.Context {
	return context.WithValue(ctx, budgetKey{}, b)
}

// BudgetFrom returns the context's budget, or nil: then
// nothing may be repeated.
func BudgetFrom(ctx context.Context) Budget {
	b, _ := ctx.Value(budgetKey{}).(Budget)
	return b
}
