package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/providers"
)

// TestPlanModels: calls that go to another model are counted with what they would cost and
// take, by the tokens and the durations that were recorded.
func TestPlanModels(t *testing.T) {
	set := func(b, weights string) *definition.Snapshot {
		return load(t, workspace(t, "context.yaml", "unit: plan\nfields: { plan: { type: string, values: [free, pro] } }\n",
			"prompts/p.yaml", "default: a\nvariants:\n  a: { provider: x, model: small, messages: [ { role: user, content: hi } ] }\n  b: { extends: a, model: "+b+" }\nrules:\n- { when: { plan: pro }, value: b }\n",
			"endpoints/e.yaml", "prompt: p\n"+weights))
	}
	cost := func(_, model string, u *providers.Usage) (float64, bool) {
		per := map[string]float64{"large": 4, "larger": 10, "small": 1}[model]
		return per * (float64(u.PromptTokens) - 0.5*float64(u.CachedTokens) + float64(u.CompletionTokens)), per > 0
	}
	old := set("large", "")
	call := func(plan string, members string) *Traced {
		traced := asked{context: `{"plan":"` + plan + `"}`, at: now}.record(t, old, kind.Endpoint, "e", false)
		must(t, json.Unmarshal([]byte(members), traced))
		return traced
	}
	calls := []*Traced{
		call("pro", `{"provider":"x","model":"large","status":200,"latency_ms":100,"usage":{"prompt_tokens":10,"completion_tokens":2},"cost_usd":48,"attempts":[{"prompt_tokens":10,"completion_tokens":2}]}`),
		call("pro", `{"provider":"x","model":"large","status":200,"latency_ms":300,"usage":{"prompt_tokens":10,"completion_tokens":2},"cost_usd":40,"attempts":[{},{"prompt_tokens":10,"completion_tokens":2,"cached_tokens":4}]}`),
		call("pro", `{"provider":"x","model":"large","status":502}`),
		call("free", `{"provider":"x","model":"small","status":200,"latency_ms":20,"usage":{"prompt_tokens":1,"completion_tokens":2},"cost_usd":3}`),
	}
	for _, tt := range []struct {
		next *definition.Snapshot
		want PlanModel
	}{
		// 12 tokens, and then 12 of which 4 are cached, to 12 and a failed attempt of 10
		{set("larger", ""), PlanModel{Old: "x/large", New: "x/larger", Calls: 4, Priced: 3, CostOld: 48 + 2*40, CostLow: 120 + 2*100, CostHigh: 120 + 2*220}},
		{set("small", ""), PlanModel{Old: "x/large", New: "x/small", Calls: 4, Priced: 3, CostOld: 128, CostLow: 12 + 2*10, CostHigh: 12 + 2*22, TookNew: &PlanTook{1, 20, 20}}},
		{set("unknown", ""), PlanModel{Old: "x/large", New: "x/unknown", Calls: 4}},
	} {
		p := planSets(old, tt.next, PlanOptions{Cost: cost})
		for i, c := range calls {
			must(t, p.Add(c, int64(1+i%2)))
		}
		plan := p.Report()
		tt.want.TookOld = &PlanTook{2, plan.Models[0].TookOld.P50, 300}
		got, _ := json.Marshal(plan.Models)
		want, _ := json.Marshal([]PlanModel{tt.want})
		if string(got) != string(want) || tt.want.TookOld.P50 < 100 || tt.want.TookOld.P50 > 110 || plan.Version != 4 || !plan.Estimated {
			t.Errorf("%s, want %s; %+v", got, want, plan.PlanCounts)
		}
		var text bytes.Buffer
		must(t, plan.Text(&text))
		for _, part := range []string{"x/large    " + tt.want.New, "by their counts an estimate of 6 answers", map[bool]string{true: "not seen", false: "20 to 20 ms (1 calls)"}[tt.want.TookNew == nil], map[bool]string{true: "not known", false: "3 calls: $128, then $"}[tt.want.Priced == 0]} {
			if !strings.Contains(text.String(), part) {
				t.Errorf("%q is not in\n%s", part, &text)
			}
		}
	}
	// Of targets with weights each is possible, and the range has the cost of both.
	next := set("larger", "fallback: [ { provider: x, model: small, weight: 1 } ]\nweight: 1\n")
	p := planSets(old, next, PlanOptions{Cost: cost})
	must(t, p.Add(calls[0], 1))
	if m := p.Report().Models; len(m) != 1 || m[0].New != "x/larger or x/small" || m[0].CostLow != 12 || m[0].CostHigh != 120 {
		t.Errorf("%+v", m)
	}
	// What a call cost is of the model that was called, which the compared set may not have.
	for model, priced := range map[string]int64{"large": 1, "small": 0} {
		p := planSets(old, set("larger", ""), PlanOptions{Cost: cost})
		p.against = set(model, "timeout: { total: 9s }\n")
		must(t, p.Add(calls[0], 1))
		if m := p.Report().Models; len(m) != 1 || m[0].Old != "x/"+model || m[0].Calls != 1 || m[0].Priced != priced {
			t.Errorf("%s: %+v", model, m)
		}
	}
	// A prompt's callers call its model themselves.
	prompts := planSets(old, set("larger", ""), PlanOptions{Cost: cost})
	must(t, prompts.Add(asked{context: `{"plan":"pro"}`, at: now}.record(t, old, kind.Prompt, "p", false), 1))
	if plan := prompts.Report(); len(plan.Models) != 0 || plan.Version != 1 {
		t.Errorf("%+v", plan)
	}
}

