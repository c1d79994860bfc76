package inspect

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/kind"
)

// TestPlanCases: what a plan says of one decision by the edit.
func TestPlanCases(t *testing.T) {
	const model = "fields:\n  plan: { type: string, values: [free, pro] }\n  city: { type: string, trace: hash }\n  seats: { type: number }\n  email: { type: string }\n  none: { type: string, trace: none }\n  id: { type: string }\n  other: { type: string, trace: value }\n"
	const half = "- { id: half, split: { by: id, of: [ { name: blue, value: 1, share: 50% } ] } }\n"
	const context = `{"plan":"pro","city":"gent","seats":12,"email":"a@acme.com","id":"u1","none":"x"}` // u1 is in the first half of none salts
	for _, tt := range []struct {
		name, old, next string
		want            string // class, new row, or field
	}{
		{"same rows", half, half, "same"},
		{"value", "- { id: r, value: 1 }\n", "- { id: r, value: 2 }\n", "changed 2 (r)"},
		{"value in another form", "- { id: r, value: 1.0 }\n", "- { id: s, value: 1 }\n", "same"},
		{"row removed", "- { id: r, when: { plan: pro }, value: 1 }\n", "", "changed 0 (default)"},
		{"hash of a literal", "- { id: r, when: { city: gent }, value: 1 }\n", "- { id: r, when: { city: g* }, value: 1 }\n", "same"},
		{"hash of no literal", "- { id: r, when: { city: aalst }, value: 1 }\n", "- { id: r, when: { city: [aalst, brugge] }, value: 1 }\n- { id: s, when: { city: not oostende }, value: 2 }\n", "changed 2 (s)"},
		{"hash and a prefix", "- { id: r, when: { city: aalst }, value: 1 }\n", "- { id: r, when: { city: g* }, value: 1 }\n", "undecided city"},
		{"threshold below", "- { id: r, when: { seats: 10.. }, value: 1 }\n", "- { id: r, when: { seats: 5.. }, value: 1 }\n", "same"},
		{"threshold above", "- { id: r, when: { seats: 10.. }, value: 1 }\n", "- { id: r, when: { seats: 20.. }, value: 1 }\n", "undecided seats"},
		{"threshold elsewhere", "- { id: r, when: { seats: 50.. }, value: 1 }\n", "- { id: r, when: { seats: 60.. }, value: 2 }\n", "same"},
		{"pattern as it was", "- { id: r, when: { email: '*@acme.com' }, value: 1 }\n", "- { id: r, when: { email: '*@acme.com' }, value: 2 }\n", "changed 2 (r)"},
		{"pattern not as it was", "- { id: r, when: { email: '*@acme.com' }, value: 1 }\n", "- { id: r, when: { email: '*acme.com' }, value: 1 }\n", "undecided email"},
		{"certainly another", "- { id: r, when: { email: '*@acme.com' }, value: 1 }\n", "- { id: s, when: { plan: free }, value: 3 }\n- { id: r, when: { email: '*@acme.com' }, value: 2 }\n", "changed another one (one of several rows)"},
		{"field that nobody read", "- { id: r, value: 1 }\n", "- { id: s, when: { other: a }, value: 2 }\n- { id: r, value: 1 }\n", "undecided other"},
		{"doubt without a difference", "- { id: r, value: 1 }\n", "- { id: s, when: { other: a }, value: 1 }\n- { id: r, value: 1 }\n", "same"},
		{"the doubt that tells", "- { id: r, value: 1 }\n", "- { id: s, when: { seats: 1.. }, value: 1 }\n- { id: x, when: { other: a }, value: 2 }\n- { id: r, value: 1 }\n", "undecided other"},
		{"nothing recorded", "- { id: r, when: { none: x }, value: 1 }\n", "- { id: r, when: { none: y }, value: 1 }\n", "undecided none"},
		{"split moved and renamed", half + "- { id: z, value: 9 }\n", "- { id: z, when: { plan: free }, value: 9 }\n- { id: other, split: { by: id, salt: half, of: [ { name: blue, value: 1, share: 50% } ] } }\n- { id: y, value: 9 }\n", "same"},
		{"split of another salt", half, "- { id: half, split: { by: id, salt: x, of: [ { name: blue, value: 1, share: 50% } ] } }\n", "undecided id"},
		{"split of another salt that takes all", half, "- { id: half, split: { by: id, salt: x, of: [ { name: blue, value: 7, share: 100% } ] } }\n", "changed 7 (half, arm blue)"},
		{"split by another field", half, "- { id: half, split: { by: city, salt: half, of: [ { name: blue, value: 1, share: 50% } ] } }\n", "undecided city"},
		{"split to all", half, strings.Replace(half, "50%", "100%", 1), "any"},
		{"ramp at the instant", "- { id: r, ramp: { by: id, from: 0%, to: 100%, start: 2026-10-01, end: 2026-12-01 }, value: 1 }\n", "- { id: r, ramp: { by: id, from: 0%, to: 100%, start: 2026-12-01, end: 2026-12-31 }, value: 1 }\n", "any"},
		{"prerequisite", "- { id: r, when: { config: { asked: true } }, value: 1 }\n", "- { id: r, when: { config: { asked: true } }, value: 1 }\n#asked: plan: free", "changed 0 (default)"},
		{"budget as recorded", "- { id: r, when: { budget.day: 80.. }, value: 1 }\n", "- { id: r, when: { budget.day: 90.. }, value: 1 }\n", "changed 0 (default)"},
		{"health of none", "- { id: r, when: { budget.day: 80.. }, value: 1 }\n", "- { id: r, when: { health.a: down }, value: 1 }\n", "undecided health.a"},
		{"removed", "- { id: r, value: 1 }\n", "#removed", "changed no definition has this name"},
	} {
		set := func(rows string) *definition.Snapshot {
			rows, asked, _ := strings.Cut(rows, "#asked: ")
			if asked == "" {
				asked = "plan: pro"
			}
			files := []string{"context.yaml", model, "remoteconfigs/asked.yaml", "type: boolean\ndefault: false\nrules:\n- { when: { " + asked + " }, value: true }\n"}
			if rows != "#removed" {
				if rows != "" {
					rows = "rules:\n" + rows
				}
				files = append(files, "remoteconfigs/c.yaml", "type: number\ndefault: 0\n"+rows)
			}
			return load(t, workspace(t, files...))
		}
		old, next := set(tt.old), set(tt.next)
		p := planSets(old, next, PlanOptions{Hash: planHasher.Append, replayAll: true})
		a := asked{context: context, gateway: gatewayState{"budget.day": 85}, at: now}
		traced := a.record(t, old, kind.RemoteConfig, "c", false)
		v := p.verdict(p.definition(traced), traced)
		got := map[planClass]string{planSame: "same", planUndecided: "undecided " + v.field, planChanged: "changed", planVersion: "version"}[v.class]
		if v.change != nil {
			got += " " + v.change.New.String()
		}
		if want := tt.want; got != want && (want != "any" || v.class == planUndecided) {
			t.Errorf("%s: %s, want %s (%s) by %s", tt.name, got, want, v.reason, traced.Inputs)
		}
		was, _ := a.answerOf(t, old, kind.RemoteConfig, "c")
		is, _ := a.answerOf(t, next, kind.RemoteConfig, "c")
		if v.class == planSame && !sameValue(json.RawMessage(was), json.RawMessage(is)) || v.class == planChanged && was == is {
			t.Errorf("%s: %s -> %s", tt.name, was, is)
		}
	}
}

