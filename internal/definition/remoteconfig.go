package definition

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/rules"
)

// RemoteConfig is a value that a table picks by the context. It is immutable and
// safe for concurrent use.
type RemoteConfig struct {
	Definition
	fallback []byte   // the value where no row matches
	values   [][]byte // by outcome
	byValue  func() map[string][]int
}

// Evaluate picks the value for a context: compact JSON of the declared type,
// which must not be changed.
func (c *RemoteConfig) Evaluate(b *rules.Binding) ([]byte, rules.Decision) {
	d := c.table.Evaluate(b)
	return c.Value(d), d
}

// Value returns the value of a decision of Table as compact JSON, which must not be
// changed.
func (c *RemoteConfig) Value(d rules.Decision) []byte {
	if d.Outcome < 0 {
		return c.fallback
	}
	return c.values[d.Outcome]
}

// indexValues builds the index for outcomesOf.
func (c *RemoteConfig) indexValues() {
	c.byValue = sync.OnceValue(func() map[string][]int {
		outcomes := make(map[string][]int)
		for i, v := range c.values {
			if key, ok := valueKey(v); ok {
				outcomes[key] = append(outcomes[key], i)
			}
		}
		return outcomes
	})
}

// outcomesOf returns the outcomes of the table that have the value.
func (c *RemoteConfig) outcomesOf(value []byte) []int {
	key, ok := valueKey(value)
	if !ok {
		return nil
	}
	return c.byValue()[key]
}

// valueKey returns a key that is equal for values that sameJSON finds equal.
func valueKey(value []byte) (string, bool) {
	var v any
	if json.Unmarshal(value, &v) != nil {
		return "", false
	}
	return string(canonicalJSON(v)), true
}

// Default returns the value for a context that no row matches.
func (c *RemoteConfig) Default() []byte { return c.fallback }

// The types of a remote configuration's value.
const (
	typeBoolean = "boolean"
	typeString  = "string"
	typeNumber  = "number"
	typeList    = "list"
	typeObject  = "object"
)

// configMembers are the members of a remote configuration except its table and
// commonMembers.
var configMembers = []string{"type", "default", "merge", "schema", "client"}

func decodeRemoteConfig(l *loader, d *doc, errs *document.Errors) *RemoteConfig {
	c := &RemoteConfig{Definition: d.common(errs)}
	c.decodeRecord(errs)
	mistakes := errs.Len()
	d.node.CheckMembers(errs, "a remote configuration", slices.Concat(configMembers, recordMembers, rules.TableMembers, commonMembers)...)
	misspelt := errs.Len() > mistakes // an unknown member may be the one that is missing
	if n := d.node.Get("type"); n == nil && !misspelt {
		errs.Add(d.node, "type is missing: one of boolean, string, number, list, object")
	} else if n != nil {
		c.typ, _ = n.ReadWord(errs, "type", typeBoolean, typeString, typeNumber, typeList, typeObject)
	}
	v := valueReader{typ: c.typ, schema: compileSchema(d.node.Get("schema"), l.stopped, errs)}
	def := d.node.Get("default")
	if def == nil && !misspelt {
		errs.Add(d.node, "default is missing: the value that answers when no row does")
	} else if def != nil {
		c.fallback = v.read(def, "default", errs)
		l.warnHidden(def)
	}
	if n := d.node.Get("merge"); !n.IsNull() {
		n.ReadWord(errs, "merge", "default")
		if c.typ != "" && c.typ != typeObject {
			errs.Add(n, "merge needs type: object, this is type: %s", c.typ)
		} else if def != nil && def.Shape == document.Mapping {
			v.merge = def
		}
	}
	if n := d.node.Get("client"); !n.IsNull() {
		c.client, _ = n.ReadBool(errs, "client")
	}
	c.table = l.table(d, errs)
	size := 0
	for _, n := range c.table.Outcomes() {
		var value []byte
		if size <= MaxContent && !l.stopped() {
			value = v.read(n, "value", errs)
			l.warnHidden(n)
			if size += len(value); size > MaxContent {
				errs.Add(n, "the values have more than %d MiB together, with what is theirs by merge", MaxContent>>20)
			}
		}
		c.values = append(c.values, value)
	}
	c.indexValues()
	c.answer = c.Value
	c.same = func(a, b int) bool { return sameJSON(c.values[a], c.values[b]) }
	c.sealRemoteConfig(d)
	return c
}

