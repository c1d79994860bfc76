package inspect

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
	"github.com/valyala/fastjson"
)

var planHasher = func() *trace.Hasher {
	h, err := trace.NewHasher([]byte(strings.Repeat("k", trace.MinKeyLength)), "default")
	if err != nil {
		panic(err)
	}
	return h
}()

// gatewayState is the state of a gateway: the shares of budgets, and who is down.
type gatewayState map[string]int

func (g gatewayState) Budget(limit string) (int, bool) { n, ok := g["budget."+limit]; return n, ok }
func (g gatewayState) Down(provider, _ string) (bool, bool) {
	n, ok := g["health."+provider]
	return n > 0, ok
}

func (g gatewayState) Rollout(string) (int, int64, bool) { n, ok := g["rollout"]; return n, 1, ok }

// asked is a request, of which a trace keeps a part.
type asked struct {
	context string
	gateway gatewayState
	at      time.Time
	named   string // the variant that an endpoint's caller names
}

func (a asked) bind(t testing.TB, s *definition.Snapshot) (*rules.Binding, error) {
	t.Helper()
	b := new(rules.Binding)
	b.SetGateway(a.gateway)
	return b, s.Model.Bind(b, fastjson.MustParse(a.context), a.at)
}

// answerOf is what a caller has, worked out from the original context: the answer, and
// the text of a prompt.
func (a asked) answerOf(t testing.TB, s *definition.Snapshot, k *kind.Kind, name string) (value, text string) {
	t.Helper()
	d := s.Named(k, name)
	if d == nil {
		return "removed", ""
	}
	b, err := a.bind(t, s)
	if err != nil {
		return "refused", ""
	}
	if k == kind.RemoteConfig {
		v, _ := s.RemoteConfigs[d.Key].Evaluate(b)
		return string(v), ""
	}
	p := d.Rendered()
	v, _ := p.Select(b)
	if a.named != "" {
		v = nil
		for _, other := range p.Variants() {
			if other.Key == a.named {
				v = other
			}
		}
		if v == nil {
			return "removed", ""
		}
	}
	rendered, err := Evaluate(s, Query{Key: p.Key, Kind: kind.Prompt, At: a.at, Context: fastjson.MustParse(a.simulated()), Variables: fastjson.MustParse(`{}`)})
	must(t, err)
	if value, text = v.Key, string(rendered.Value); rendered.Variant != v.Key || a.context == "{}" {
		text = v.Key // of the gateway's fields it makes a context
	}
	if e := s.Endpoints[d.Key]; k == kind.Endpoint {
		how := e.Default()
		if own := e.Table(); own != nil {
			how = e.Policy(own.Evaluate(b))
		}
		value += " " + how.Key
	}
	return value, text
}

// simulated is the context with the fields of the gateway.
func (a asked) simulated() string {
	members := strings.TrimSuffix(strings.TrimPrefix(a.context, "{"), "}")
	for _, name := range []string{"budget.day", "health.a"} {
		n, ok := a.gateway[name]
		value := fmt.Sprint(n)
		if name == "health.a" {
			value = []string{`"up"`, `"down"`}[min(n, 1)]
		}
		if ok {
			members += fmt.Sprintf(",%q:%s", name, value)
		}
	}
	return "{" + strings.TrimPrefix(members, ",") + "}"
}