// TestPlanOfSharedParts: a definition that was not edited is replayed if a segment, a field
// or the time zone that it reads was, and not for another one, or for how one is recorded.
func TestPlanOfSharedParts(t *testing.T) {
	const model = "fields:\n  plan: { type: string, values: [free, pro] }\n  other: string\n  seats: { type: number, trace: value }\nsegments: { paid: [ { segment: some } ], some: [ { plan: pro } ], unread: [ { seats: 1 } ] }\n"
	set := func(old, new string) *definition.Snapshot {
		return load(t, workspace(t, "context.yaml", replaceOnce(t, model, old, new), "remoteconfigs/c.yaml",
			"type: number\ndefault: 0\nrules:\n- { when: { segment: paid, seats: 5.. }, value: 1 }\n- { until: 2026-11-02, value: 2 }\n"))
	}
	old := set("[free, pro]", "[free, pro]")
	for _, tt := range []struct {
		old, new string
		same     bool
		want     PlanCounts
	}{
		{"other: string", "other: number", true, PlanCounts{Total: 1, Same: 1}},
		{", trace: value", "", true, PlanCounts{Total: 1, Same: 1}},
		{"{ seats: 1 }", "{ seats: 2 }", true, PlanCounts{Total: 1, Same: 1}},
		{"segments: {", "computed: { big: seats > 3.0 }\nsegments: { more: [ { big: true } ],", true, PlanCounts{Total: 1, Same: 1}},
		{"{ plan: pro }", "{ plan: free }", false, PlanCounts{Total: 1, Changed: 1}},
		{"type: number", "type: number, max: 5", false, PlanCounts{Total: 1, Changed: 1}},
		{"fields:", "timezone: Europe/Brussels\nfields:", false, PlanCounts{Total: 1, Same: 1}},
	} {
		p := planSets(old, set(tt.old, tt.new), PlanOptions{Hash: planHasher.Append})
		traced := asked{context: `{"plan":"pro","seats":12}`, at: now}.record(t, old, kind.RemoteConfig, "c", false)
		must(t, p.Add(traced, 1))
		plan := p.Report()
		plan.ChangedShare, plan.NotDecidedShare = 0, 0
		if plan.PlanCounts != tt.want || p.definition(traced).same != tt.same {
			t.Errorf("%s: %+v, not replayed %t", tt.new, plan.PlanCounts, p.definition(traced).same)
		}
	}
}

