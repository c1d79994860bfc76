package gateway

import (
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/rules"
)

// bound holds the values of fields of the context that an API key is bound to.
type bound struct {
	fields []boundField
	latest atomic.Pointer[boundTo]
}

type boundField struct {
	name, value string
	at          document.Position // in the keys file
}

// boundTo is a bound in the types of one data model.
type boundTo struct {
	model *rules.Model
	held  rules.Held
	err   error // for the first field whose value the model refuses
}

// newBound returns the bound of a key of the configuration, or nil.
func newBound(context map[string]string) *bound {
	if len(context) == 0 {
		return nil
	}
	b := new(bound)
	for _, name := range slices.Sorted(maps.Keys(context)) {
		b.fields = append(b.fields, boundField{name: name, value: context[name]})
	}
	return b
}

// readBound reads the bound of a key of a keys file.
func readBound(n *document.Node, errs *document.Errors) *bound {
	if n.Shape != document.Mapping {
		errs.Add(n, "context must be an object of fields and their values, such as {\"environment\": \"production\"}")
		return nil
	}
	b := new(bound)
	for _, member := range n.Members {
		if v := member.Value; v.Shape != document.Scalar || v.IsNull() || v.Text == "" {
			errs.Add(v, "the field %q must have one value, this is %s", member.Key.Text, v.Describe())
			continue
		}
		b.fields = append(b.fields, boundField{member.Key.Text, member.Value.Text, member.Value.Pos})
	}
	if len(b.fields) == 0 {
		return nil
	}
	return b
}

// model returns the served data model, or nil as long as there is none.
func (w *Workspace) model() *rules.Model {
	if w.Source == nil {
		return nil
	}
	s := w.Source.Snapshot()
	if s == nil || s.Awaited {
		return nil
	}
	return s.Model
}

// checkBound returns an error if the served data model lacks a field of the bound, or
// refuses its value.
func (w *Workspace) checkBound(b *bound) error {
	model := w.model()
	if b == nil || model == nil {
		return nil
	}
	for _, f := range b.fields {
		if err := new(rules.Held).Hold(model, f.name, f.value); err != nil {
			return err
		}
	}
	return nil
}

// checkListed is checkBound for the keys of the keys file, with their places.
func (w *Workspace) checkListed(listed []fileKey) error {
	model := w.model()
	if model == nil {
		return nil
	}
	var errs document.Errors
	for _, key := range listed {
		if key.bound == nil {
			continue
		}
		for _, f := range key.bound.fields {
			if err := new(rules.Held).Hold(model, f.name, f.value); err != nil {
				at := f.at
				at.File = w.KeysFile
				errs.AddAt(at, "the key %q: %v", key.name, err)
			}
		}
	}
	return errs.Err()
}

// bind adds the key's values to a context, binds the context to the model, and returns it.
// If later definitions have no such field, tables can't read it either, so bind skips it.
// If they refuse the value, bind refuses the request: the key must stay bound.
func (b *bound) bind(m *rules.Model, to *rules.Binding, context *fastjson.Value, now time.Time) (*fastjson.Value, error) {
	latest := b.latest.Load()
	if latest == nil || latest.model != m {
		latest = &boundTo{model: m}
		for _, f := range b.fields {
			err := latest.held.Hold(m, f.name, f.value)
			if refused, ok := errors.AsType[*rules.BindError](err); ok && !refused.Unknown() && latest.err == nil {
				latest.err = err
			}
		}
		b.latest.Store(latest)
	}
	if latest.err != nil {
		return context, latest.err
	}
	return latest.held.Bind(m, to, context, now)
}
