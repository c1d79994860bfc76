package rules

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/valyala/fastjson"
)

// replayModel is a data model with a mode for each field and with computed fields.
func replayModel(t testing.TB, mode func(field string) string) *Model {
	t.Helper()
	var b strings.Builder
	b.WriteString("fields:\n")
	for _, f := range [][2]string{
		{"plan", "type: string"}, {"city", "type: string, ignore_case: true"}, {"locale", "type: string, match: language-range"},
		{"seats", "type: number"}, {"beta", "type: boolean"}, {"since", "type: date"}, {"app", "type: string, format: semver"},
		{"ip", "type: string, format: ip"}, {"tags", "type: list"}, {"tier", "type: string, values: [gold, silver]"},
	} {
		fmt.Fprintf(&b, "  %s: { %s%s }\n", f[0], f[1], mode(f[0]))
	}
	b.WriteString(`
computed:
  big: seats > 2.0 && plan == "pro"
  unit: plan + city
  late: now > timestamp("2026-01-04T00:00:00Z")
segments:
  few:  [ { seats: ..2 }, { beta: true } ]
  paid: [ { plan: [pro, team] }, { big: true }, { segment: few, tier: gold } ]
`)
	return model(t, b.String(), append([]string{"budget.day", "health.a/m"}, refRollouts...)...)
}

// eachField gives every field the same mode.
func eachField(mode string) func(string) string {
	return func(string) string { return ", trace: " + mode }
}

// replayed are random tables of one model, of which the last asks the others. ok is
// false where a cell contradicts itself.
func (g generator) replayed(m *Model, rows int) (tables []*Table, ok bool) {
	ramps := g.IntN(2) == 0
	for i := range 3 {
		text, _ := g.table(rows)
		for j := range rows {
			id := fmt.Sprintf("  - id: r%d\n    when: { ", j)
			extra := ""
			switch g.IntN(8) {
			case 0:
				extra = "big: " + pick(g, []string{"true", "false", "missing"}) + ", "
			case 1:
				extra = "late: true, "
			case 2:
				extra = "tier: " + pick(g, []string{"gold", "not silver", "[gold, silver]", "missing"}) + ", "
			}
			if i > 0 && g.IntN(3) == 0 {
				extra += fmt.Sprintf("config: { t%d: v%d }, ", g.IntN(i), g.IntN(rows))
			}
			if g.IntN(2) == 0 { // or few rows would match
				head, rest, _ := strings.Cut(text, id)
				_, rest, _ = strings.Cut(rest, "\n")
				text = head + id + "}\n" + rest
			}
			text = strings.Replace(text, id, id+extra, 1)
			if ramps && g.IntN(2) == 0 {
				ramp := fmt.Sprintf("    ramp: { by: %s, from: 10%%, to: 80%%, start: 2026-01-01, end: 2026-01-07 }\n", pick(g, []string{"plan", "seats", "unit", "app"}))
				text = strings.Replace(text, fmt.Sprintf("    value: v%d\n", j), ramp+fmt.Sprintf("    value: v%d\n", j), 1)
			}
		}
		var errs document.Errors
		name := "t" + strconv.Itoa(i)
		def := document.Parse("flag.yaml", []byte(text), &errs)
		if errs.Len() > 0 {
			return nil, false
		}
		tab := DecodeTable(m, def, Options{Key: name, Name: "remoteconfigs/flag", Config: func(key, value *document.Node, _ *document.Errors) *Prerequisite {
			other := tables[slices.IndexFunc(tables, func(t *Table) bool { return t.name == key.Text })]
			p := &Prerequisite{Table: other, AcceptDefault: true}
			for o, n := range other.Outcomes() {
				if strings.HasPrefix(n.Text, value.Text) {
					p.Accept = append(p.Accept, o)
				}
			}
			return p
		}}, &errs)
		if errs.Len() > 0 {
			return nil, false
		}
		tab.name = name
		tables = append(tables, tab)
	}
	return tables, true
}

// recorded is a trace's record of a decision.
type recorded struct {
	decision  Decision
	inputs    string
	trail     Trail
	noContext bool
}

func recordOf(tab *Table, b *Binding) *recorded {
	r := &recorded{decision: tab.Evaluate(b), noContext: b.NoContext()}
	tab.AppendTrail(&r.trail, b)
	r.trail.Rest(b)
	constant := func(dst []byte, _, _ string) []byte { return append(dst, "hash"...) }
	r.inputs = string(tab.AppendInputs(nil, b, r.trail.Asked, constant))
	return r
}