// record makes the trace of an answer as the gateway does.
func (a asked) record(t testing.TB, s *definition.Snapshot, k *kind.Kind, key string, content bool) *Traced {
	t.Helper()
	d := s.Find(k, key)
	b, err := a.bind(t, s)
	must(t, err)
	traced := &Traced{TraceID: "t-" + key, Time: a.at, APIKey: "app", Kind: k.String(), Key: key, Version: d.Version, Revision: s.Revision}
	var trail rules.Trail
	table := d.Table()
	if p := d.Rendered(); p != nil {
		table = p.Table()
	}
	decided := table.Evaluate(b)
	traced.Reason, traced.Arm = decided.Reason.String(), table.Arm(decided)
	if decided.Row >= 0 {
		traced.Row = table.Rows()[decided.Row].ID
	}
	table.AppendTrail(&trail, b)
	tables := []*rules.Table{table}
	if p := d.Rendered(); p != nil {
		traced.Arm = p.Variant(decided).Key
		if a.named != "" {
			traced.Arm, traced.Notes = a.named, append(traced.Notes, trace.NoteVariant+a.named)
		}
		traced.Variant = traced.Arm
		for _, name := range p.Variables().Names() {
			if c := p.Variables().Configured(name); c != nil {
				trail.Ask(c.Table(), b)
			}
		}
	}
	if e := s.Endpoints[key]; k == kind.Endpoint {
		traced.EndpointVariant = e.Default().Key
		if own := e.Table(); own != nil {
			chosen := own.Evaluate(b)
			traced.EndpointVariant = e.Policy(chosen).Key
			if chosen.Row >= 0 {
				traced.EndpointRow = own.Rows()[chosen.Row].ID
			}
			own.AppendTrail(&trail, b)
			tables = append(tables, own)
		}
	}
	if splits := trail.AppendSplits(nil, b, planHasher.Append); splits != nil {
		must(t, json.Unmarshal(splits, &traced.Splits))
	}
	for _, asked := range trail.Asked {
		if traced.Read == nil {
			traced.Read = make(map[string]string)
		}
		traced.Read[asked.Name()] = "v"
	}
	tables = append(tables, trail.Asked...)
	if b.NoContext() && slices.ContainsFunc(tables, (*rules.Table).ReadsGateway) {
		traced.Notes = append(traced.Notes, rules.NoteNoContext)
	}
	traced.Inputs = tables[0].AppendInputs(nil, b, tables[1:], planHasher.Append)
	if content {
		traced.Context = json.RawMessage(a.context)
	}
	return traced
}

// planSets plans from one workspace to another.
func planSets(old, next *definition.Snapshot, o PlanOptions) *Planner {
	return NewPlanner(func(revision string) (*definition.Snapshot, error) {
		if revision != old.Revision {
			return nil, nil
		}
		return old, nil
	}, nil, next, o)
}

// planEditor makes random workspaces, and edits of them.
type planEditor struct{ *rand.Rand }

func (e planEditor) pick(of ...string) string { return of[e.IntN(len(of))] }

const planModel = `
fields:
  plan:   { type: string, values: [free, pro, team] }
  locale: { type: string, match: language-range MODE }
  city:   { type: string, ignore_case: true MODE }
  email:  { type: string MODE }
  seats:  { type: number MODE }
  since:  { type: date MODE }
  app:    { type: string, format: semver MODE }
  tags:   { type: list MODE }
  beta:   { type: boolean MODE }
  id:     { type: string MODE }
computed:
  big: seats >= 10.0
  who: plan + id
segments:
  staff: [ { email: "*@acme.com" }, { beta: true } ]
  few: [ { seats: ..4 } ]
`

func (e planEditor) model() string {
	text := planModel
	for strings.Contains(text, "MODE") {
		text = strings.Replace(text, "MODE", e.pick("", "", ", trace: value", ", trace: hash", ", trace: none"), 1)
	}
	return text
}

