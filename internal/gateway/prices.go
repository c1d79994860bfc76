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

// tokensPerPrice is how many tokens a price is for.
const tokensPerPrice = 1e6

// ValidatePrices refuses prices that are no amount of money.
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

// cost is what the attempts of a call cost together, in US dollars: whatever a
// model was asked is paid for, also where another one's answer was used. What
// has no price counts nothing.
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