// TestPlanUnits: units of a split that get another arm are counted once each.
func TestPlanUnits(t *testing.T) {
	set := func(of string) *definition.Snapshot {
		return load(t, workspace(t, "context.yaml", "unit: id\nfields: { id: string }\n", "remoteconfigs/c.yaml",
			"type: string\ndefault: none\nrules:\n- { id: r, split: { by: id, of: [ "+of+" ] } }\n"))
	}
	old, next := set("{ value: a, share: 20% }, { value: b, share: 40% }"), set("{ value: a, share: 30% }, { value: b, share: 40% }")
	p := planSets(old, next, PlanOptions{})
	want := PlanUnits{Definition: "remoteconfigs/c", Row: "r"}
	for i := range 1000 {
		a := asked{context: fmt.Sprintf(`{"id":"u%d"}`, i), at: now}
		was, _ := a.answerOf(t, old, kind.RemoteConfig, "c")
		is, _ := a.answerOf(t, next, kind.RemoteConfig, "c")
		want.Units++
		switch {
		case was == is:
		case was == `"none"`:
			want.Joined++
		default:
			want.Moved++
		}
		for range 3 {
			must(t, p.Add(a.record(t, old, kind.RemoteConfig, "c", false), 2))
		}
	}
	plan := p.Report()
	if len(plan.Units) != 1 || plan.Units[0] != want || want.Moved < 50 || want.Joined < 50 || plan.UnitsAtLeast || plan.NotDecided > 0 {
		t.Errorf("%+v, want %+v; %+v", plan.Units, want, plan.PlanCounts)
	}
	if changed := int64(6 * (want.Moved + want.Joined)); plan.Decisions != 3000 || plan.Total != 6000 || plan.Changed != changed || !plan.FailOver(plan.ChangedShare-1e-9) || plan.FailOver(plan.ChangedShare) {
		t.Errorf("%+v, want %d changed", plan.PlanCounts, changed)
	}
	// Another value of an arm moves no unit, and one more arm of the same value does.
	for of, moves := range map[string]bool{"{ value: x, share: 20% }, { value: y, share: 40% }": false, "{ value: a, share: 10% }, { value: a, share: 10% }, { value: b, share: 40% }": true} {
		p = planSets(old, set(of), PlanOptions{})
		for i := range 100 {
			must(t, p.Add(asked{context: fmt.Sprintf(`{"id":"u%d"}`, i), at: now}.record(t, old, kind.RemoteConfig, "c", false), 1))
		}
		if u := p.Report().Units; len(u) != 1 || u[0].Moved > 0 != moves || u[0].NotDecided+u[0].Left+u[0].Joined > 0 {
			t.Errorf("%s: %+v", of, u)
		}
	}
	// The units out of an arm.
	p = planSets(old, set("{ value: a, share: 20% }"), PlanOptions{})
	for i := range 100 {
		must(t, p.Add(asked{context: fmt.Sprintf(`{"id":"u%d"}`, i), at: now}.record(t, old, kind.RemoteConfig, "c", false), 1))
	}
	if u := p.Report().Units; len(u) != 1 || u[0].Left < 20 || u[0].Moved > 0 || u[0].Joined > 0 {
		t.Errorf("%+v", u)
	}
}