func (e planEditor) when(asks bool) string {
	cells := []string{
		e.pick("", "plan: free", "plan: [pro, team]", "plan: not pro", "plan: missing"), e.pick("", "locale: nl", "locale: [de, fr]"), e.pick("", "city: Gent", "city: not gent", "city: [gent, aalst]"),
		e.pick("", "email: a@acme.com", "email: '*@acme.com'", "email: present"), e.pick("", "seats: 10..20", "seats: ..4", "seats: 5", "seats: not 5"), e.pick("", "since: 2026-01-03..", "since: 2026-01-02"),
		e.pick("", "app: 2.0.0..", "app: ^1.2"), e.pick("", "tags: a", "tags: { all: [a, b] }", "tags: { none: [a] }"), e.pick("", "beta: true", "beta: missing"), e.pick("", "id: u1", "id: [u2, u3]", "id: present"),
		e.pick("", "segment: staff", "segment: not few"), e.pick("", "big: true", "big: false"), e.pick("", "budget.day: 80..", "health.a: down"),
	}
	if asks {
		cells = append(cells, e.pick("", "config: { base: true }", "config: { base: false }"))
	}
	e.Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
	cells = slices.DeleteFunc(cells, func(c string) bool { return c == "" })
	return strings.Join(cells[:min(len(cells), e.IntN(3))], ", ")
}

func (e planEditor) row(asks bool, value func() string) string {
	answer := "value: " + value()
	switch e.IntN(5) {
	case 0:
		if fresh, control := value(), value(); fresh != control && e.IntN(2) == 0 {
			answer = fmt.Sprintf("split: { by: %s, salt: %s, guard: { new: %s, control: %s, steps: [1%%], every: 1h, stop: [ { metric: error, ratio: 2 } ] } }", e.pick("id", "seats"), e.pick("x", "y"), fresh, control)
			break
		}
		answer = fmt.Sprintf("split: { by: %s, salt: %s, of: [ { value: %s, share: %s }, { value: %s, share: 20%% } ] }", e.pick("id", "id", "seats", "who"), e.pick("x", "y"), value(), e.pick("20%", "50%", "80%"), value())
	case 1:
		answer = fmt.Sprintf("ramp: { by: id, from: 10%%, to: 90%%, start: 2026-01-01, end: 2026-01-0%d }, value: %s", 4+e.IntN(4), value())
	case 2:
		answer = e.pick("from: 2026-01-03, ", "until: 2026-01-03, ") + answer
	}
	return fmt.Sprintf("- { id: r%d, when: { %s }, %s }\n", e.IntN(1e9), e.when(asks), answer)
}

// planWorkspace is a workspace as the rows of its tables.
type planWorkspace struct {
	model, text     string
	base, c, p, own []string
	removed, word   string
}

func (e planEditor) number() string  { return e.pick("0", "1", "2") }
func (e planEditor) variant() string { return e.pick("a", "b") }

func (e planEditor) workspace() planWorkspace {
	rows := func(asks bool, value func() string) (rows []string) {
		for range 1 + e.IntN(5) + 12*(e.IntN(4)/3) { // of more than 4 rows there is an index
			rows = append(rows, e.row(asks, value))
		}
		return rows
	}
	return planWorkspace{model: e.model(), text: "hello", word: "60", base: rows(false, func() string { return e.pick("true", "false") }), c: rows(true, e.number), p: rows(true, e.variant), own: rows(true, e.variant)}
}

func (w planWorkspace) load(t testing.TB) (*definition.Snapshot, error) {
	t.Helper()
	files := []string{
		"context.yaml", w.model,
		"remoteconfigs/base.yaml", "type: boolean\ndefault: false\nrules:\n" + strings.Join(w.base, ""),
		"remoteconfigs/words.yaml", "type: object\ndefault: { words: 60 }\nrules:\n- { when: { plan: pro, seats: 5.. }, value: { words: " + w.word + " } }\n",
		"prompts/p.yaml", "default: a\nvariables: { words: { config: words, path: words } }\nvariants:\n  a: { provider: canned, extra: { answer: x }, messages: [ { role: user, content: '{{words}}' } ] }\n  b: { extends: a, messages: [ { role: user, content: '" + w.text + " {{words}}' } ] }\nrules:\n" + strings.Join(w.p, ""),
		"endpoints/e.yaml", "prompt: p\ndefault: a\nvariants: { a: { timeout: { total: 9s } }, b: { timeout: { total: 8s } } }\nrules:\n" + strings.Join(w.own, ""),
	}
	if w.removed == "" {
		files = append(files, "remoteconfigs/c.yaml", "type: number\ndefault: 0\nrules:\n"+strings.Join(w.c, ""))
	}
	return definition.Load(workspace(t, files...))
}