// sealRemoteConfig gives the configuration its content and version.
func (c *RemoteConfig) sealRemoteConfig(d *doc) {
	k := content{"type": c.typ}
	if c.fallback != nil {
		k["default"] = freeValue(c.fallback)
	}
	if n := d.node.Get("schema"); !n.IsNull() {
		k["schema"] = freeValue(n.AppendJSON(nil, new(document.Errors)))
	}
	if c.client {
		k["client"] = true
	}
	k.members(d.node, append([]string{"merge"}, rules.TableMembers...)...)
	c.seal(k)
}

// warnHidden warns of text in a value that has a character which can't be seen. Quotes
// say that it is meant.
func (l *loader) warnHidden(n *document.Node) {
	if what := document.Hidden(n.Text); what != "" && !n.Quoted {
		l.warnAt("hidden-character", n, "%q has %s in it: delete it, or quote the value if it is meant", n.Text, what)
	}
	for _, item := range n.Items {
		l.warnHidden(item)
	}
	for _, m := range n.Members {
		l.warnHidden(m.Value)
	}
}

// valueReader reads the values of one configuration.
type valueReader struct {
	typ    string // empty when it is not known
	schema *valueSchema
	merge  *document.Node // the default that values are patches of, or nil
}

// read checks a value and returns it as JSON, or nil after it has reported why the
// value is not valid.
func (v *valueReader) read(n *document.Node, what string, errs *document.Errors) []byte {
	before := errs.Len()
	if !v.fits(n, what, errs) {
		return nil
	}
	if v.merge != nil && what != "default" {
		n = mergePatch(v.merge, n)
	}
	var raw []byte
	if v.typ == typeString {
		raw = []byte(quoted(n.Text))
	} else {
		raw = n.AppendJSON(nil, errs)
	}
	if errs.Len() > before {
		return nil
	}
	v.schema.check(n, raw, errs)
	return raw
}

// fits checks a value's type. Text needs no quotes where text is declared.
func (v *valueReader) fits(n *document.Node, what string, errs *document.Errors) bool {
	var ok bool
	switch v.typ {
	case typeBoolean:
		_, ok = n.ReadBool(errs, what)
		return ok
	case typeNumber:
		if ok = n.Shape == document.Scalar && !n.Quoted; ok {
			var wrong document.Errors
			raw := n.AppendJSON(nil, &wrong)
			if wrong.Len() > 0 {
				errs.Merge(&wrong)
				return false
			}
			ok = raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9'
		}
	case typeString:
		ok = n.Shape == document.Scalar && !n.IsNull() && (n.Quoted || !n.JSON)
	case typeList:
		ok = n.Shape == document.Sequence
	case typeObject:
		ok = n.Shape == document.Mapping
	default:
		return false // the type itself is wrong
	}
	if !ok {
		errs.Add(n, "%s must be of type %s, this is %s%s", what, v.typ, n.Describe(), v.hint(n))
	}
	return ok
}

// hint returns the end of the message about a value that is not of the type: how to
// write what is meant, or "".
func (v *valueReader) hint(n *document.Node) string {
	switch {
	case n.Shape != document.Scalar:
	case v.typ == typeList && strings.HasPrefix(n.Text, "["), v.typ == typeObject && strings.HasPrefix(n.Text, "{"):
		return ": leave the quotes out"
	case v.typ == typeNumber:
		return n.QuotesHint()
	case v.typ == typeList && strings.HasPrefix(n.Text, "-"):
		return ": an item begins with a dash and a space"
	}
	return ""
}

// mergePatch applies a JSON merge patch (RFC 7396, section 2).
func mergePatch(target, patch *document.Node) *document.Node {
	if patch.Shape != document.Mapping {
		return patch
	}
	out := &document.Node{Shape: document.Mapping, Pos: patch.Pos}
	if target != nil && target.Shape == document.Mapping {
		for _, m := range target.Members {
			p := patch.Get(m.Key.Text)
			switch {
			case p == nil:
				out.Members = append(out.Members, m)
			case !p.IsNull():
				out.Members = append(out.Members, document.Member{Key: m.Key, Value: mergePatch(m.Value, p)})
			}
		}
	}
	for _, m := range patch.Members {
		if target.Get(m.Key.Text) == nil && !m.Value.IsNull() {
			out.Members = append(out.Members, document.Member{Key: m.Key, Value: mergePatch(nil, m.Value)})
		}
	}
	return out
}
