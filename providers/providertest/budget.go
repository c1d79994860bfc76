package providertest

import (
	"context"
	"sync"
	"time"
)

// Budget is a providers.Budget of a number of tries. It is safe for concurrent
// use.
type Budget struct {
	Wait time.Duration // before each try but the first

	mu    sync.Mutex
	most  int
	tries int
}

// NewBudget makes a budget of a number of tries. The first try is running.
func NewBudget(tries int) *Budget { return &Budget{most: tries, tries: 1} }

// Repeat takes another try. It returns false if all are used up or ctx has ended.
func (b *Budget) Repeat(ctx context.Context, _ error) (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tries >= b.most || ctx.Err() != nil {
		return 0, false
	}
	b.tries++
	return b.Wait, true
}

// Tries returns the number of tries, including the running one.
func (b *Budget) Tries() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tries
}
