package inspect

import (
	"encoding/json"
	"slices"

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
	places  [2]place            // by table
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
	for i, d := range a.decisions {
		if d.Reason == rules.Split {
			a.places[i] = place{s.rowOf(i, d), s.tables[i].Salt(d.Row), s.tables[i].Arm(d)}
		}
	}
	first := a.decisions[0]
	a.Reason, a.Row, a.Arm = first.Reason.String(), s.rowOf(0, first), s.tables[0].Arm(first)
	if s.config != nil {
		a.value, a.shown = s.valueOf(first), string(s.config.Value(first))
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

// place is the split that gave an arm, and the arm, each without a value where none did.
type place struct{ row, salt, arm string }

// at returns the arm if the split of a row gave it.
func (p place) at(row string) string {
	if p.row == row {
		return p.arm
	}
	return ""
}

// fatesOf compares, for each split of a trace, the arms that it gives the unit.
func fatesOf(d *replayed, base, next answers, t *Traced) []unitFate {
	fates := make([]unitFate, len(t.Splits))
	for j := range t.Splits {
		s, i := &t.Splits[j].Experiment, d.tableOf(&t.Splits[j])
		if i < 0 {
			continue
		}
		differs := func(of []answer) bool {
			return slices.ContainsFunc(of, func(a answer) bool { return a.places[i].at(s.Rule) != of[0].places[i].at(s.Rule) })
		}
		was, is := base.list[0], next.list[0]
		from, to, other := was.places[i].at(s.Rule), is.places[i].at(s.Rule), is.places[i]
		switch {
		case differs(base.list) || differs(next.list):
			fates[j] = unitUndecided
		case from == to || was.gone+is.gone != "":
		case from == "":
			fates[j] = unitJoined
		case to == "" && other.salt == s.Salt && other.arm == from: // the split has another id
		case to == "" && other.row == "":
			fates[j] = unitLeft
		default:
			fates[j] = unitMoved
		}
	}
	return fates
}

// tableOf returns which of the definition's own tables has a split, or -1.
func (d *replayed) tableOf(s *TracedSplit) int {
	return slices.IndexFunc(d.tables(), func(t *rules.Table) bool { return t.Name() == s.Experiment.Definition })
}