// TestPlanUnitsOfRows: a unit that one split passes on to another is one of both, and what
// becomes of it is told of each.
func TestPlanUnitsOfRows(t *testing.T) {
	set := func(first, second string) *definition.Snapshot {
		return load(t, workspace(t, "context.yaml", "fields: { id: string }\n", "remoteconfigs/c.yaml",
			"type: string\ndefault: none\nrules:\n- { id: "+first+" } ] } }\n- { id: two, split: { by: id, of: [ { value: b, share: "+second+" } ] } }\n"))
	}
	const one = "one, split: { by: id, of: [ { value: a, share: 20%"
	old := set(one, "100%")
	plan := func(next *definition.Snapshot) map[string]PlanUnits {
		p := planSets(old, next, PlanOptions{Hash: planHasher.Append})
		for i := range 200 {
			must(t, p.Add(asked{context: fmt.Sprintf(`{"id":"u%d"}`, i), at: now}.record(t, old, kind.RemoteConfig, "c", false), 1))
		}
		units := make(map[string]PlanUnits)
		for _, u := range p.Report().Units {
			units[u.Row] = u
		}
		return units
	}
	grown := plan(set(strings.Replace(one, "20%", "40%", 1), "100%"))
	if one, two := grown["one"], grown["two"]; one.Units != 200 || one.Joined < 20 || one.Moved+one.Left+one.NotDecided > 0 || two.Units >= 200 || two.Moved != one.Joined || two.Joined+two.Left+two.NotDecided > 0 {
		t.Errorf("%+v", grown)
	}
	if renamed := plan(set(strings.Replace(one, "one, split: {", "uno, split: { salt: one,", 1), "100%")); renamed["one"] != (PlanUnits{Definition: "remoteconfigs/c", Row: "one", Units: 200}) {
		t.Errorf("%+v", renamed)
	}
	if left := plan(set("one, until: 2000-01-01, split: { by: id, of: [ { value: a, share: 20%", "0.001%")); left["two"].Left+left["two"].Moved == 0 || left["one"].Joined > 0 {
		t.Errorf("%+v", left)
	}
}

