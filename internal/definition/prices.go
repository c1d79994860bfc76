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

// CheckPrices returns what is probably unintended about prices, by their names MODEL
// or PROVIDER/MODEL: those of models that no endpoint calls, and models without one
// where others have one. A provider of the module canned costs nothing.
func (s *Snapshot) CheckPrices(prices []string, known Providers) []string {
	if len(prices) == 0 {
		return nil
	}
	models, names := make(map[string]bool), make(map[string]bool)
	var free []string
	for _, key := range slices.Sorted(maps.Keys(s.Endpoints)) {
		for t := range s.Endpoints[key].Named() {
			if known[t.Provider].Module == script.Provider || t.Model == "" {
				continue
			}
			whole := t.Provider + "/" + t.Model
			models[t.Model], names[t.Model], names[whole] = true, true, true
			if !slices.Contains(prices, t.Model) && !slices.Contains(prices, whole) && !slices.Contains(free, whole) {
				free = append(free, whole)
			}
		}
	}
	var found []string
	for _, price := range slices.Sorted(slices.Values(prices)) {
		if names[price] {
			continue
		}
		message := "price " + price + ": no endpoint calls this model"
		candidates := models
		if strings.Contains(price, "/") {
			candidates = names
		}
		if near := document.Nearest(price, slices.Sorted(maps.Keys(candidates))); near != "" {
			message += ": did you mean " + strconv.Quote(near) + "?"
		}
		found = append(found, message)
	}
	slices.Sort(free)
	for _, name := range free {
		found = append(found, fmt.Sprintf("%s has no price: traces and statistics count its calls as free; price %s 0 0 says that they are", name, name))
	}
	return found
}
