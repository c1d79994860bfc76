package experiment

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Difference is that of an experiment between two sets of definitions.
type Difference struct {
	Name          string
	Before, After *Plan    // nil where there is none
	Edits         []string // of Edits, where there are both
	// OfSplit reports whether the experiment was not edited itself, but the split that it
	// reads.
	OfSplit bool
}

// Differences returns what differs between the experiments of two sets, by their names.
func Differences(before, after []Plan) []Difference {
	byName := make(map[string]*Difference)
	of := func(name string) *Difference {
		if byName[name] == nil {
			byName[name] = &Difference{Name: name}
		}
		return byName[name]
	}
	for i := range before {
		of(before[i].Name).Before = &before[i]
	}
	for i := range after {
		of(after[i].Name).After = &after[i]
	}
	var list []Difference
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		d := byName[name]
		if d.Before != nil && d.After != nil {
			if d.Edits = Edits(d.Before, d.After); len(d.Edits) == 0 {
				continue
			}
			d.OfSplit = !slices.ContainsFunc(d.Edits, func(edit string) bool {
				path, _, _ := strings.Cut(edit, ":")
				return !slices.Contains([]string{"arms", "salt", "unit"}, path)
			})
		}
		list = append(list, *d)
	}
	return list
}

// member is a member of an experiment's definition, as people read it.
type member struct{ path, value string }

// members returns the members of a plan in the order of the definition. One that is not
// given is empty.
func (p *Plan) members() []member {
	list := []member{
		{"on", p.On}, {"rule", p.Rule}, {"arms", strings.Join(p.Arms, ", ")}, {"salt", p.Salt}, {"control", p.Control},
		{"hypothesis", p.Hypothesis}, {"owner", p.Owner}, {"unit", p.Unit}, {"attribution", durationText(p.Attribution)},
		{"start", p.Start.UTC().Format(time.RFC3339Nano)}, {"end", p.End.UTC().Format(time.RFC3339Nano)},
	}
	for i := range p.Metrics {
		list = append(list, p.Metrics[i].members()...)
	}
	return list
}

// paths are where the metrics of a role are.
var paths = map[Role]string{Primary: "primary", Other: "others", Guardrail: "guardrails"}

func (m *Metric) members() []member {
	goal := "down"
	if m.Up {
		goal = "up"
	}
	list := []member{
		{"name", m.Name}, {"value", m.Value}, {"measure", string(m.Measure)}, {"as", string(m.As)},
		{"over", durationText(m.Over)}, {"goal", goal}, {"smallest", m.SmallestText()},
	}
	at := paths[m.Role]
	if m.Role != Primary {
		at, list = at+"."+m.Name, list[1:]
	}
	for i := range list {
		list[i].path = at + "." + list[i].path
	}
	return list
}

// SmallestText returns the smallest difference that matters as its definition has it, such as
// 0.02, or 10% of the control's number.
func (m *Metric) SmallestText() string {
	if m.Relative {
		// Of 0.07, 100 times as much is not 7.
		return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(m.Smallest*100, 'f', 9, 64), "0"), ".") + "%"
	}
	return strconv.FormatFloat(m.Smallest, 'f', -1, 64)
}

// durationText returns a duration as a definition has it: 7d, 1h30m. Of zero it is empty.
func durationText(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == 0:
		return ""
	case d%day == 0:
		return strconv.Itoa(int(d/day)) + "d"
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// Edits returns what differs between two plans of an experiment, such as
// "primary.goal: up -> down", in the order of the definition.
func Edits(before, after *Plan) []string {
	old, now := before.members(), after.members()
	valueOf := func(list []member, path string) string {
		i := slices.IndexFunc(list, func(m member) bool { return m.path == path })
		if i < 0 {
			return ""
		}
		return list[i].value
	}
	var edits []string
	for _, m := range now {
		if was := valueOf(old, m.path); was != m.value {
			edits = append(edits, m.path+": "+cmp.Or(was, "none")+" -> "+cmp.Or(m.value, "none"))
		}
	}
	for _, m := range old {
		if m.value != "" && !slices.ContainsFunc(now, func(n member) bool { return n.path == m.path }) {
			edits = append(edits, m.path+": "+m.value+" -> none")
		}
	}
	return edits
}
