package definition

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/cadenza-gateway/cadenza/providers"
)

// Variant is one wording of a prompt with its model and parameters. It is immutable
// and safe for concurrent use.
type Variant struct {
	Key string
	// Name is the variant's own name, or its key if it has none.
	Name       string
	Provider   string // empty where the prompt doesn't say
	Model      string // empty where the prompt doesn't say
	Parameters providers.Parameters
	// Extra are raw parameters for the provider. It must not be changed.
	Extra map[string]json.RawMessage

	messages     []message
	takesHistory bool // one of them is the place for the caller's
	hasParts     bool // one of them has parts
	answer       prompt.Answer
	origin       origin
}

// target returns the target that the variant names.
func (v *Variant) target() Target {
	return Target{v.Provider, v.Model, v.Parameters, v.Extra, v.origin}
}

// AppendJSON appends the prompt as the API answers with it: name, messages, provider,
// model and the parameters that are set. values must be bound to the prompt's
// variables. The error is that of Size.
func (v *Variant) AppendJSON(dst []byte, values *prompt.Values) ([]byte, error) {
	size, err := v.Size(values)
	if err != nil {
		return dst, err
	}
	return v.answer.Append(slices.Grow(dst, size), values), nil
}

// Size returns how many bytes AppendJSON appends, without rendering the messages; with
// parts of messages, at most so many. The error is a *prompt.TooLargeError or a
// *prompt.InvalidError.
func (v *Variant) Size(values *prompt.Values) (int, error) {
	if err := v.checkText(values); err != nil {
		return 0, err
	}
	if v.hasParts {
		for i := range v.messages {
			for j := range v.messages[i].parts {
				if err := v.messages[i].parts[j].check(values); err != nil {
					return 0, err
				}
			}
		}
	}
	return v.answer.Size(values), nil
}

// checkText checks how large the messages are. The error is a
// *prompt.TooLargeError.
func (v *Variant) checkText(values *prompt.Values) error {
	if size := v.answer.TextSize(values); size > prompt.MaxRendered {
		return &prompt.TooLargeError{Size: size}
	}
	if !v.hasParts {
		return nil
	}
	if size := v.answer.MediaSize(values); size > prompt.MaxMedia {
		return &prompt.TooLargeError{Size: size, Media: true}
	}
	return nil
}

// variantSet holds a prompt's variants while it is decoded.
type variantSet = variantsOf[Variant]

// variantMembers are the members of a variant written at the top of a prompt;
// one of several can also extend another.
var variantMembers = slices.Concat([]string{"name", "provider", "model", "messages", "extra"}, parameterNames)

// decodeSingleVariant reads a prompt without variants, which is its own only
// variant. misspelt reports whether it has an unknown member, which may be the one
// that is missing.
func decodeSingleVariant(p *Prompt, d *doc, misspelt bool, errs *document.Errors) variantSet {
	v := &Variant{Key: p.Key, origin: origin{pos: d.node.Pos}}
	v.decode(d.node, p.vars, errs)
	if d.node.Get("messages") == nil && !misspelt {
		errs.Add(d.node, "messages are missing: a prompt has variants, or messages of its own")
	}
	v.origin.broken = errs.Len() > 0 // errs is for this prompt alone
	v.finish()
	return variantSet{[]*Variant{v}, map[string]*Variant{v.Key: v}}
}

