package gateway

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/providers"
)

// ValidatePrices refuses prices that are none.
func ValidatePrices(prices map[string]*price.Price) error {
	for _, model := range slices.Sorted(maps.Keys(prices)) {
		if prices[model] == nil {
			return fmt.Errorf("price %s: there is none: give it prompt and completion", model)
		}
		if err := prices[model].Validate(); err != nil {
			return fmt.Errorf("price %s: %w", model, err)
		}
	}
	return nil
}

// cost sets the costs of the attempts of a call and returns their sum, in US dollars:
// each is paid for, also those whose answers were not used. What the provider says that
// an answer costs counts before its price. A model without a price costs nothing.
func (w *Workspace) cost(result *invoke.Result) float64 {
	var dollars float64
	for i := range result.Attempts {
		a := &result.Attempts[i]
		var served string // as the provider says, which is known of the answer alone
		if a.Code == "" && a.Target == result.Served {
			served = result.Model
		}
		price := w.prices.FindServed(a.Provider, w.hosts[a.Provider], served, a.Model)
		var list float64
		if price != nil {
			list = price.Cost(&a.Usage)
		}
		a.Cost = list
		if said := a.Usage.Cost; a.Usage.HasCost && said >= 0 && !math.IsInf(said, 1) {
			a.Cost = said
			if list != said {
				a.ListCost = list
			}
			a.Free = said == 0
		} else {
			// A provider that calls no host, such as canned, is paid nothing either.
			a.Free = (price != nil || w.hosts[a.Provider] == "") && list == 0 && a.Usage != (providers.Usage{})
		}
		dollars += a.Cost
	}
	return dollars
}