// evidence is all that a proof sees, as text.
func (r *recorded) evidence() string {
	return fmt.Sprint(r.noContext) + r.inputs + "\n" + trailText(&r.trail)
}

// replay prepares the replay of a record.
func (r *recorded) replay(t testing.TB, tab *Table, at time.Time, context *fastjson.Value) *Replay {
	t.Helper()
	e := Evidence{Tables: append([]*Table{tab}, r.trail.Asked...), At: at, Context: context, NoContext: r.noContext}
	if r.inputs != "" {
		e.Inputs = parseJSON(t, r.inputs)
	}
	replay, err := tab.model.Replay(e)
	if err != nil {
		t.Fatalf("%v\n%s", err, r.inputs)
	}
	for _, c := range r.trail.Splits {
		if !replay.SetBucket(c.Table, c.Row, c.Bucket) {
			t.Fatal("no split")
		}
		c.Rollout = 0 // no definition says it
		if got := replay.Consulted(c.Table, c.Row, c.Bucket); got != c && !c.Unconsulted {
			t.Errorf("the split was %v and is %v", c, got)
		}
	}
	return replay
}

func randomContext(g generator) string {
	text, _ := g.context()
	if g.IntN(2) == 0 {
		text = strings.TrimSuffix(text, "}") + `,"tier":"` + pick(g, []string{"gold", "silver", "wood"}) + `"}`
	}
	return text
}

// mixed is a context with some members of another one.
func mixed(t testing.TB, g generator, text, other string, keep func(field string) bool) string {
	t.Helper()
	var members, others map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &members) != nil || json.Unmarshal([]byte(other), &others) != nil {
		t.Fatal(text, other)
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		if g.IntN(3) == 0 && !keep(name) {
			members[name] = others[name]
		}
	}
	out, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestReplayOfKnownValues: with all values known a replay is an evaluation, be they
// inputs or the context that was kept.
func TestReplayOfKnownValues(t *testing.T) {
	values, hashes := replayModel(t, eachField("value")), replayModel(t, eachField("hash"))
	seen, without := make(map[Reason]int), 0
	for seed := range uint64(60) {
		for _, m := range []*Model{values, hashes} {
			g := generator{Rand: rand.New(rand.NewPCG(seed, 1)), aware: seed%2 == 0, guards: seed%4 == 1}
			tables, ok := g.replayed(m, 6)
			if !ok {
				continue
			}
			tab := tables[2]
			for range 20 {
				text := randomContext(g)
				at := time.Date(2026, 1, 1+g.IntN(7), g.IntN(24), 0, 0, 0, time.UTC)
				_, gateway, _ := g.request()
				if g.aware && g.IntN(4) == 0 {
					text = "{}"
				}
				b := bindAt(t, m, text, at)
				b.SetGateway(gateway)
				r := recordOf(tab, b)
				var context *fastjson.Value
				if m == hashes {
					context = parseJSON(t, text)
				}
				replay := r.replay(t, tab, at, context)
				v := replay.Table(tab)
				if len(v.Possible) != 1 || v.Possible[0] != r.decision || v.Doubt != nil || replay.StoodIn() || len(replay.Problems()) > 0 {
					t.Fatalf("seed %d: %v for %v by %s: %v %v", seed, v.Possible, r.decision, r.evidence(), v.Doubt, replay.Problems())
				}
				var own []int
				for _, c := range r.trail.Splits {
					if c.Table == tab && !c.Unconsulted {
						own = append(own, c.Row)
					}
				}
				asked := make(map[*Table]bool)
				for _, a := range replay.Asked(tab) {
					asked[a] = true
				}
				for _, a := range r.trail.Asked {
					if !asked[a] {
						t.Fatalf("seed %d: %s was asked", seed, a.name)
					}
				}
				if len(asked) != len(r.trail.Asked) {
					t.Fatalf("seed %d: %d tables were asked, and not %d", seed, len(r.trail.Asked), len(asked))
				}
				if !slices.Equal(own, v.Consulted()) {
					t.Fatalf("seed %d: consulted %v, and not %v", seed, v.Consulted(), own)
				}
				seen[r.decision.Reason]++
				if text == "{}" && r.decision.Row >= 0 {
					without++
				}
			}
		}
	}
	if without < 20 {
		t.Errorf("%d decisions by rows without a context", without)
	}
	if seen[Match] < 100 || seen[Split] < 100 || seen[Default] < 50 {
		t.Errorf("decisions by reason: %v", seen)
	}
}