// edit changes one thing of a workspace.
func (e planEditor) edit(w planWorkspace) planWorkspace {
	list, value := &w.c, e.number
	switch e.IntN(4) {
	case 0:
		list, value = &w.p, e.variant
	case 1:
		list, value = &w.own, e.variant
	}
	rows := slices.Clone(*list)
	at := e.IntN(len(rows))
	switch e.IntN(12) {
	case 0, 1, 2:
		rows = slices.Insert(rows, at, e.row(true, value))
	case 3, 4:
		rows = slices.Delete(rows, at, at+1)
	case 5:
		row := rows[at]
		rows = slices.Insert(slices.Delete(rows, at, at+1), e.IntN(len(rows)), row)
	case 6:
		rows[at] = strings.NewReplacer("20%", "30%", "90%", "60%", "salt: x", "salt: y", "value: 1", "value: 2", "10..", "15..").Replace(rows[at])
	case 7:
		w.base = slices.Insert(slices.Clone(w.base), 0, e.row(false, func() string { return "true" }))
	case 8:
		edits := [][2]string{{"values: [free, pro, team]", "values: [free, pro]"}, {"ignore_case: true", "ignore_case: false"}, {">= 10.0", ">= 20.0"}, {"..4 }", "..5 }"}, {"type: number", "type: number, max: 12"}, {"@acme.com", "@acme.org"}, {"type: string, format: semver", "type: string"}, {"plan + id", "id"}, {"type: number", "type: number, coerce: false"}, {"..4 }", "..17 }"}, {"\nfields:", "\ntargeting_key: id\nfields:"}, {"\nfields:", "\non_type_mismatch: reject\nfields:"}}
		edit := edits[e.IntN(len(edits))]
		w.model = strings.Replace(w.model, edit[0], edit[1], 1)
	case 9:
		w.text = "good day"
	case 10:
		w.word = "120"
	default:
		if rows[at] = e.row(true, value); e.IntN(4) == 0 {
			w.removed = "c"
		}
	}
	if *list = rows; len(rows) == 0 {
		*list = []string{"- { id: none, when: { plan: missing }, value: " + value() + " }\n"}
	}
	return w
}

func (e planEditor) asked() asked {
	a := asked{gateway: gatewayState{}, at: time.Date(2026, 1, 1+e.IntN(7), e.IntN(24), e.IntN(60), 0, 0, time.UTC)}
	if e.IntN(3) > 0 {
		a.gateway["budget.day"] = e.IntN(120)
	}
	if e.IntN(3) > 0 {
		a.gateway["health.a"] = e.IntN(2)
	}
	if e.IntN(3) > 0 {
		a.gateway["rollout"] = []int{0, 1000, 50_000, 100_000}[e.IntN(4)]
	}
	members := []string{
		e.pick("", `"plan":"free"`, `"plan":"pro"`, `"plan":"team"`, `"plan":"odd"`), e.pick("", `"locale":"nl"`, `"locale":"nl-BE"`, `"locale":"de"`, `"locale":"en"`),
		e.pick("", `"city":"Gent"`, `"city":"gent"`, `"city":"Aalst"`), e.pick("", `"email":"a@acme.com"`, `"email":"b@acme.com"`, `"email":"c@acme.org"`),
		e.pick("", `"seats":4`, `"seats":5`, `"seats":"12"`, `"seats":17`, `"seats":30`), e.pick("", `"since":"2026-01-01"`, `"since":"2026-01-02T09:00:00Z"`, `"since":"2026-01-04"`),
		e.pick("", `"app":"1.2.3"`, `"app":"2.0.0-rc.1"`, `"app":"2.1"`), e.pick("", `"tags":"a"`, `"tags":["a","b"]`, `"tags":["c"]`), e.pick("", `"beta":true`, `"beta":false`),
		e.pick("", `"id":"u1"`, `"id":"u2"`, fmt.Sprintf(`"id":"u%d"`, e.IntN(1e4))), e.pick("", `"targetingKey":"u3"`),
	}
	members = slices.DeleteFunc(members, func(m string) bool { return m == "" || e.IntN(12) == 0 })
	a.context = "{" + strings.Join(members, ",") + "}"
	if e.IntN(25) == 0 {
		a.context = "{}"
	}
	return a
}