// TestPlanOfExposures: of what was counted on a trace, the plan knows as much as the trace
// says if it is of a unit, and nothing if it is of many.
func TestPlanOfExposures(t *testing.T) {
	const rows = "- { id: half, when: { plan: pro }, split: { by: id, of: [ { value: 1, share: 50% }, { value: 2, share: 50% } ] } }\n- { id: low, when: { seats: ..9 }, value: 3 }\n"
	set := func(unit, rows string) *definition.Snapshot {
		if rows != "" {
			rows = "rules:\n" + rows
		}
		return load(t, workspace(t, "context.yaml", unit+"fields: { plan: { type: string, values: [free, pro] }, seats: { type: number, trace: value }, id: string, secret: { type: string, trace: none } }\n",
			"remoteconfigs/c.yaml", "type: number\ndefault: 0\n"+rows))
	}
	edited := strings.Replace(rows, "seats: ..9", "seats: ..5", 1)
	for _, tt := range []struct {
		name, unit, context, next string
		changed, undecided        int64
		doubt                     PlanDoubt
	}{
		{"no unit is declared", "", `{"seats":7,"id":"a"}`, edited, 1, 99, PlanDoubt{Field: "unit", Reason: "counted on a trace without a unit", Remedy: "unit: FIELD"}},
		{"a default", "", `{"seats":12}`, edited, 0, 99, PlanDoubt{Field: "unit", Reason: "counted on a trace without a unit", Remedy: "unit: FIELD"}},
		{"a unit", "unit: id\n", `{"seats":7,"id":"a"}`, edited, 100, 0, PlanDoubt{}},
		{"its unit is missing", "unit: id\n", `{"seats":7}`, edited, 1, 99, PlanDoubt{Field: "id", Reason: "counted on a trace without this unit"}},
		{"its unit is not recorded", "unit: secret\n", `{"seats":7,"secret":"x"}`, edited, 1, 99, PlanDoubt{Field: "secret", Reason: "counted on a trace without this unit"}},
		{"a split decided", "", `{"plan":"pro","id":"a"}`, "", 100, 0, PlanDoubt{}},
		{"no table is left", "", `{"seats":7}`, "", 100, 0, PlanDoubt{}},
		{"none is edited", "", `{"seats":7}`, rows, 0, 0, PlanDoubt{}},
		{"the own one is not decided", "", `{"plan":"free"}`, "- { when: { secret: x }, value: 5 }\n", 0, 100, PlanDoubt{Field: "secret"}},
	} {
		old := set(tt.unit, rows)
		p := planSets(old, set(tt.unit, tt.next), PlanOptions{Hash: planHasher.Append})
		must(t, p.Add(asked{context: tt.context, at: now}.record(t, old, kind.RemoteConfig, "c", false), 100))
		plan := p.Report()
		c := plan.PlanCounts
		if c.Total != 100 || c.Changed != tt.changed || c.NotDecided != tt.undecided || plan.Definitions[0].PlanCounts != c || plan.APIKeys[0].PlanCounts != c || plan.Days[0].PlanCounts != c || plan.Decisions != 1 || !plan.Estimated {
			t.Errorf("%s: %+v", tt.name, plan)
		}
		if tt.changed > 0 && plan.Definitions[0].Changes[0].Count != tt.changed {
			t.Errorf("%s: %+v", tt.name, plan.Definitions[0].Changes[0])
		}
		if tt.undecided > 0 {
			got := plan.Undecided[0]
			if got.Field != tt.doubt.Field || got.Count != tt.undecided || tt.doubt.Reason != "" && (got.Reason != tt.doubt.Reason || got.Remedy != tt.doubt.Remedy) {
				t.Errorf("%s: %+v", tt.name, got)
			}
		}
	}
}

