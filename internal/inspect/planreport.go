package inspect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/store/histogram"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// Plan is what new definitions would have answered to recorded decisions.
type Plan struct {
	// Old is the revision of the set that is compared, empty where that is the record. New is
	// that of the new set.
	Old   string    `json:"old,omitempty"`
	New   string    `json:"new"`
	From  time.Time `json:"from,omitzero"` // of the first decision
	Until time.Time `json:"until,omitzero"`
	// Decisions is how many were added. Counts has the weight of each.
	Decisions int64 `json:"decisions"`
	// Estimated reports that some stand for others that were only counted on them, so that
	// the counts are estimates of requests.
	Estimated bool `json:"estimated,omitempty"`
	PlanCounts
	// LeftOut is how many no definition decides: calls of the console's playground.
	LeftOut     int64             `json:"left_out,omitempty"`
	Definitions []*PlanDefinition `json:"definitions"`
	APIKeys     []PlanKey         `json:"api_keys"`
	Undecided   []PlanDoubt       `json:"not_decided"`
	Units       []PlanUnits       `json:"units"`
	Models      []PlanModel       `json:"models"`
	Days        []PlanDay         `json:"days"` // in UTC
	// Drift says how the days differ, if they do by more than a point and by more than
	// chance: then a forecast of the next one may be as wrong.
	Drift string `json:"drift,omitempty"`
	// UnitsAtLeast reports that there were more units than are counted.
	UnitsAtLeast bool `json:"units_at_least,omitempty"`
}

// PlanCounts counts decisions by what became of them.
type PlanCounts struct {
	Total int64 `json:"total"`
	Same  int64 `json:"same"`
	// Version is how many have the same variant with another content.
	Version    int64 `json:"version"`
	Changed    int64 `json:"changed"`
	NotDecided int64 `json:"undecided"`
	// The shares are parts of Total, as 1 is all.
	ChangedShare    float64 `json:"changed_share"`
	NotDecidedShare float64 `json:"undecided_share"`
}

func (c *PlanCounts) add(class planClass, weight int64) {
	c.Total += weight
	*[]*int64{&c.Same, &c.Version, &c.Changed, &c.NotDecided}[class] += weight
}

func (c *PlanCounts) share() {
	if c.Total > 0 {
		c.ChangedShare, c.NotDecidedShare = float64(c.Changed)/float64(c.Total), float64(c.NotDecided)/float64(c.Total)
	}
}

// PlanDefinition is the part of a plan on one definition, by the key that was recorded.
type PlanDefinition struct {
	Kind string `json:"kind"`
	Key  string `json:"key"`
	PlanCounts
	// Changes are the answers that become others, the most frequent first.
	Changes []*PlanChange `json:"changes"`

	changes map[string]*PlanChange
}

// PlanKey counts the decisions of an API key.
type PlanKey struct {
	APIKey string `json:"api_key"`
	PlanCounts
}

// PlanDay counts the decisions of a day.
type PlanDay struct {
	Day string `json:"day"`
	PlanCounts
}

// PlanChange is an answer that becomes another one.
type PlanChange struct {
	Old PlanSide `json:"old"`
	New PlanSide `json:"new"`
	// Version reports that the variant is the same and its content another one.
	Version bool `json:"version,omitempty"`
	// Others reports that these are the changes for which there was no room.
	Others    bool          `json:"others,omitempty"`
	Count     int64         `json:"count"`
	Share     float64       `json:"share"` // of the definition's decisions
	Witnesses []PlanWitness `json:"witnesses"`
}

// PlanSide is an answer.
type PlanSide struct {
	// Row is that of the table that picks the answer.
	Row string `json:"row,omitempty"`
	Arm string `json:"arm,omitempty"`
	// Value is the value of a configuration, or the variant of a prompt. It is empty if
	// several are possible, of which none is the recorded one.
	Value json.RawMessage `json:"value,omitempty"`
	// Begins is the beginning of a value that is longer than 256 bytes, in its place.
	Begins          string `json:"value_begins,omitempty"`
	EndpointRow     string `json:"endpoint_row,omitempty"`
	EndpointVariant string `json:"endpoint_variant,omitempty"`
	// Gone is why there is no answer.
	Gone string `json:"gone,omitempty"`
}

