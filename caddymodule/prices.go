package caddymodule

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/internal/configpath"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/price"
)

// noPrices is the argument of prices that turns the shipped table off.
const noPrices = "none"

// allPrices returns the workspace's own prices, including those in its files.
func (w *Workspace) allPrices() (map[string]*price.Price, error) {
	all, err := price.ReadFiles(w.PriceFiles, resolvePath)
	if err != nil {
		return nil, err
	}
	maps.Copy(all, w.Prices)
	return all, nil
}

// unmarshalPrices reads the path of a file of prices, or "none", which turns the shipped
// table off.
func (w *Workspace) unmarshalPrices(d *caddyfile.Dispenser) error {
	var file string
	if !d.AllArgs(&file) {
		return argumentsError(d, "prices")
	}
	if file == noPrices {
		w.NoShippedPrices = true
		return nil
	}
	path, err := configpath.Resolve(d.File(), file)
	if err != nil {
		return d.WrapErr(err)
	}
	if slices.Contains(w.PriceFiles, path) {
		return d.Errf("prices %s is configured twice", file)
	}
	w.PriceFiles = append(w.PriceFiles, path)
	return nil
}

func (w *Workspace) unmarshalPrice(d *caddyfile.Dispenser) error {
	var model, prompt, completion string
	if !d.AllArgs(&model, &prompt, &completion) || model == "" {
		return argumentsError(d, "price")
	}
	if _, taken := w.Prices[model]; taken {
		return d.Errf("price %s is configured twice", model)
	}
	r := priceReader{d, new(price.Price), "price " + model, make(map[string]bool)}
	if err := r.set("prompt", prompt); err != nil {
		return err
	}
	if err := r.set("completion", completion); err != nil {
		return err
	}
	if err := r.block("", price.Members[2:]); err != nil {
		return err
	}
	if err := r.price.Validate(); err != nil {
		return d.Errf("price %s: %v", model, err)
	}
	if w.Prices == nil {
		w.Prices = make(map[string]*price.Price)
	}
	w.Prices[model] = r.price
	return nil
}

// priceReader reads a price's block.
type priceReader struct {
	*caddyfile.Dispenser
	price *price.Price
	what  string          // for messages
	given map[string]bool // by the names that price.Price.Set takes
}

// block reads the members of a block. prefix is the block's place in the price.
func (r priceReader) block(prefix string, known []string) error {
	for nesting := r.Nesting(); r.NextBlock(nesting); {
		name := r.Val()
		if !slices.Contains(known, name) {
			return r.Errf("%s: %s", r.what, document.Unrecognized("member", name, known))
		}
		var err error
		switch name {
		case "above":
			var tokens string
			if !r.AllArgs(&tokens) {
				return r.Errf("%s: above takes a number of tokens of the prompt, such as 200000, and prices in a block", r.what)
			}
			if n, err := strconv.ParseInt(tokens, 10, 64); err != nil || n <= 0 {
				return r.Errf("%s: above %q is not a number of tokens of the prompt, such as 200000", r.what, tokens)
			}
			if err = r.once(prefix + "above." + tokens); err == nil {
				err = r.some(prefix+"above."+tokens, "prices in a block, such as prompt 2.5 in a line of its own", price.ChangeMembers)
			}
		case "batch", "flex", "priority":
			if err = r.once(name); err != nil {
				return err
			}
			if factor := r.RemainingArgs(); len(factor) == 1 {
				err = r.set(name+".factor", factor[0])
			} else if len(factor) > 1 {
				return r.Errf("%s: %s takes a factor, such as %s 0.5, or prices in a block", r.what, name, name)
			}
			if err == nil {
				err = r.some(name, "a factor, such as "+name+" 0.5, or prices in a block", price.ClassMembers)
			}
		case "context_window", "deprecated", "shutdown", "successor":
			var text string
			if !r.AllArgs(&text) {
				return r.Errf("%s: %s takes one value", r.what, name)
			}
			if err = r.once(name); err != nil {
				return err
			}
			if err = r.price.Model.Set(name, text); err != nil {
				return r.Errf("%s: %s: %w", r.what, name, err)
			}
		default:
			var number string
			if !r.AllArgs(&number) {
				return r.Errf("%s: %s takes one number", r.what, name)
			}
			err = r.set(prefix+name, number)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// some reads the block of a part of the price, such as above.200000. It refuses a part
// without members.
func (r priceReader) some(path, wanted string, known []string) error {
	opened := *r.Dispenser
	if err := r.block(path+".", known); err != nil {
		return err
	}
	for given := range r.given {
		if strings.HasPrefix(given, path+".") {
			return nil
		}
	}
	return opened.Errf("%s: %s needs %s", r.what, strings.ReplaceAll(path, ".", " "), wanted)
}

// once refuses an option that was given before.
func (r priceReader) once(path string) error {
	if r.given[path] {
		return r.Errf("%s: %s is given twice", r.what, path)
	}
	r.given[path] = true
	return nil
}

// set sets a number by its place in the price.
func (r priceReader) set(path, text string) error {
	if err := r.once(path); err != nil {
		return err
	}
	number, err := strconv.ParseFloat(text, 64)
	if err != nil {
		kind := "US dollars per million tokens, such as 0.15"
		switch name := path[strings.LastIndexByte(path, '.')+1:]; {
		case name == "factor":
			kind = "times that the usual prices are paid, such as 0.5"
		case name == "max_output":
			kind = "tokens, such as 8192"
		case strings.HasSuffix(name, "_search"), name == "code_execution":
			kind = "US dollars per thousand uses, such as 10"
		}
		return r.Errf("%s: %q is not a number of %s", r.what, text, kind)
	}
	if err := r.price.Set(path, number); err != nil {
		return r.Errf("%s: %w", r.what, err)
	}
	return nil
}
