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

// target is the key of a search.
type target struct{ provider, host, model string }

// priced is the result of a search: the price that the operator gives, and the
// shipped one.
type priced struct{ given, shipped *Price }

// NewTable returns a table of the prices that ship with the gateway and of given, by
// MODEL or PROVIDER/MODEL, which win.
func NewTable(given map[string]*Price) *Table { return &Table{given: given, shipped: true} }

// WithoutShipped returns a table of the prices that are given alone.
func (t *Table) WithoutShipped() *Table { return &Table{given: t.given} }

// Check reports whether a provider's model has a price: the name under which one is
// given, whether one was found, and whether shipped prices apply to the host, so that
// the model should be among them.
func (t *Table) Check(provider, host, model string) (given string, found, shipped bool) {
	given, _ = t.giving(provider, model)
	return given, t.Find(provider, host, model) != nil, t.shipped && Public(host)
}

// Find returns the price of a provider's model, or nil if it is unknown. provider is its
// name in definitions, and host the host that it calls, with its port, or empty. model is
// the definition's model, or the model that the provider reports.
//
// Given prices win. Shipped prices count for the hosts of public providers alone, by the
// host: a model costs another price at another provider, and the operator sets the prices
// of a private host. A model without a price for its whole name, given or shipped, has the
// price of its name without date and version, as at Shipped.
func (t *Table) Find(provider, host, model string) *Price {
	p := t.find(target{provider, host, model})
	if p.given != nil {
		return p.given
	}
	return p.shipped
}

// FindServed is Find for an answer whose provider reports that the model served gave
// it, while the model was asked for. A price of served wins over one of model, for
// given prices and for shipped ones. So an alias, a router or a deployment has the
// price of the model behind it. If the provider reports no model, served is empty.
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

// giving returns the price that is given for a provider's model, and the name under which
// it is given: the model's, or the model's without its version.
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

// find searches for a target, and caches the result.
func (t *Table) find(key target) priced {
	cached := t.found.Load()
	if cached != nil {
		if p, ok := (*cached)[key]; ok {
			return p
		}
	}
	var p priced
	_, p.given = t.giving(key.provider, key.model)
	if t.shipped {
		p.shipped = Shipped(key.host, key.model)
	}
	t.lock.Lock()
	defer t.lock.Unlock()
	next := make(map[target]priced)
	if cached = t.found.Load(); cached != nil {
		if len(*cached) >= maxFound {
			return p
		}
		maps.Copy(next, *cached)
	}
	// The names may be parts of the buffer of an answer.
	next[target{strings.Clone(key.provider), strings.Clone(key.host), strings.Clone(key.model)}] = p
	t.found.Store(&next)
	return p
}