// String returns the answer with its row, as diff shows it.
func (s PlanSide) String() string {
	if s.Gone != "" {
		return s.Gone
	}
	row := s.Row
	if s.Arm != "" {
		row += ", arm " + s.Arm
	}
	text := cmp.Or(visible.Clip(cmp.Or(string(s.Value), s.Begins), 60), "another one") + " (" + row + ")"
	if s.EndpointVariant != "" {
		text += ", endpoint's " + cmp.Or(s.EndpointRow, "default") + ", variant " + s.EndpointVariant
	}
	return text
}

// PlanWitness is a decision that is answered otherwise.
type PlanWitness struct {
	TraceID string          `json:"trace_id"`
	Inputs  json.RawMessage `json:"inputs,omitempty"`
	// Listed are the inputs whose values the data model lists, the only ones that
	// Markdown shows.
	Listed map[string]json.RawMessage `json:"listed,omitempty"`
}

// PlanDoubt counts the decisions that can't be decided for one reason.
type PlanDoubt struct {
	// Field is the field whose value would tell, or empty.
	Field  string `json:"field,omitempty"`
	Reason string `json:"reason"`
	// Remedy is the setting with which later traces tell, or empty.
	Remedy string  `json:"remedy,omitempty"`
	Count  int64   `json:"count"`
	Share  float64 `json:"share"`
}

// PlanUnits counts units of a split, each once.
type PlanUnits struct {
	Definition string `json:"definition"`
	Row        string `json:"row"`
	// Units is how many were seen. Of these Moved go from one arm to another, Left from an
	// arm to rows that divide nothing, Joined from those to an arm, and of NotDecided it
	// can't be told.
	Units      int `json:"units"`
	Moved      int `json:"moved"`
	Left       int `json:"left"`
	Joined     int `json:"joined"`
	NotDecided int `json:"undecided"`
}

// The ceilings of a plan.
const (
	maxPlanChanges = 500       // of a definition that are told apart
	maxPlanUnits   = 1_000_000 // that are counted once each
	maxPlanDays    = 400
	maxPlanValue   = 256 // bytes of a value that are reported
)

// tally sums verdicts.
type tally struct {
	records, leftOut int64
	total            PlanCounts
	from, until      time.Time
	definitions      map[[2]string]*PlanDefinition
	apiKeys          map[string]*PlanCounts
	doubts           map[doubt]int64
	splits           map[[2]string]map[[16]byte]unitFate // by the beginnings of hashes, which have 16 characters
	units            int                                 // in splits
	full             bool                                // more units than maxPlanUnits
	days             map[int64]*PlanCounts
	estimated        bool
	models
}

func newTally() tally {
	return tally{definitions: make(map[[2]string]*PlanDefinition), apiKeys: make(map[string]*PlanCounts), doubts: make(map[doubt]int64),
		splits: make(map[[2]string]map[[16]byte]unitFate), days: make(map[int64]*PlanCounts),
		models: models{make(map[[2]string]*PlanModel), make(map[string]*histogram.Durations)}}
}

// of returns the part of the plan on a definition.
func (c *tally) of(kind, key string) *PlanDefinition {
	name := [2]string{kind, key}
	if c.definitions[name] == nil {
		c.definitions[name] = &PlanDefinition{Kind: kind, Key: key, changes: make(map[string]*PlanChange)}
	}
	return c.definitions[name]
}