func decodeVariants(p *Prompt, n *document.Node, errs *document.Errors) variantSet {
	set := variantSet{byKey: make(map[string]*Variant)}
	r := newInheritance[Variant](n, func(v *document.Node) bool {
		return v.CheckMembers(errs, "a variant", append([]string{"extends", "description"}, variantMembers...)...)
	}, errs)
	if r == nil {
		return set
	}
	r.decode = func(key string, n *document.Node, base *Variant, sound bool) *Variant {
		v := &Variant{}
		if base != nil {
			*v = *base
			v.Extra = maps.Clone(base.Extra)
		}
		v.Key, v.Name, v.origin.pos = key, "", n.Pos
		before := errs.Len()
		v.decode(n, p.vars, errs)
		v.origin.broken = v.origin.broken || !sound || errs.Len() > before
		return v
	}
	size := 0
	for _, m := range n.Members {
		v := r.variant(m.Key.Text)
		if v != nil && size <= MaxContent {
			if size += v.size(); size > MaxContent {
				errs.Add(m.Key, "the variants have more than %d MiB together, with what they inherit", MaxContent>>20)
			}
		}
		if v == nil || size > MaxContent {
			v = &Variant{Key: m.Key.Text, Name: m.Key.Text, origin: origin{broken: true}}
		} else if n := r.nodes[m.Key.Text]; n.Get("messages") == nil && n.Get("extends") == nil {
			errs.Add(m.Key, "the variant %s has no messages, and extends none to inherit them from", v.Key)
			v.origin.broken = true
		}
		v.finish()
		set.list = append(set.list, v)
		set.byKey[v.Key] = v
	}
	return set
}

// decode reads a variant's own members over the inherited ones.
func (v *Variant) decode(n *document.Node, vars *prompt.Variables, errs *document.Errors) {
	if m := n.Get("name"); m != nil {
		v.Name, _ = m.ReadString(errs, "name")
	}
	if m := n.Get("provider"); m != nil {
		v.Provider, _ = m.ReadName(errs, "provider")
		v.origin.provider = m.Pos
	}
	if m := n.Get("model"); m != nil {
		v.Model, _ = m.ReadName(errs, "model")
		v.origin.model = m.Pos
	}
	decodeParameters(n, &v.Parameters, errs)
	v.checkToolChoice(n, errs)
	v.Extra = decodeExtra(n.Get("extra"), v.Extra, &v.origin, errs)
	if m := n.Get("messages"); m != nil {
		v.messages = decodeMessages(m, vars, errs)
	}
}

// checkToolChoice checks the tool choice against the tools, inherited or not.
func (v *Variant) checkToolChoice(n *document.Node, errs *document.Errors) {
	at := cmp.Or(n.Get("tool_choice"), n.Get("toolChoice"))
	if at == nil {
		if n.Get("tools") == nil {
			return // reported with the variant that it is inherited from
		}
		if at = n.Get("tools"); len(v.Parameters.Tools) == 0 {
			v.Parameters.ToolChoice = nil // it means nothing without tools
		}
	}
	if problem := mischosen(&v.Parameters); problem != "" {
		errs.Add(at, "tool_choice: %s", problem)
	}
}

// finish compiles the answer once all members are read.
func (v *Variant) finish() {
	if v.Name == "" {
		v.Name = v.Key
	}
	// An empty list has removed the inherited ones.
	if len(v.Parameters.Stop) == 0 {
		v.Parameters.Stop = nil
	}
	if len(v.Parameters.Tools) == 0 {
		v.Parameters.Tools = nil
	}
	var a prompt.Answer
	a.Literal(`{"name":` + quoted(v.Name) + `,"messages":[`)
	v.takesHistory = slices.ContainsFunc(v.messages, func(m message) bool { return m.history != nil })
	v.hasParts = slices.ContainsFunc(v.messages, func(m message) bool { return m.parts != nil })
	v.answerMessages(&a)
	a.Literal("]")
	if v.Provider != "" {
		a.Literal(`,"provider":` + quoted(v.Provider))
	}
	if v.Model != "" {
		a.Literal(`,"model":` + quoted(v.Model))
	}
	eachParameter(&v.Parameters, func(name, value string) {
		a.Literal(`,"` + name + `":` + value)
	})
	a.Literal("}")
	v.answer = a
}

// size estimates the bytes of the variant with all that it inherits.
func (v *Variant) size() int {
	t := v.target()
	size := t.size()
	for i := range v.messages {
		size += v.messages[i].size()
	}
	return size
}

// quoted returns a JSON string.
func quoted(s string) string {
	return string(jsontext.AppendString(nil, s))
}

// content returns the variant with all that it inherited.
func (v *Variant) content() content {
	messages := make([]any, len(v.messages))
	for i := range v.messages {
		messages[i] = v.messages[i].content()
	}
	c := v.target().content()
	c["name"], c["messages"] = v.Name, messages
	return c
}