// TestReplayAgainstAllContexts checks that the decisions possible by the evidence
// of one context include the decisions of all contexts with the same evidence.
func TestReplayAgainstAllContexts(t *testing.T) {
	alone(t)
	certain, doubtful, shared, stood := 0, 0, 0, 0
	for seed := range uint64(40) {
		g := generator{Rand: rand.New(rand.NewPCG(seed, 2)), aware: seed%2 == 0, guards: seed%4 == 1}
		modes := make(map[string]string)
		m := replayModel(t, func(f string) string {
			modes[f] = ", trace: " + pick(g, []string{"value", "hash", "hash", "none"})
			return modes[f]
		})
		tables, ok := g.replayed(m, 4)
		if !ok {
			continue
		}
		tab := tables[2]
		at := time.Date(2026, 1, 1+g.IntN(7), g.IntN(24), 0, 0, 0, time.UTC)
		type group struct {
			replay    *Replay
			decisions map[Decision]bool
		}
		groups := make(map[string]*group)
		var text string
		for i := range 300 {
			if i%10 == 0 {
				text = randomContext(g)
			}
			// The other context differs in fields that are not recorded.
			other := mixed(t, g, text, randomContext(g), func(f string) bool { return strings.Contains(modes[f], "value") })
			b := bindAt(t, m, other, at)
			_, gateway, _ := g.request()
			b.SetGateway(gateway)
			r := recordOf(tab, b)
			key := r.evidence()
			if groups[key] == nil {
				groups[key] = &group{r.replay(t, tab, at, nil), make(map[Decision]bool)}
			}
			groups[key].decisions[r.decision] = true
		}
		for key, group := range groups {
			v := group.replay.Table(tab)
			for d := range group.decisions {
				if !slices.Contains(v.Possible, d) {
					t.Fatalf("seed %d: %v happened and is not possible (%v) by\n%s", seed, d, v.Possible, key)
				}
			}
			if p := group.replay.Problems(); len(p) > 0 {
				t.Fatalf("seed %d: %v", seed, p)
			}
			switch {
			case len(v.Possible) == 1:
				certain++
			case v.Doubt == nil || v.Doubt.Unseen == "" || v.Doubt.Reason == "known":
				t.Errorf("seed %d: %v are possible, and the doubt is %v", seed, v.Possible, v.Doubt)
			default:
				doubtful++
			}
			if len(group.decisions) > 1 {
				shared++
			}
			if group.replay.StoodIn() && len(v.Possible) == 1 {
				stood++
			}
		}
	}
	if certain < 300 || doubtful < 300 || shared < 8 || stood < 200 {
		t.Errorf("%d are certain, %d in doubt, %d have several decisions, in %d a bucket stood in", certain, doubtful, shared, stood)
	}
}

