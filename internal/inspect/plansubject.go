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
	value   string // what the caller has
	content string // of the variants
	shown   string // the value as JSON
	gone    string // why there is no answer
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
	a.Reason, a.Row = first.Reason.String(), ""
	if first.Row >= 0 {
		a.Row = s.tables[0].Rows()[first.Row].ID
	}
	if s.config != nil {
		a.Arm = s.tables[0].Arm(first)
		a.value, a.shown = s.valueOf(first), string(s.config.Value(first))
		return
	}
	a.Arm = s.prompt.Variant(first).Key
	if named != "" {
		a.Arm = named
		if !slices.ContainsFunc(s.prompt.Variants(), func(v *definition.Variant) bool { return v.Key == named }) {
			a.value, a.gone = "removed", "the prompt has no variant "+named
			return
		}
	}
	if s.endpoint != nil {
		how := s.endpoint.Default()
		if len(s.tables) > 1 {
			own := a.decisions[1]
			how = s.endpoint.Policy(own)
			if own.Row >= 0 {
				a.EndpointRow = s.tables[1].Rows()[own.Row].ID
			}
		}
		a.EndpointVariant = how.Key
	}
	s.finish(a)
}

// finish works out what the caller of a prompt or endpoint has.
func (s *subject) finish(a *answer) {
	a.value = a.Arm + "\x00" + a.EndpointVariant
	a.shown = quoteJSON(a.Arm)
	for i, variant := range []string{a.Arm, a.EndpointVariant}[:len(s.contents)] {
		a.content += s.contents[i].common + string(s.contents[i].variants[variant]) + "\x00"
	}
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
func (s *subject) recorded(t *Traced, row int) (a answer, ok bool) {
	a.Decided = t.Decided
	if s.config == nil {
		s.finish(&a)
		return a, true
	}
	d, ok := s.tables[0].Decided(row, t.Arm)
	if !ok || row < 0 && t.Row != "" {
		return a, false
	}
	a.value, a.shown = s.valueOf(d), string(s.config.Value(d))
	return a, true
}

// unitFate is what becomes of a unit of a split.
type unitFate uint8

const (
	unitMoved  unitFate = 1 << iota // from one arm to another
	unitLeft                        // from an arm to rows that divide nothing
	unitJoined                      // from those to an arm
)

// fateOf compares the arms of the split that decided.
func fateOf(d *replayed, t *Traced, base, next answers) unitFate {
	divides := func(a answer) bool { return a.Reason == rules.Split.String() }
	was, is := base.list[0], next.list[0]
	switch certain := len(base.list)+len(next.list) == 2 && was.gone+is.gone == ""; {
	case certain && divides(was) && divides(is) && armName(was) != armName(is):
		return unitMoved
	case certain && divides(was) && !divides(is):
		return unitLeft
	case certain && !divides(was) && divides(is) && deciding(t, d, "") != nil:
		return unitJoined
	}
	return 0
}

// armName returns the name of an arm, or its value where it has a number for a name.
func armName(a answer) string {
	if strings.Trim(a.Arm, "0123456789") == "" {
		return cmp.Or(a.shown, a.Arm)
	}
	return a.Arm
}

// deciding returns the split of a row of the definition's table, or of the last one that
// passed the unit on.
func deciding(t *Traced, d *replayed, row string) (found *TracedSplit) {
	for i := range t.Splits {
		s := &t.Splits[i]
		if s.Experiment.Definition == d.old.tables[0].Name() && (s.Experiment.Rule == row || row == "" && s.Arm == "") {
			found = s
		}
	}
	return found
}