// TestPlanOfRandomEdits: of each decision the plan says what the new definitions answer to
// the original context, or names the field that would tell.
func TestPlanOfRandomEdits(t *testing.T) {
	counts := make(map[planClass]int)
	edits, mistakes, most := 0, 0, 300
	if testing.Short() {
		most = 60
	}
	for seed := uint64(0); edits < most; seed++ {
		e := planEditor{rand.New(rand.NewPCG(seed, 31))}
		w := e.workspace()
		old, err := w.load(t)
		if err != nil {
			mistakes++
			continue
		}
		edited := e.edit(w)
		next, err := edited.load(t)
		if err != nil {
			mistakes++
			continue
		}
		edits++
		o := PlanOptions{Hash: planHasher.Append, replayAll: seed%3 == 0}
		if seed%5 == 0 {
			o.Hash = nil
		}
		p := planSets(old, next, o)
		changed, decided := 0, 0
		for range 25 {
			a := e.asked()
			content := e.IntN(6) == 0
			for _, k := range kind.All {
				key := map[*kind.Kind]string{kind.Prompt: "p", kind.Endpoint: "e", kind.RemoteConfig: "c"}[k]
				a.named = ""
				if k == kind.Endpoint && e.IntN(5) == 0 {
					a.named = e.variant()
				}
				traced := a.record(t, old, k, key, content)
				was, wasText := a.answerOf(t, old, k, key)
				is, isText := a.answerOf(t, next, k, key)
				v := p.verdict(p.definition(traced), traced)
				must(t, p.Add(traced, 1))
				counts[v.class]++
				want := planSame
				switch {
				case was != is:
					want = planChanged
				case wasText != isText && a.named == "" && k == kind.Prompt:
					want = planVersion
				}
				if k != kind.Prompt && v.class == planVersion && want == planSame && (w.text != edited.text || w.word != edited.word || !slices.Equal(w.base, edited.base) || w.model != edited.model) {
					continue // the text of an endpoint's prompt
				}
				if k == kind.Prompt && v.class == planVersion && want == planSame {
					want = v.class // a text that only variables of other values tell apart
				}
				switch v.class {
				case planUndecided:
					if v.field == "" {
						t.Errorf("seed %d: not decided, and no field: %s", seed, v.reason)
					}
				case want:
					decided++
				default:
					t.Fatalf("seed %d: %s %s: class %d, want %d (%s -> %s)\n%s\n%s\n%+v\n%+v", seed, k, key, v.class, want, was, is, a.context, traced.Inputs, w, edited)
				}
				if was != is && v.class != planUndecided {
					changed++
				}
				if traced.Context != nil && v.class == planUndecided && v.reason == "" {
					t.Errorf("seed %d: a kept context does not decide: %+v", seed, v)
				}
			}
		}
		plan := p.Report()
		if plan.Changed != int64(changed) || plan.Total != plan.Same+plan.Version+plan.Changed+plan.NotDecided || plan.Total != 75 {
			t.Fatalf("seed %d: %+v, %d changed", seed, plan.PlanCounts, changed)
		}
	}
	t.Logf("%d mistakes, classes %v", mistakes, counts)
	if counts[planChanged] < most || counts[planSame] < 30*most || counts[planVersion] < most/2 || counts[planUndecided] > 12*most {
		t.Errorf("classes: %v", counts)
	}
}
