package caddymodule

import (
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/internal/gateway"
)

func (w *Workspace) unmarshalPrice(d *caddyfile.Dispenser) error {
	var model, prompt, completion string
	if !d.AllArgs(&model, &prompt, &completion) {
		return argumentsError(d, "price")
	}
	if _, taken := w.Prices[model]; taken {
		return d.Errf("price %s is configured twice", model)
	}
	var price gateway.Price
	for _, part := range [...]struct {
		text    string
		dollars *float64
	}{{prompt, &price.Prompt}, {completion, &price.Completion}} {
		var err error
		if *part.dollars, err = strconv.ParseFloat(part.text, 64); err != nil {
			return d.Errf("price %s: %q is not a number of US dollars per million tokens, such as 0.15", model, part.text)
		}
	}
	if err := gateway.ValidatePrices(map[string]gateway.Price{model: price}); err != nil {
		return d.WrapErr(err)
	}
	if w.Prices == nil {
		w.Prices = make(map[string]gateway.Price)
	}
	w.Prices[model] = price
	return nil
}
