package definition

import (
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/valyala/fastjson"
)

// Prompt is a set of variants, of which a table picks one by the context. It is
// immutable and safe for concurrent use.
type Prompt struct {
	Definition
	vars      *prompt.Variables
	variants  []*Variant
	byOutcome []*Variant
	fallback  *Variant // the variant if no row matches
	texts     int      // bytes of the texts that the variables read of remote configurations
}

// Select picks the variant for a context.
func (p *Prompt) Select(b *rules.Binding) (*Variant, rules.Decision) {
	d := p.table.Evaluate(b)
	return p.Variant(d), d
}

// Variant returns the variant of a decision of Table.
func (p *Prompt) Variant(d rules.Decision) *Variant {
	if d.Outcome < 0 {
		return p.fallback
	}
	return p.byOutcome[d.Outcome]
}

// Variants returns all variants in the order of the file. The list must not be
// changed.
func (p *Prompt) Variants() []*Variant { return p.variants }

// Variables returns the declared variables.
func (p *Prompt) Variables() *prompt.Variables { return p.vars }

// Bind binds the variables of a request for a variant. vars must be nil, null or an
// object. What the variant takes from remote configurations is that for the context
// that is bound to b. See [prompt.Variables.Bind].
func (p *Prompt) Bind(v *Variant, vars *fastjson.Value, b *rules.Binding, values *prompt.Values) error {
	return p.vars.Bind(vars, b, &v.answer, values)
}

// size returns the length in bytes of the content, and of the texts that the
// variables read of remote configurations.
func (p *Prompt) size() int { return p.Definition.size() + p.texts }

// promptMembers are the members of a prompt except its table and commonMembers.
var promptMembers = []string{"default", "variables", "variants"}

func decodePrompt(l *loader, d *doc, errs *document.Errors) *Prompt {
	p := &Prompt{Definition: d.common(errs)}
	p.prompt = p
	p.decodeRecord(errs)
	known := slices.Concat(promptMembers, recordMembers, rules.TableMembers, commonMembers)
	single := d.node.Get("variants") == nil
	if single {
		known = append(known, variantMembers...)
	}
	mistakes := errs.Len()
	d.node.CheckMembers(errs, "a prompt", known...)
	misspelt := errs.Len() > mistakes

	mistakes = errs.Len()
	p.vars = prompt.DecodeVariables(d.node.Get("variables"), func(n *document.Node, errs *document.Errors) *prompt.Configured {
		return l.configured(d, n, errs)
	}, errs)
	p.texts = d.texts
	if errs.Len() == mistakes {
		p.warnOpen(l)
		l.warnDefaults(d.node.Get("variables"))
	}
	mistakes = errs.Len()
	var set variantSet
	if single {
		set = decodeSingleVariant(p, d, misspelt, errs)
	} else {
		set = decodeVariants(p, d.node.Get("variants"), errs)
	}
	p.variants = set.list
	// A placeholder with a mistake may be the use of a variable.
	if errs.Len() == mistakes {
		p.unused(l, set)
	}
	p.warnOtherBraces(l, set)
	if p.fallback = set.findDefault(d.node, errs); p.fallback == nil {
		p.fallback = &Variant{}
	}

	p.table = l.table(d, errs)
	for _, value := range p.table.Outcomes() {
		p.byOutcome = append(p.byOutcome, set.find(value, errs))
	}
	p.answer = func(d rules.Decision) []byte { return []byte(quoted(p.Variant(d).Key)) }
	p.same = func(a, b int) bool { return p.byOutcome[a] == p.byOutcome[b] }
	p.sealPrompt(d, set)
	return p
}

// warnOpen warns of variables that a request need not supply and that have no default.
func (p *Prompt) warnOpen(l *loader) {
	p.vars.Open(func(name string, declared *document.Node) {
		l.warnAt("open-variable", declared, "the variable %s is neither required nor has a default: not supplied, it is the empty string", name)
	})
}

// unused warns of declared variables that no message reads.
func (p *Prompt) unused(l *loader, set variantSet) {
	used := make(map[string]bool)
	for _, v := range set.list {
		for i := range v.messages {
			v.messages[i].eachVariable(p.vars, func(name string) { used[name] = true })
		}
	}
	p.vars.All(func(name string, declared *document.Node) {
		if !used[name] {
			l.warnAt("unused-variable", declared, "no message uses the variable %s", name)
		}
	})
}

// sealPrompt gives the prompt its content and version.
func (p *Prompt) sealPrompt(d *doc, set variantSet) {
	variants := make(content, len(set.list))
	for _, v := range set.list {
		variants[v.Key] = v.content()
	}
	vars := make(content)
	p.vars.All(func(name string, _ *document.Node) {
		c := content{}
		if p.vars.Required(name) {
			c["required"] = true
		}
		if text, ok := p.vars.Default(name); ok {
			c["default"] = text
		}
		if from := p.vars.Configured(name); from != nil {
			if c["config"] = from.Key; from.Path != "" {
				c["path"] = from.Path
			}
		}
		vars[name] = c
	})
	c := content{"default": p.fallback.Key, "variants": variants, "variables": vars}
	c.members(d.node, rules.TableMembers...)
	p.seal(c)
}