// count counts a verdict on own answers, and rest that are not decided by it.
func (c *tally) count(d *replayed, t *Traced, v verdict, own, rest int64) {
	c.records++
	if c.from.IsZero() || t.Time.Before(c.from) {
		c.from = t.Time
	}
	if !t.Time.Before(c.until) {
		c.until = t.Time
	}
	if c.apiKeys[t.APIKey] == nil {
		c.apiKeys[t.APIKey] = new(PlanCounts)
	}
	if v.class == planUndecided {
		c.doubts[v.doubt] += own
	}
	for i := range t.Splits {
		s, fate := &t.Splits[i], unitFate(0)
		switch {
		case v.units != nil:
			fate = v.units[i]
		case v.class == planUndecided:
			fate = unitUndecided
		}
		if s.WasConsulted() && d.tableOf(s) >= 0 {
			c.countUnit(s, fate)
		}
	}
	day := t.Time.Unix() / (24 * 60 * 60)
	if c.days[day] == nil && len(c.days) < maxPlanDays {
		c.days[day] = new(PlanCounts)
	}
	for _, counts := range []*PlanCounts{&c.total, &d.counts.PlanCounts, c.apiKeys[t.APIKey], c.days[day]} {
		if counts != nil {
			counts.add(v.class, own)
			counts.add(planUndecided, rest)
		}
	}
	c.estimated = c.estimated || own+rest > 1
}

// witness adds to a change. Of a trace's inputs, the old data model says which are listed.
func (p *Planner) witness(d *replayed, t *Traced, change *PlanChange, weight int64) {
	if change.Count += weight; len(change.Witnesses) >= p.options.Witnesses {
		return
	}
	w := PlanWitness{TraceID: t.TraceID, Inputs: slices.Clone(t.Inputs)}
	var inputs map[string]json.RawMessage
	if json.Unmarshal(t.Inputs, &inputs) == nil {
		maps.DeleteFunc(inputs, func(name string, v json.RawMessage) bool {
			return !d.past.s.Model.Listed(name) || strings.HasPrefix(string(v), "{") || strings.Contains(string(v), "[redacted:")
		})
		w.Listed = inputs
	}
	change.Witnesses = append(change.Witnesses, w)
}

func (c *tally) countUnit(s *TracedSplit, fate unitFate) {
	if len(s.Unit) == 0 {
		return
	}
	name := [2]string{s.Experiment.Definition, s.Experiment.Rule}
	units := c.splits[name]
	if units == nil {
		units = make(map[[16]byte]unitFate)
		c.splits[name] = units
	}
	var unit [16]byte
	copy(unit[:], s.Unit)
	if _, known := units[unit]; !known {
		if c.units >= maxPlanUnits {
			c.full = true
			return
		}
		c.units++
	}
	units[unit] |= fate
}

// id tells changes of a definition apart.
func (c *PlanChange) id() string {
	id := fmt.Sprint(c.Version)
	for _, s := range []*PlanSide{&c.Old, &c.New} {
		id += strings.Join([]string{"", s.Row, s.Arm, string(s.Value), s.EndpointRow, s.EndpointVariant, s.Gone}, "\x00")
	}
	return id
}

// change returns the change of an answer of a definition.
func (p *Planner) change(d *PlanDefinition, from, to PlanSide, version bool) *PlanChange {
	c := &PlanChange{Old: from, New: to, Version: version}
	id := c.id()
	if found := d.changes[id]; found != nil {
		return found
	}
	if len(d.changes) >= maxPlanChanges {
		c, id = &PlanChange{Version: version, Others: true}, fmt.Sprint("others", version)
		if found := d.changes[id]; found != nil {
			return found
		}
	}
	d.changes[id] = c
	return c
}

// side returns answers that are possible as one.
func (a answers) side() PlanSide {
	first := a.list[0]
	s := PlanSide{Row: cmp.Or(first.Row, "default"), Arm: first.Arm, Value: json.RawMessage(first.shown), EndpointRow: first.EndpointRow, EndpointVariant: first.EndpointVariant}
	for _, other := range a.list[1:] {
		if other.value != first.value {
			s = PlanSide{} // each is another answer
		}
		if other.Row != first.Row || other.EndpointRow != first.EndpointRow {
			s.Row, s.EndpointRow = "one of several rows", ""
		}
	}
	if first.gone != "" {
		return PlanSide{Gone: first.gone}
	}
	return s
}