// TestPlanRemedies: what is not decided has the setting with which later traces tell, or none.
func TestPlanRemedies(t *testing.T) {
	const model = "fields:\n  plan: { type: string, values: [free, pro] }\n  city: { type: string, trace: hash }\n  none: { type: string, trace: none }\n  seats: number\n  long: { type: string, trace: value }\n"
	long := strings.Repeat("x", 300)
	for _, tt := range []struct{ model, rows, next, want string }{
		{"", "- { when: { plan: pro }, value: 1 }\n", "- { when: { city: gent }, value: 1 }\n", "city: trace: { always: [city] }"},
		{"", "- { when: { plan: pro }, value: 1 }\n", "- { when: { seats: 5.. }, value: 3 }\n- { value: 1 }\n", "seats: trace: { always: [seats] } and trace: value"},
		{"trace: { always: [city] }\n", "- { when: { plan: pro }, value: 1 }\n", "- { when: { city: gent }, value: 1 }\n", "city: "},
		{"", "- { when: { city: gent }, value: 1 }\n", "- { when: { city: a* }, value: 1 }\n", "city: trace: value"},
		{"", "- { when: { none: gent }, value: 1 }\n", "- { when: { none: a }, value: 1 }\n", "none: trace: value"},
		{"", "- { when: { plan: pro }, value: 1 }\n", "- { when: { none: a }, value: 1 }\n", "none: trace: value"},
		{"", "- { when: { long: a }, value: 1 }\n", "- { when: { long: x* }, value: 1 }\n", "long: log: content"},
		{"", "- { when: { plan: pro }, value: 1 }\n", "- { when: { health.a: down }, value: 1 }\n", "health.a: "},
		{"on_type_mismatch: reject\n", "- { when: { plan: pro }, value: 1 }\n", "- { when: { plan: free }, value: 1 }\n", "on_type_mismatch: log: content"},
	} {
		set := func(model, rows string) *definition.Snapshot {
			return load(t, workspace(t, "context.yaml", model, "prompts/p.yaml", "provider: a\nmessages: [ { role: user, content: hi } ]\n", "remoteconfigs/c.yaml", "type: number\ndefault: 0\nrules:\n"+rows))
		}
		old := set(model, tt.rows)
		p := planSets(old, set(tt.model+model, tt.next), PlanOptions{Hash: planHasher.Append})
		must(t, p.Add(asked{context: `{"plan":"pro","city":"aalst","none":"x","seats":3,"long":"` + long + `"}`, at: now}.record(t, old, kind.RemoteConfig, "c", false), 1))
		plan := p.Report()
		if len(plan.Undecided) != 1 || plan.Undecided[0].Field+": "+plan.Undecided[0].Remedy != tt.want {
			t.Errorf("%s: %+v, want %s", tt.next, plan.Undecided, tt.want)
		}
	}
}

// TestPlanAgainst compares with a set that did not decide, by what another one recorded.
func TestPlanAgainst(t *testing.T) {
	set := func(rows string) *definition.Snapshot {
		return load(t, workspace(t, "context.yaml", "fields: { plan: { type: string, values: [free, pro] }, seats: number }\n", "remoteconfigs/c.yaml", "type: number\ndefault: 0\nrules:\n"+rows))
	}
	recorded := set("- { when: { plan: pro, seats: 10.. }, value: 1 }\n")
	against, next := set("- { when: { plan: free }, value: 2 }\n"), set("- { when: { plan: pro }, value: 2 }\n- { when: { seats: 1000.. }, value: 3 }\n")
	for _, tt := range []struct {
		context       string
		against, next *definition.Snapshot
		want          PlanCounts
	}{
		{`{"plan":"pro"}`, against, next, PlanCounts{Total: 1, Changed: 1}},
		{`{"plan":"pro"}`, against, against, PlanCounts{Total: 1, Same: 1}},
		{`{"plan":"free"}`, against, next, PlanCounts{Total: 1, Changed: 1}},
		{`{"seats":3}`, against, next, PlanCounts{Total: 1, NotDecided: 1}},
		{`{"seats":3}`, next, next, PlanCounts{Total: 1, Same: 1}},
		{`{"seats":3}`, next, against, PlanCounts{Total: 1, NotDecided: 1}},
	} {
		p := planSets(recorded, tt.next, PlanOptions{Hash: planHasher.Append})
		p.against = tt.against
		must(t, p.Add(asked{context: tt.context, at: now}.record(t, recorded, kind.RemoteConfig, "c", false), 1))
		plan := p.Report()
		plan.ChangedShare, plan.NotDecidedShare = 0, 0
		if plan.PlanCounts != tt.want || plan.Old != tt.against.Revision {
			t.Errorf("%s: %+v, want %+v", tt.context, plan.PlanCounts, tt.want)
		}
	}
	// What the set itself answered is in the record.
	against = set("- { when: { seats: 1000.. }, value: 3 }\n")
	next = set("- { value: 0 }\n")
	for _, self := range []bool{true, false} {
		recorded := against
		if !self {
			recorded = set("- { when: { plan: pro }, value: 7 }\n")
		}
		p := NewPlanner(func(string) (*definition.Snapshot, error) { return recorded, nil }, against, next, PlanOptions{Hash: planHasher.Append})
		must(t, p.Add(asked{context: `{"seats":3}`, at: now}.record(t, recorded, kind.RemoteConfig, "c", false), 1))
		if plan := p.Report(); plan.Same == 1 != self || plan.NotDecided == 1 == self {
			t.Errorf("%t: %+v", self, plan.PlanCounts)
		}
	}
}

