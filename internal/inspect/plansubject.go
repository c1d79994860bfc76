package inspect

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/rules"
)

// subject is a definition that answers.
type subject struct {
	d        *definition.Definition
	config   *definition.RemoteConfig
	prompt   *definition.Prompt
	endpoint *definition.Endpoint
	tables   []*rules.Table // the one that picks the answer, and an endpoint's own
	values   map[int]string // of a configuration, in one form, by outcome
	contents []contents     // of the prompt, and the endpoint
}

// contents is the content of a definition without its table: of each variant, and the rest.
type contents struct {
	common   string
	variants map[string]json.RawMessage
}

// answer is an answer that a set of definitions gives.
type answer struct {
	decisions []rules.Decision // of the tables
	at        []int            // their places among the possible ones
	Decided
	value   string              // what the caller has
	content string              // of the variants
	shown   string              // the value as JSON
	gone    string              // why there is no answer
	arms    [2]string           // of the tables that divided units
	targets []definition.Target // that are tried first
}

// subject returns the subject of a definition, nil for nil.
func (p *Planner) subject(s *definition.Snapshot, d *definition.Definition) *subject {
	if d == nil {
		return nil
	}
	if found := p.subjects[d]; found != nil {
		return found
	}
	sub := &subject{d: d, prompt: d.Rendered()}
	switch d.Kind {
	case kind.RemoteConfig:
		sub.config, sub.values = s.RemoteConfigs[d.Key], make(map[int]string)
		sub.tables = []*rules.Table{d.Table()}
	case kind.Endpoint:
		sub.endpoint = s.Endpoints[d.Key]
		sub.tables = []*rules.Table{sub.prompt.Table()}
		if own := d.Table(); own != nil {
			sub.tables = append(sub.tables, own)
		}
		sub.contents = []contents{contentsOf(sub.prompt.Content()), contentsOf(d.Content())}
	default:
		sub.tables = []*rules.Table{d.Table()}
		sub.contents = []contents{contentsOf(d.Content())}
	}
	p.subjects[d] = sub
	return sub
}

func contentsOf(content []byte) contents {
	var c contents
	var members map[string]json.RawMessage
	if json.Unmarshal(content, &members) != nil {
		return c
	}
	_ = json.Unmarshal(members["variants"], &c.variants)
	for _, name := range append([]string{"variants", "default"}, rules.TableMembers...) {
		delete(members, name)
	}
	common, _ := json.Marshal(members)
	c.common = string(common)
	return c
}

// complete works out the answer of decisions. named is the variant that the caller named.
func (s *subject) complete(a *answer, named string) {
	first := a.decisions[0]
	a.Reason, a.Row, a.Arm = first.Reason.String(), s.rowOf(0, first), s.tables[0].Arm(first)
	if s.config != nil {
		a.value, a.shown = s.valueOf(first), string(s.config.Value(first))
		if first.Reason == rules.Split {
			a.arms[0] = armName(a)
		}
		return
	}
	v := s.prompt.Variant(first)
	if named != "" {
		i := slices.IndexFunc(s.prompt.Variants(), func(v *definition.Variant) bool { return v.Key == named })
		if i < 0 {
			a.value, a.gone = "removed", "the prompt has no variant "+named
			return
		}
		v = s.prompt.Variants()[i]
	}
	var how *definition.Policy
	if s.endpoint != nil {
		how = s.endpoint.Default()
		if len(s.tables) > 1 {
			how, a.EndpointRow = s.endpoint.Policy(a.decisions[1]), s.rowOf(1, a.decisions[1])
		}
		a.EndpointVariant = how.Key
	}
	a.Arm, a.targets = v.Key, targetsOf(v, how)
	a.value, a.shown = a.Arm+"\x00"+a.EndpointVariant, quoteJSON(a.Arm)
	for i, variant := range []string{a.Arm, a.EndpointVariant}[:len(s.contents)] {
		a.content += s.contents[i].common + string(s.contents[i].variants[variant]) + "\x00"
		if i < len(a.decisions) && a.decisions[i].Reason == rules.Split {
			a.arms[i] = variant
		}
	}
}

// rowOf returns the id of the row that decided, empty for the default.
func (s *subject) rowOf(table int, d rules.Decision) string {
	if d.Row < 0 {
		return ""
	}
	return s.tables[table].Rows()[d.Row].ID
}

// valueOf returns the value of a decision in one form: 1.0 is 1.
func (s *subject) valueOf(d rules.Decision) string {
	if text, ok := s.values[d.Outcome]; ok {
		return text
	}
	text := string(s.config.Value(d))
	var v any
	if json.Unmarshal([]byte(text), &v) == nil {
		raw, _ := json.Marshal(v)
		text = string(raw)
	}
	s.values[d.Outcome] = text
	return text
}

// recorded returns the answer that a trace recorded.
func (p *Planner) recorded(s *subject, t *Traced) (a answer, ok bool) {
	named := namedVariant(t)
	for i, recorded := range [][2]string{{t.Row, t.Arm}, {t.EndpointRow, t.EndpointVariant}}[:len(s.tables)] {
		row := p.row(s.tables[i], recorded[0])
		d, ok := s.tables[i].Decided(row, recorded[1])
		if row < 0 && recorded[0] != "" || !ok && (i > 0 || named == "") {
			return a, false
		}
		a.decisions = append(a.decisions, d)
	}
	s.complete(&a, named)
	return a, s.config != nil || a.Arm == t.Arm && a.EndpointVariant == t.EndpointVariant
}

// unitFate is what becomes of a unit of a split.
type unitFate uint8

const (
	unitMoved     unitFate = 1 << iota // from one arm to another
	unitLeft                           // from an arm to rows that divide nothing
	unitJoined                         // from those to an arm
	unitUndecided                      // it can't be told
)

// fatesOf compares the arms in which each table puts the unit.
func fatesOf(base, next answers) (fates [2]unitFate) {
	was, is := base.list[0], next.list[0]
	for i := range fates {
		differs := func(of []answer) bool {
			return slices.ContainsFunc(of, func(a answer) bool { return a.arms[i] != of[0].arms[i] })
		}
		switch from, to := was.arms[i], is.arms[i]; {
		case differs(base.list) || differs(next.list):
			fates[i] = unitUndecided
		case from == to || was.gone+is.gone != "":
		case to == "":
			fates[i] = unitLeft
		case from == "":
			fates[i] = unitJoined
		default:
			fates[i] = unitMoved
		}
	}
	return fates
}

// armName returns the name of an arm, or its value where it has a number for a name.
func armName(a *answer) string {
	if strings.Trim(a.Arm, "0123456789") == "" {
		return cmp.Or(a.shown, a.Arm)
	}
	return a.Arm
}

// unitOf returns the split by which a row of a table put the unit in an arm, or else the
// last of the table that passed the unit on.
func unitOf(t *Traced, table *rules.Table, row string) (found *TracedSplit) {
	for i := range t.Splits {
		s := &t.Splits[i]
		if s.Experiment.Definition != table.Name() || !s.WasConsulted() {
			continue
		}
		if found = s; s.Experiment.Rule == row {
			return s
		}
	}
	return found
}
