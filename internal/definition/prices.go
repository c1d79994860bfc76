package definition

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/providers/canned/script"
)

// Priced reports whether a provider's model has a price, by the name that it is given by
// or else from those that ship, and whether these are for the provider's host, so that
// they should have the model.
type Priced func(provider, host, model string) (given string, found, shipped bool)

// CheckPrices returns probable mistakes in prices, by the names MODEL or PROVIDER/MODEL
// of those that the configuration gives: those of models that no endpoint calls, and
// models without a price where the prices that ship should have one or others have been
// given one. A provider of the module canned costs nothing, and a deployment at Azure
// has the price of the model that Azure says it is.
func (s *Snapshot) CheckPrices(given []string, known Providers, priced Priced) []string {
	models, names := make(map[string]bool), make(map[string]bool)
	used := make(map[string]bool) // of given
	free := make(map[string]bool) // by the whole name: whether prices that ship should have it
	deployments := false
	for _, key := range slices.Sorted(maps.Keys(s.Endpoints)) {
		for t := range s.Endpoints[key].Named() {
			provider := known[t.Provider]
			if t.Model == "" {
				continue
			}
			whole := t.Provider + "/" + t.Model
			models[t.Model], names[t.Model], names[whole] = true, true, true
			by, found, shipped := priced(t.Provider, provider.Host, t.Model)
			used[by] = true
			if provider.Module == script.Provider {
				continue // it costs nothing, unless it is given a price
			}
			deployment := provider.Module == "azure"
			deployments = deployments || deployment
			if shipped = shipped && !deployment; !found && (shipped || len(given) > 0) {
				free[whole] = shipped
			}
		}
	}
	var found []string
	for _, price := range slices.Sorted(slices.Values(given)) {
		if names[price] || used[price] {
			continue
		}
		message := "price " + price + ": no endpoint calls this model"
		candidates := models
		if strings.Contains(price, "/") {
			candidates = names
		}
		if near := document.Nearest(price, slices.Sorted(maps.Keys(candidates))); near != "" {
			message += ": did you mean " + strconv.Quote(near) + "?"
		} else if deployments {
			continue // it may be the model of one
		}
		found = append(found, message)
	}
	for _, name := range slices.Sorted(maps.Keys(free)) {
		if free[name] {
			found = append(found, fmt.Sprintf("%s has no price, and the prices that ship do not have it: traces, statistics and limits count its calls as free; price %s <prompt> <completion> gives it one", name, name))
			continue
		}
		found = append(found, fmt.Sprintf("%s has no price: traces and statistics count its calls as free; price %s 0 0 says that they are", name, name))
	}
	return found
}