// TestPlanOfMoreThanWasConsulted: what a record has of fields that no table read, and of
// splits that were not consulted, decides rows that ask for them.
func TestPlanOfMoreThanWasConsulted(t *testing.T) {
	sets := make(map[string]*definition.Snapshot)
	set := func(rows string) *definition.Snapshot {
		if sets[rows] == nil {
			sets[rows] = load(t, workspace(t, "context.yaml", "fields: { plan: { type: string, values: [free, pro] }, city: string, id: string }\n", "remoteconfigs/c.yaml",
				"type: string\ndefault: none\nrules:\n"+rows))
		}
		return sets[rows]
	}
	const all, split = "- { id: all, when: { plan: pro }, value: all }\n", "- { id: half, split: { by: id, of: [ { value: a, share: 50% }, { value: b, share: 30% } ] } }\n"
	old := set(all + split)
	counts := make(map[string]int)
	for i := range 200 {
		a := asked{context: fmt.Sprintf(`{"plan":"pro","city":%q,"id":"u%d"}`, []string{"gent", "aalst"}[i%2], i), at: now}
		// The bucket is that of a set whose split was consulted.
		told := a.record(t, set(split), kind.RemoteConfig, "c", false).Splits
		traced := a.record(t, old, kind.RemoteConfig, "c", false)
		if len(traced.Splits) > 0 {
			t.Fatalf("%+v", traced.Splits)
		}
		consulted := false
		told[0].Consulted, told[0].Arm, told[0].Share = &consulted, "", 0
		inputs := strings.TrimSuffix(string(traced.Inputs), "}")
		inputs += `,"city":{"hash":"` + string(planHasher.Append(nil, "city", []string{"gent", "aalst"}[i%2])) + `"}}`
		for _, tt := range []struct {
			name, next string
			without    planClass // what is known of it otherwise
		}{
			{"the split decides", split, planChanged},
			{"the split has other shares", strings.Replace(split, "50%", "10%", 1), planChanged},
			{"another salt", strings.Replace(split, "by: id,", "by: id, salt: x,", 1), planChanged},
			{"a field that no table read", "- { id: s, when: { city: gent }, value: gent }\n" + all, planUndecided},
		} {
			next := set(tt.next)
			p := planSets(old, next, PlanOptions{Hash: planHasher.Append})
			if v := p.verdict(p.definition(traced), traced); v.class != tt.without || v.change != nil && v.change.New.Value != nil {
				t.Fatalf("%s: %+v", tt.name, v)
			}
			more := *traced
			more.Splits, more.Inputs = told, json.RawMessage(inputs)
			v := p.verdict(p.definition(&more), &more)
			must(t, p.Add(&more, 1))
			foreign := more
			foreign.ForeignHashes = true
			if f := p.verdict(p.definition(&foreign), &foreign); strings.Contains(tt.next, "city") && f.class != planUndecided {
				t.Fatalf("%s, by a hash under another key: %+v", tt.name, f)
			}
			was, _ := a.answerOf(t, old, kind.RemoteConfig, "c")
			is, _ := a.answerOf(t, next, kind.RemoteConfig, "c")
			switch want := map[bool]planClass{true: planChanged, false: planSame}[was != is]; {
			case v.class != want:
				t.Fatalf("%s: %+v, want %d (%s to %s) by %s", tt.name, v, want, was, is, more.Inputs)
			case v.change != nil && string(v.change.New.Value) != map[bool]string{false: is}[tt.name == "another salt"]:
				t.Fatalf("%s: %s, want %s", tt.name, v.change.New, is)
			}
			counts[fmt.Sprint(tt.name, v.class)]++
			if units := p.Report().Units; len(units) > 0 {
				t.Fatalf("a unit of a split that was not consulted: %+v", units)
			}
		}
	}
	if counts["the split decides2"] != 200 || counts["a field that no table read2"] != 100 || counts["a field that no table read0"] != 100 {
		t.Errorf("%v", counts)
	}
}

