package inspect

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/kind"
)

const guardTable = `type: string
default: grey
rules:
- { id: pro, when: { plan: pro }, value: gold }
- { id: colours, split: { by: id, guard: { new: NEW, control: red, steps: [1%, 100%], every: 1h, stop: [ { metric: cost, ratio: 2 } ] } } }
`

const guardField = "rollout.remoteconfigs/button/colours"

func guardWorkspace(t testing.TB, table string) *definition.Snapshot {
	t.Helper()
	return load(t, workspace(t, "context.yaml", "fields: { id: string, plan: { type: string, trace: value } }\n", "remoteconfigs/button.yaml", table))
}

// TestProveGuard: a proof follows a decision across the steps of a rollout, by the share in
// the inputs.
func TestProveGuard(t *testing.T) {
	s := guardWorkspace(t, strings.Replace(guardTable, "NEW", "blue", 1))
	button := s.Find(kind.RemoteConfig, "button")
	unit := func(from, to uint32) asked {
		for i := 0; ; i++ {
			a := asked{context: fmt.Sprintf(`{"id":"u%d"}`, i), at: now}
			if b := *a.record(t, s, button.Kind, "button", false).Splits[0].Bucket; from <= b && b < to {
				return a
			}
		}
	}
	fresh, control, rest := unit(0, 1000), unit(50_000, 51_000), unit(60_000, 100_000)
	arms := make(map[string]bool)
	for _, share := range []int{-1, 0, 1000, 50_000, 100_000} {
		for _, a := range []asked{fresh, control, rest, {context: `{"id":"u1","plan":"pro"}`, at: now}, {context: `{"plan":"free"}`, at: now}, {context: `{}`, at: now}} {
			if a.gateway = (gatewayState{"rollout": share}); share < 0 {
				a.gateway = nil
			}
			for _, content := range []bool{false, true} {
				traced := a.record(t, s, button.Kind, "button", content)
				if p := Prove(s, traced); p.Result != Same {
					t.Errorf("%s at %d, %s: %s %v %v", a.context, share, traced.Inputs, p.Result, p.Differences, p.Missing)
				}
				arms[traced.Arm] = true
			}
		}
	}
	if len(arms) != 3 { // and none
		t.Error(arms)
	}
	for _, tt := range []struct{ old, now, want string }{
		{`:1000`, `:0`, "decide colours (split), arm control, and recorded is colours (split), arm new"},
		{`,"` + guardField + `":1000`, ``, "decide colours (split), arm control"},
		{`"rollout":1`, `"rollout":1,"compared":false`, "that bucket"},
		{`"new":0.01`, `"new":0.02`, "the shares of its arms are"},
		{`"share":0.01`, `"share":0.98`, "has arm"},
	} {
		fresh.gateway = gatewayState{"rollout": 1000}
		text, err := json.Marshal(fresh.record(t, s, button.Kind, "button", false))
		must(t, err)
		if !strings.Contains(string(text), tt.old) {
			t.Fatalf("%s has no %s", text, tt.old)
		}
		traced := new(Traced)
		must(t, json.Unmarshal([]byte(strings.Replace(string(text), tt.old, tt.now, 1)), traced))
		if p := Prove(s, traced); p.Result != Differs || !strings.Contains(fmt.Sprint(p.Differences), tt.want) {
			t.Errorf("%s: %s %v", tt.now, p.Result, p.Differences)
		}
	}
	plain := load(t, workspace(t, "context.yaml", "fields: { id: string }\n", "remoteconfigs/button.yaml",
		"type: string\ndefault: grey\nrules: [ { id: colours, split: { by: id, of: [ { value: red, share: 100% } ] } } ]\n"))
	traced := asked{context: `{"id":"u1"}`, at: now}.record(t, plain, button.Kind, "button", false)
	if traced.Splits[0].Rollout = 1; Prove(plain, traced).Result != Differs {
		t.Error("a split without a guard is a rollout's")
	}
}