// TestPlanUnitsOfAnotherSalt: 0 is said of a split that divides as it did, and of one with
// another salt, whose units nobody can tell, that it is not decided.
func TestPlanUnitsOfAnotherSalt(t *testing.T) {
	set := func(salt, own string) *definition.Snapshot {
		return load(t, workspace(t, "context.yaml", "fields: { id: string }\n",
			"prompts/p.yaml", "default: a\nvariants:\n  a: { provider: canned, extra: { answer: x }, messages: [ { role: user, content: hi } ] }\n  b: { extends: a, messages: [ { role: user, content: ho } ] }\nrules:\n- { id: above, until: 2000-01-0"+own+", value: a }\n- { id: r, split: { by: id, salt: "+salt+", of: [ { value: a, share: 50% }, { value: b, share: 50% } ] } }\n",
			"endpoints/e.yaml", "prompt: p\ndefault: a\nvariants: { a: { timeout: { total: 9s } }, b: { timeout: { total: 8s } } }\nrules:\n- { id: own, split: { by: id, salt: z, of: [ { value: b, share: "+own+"0% } ] } }\n"))
	}
	old := set("x", "2")
	for _, tt := range []struct {
		salt, own string
		row, own2 PlanUnits
	}{
		{"x", "2", PlanUnits{Units: 200}, PlanUnits{Units: 200}},
		{"y", "2", PlanUnits{Units: 200, NotDecided: 200}, PlanUnits{Units: 200}},
		{"x", "6", PlanUnits{Units: 200}, PlanUnits{Units: 200, Joined: -1}},
	} {
		next, joined := set(tt.salt, tt.own), 0
		p := planSets(old, next, PlanOptions{Hash: planHasher.Append})
		for i := range 200 {
			a := asked{context: fmt.Sprintf(`{"id":"u%d"}`, i), at: now}
			was, _ := a.answerOf(t, old, kind.Endpoint, "e")
			is, _ := a.answerOf(t, next, kind.Endpoint, "e")
			if was != is {
				joined++
			}
			must(t, p.Add(a.record(t, old, kind.Endpoint, "e", false), 1))
		}
		tt.row.Definition, tt.row.Row, tt.own2.Definition, tt.own2.Row = "prompts/p", "r", "endpoints/e", "own"
		if tt.own2.Joined < 0 {
			tt.own2.Joined = joined
		}
		got := make(map[PlanUnits]bool)
		for _, u := range p.Report().Units {
			got[u] = true
		}
		if len(got) != 2 || !got[tt.row] || !got[tt.own2] {
			t.Errorf("%s %s: %+v, want %+v and %+v", tt.salt, tt.own, got, tt.row, tt.own2)
		}
	}
}
