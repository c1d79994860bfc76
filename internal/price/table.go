package price

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// maxFound is how many searches a table remembers. Definitions and providers name few
// models. More are found too, in some 10 microseconds each.
const maxFound = 256

// Table has the prices of models. It is safe for concurrent use.
type Table struct {
	given   map[string]*Price // by MODEL or PROVIDER/MODEL
	shipped bool

	found atomic.Pointer[map[target]priced]
	lock  sync.Mutex // of changes of found
}

// target is what is asked for.
type target struct{ provider, host, model string }

// priced is what was found of it: the price that the operator gives, and that which
// ships with the gateway.
type priced struct{ given, shipped *Price }

// NewTable returns a table of the prices that ship with the gateway and of given, by
// MODEL or PROVIDER/MODEL, which win.
func NewTable(given map[string]*Price) *Table { return &Table{given: given, shipped: true} }

// WithoutShipped returns a table of the prices that are given alone.
func (t *Table) WithoutShipped() *Table { return &Table{given: t.given} }

// Check reports whether a provider's model has a price, by the name that it is given by
// or else from those that ship, and whether these are for the host, so that they should
// have the model.
func (t *Table) Check(provider, host, model string) (given string, found, shipped bool) {
	given, _ = t.giving(provider, model)
	return given, t.Find(provider, host, model) != nil, t.shipped && Public(host)
}

// Find returns the price of a provider's model, nil where it is not known. The provider
// has the name that definitions use, and calls the host, with its port; empty: none. The
// model is the one of the definitions, or the one that the provider says it used.
//
// Prices that are given win. Those that ship count for the hosts of public providers
// alone, by the host: a model costs another price at another provider, and what a
// private host serves costs what its operator says. A model that has no price by its whole
// name, given or shipped, has that of its name without date and version, as at Shipped.
func (t *Table) Find(provider, host, model string) *Price {
	p := t.find(target{provider, host, model})
	if p.given != nil {
		return p.given
	}
	return p.shipped
}

// FindServed is Find for an answer that served gave, as its provider says, where model
// was asked for: what is known of the one that served counts before that of the other,
// of given prices and of shipped ones. An alias, a router or a deployment has the price
// of the model behind it so. Where the provider does not say, served is empty.
func (t *Table) FindServed(provider, host, served, model string) *Price {
	if served == "" || served == model {
		return t.Find(provider, host, model)
	}
	s, m := t.find(target{provider, host, served}), t.find(target{provider, host, model})
	for _, p := range [...]*Price{s.given, m.given, s.shipped} {
		if p != nil {
			return p
		}
	}
	return m.shipped
}

// giving returns the price that is given for a provider's model, with the name that it is
// given by: the model's, or that without what tells its versions apart.
func (t *Table) giving(provider, model string) (name string, p *Price) {
	if len(t.given) == 0 {
		return "", nil
	}
	for model := range versions(model) {
		for _, name := range [...]string{provider + "/" + model, model} {
			if p := t.given[name]; p != nil {
				return name, p
			}
		}
	}
	return "", nil
}

// find looks for a target, and remembers what it found.
func (t *Table) find(what target) priced {
	known := t.found.Load()
	if known != nil {
		if p, ok := (*known)[what]; ok {
			return p
		}
	}
	var p priced
	_, p.given = t.giving(what.provider, what.model)
	if t.shipped {
		p.shipped = Shipped(what.host, what.model)
	}
	t.lock.Lock()
	defer t.lock.Unlock()
	next := make(map[target]priced)
	if known = t.found.Load(); known != nil {
		if len(*known) >= maxFound {
			return p
		}
		maps.Copy(next, *known)
	}
	// The names may be parts of the buffer of an answer.
	next[target{strings.Clone(what.provider), strings.Clone(what.host), strings.Clone(what.model)}] = p
	t.found.Store(&next)
	return p
}