// A change of what new answers shows for a share at which units have it, and one of a guard
// says nothing of units that move: the rollout does.
func TestCompareGuards(t *testing.T) {
	const rule = "- { id: colours, split: { by: id, guard: { new: %s, control: %s, steps: [1%%], every: 1h, stop: [ { metric: cost, ratio: 2 } ] } } }\n"
	config := func(rules string) string {
		return workspace(t, "context.yaml", "fields: { id: string }\n", "remoteconfigs/button.yaml", "type: string\ndefault: grey\nrules:\n- { when: { id: missing }, value: x }\n"+rules)
	}
	guard := func(fresh, control string) string { return config(fmt.Sprintf(rule, fresh, control)) }
	for _, tt := range []struct{ name, before, after, want string }{
		{"new", guard("blue", "red"), guard("navy", "red"), `  {"id":"1001","` + guardField + `":100000}: "blue" (colours) -> "navy" (colours)` + "\n"},
		{"control", guard("blue", "red"), guard("blue", "pink"), `  {"id":"1001"}: "red" (colours) -> "pink" (colours)` + "\n"},
		{"added", config(""), guard("blue", "red"), `  {"id":"1001"}: "grey" (default) -> "red" (colours)` + "\n" + `  {"id":"1001","` + guardField + `":100000}: "grey" (default) -> "blue" (colours)` + "\n"},
		{"of all", config("- { id: colours, split: { by: id, of: [ { value: red, share: 100% } ] } }\n"), guard("blue", "red"), `  {"id":"1001","` + guardField + `":100000}: "red" (colours) -> "blue" (colours)` + "\n"},
	} {
		c := compareDirs(t, tt.before, tt.after)
		_, got, _ := strings.Cut(summary(c), "\n")
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
		if moved := MovedUnits(load(t, tt.before), load(t, tt.after), now); len(moved) > 0 {
			t.Errorf("%s: %v", tt.name, moved)
		}
	}
}

// The share of a rollout may be given with a question, and a page has both answers.
func TestEvaluateGuard(t *testing.T) {
	s := guardWorkspace(t, strings.Replace(guardTable, "NEW", "blue", 1))
	for context, want := range map[string]string{
		`{"id":"a"}`:                             `"red"`,
		`{"id":"a","` + guardField + `":100000}`: `"blue"`,
		`{"` + guardField + `":100000}`:          `"grey"`,
	} {
		a, err := Evaluate(s, Query{Key: "button", Context: fastjson.MustParse(context), At: now, Explain: true})
		if err != nil || string(a.Value) != want || len(a.Notes) > 0 {
			t.Errorf("%s: %+v %v", context, a, err)
		}
	}
	d := Describe(s, s.Find(kind.RemoteConfig, "button"), 0, now)
	row := d.Table.Rows[1]
	if len(row.Answers) != 2 || !row.Guarded || row.By != "id" || d.Table.Rows[0].Guarded {
		t.Fatalf("%+v", row)
	}
	for i, want := range []RowAnswer{{Arm: "new"}, {Arm: "control", Share: 1}} {
		if a := row.Answers[i]; a.Arm != want.Arm || a.Share != want.Share || a.Column == 0 {
			t.Errorf("%+v", a)
		}
	}
}

// A plan follows decisions by the share that they were made at. Of a guard that is new, it can
// tell what units get that it gives nothing else.
func TestPlanGuard(t *testing.T) {
	before := guardWorkspace(t, strings.Replace(guardTable, "NEW", "blue", 1))
	for _, tt := range []struct {
		name    string
		old     *definition.Snapshot
		table   string
		share   int
		classes map[planClass]bool
	}{
		{"same", before, strings.Replace(guardTable, "NEW", "blue", 1), 100_000, map[planClass]bool{planSame: true}},
		{"steps", before, strings.NewReplacer("NEW", "blue", "1%", "2%").Replace(guardTable), 1000, map[planClass]bool{planSame: true}},
		{"new at 100 %", before, strings.Replace(guardTable, "NEW", "navy", 1), 100_000, map[planClass]bool{planChanged: true}},
		{"new at 0 %", before, strings.Replace(guardTable, "NEW", "navy", 1), 0, map[planClass]bool{planSame: true}},
		{"new at 50 %", before, strings.Replace(guardTable, "NEW", "navy", 1), 50_000, map[planClass]bool{planSame: true, planChanged: true}},
		{"control at 100 %", before, strings.NewReplacer("NEW", "blue", "red", "pink").Replace(guardTable), 100_000, map[planClass]bool{planSame: true}},
		{"a guard that is new", guardWorkspace(t, "type: string\ndefault: red\n"), strings.Replace(guardTable, "NEW", "blue", 1), 1000, map[planClass]bool{planUndecided: true}},
	} {
		next := guardWorkspace(t, tt.table)
		p := planSets(tt.old, next, PlanOptions{Hash: planHasher.Append})
		got := make(map[planClass]bool)
		for i := range 40 {
			traced := asked{context: fmt.Sprintf(`{"id":"u%d"}`, i), gateway: gatewayState{"rollout": tt.share}, at: now}.record(t, tt.old, kind.RemoteConfig, "button", true)
			v := p.verdict(p.definition(traced), traced)
			got[v.class] = true
			if v.class == planUndecided && v.field != guardField {
				t.Errorf("%s: %+v", tt.name, v)
			}
		}
		if diff := cmp.Diff(tt.classes, got); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}
