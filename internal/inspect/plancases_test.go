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
		return load(t, workspace(t, "context.yaml", "fields: { id: string }\n", "remoteconfigs/c.yaml",
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
	// The units out of an arm.
	p = planSets(old, set("{ value: a, share: 20% }"), PlanOptions{})
	for i := range 100 {
		must(t, p.Add(asked{context: fmt.Sprintf(`{"id":"u%d"}`, i), at: now}.record(t, old, kind.RemoteConfig, "c", false), 1))
	}
	if u := p.Report().Units; len(u) != 1 || u[0].Left < 20 || u[0].Moved > 0 || u[0].Joined > 0 {
		t.Errorf("%+v", u)
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