// TestReplayOfDoubt checks the answers by the knowledge of one field.
func TestReplayOfDoubt(t *testing.T) {
	m := model(t, `
fields:
  id:    { type: string }
  seats: { type: number }
  tier:  { type: string, values: [gold, silver], trace: hash }
  on:    { type: boolean, trace: none }
  plan:  { type: string, trace: value }
computed: { whole: 'id + "x"' }
segments: { rich: [ { tier: gold, plan: pro } ] }
`)
	asked := named(t, m, "asked", "rules: [{ id: a, when: { id: x }, value: 1 }, { id: b, when: { plan: pro }, value: 1 }, { id: c, value: 2 }]")
	for _, tt := range []struct{ rules, inputs, want string }{
		{"{ id: r, when: { id: present }, value: 1 }", `{"id":{"hash":"h"}}`, "r"},
		{"{ id: r, when: { id: missing }, value: 1 }", `{"id":{"hash":"h"}}`, "default"},
		{"{ id: r, when: { id: missing }, value: 1 }", `{}`, "r"},
		{"{ id: r, when: { id: a }, value: 1 }", `{"id":{"hash":"h"}}`, `r, default; r: id must be a, and its value is recorded as a hash`},
		{"{ id: r, when: { id: a, plan: pro }, value: 1 }", `{"id":{"hash":"h"},"plan":"free"}`, "default"},
		{"{ id: r, when: { id: a, plan: pro }, value: 1 }, { id: s, value: 2 }, { id: t, value: 3 }", `{"id":{"hash":"h"},"plan":"pro"}`, `r, s; r: id must be a, and its value is recorded as a hash`},
		{"{ id: r, when: { tier: [gold, silver] }, value: 1 }", `{"tier":{"hash":"h"}}`, "r"},
		{"{ id: r, when: { tier: gold }, value: 1 }", `{"tier":{"hash":"h"}}`, `r, default; r: tier must be gold, and its value is recorded as a hash`},
		{"{ id: r, when: { on: present }, value: 1 }", `{}`, `r, default; r: on must be present, and its value is not recorded (trace: none)`},
		{"{ id: r, when: { on: any, plan: pro }, value: 1 }", `{"plan":"pro"}`, "r"},
		{"{ id: r, when: { plan: pro }, value: 1 }", `{"plan":"[redacted:email]"}`, `r, default; r: plan must be pro, and its value is redacted`},
		{"{ id: r, when: { plan: pro }, value: 1 }", `{"plan":{"hash":"h"}}`, `r, default; r: plan must be pro, and its value is recorded as a hash, because it is long`},
		{"{ id: r, when: { segment: rich }, value: 1 }", `{"tier":{"hash":"h"},"plan":"free"}`, "default"},
		{"{ id: r, when: { segment: rich }, value: 1 }", `{"tier":{"hash":"h"},"plan":"pro"}`, `r, default; r: segment must be rich, and the value of tier is recorded as a hash`},
		{"{ id: r, when: { segment: not rich }, value: 1 }", `{"tier":{"hash":"h"},"plan":"free"}`, "r"},
		{"{ id: r, when: { whole: a }, value: 1 }", `{"id":{"hash":"h"}}`, `r, default; r: whole must be a, and the value of id is recorded as a hash`},
		{"{ id: r, when: { config: { asked: 1 } }, value: 1 }", `{"id":{"hash":"h"},"plan":"pro"}`, "r"},
		{"{ id: r, when: { config: { asked: 1 } }, value: 1 }", `{"id":{"hash":"h"},"plan":"free"}`, `r, default; r: config must be {asked: 1}, and the value of id is recorded as a hash`},
		{"{ id: r, split: { by: id, of: [{ value: 1, share: 100% }] } }, { id: s, value: 2 }", `{"id":{"hash":"h"}}`, "r"},
		{"{ id: r, split: { by: id, of: [{ value: 1, share: 50% }] } }, { id: s, value: 2 }", `{"id":{"hash":"h"}}`, `r, s; r: split must be {by: id, of: [{value: 1, share: 50%}]}, and the value of id is recorded as a hash`},
		{"{ id: r, split: { by: id, of: [{ value: 1, share: 0% }] } }, { id: s, value: 2 }", `{"id":{"hash":"h"}}`, "s"},
		{"{ id: r, split: { by: id, of: [{ value: 1, share: 50% }] } }, { id: s, value: 2 }", `{}`, "s"},
		{"{ id: r, split: { by: whole, of: [{ value: 1, share: 100% }] } }", `{"id":{"hash":"h"}}`, `r, default; r: split must be {by: whole, of: [{value: 1, share: 100%}]}, and the value of id is recorded as a hash`},
	} {
		tab := tableAsking(t, m, map[string]*Table{"asked": asked}, "rules: ["+tt.rules+"]")
		replay, err := m.Replay(Evidence{Inputs: parseJSON(t, tt.inputs), Tables: []*Table{tab, asked}, At: noon})
		if err != nil {
			t.Errorf("%s: %v", tt.rules, err)
			continue
		}
		v := replay.Table(tab)
		var got []string
		for _, d := range v.Possible {
			if d.Row < 0 {
				got = append(got, "default")
				continue
			}
			got = append(got, tab.Rows()[d.Row].ID)
		}
		text := strings.Join(got, ", ")
		if v.Doubt != nil {
			text += "; " + v.Doubt.String()
			remedy := "It can be proved of later traces with trace: value for " + v.Doubt.Unseen + " in context.yaml, or with log: content"
			switch {
			case strings.HasSuffix(tt.want, "redacted"):
				remedy = "It can't be proved as long as such values are redacted"
			case strings.HasSuffix(tt.want, "long"):
				remedy = "It can be proved of later traces with log: content"
			}
			if v.Doubt.Remedy != remedy {
				t.Errorf("%s by %s: %q", tt.rules, tt.inputs, v.Doubt.Remedy)
			}
		}
		if text != tt.want {
			t.Errorf("%s by %s:\n got %s\nwant %s", tt.rules, tt.inputs, text, tt.want)
		}
	}
}