// TestPlanDays: the days of a range whose shares differ by more than a point, and by more
// than chance, are named.
func TestPlanDays(t *testing.T) {
	set := func(rows string) *definition.Snapshot {
		return load(t, workspace(t, "context.yaml", "fields: { plan: { type: string, values: [free, pro] } }\n", "remoteconfigs/c.yaml", "type: number\ndefault: 0\nrules:\n"+rows))
	}
	old, next := set("- { when: { plan: free }, value: 1 }\n"), set("- { when: { plan: free }, value: 1 }\n- { when: { plan: pro }, value: 2 }\n")
	for _, tt := range []struct {
		changed [3]int // of 1000 a day
		drift   string
	}{
		{[3]int{200, 205, 209}, ""},
		{[3]int{200, 215, 205}, ""}, // by chance
		{[3]int{200, 350, 100}, "the days differ: 10 % changed on 2026-11-03, and 35 % on 2026-11-02"},
		{[3]int{0, 0, 1000}, "the days differ: 0 % changed on 2026-11-01, and 100 % on 2026-11-03"},
	} {
		p := planSets(old, next, PlanOptions{})
		for day, changed := range tt.changed {
			for i := range 1000 {
				plan := "free"
				if i < changed {
					plan = "pro"
				}
				must(t, p.Add(asked{context: `{"plan":"` + plan + `"}`, at: now.Add(time.Duration(day) * 24 * time.Hour)}.record(t, old, kind.RemoteConfig, "c", false), 1))
			}
		}
		plan := p.Report()
		var text bytes.Buffer
		must(t, plan.Text(&text))
		if plan.Drift != tt.drift || len(plan.Days) != 3 || math.Abs(plan.Days[1].ChangedShare-float64(tt.changed[1])/1000) > 1e-9 || strings.Contains(text.String(), "the next day may differ") != (tt.drift != "") {
			t.Errorf("%q of %+v", plan.Drift, plan.Days)
		}
	}
}

// TestPlanForgetsRevisions: of hundreds of revisions few are kept, and all are compared.
func TestPlanForgetsRevisions(t *testing.T) {
	set := func(value int) *definition.Snapshot {
		return load(t, workspace(t, "context.yaml", "fields: { id: string }\n", "remoteconfigs/c.yaml", fmt.Sprintf("type: number\ndefault: %d\n", value)))
	}
	sets, loads, list := make(map[string]*definition.Snapshot), 0, []*definition.Snapshot{}
	for i := range 3 * maxPlannedPasts {
		s := set(i)
		sets[s.Revision], list = s, append(list, s)
	}
	p := NewPlanner(func(revision string) (*definition.Snapshot, error) { loads++; return sets[revision], nil }, nil, set(5), PlanOptions{})
	for range 2 {
		for _, s := range list {
			for range 3 {
				must(t, p.Add(asked{context: `{"id":"a"}`, at: now}.record(t, s, kind.RemoteConfig, "c", false), 1))
				if len(p.pasts) > maxPlannedPasts || len(p.replayed) > maxPlannedPasts || len(p.subjects) > 2*maxPlannedPasts {
					t.Fatalf("%d revisions, %d definitions", len(p.pasts), len(p.replayed))
				}
			}
		}
	}
	if plan := p.Report(); plan.Changed != 6*int64(len(list)-1) || plan.Same != 6 || loads != 2*len(list) {
		t.Errorf("%+v, %d loads", plan.PlanCounts, loads)
	}
}

// TestPlanShowsNoValue: a context that is refused, or a trace that contradicts itself, is
// counted, and no text of it is shown.
func TestPlanShowsNoValue(t *testing.T) {
	set := func(model string) *definition.Snapshot {
		return load(t, workspace(t, "context.yaml", model, "remoteconfigs/c.yaml", "type: number\ndefault: 0\nrules:\n- { when: { name: present }, value: 1 }\n"))
	}
	old := set("fields: { name: { type: string, trace: value }, seats: string }\n")
	for model, want := range map[string]PlanCounts{
		"on_type_mismatch: reject\nfields: { name: { type: string, trace: value }, seats: number }\n": {Total: 1, Changed: 1},
		"fields: { name: { type: string, trace: value }, seats: number }\n":                           {Total: 1, NotDecided: 1},
	} {
		p := planSets(old, set(model), PlanOptions{replayAll: true})
		traced := asked{context: `{"name":"Eve","seats":"Mallory"}`, at: now}.record(t, old, kind.RemoteConfig, "c", true)
		if want.NotDecided > 0 {
			traced.Inputs = json.RawMessage(`{"name":"Bob"}`)
		}
		must(t, p.Add(traced, 1))
		plan := p.Report()
		var md bytes.Buffer
		must(t, plan.Markdown(&md))
		plan.ChangedShare, plan.NotDecidedShare = 0, 0
		if plan.PlanCounts != want || strings.Contains(md.String(), "Eve") || strings.Contains(md.String(), "Mallory") || strings.Contains(md.String(), "Bob") {
			t.Errorf("%+v\n%s", plan.PlanCounts, &md)
		}
	}
}