// Report returns the plan so far.
func (p *Planner) Report() *Plan {
	plan := &Plan{New: p.next.Revision, From: p.from, Until: p.until, Decisions: p.records, PlanCounts: p.total, LeftOut: p.leftOut, Estimated: p.estimated, UnitsAtLeast: p.full, Days: []PlanDay{},
		Definitions: []*PlanDefinition{}, APIKeys: []PlanKey{}, Undecided: []PlanDoubt{}, Units: []PlanUnits{}}
	plan.share()
	if p.against != nil {
		plan.Old = p.against.Revision
	}
	for _, d := range p.definitions {
		plan.Definitions = append(plan.Definitions, d.report())
	}
	slices.SortFunc(plan.Definitions, func(a, b *PlanDefinition) int {
		return cmp.Or(cmp.Compare(b.Changed, a.Changed), cmp.Compare(b.Version, a.Version), cmp.Compare(b.NotDecided, a.NotDecided), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key))
	})
	for _, name := range slices.Sorted(maps.Keys(p.apiKeys)) {
		k := PlanKey{name, *p.apiKeys[name]}
		k.share()
		plan.APIKeys = append(plan.APIKeys, k)
	}
	for doubt, n := range p.doubts {
		plan.Undecided = append(plan.Undecided, PlanDoubt{doubt.field, doubt.reason, doubt.remedy, n, float64(n) / float64(p.total.Total)})
	}
	slices.SortFunc(plan.Undecided, func(a, b PlanDoubt) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Reason, b.Reason))
	})
	for name, units := range p.splits {
		u := PlanUnits{Definition: name[0], Row: name[1], Units: len(units)}
		for _, fate := range units {
			u.Moved += int(fate & unitMoved / unitMoved)
			u.Left += int(fate & unitLeft / unitLeft)
			u.Joined += int(fate & unitJoined / unitJoined)
			u.NotDecided += int(fate & unitUndecided / unitUndecided)
		}
		plan.Units = append(plan.Units, u)
	}
	slices.SortFunc(plan.Units, func(a, b PlanUnits) int {
		return cmp.Or(cmp.Compare(b.Moved, a.Moved), cmp.Compare(a.Definition, b.Definition), cmp.Compare(a.Row, b.Row))
	})
	plan.Models = p.models.report()
	for _, day := range slices.Sorted(maps.Keys(p.days)) {
		d := PlanDay{time.Unix(day*24*60*60, 0).UTC().Format(time.DateOnly), *p.days[day]}
		d.share()
		plan.Days = append(plan.Days, d)
	}
	plan.Drift = driftOf(plan.Days)
	return plan
}

// driftOf compares the days on which most and least is changed.
func driftOf(days []PlanDay) string {
	if len(days) == 0 {
		return ""
	}
	byShare := func(a, b PlanDay) int { return cmp.Compare(a.ChangedShare, b.ChangedShare) }
	least, most := slices.MinFunc(days, byShare), slices.MaxFunc(days, byShare)
	variance := func(d PlanDay) float64 { return d.ChangedShare * (1 - d.ChangedShare) / float64(d.Total) }
	if apart := most.ChangedShare - least.ChangedShare; apart <= 0.01 || apart <= 3*math.Sqrt(variance(least)+variance(most)) {
		return ""
	}
	return fmt.Sprintf("the days differ: %s changed on %s, and %s on %s", percentText(least.ChangedShare, 2), least.Day, percentText(most.ChangedShare, 2), most.Day)
}

// report returns a copy with its lists.
func (d *PlanDefinition) report() *PlanDefinition {
	out := &PlanDefinition{Kind: d.Kind, Key: d.Key, PlanCounts: d.PlanCounts, Changes: []*PlanChange{}}
	out.share()
	for _, change := range d.changes {
		c := *change
		for _, side := range []*PlanSide{&c.Old, &c.New} {
			if len(side.Value) > maxPlanValue {
				side.Begins, side.Value = strings.ToValidUTF8(string(side.Value[:maxPlanValue]), "")+"…", nil
			}
		}
		c.Share, c.Witnesses = float64(c.Count)/float64(d.Total), slices.Clone(c.Witnesses)
		out.Changes = append(out.Changes, &c)
	}
	slices.SortFunc(out.Changes, func(a, b *PlanChange) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.id(), b.id())) })
	return out
}

// FailOver reports whether more than a share of the decisions, as a part of 1, is known to
// be answered otherwise. Those of another version, and those that are not decided, do not
// count.
func (plan *Plan) FailOver(share float64) bool { return plan.ChangedShare > share }