// TestReplayRefuses: evidence that can't be of the model, or contradicts itself.
func TestReplayRefuses(t *testing.T) {
	m := model(t, "fields: { plan: { type: string, values: [free, pro] }, id: string, none: { type: string, trace: none }, other: boolean, n: { type: number, trace: value } }\ncomputed: { c: '1' }")
	tab := table(t, m, "rules: [{ id: r, when: { plan: pro, none: x, n: 1 }, split: { by: id, of: [{ value: 1, share: 50% }] } }, { id: s, value: 2 }]")
	for _, tt := range []struct{ inputs, context, want string }{
		{`[]`, ``, "inputs is no object"},
		{`{"pla":"pro"}`, ``, `"pla", which is no field`},
		{`{"c":1}`, ``, `"c", which is no field`},
		{`{"other":true}`, ``, `"other", which no table reads`},
		{`{"none":"x"}`, ``, `"none", whose field has trace: none`},
		{`{"plan":"team"}`, ``, `"plan" is "team", which is no value`},
		{`{"plan":null}`, ``, `"plan" is null`},
		{`{"n":"x"}`, ``, `"n" is "x"`},
		{`{"id":"c-1"}`, ``, `a value of "id"`},
		{`{"id":{"hash":""}}`, ``, "neither a value nor a hash"},
		{`{"plan":"pro"}`, `{"plan":"free"}`, `"plan" is "pro", and "free" by the context`},
		{`{"plan":"pro"}`, `{"id":"x"}`, `"plan" is "pro", and missing by the context`},
		{`{}`, `{"plan":"pro"}`, `"plan" is missing, and "pro" by the context`},
		{`{"plan":"pro","id":{"hash":"h"}}`, `{"plan":"pro"}`, "hash of \"id\", of which the context has no value"},
		{`{}`, `{}`, "the context is empty"},
		{`{}`, `7`, "the context is refused"},
		{`{"plan":"pro","id":{"hash":"h"}}`, `{"plan":"pro","id":"[redacted:email]","none":"y"}`, ""},
	} {
		e := Evidence{Inputs: parseJSON(t, tt.inputs), Tables: []*Table{tab}, At: noon}
		if tt.context != "" {
			e.Context = parseJSON(t, tt.context)
		}
		_, err := m.Replay(e)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %s: %v, want %q", tt.inputs, tt.context, err, tt.want)
		}
	}
	bucketOf := func(inputs, context string, bucket uint32) (problems []string, consulted bool) {
		e := Evidence{Inputs: parseJSON(t, inputs), Tables: []*Table{tab}, At: noon, Context: parseJSON(t, context)}
		r, err := m.Replay(e)
		if err != nil {
			t.Fatal(err)
		}
		if !r.SetBucket(tab, 0, bucket) || r.SetBucket(tab, 1, 1) || r.SetBucket(tab, 2, 1) || r.SetBucket(tab, 0, 100_000) {
			t.Error("buckets of rows")
		}
		v := r.Table(tab)
		return r.Problems(), len(v.Consulted()) > 0
	}
	const sent = `{"plan":"pro","id":"c-1","none":"x","n":1}`
	b := bind(t, m, sent)
	right, _ := tab.answers[0].split.bucket(b)
	const inputs = `{"plan":"pro","id":{"hash":"h"},"n":1}`
	if p, consulted := bucketOf(inputs, sent, right); len(p) > 0 || !consulted {
		t.Errorf("its bucket: %v %t", p, consulted)
	}
	if p, _ := bucketOf(inputs, sent, right+1); len(p) != 1 || !strings.Contains(p[0], "falls on bucket") {
		t.Errorf("another bucket: %v", p)
	}
	if p, _ := bucketOf(`{"plan":"pro","n":1}`, `{"plan":"pro","none":"x","n":1}`, right); len(p) != 1 || !strings.Contains(p[0], "is missing") {
		t.Errorf("the bucket of no unit: %v", p)
	}
}

// TestBucketsThatDivideAlike: splits with one key, salt and unit put a unit into one bucket,
// whatever the unit is.
func TestBucketsThatDivideAlike(t *testing.T) {
	t.Parallel()
	m := model(t, "fields: { id: string, other: string }")
	tab := table(t, m, `rules:
  - { id: a, split: { by: id, salt: s, of: [{ value: 1, share: 10% }] } }
  - { id: b, split: { by: id, salt: s, of: [{ value: 1, share: 20% }] } }
  - { id: c, split: { by: id, salt: t, of: [{ value: 1, share: 20% }] } }
  - { id: d, split: { by: other, salt: s, of: [{ value: 1, share: 20% }] } }
`)
	for row, problems := range map[int]int{1: 1, 2: 0, 3: 0} {
		r, err := m.Replay(Evidence{Inputs: parseJSON(t, `{"id":{"hash":"h"},"other":{"hash":"h"}}`), Tables: []*Table{tab}, At: noon})
		if err != nil {
			t.Fatal(err)
		}
		if !r.SetBucket(tab, 0, 7) || !r.SetBucket(tab, row, 8) || len(r.Problems()) != problems {
			t.Errorf("row %d: %v", row, r.Problems())
		}
	}
}