// TestPlanForecasts: what a plan says of two days of simulated traffic is what the third
// one is like, within a point, unless the days drift: then it says so.
func TestPlanForecasts(t *testing.T) {
	set := func(rows string) *definition.Snapshot {
		return load(t, workspace(t, "context.yaml", "fields: { plan: { type: string, values: [free, pro, team] }, seats: number, country: string, id: string }\n",
			"remoteconfigs/c.yaml", "type: number\ndefault: 0\nrules:\n"+rows))
	}
	old := set("- { id: big, when: { seats: 50.. }, value: 1 }\n- { id: home, when: { country: be, plan: not free }, value: 2 }\n- { id: ramp, when: { plan: [free, pro] }, ramp: { by: id, from: 10%, to: 10%, start: 2026-01-01, end: 2026-01-02 }, value: 3 }\n")
	for name, next := range map[string]*definition.Snapshot{
		"a row moved":   set("- { id: home, when: { country: be, plan: not free }, value: 2 }\n- { id: big, when: { seats: 50.. }, value: 1 }\n- { id: ramp, when: { plan: [free, pro] }, ramp: { by: id, from: 10%, to: 10%, start: 2026-01-01, end: 2026-01-02 }, value: 3 }\n"),
		"a ramp grows":  set("- { id: big, when: { seats: 50.. }, value: 1 }\n- { id: home, when: { country: be, plan: not free }, value: 2 }\n- { id: ramp, when: { plan: [free, pro] }, ramp: { by: id, from: 35%, to: 35%, start: 2026-01-01, end: 2026-01-02 }, value: 3 }\n"),
		"a row is gone": set("- { id: big, when: { seats: 50.. }, value: 1 }\n- { id: ramp, when: { plan: [free, pro] }, ramp: { by: id, from: 10%, to: 10%, start: 2026-01-01, end: 2026-01-02 }, value: 3 }\n"),
	} {
		for _, drifts := range []bool{false, true} {
			r := rand.New(rand.NewPCG(31, 4))
			ask := func(day int) asked {
				pro := 300 // of 1000
				if drifts {
					pro += 200 * day
				}
				plan := []string{"free", "pro", "team"}[map[bool]int{true: 1 + r.IntN(2), false: 0}[r.IntN(1000) < pro]]
				return asked{context: fmt.Sprintf(`{"plan":%q,"seats":%d,"country":%q,"id":"u%d"}`, plan, r.IntN(80), []string{"be", "nl", "de"}[r.IntN(3)], r.IntN(5000)), at: now.Add(time.Duration(24*day)*time.Hour + time.Duration(r.IntN(40_000))*time.Second)}
			}
			p := planSets(old, next, PlanOptions{Hash: planHasher.Append})
			for day := range 2 {
				for range 10_000 {
					must(t, p.Add(ask(day).record(t, old, kind.RemoteConfig, "c", false), 1))
				}
			}
			changed := 0
			for range 10_000 {
				a := ask(2)
				was, _ := a.answerOf(t, old, kind.RemoteConfig, "c")
				is, _ := a.answerOf(t, next, kind.RemoteConfig, "c")
				if was != is {
					changed++
				}
			}
			plan, share := p.Report(), float64(changed)/10_000
			if most := plan.ChangedShare + plan.NotDecidedShare; plan.Drift == "" && (share < plan.ChangedShare-0.01 || share > most+0.01) || drifts != (plan.Drift != "") || plan.ChangedShare == 0 {
				t.Errorf("%s (drifts: %t): %.4f to %.4f is said, and %.4f came; %s %+v", name, drifts, plan.ChangedShare, most, share, plan.Drift, plan.Undecided)
			}
			t.Logf("%s (drifts: %t): %.4f, %.4f not decided, and %.4f came. %s", name, drifts, plan.ChangedShare, plan.NotDecidedShare, share, plan.Drift)
		}
	}
}
