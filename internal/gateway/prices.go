package gateway

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/cadenza-gateway/cadenza/trace"
)

// Price is what a model costs, in US dollars per million tokens.
type Price struct {
	Prompt     float64 `json:"prompt"`
	Completion float64 `json:"completion"`
}

// tokensPerPrice is the number of tokens that a price is for.
const tokensPerPrice = 1e6

// ValidatePrices refuses prices that are negative, infinite or not a number.
func ValidatePrices(prices map[string]Price) error {
	for _, model := range slices.Sorted(maps.Keys(prices)) {
		for _, dollars := range [...]float64{prices[model].Prompt, prices[model].Completion} {
			if !(dollars >= 0) || math.IsInf(dollars, 1) {
				return fmt.Errorf("price %s: %v must be a number of US dollars per million tokens, 0 or more", model, dollars)
			}
		}
	}
	return nil
}

// cost returns the cost of all attempts of a call, in US dollars: each is paid for,
// also those whose answers were not used. A model without a price costs nothing.
func (w *Workspace) cost(attempts []trace.Attempt) float64 {
	if len(w.Prices) == 0 {
		return 0
	}
	var dollars float64
	for i := range attempts {
		a := &attempts[i]
		price, known := w.Prices[a.Provider+"/"+a.Model]
		if !known {
			price = w.Prices[a.Model]
		}
		dollars += price.Prompt*float64(a.PromptTokens) + price.Completion*float64(a.CompletionTokens)
	}
	return dollars / tokensPerPrice
}
