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

// ValidatePrices refuses invalid prices.
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

// cost sets the costs of a call's attempts and returns their sum, in US dollars. Attempts
// whose answers were not used are paid for too. A cost that the provider reports comes
// before the model's price. A model without a price costs nothing.
func (w *Workspace) cost(result *invoke.Result) float64 {
	var dollars float64
	for i := range result.Attempts {
		a := &result.Attempts[i]
		var served string // the model that the provider names, which only the answer has
		if a.Code == "" && a.Target == result.Served {
			served = result.Model
		}
		price := w.prices.FindServed(a.Provider, w.hosts[a.Provider], served, a.Model)
		var list float64
		if price != nil {
			list = price.Cost(&a.Usage)
		}
		a.Cost = list
		if reported := a.Usage.Cost; a.Usage.HasCost && reported >= 0 && !math.IsInf(reported, 1) {
			a.Cost = reported
			if list != reported {
				a.ListCost = list
			}
			a.Free = reported == 0
		} else {
			// A provider that calls no host, such as canned, is paid nothing either.
			a.Free = (price != nil || w.hosts[a.Provider] == "") && list == 0 && a.Usage != (providers.Usage{})
		}
		dollars += a.Cost
	}
	return dollars
}
