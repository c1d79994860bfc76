package gateway_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// provenFields are the fields of the data model of proofs, with cells and values.
var provenFields = []struct {
	name, declared string
	cells, values  []string
}{
	{"plan", "type: string, values: [free, pro, team]", []string{"pro", "not free", "[free, team]", "any", "missing", "present"}, []string{`"free"`, `"pro"`, `"team"`, `"wood"`}},
	{"user", "type: string", []string{"u1*", `"*3"`, `"*2*"`, "{ matches: '^u[0-9]{1,2}$' }", "/7$/", "{ none: [u1, u2] }", "{ all: [u*, not u9] }", "present", "u7"}, nil},
	{"city", "type: string, ignore_case: true", []string{"gent", "{ is: AALST }", "[gent, Ä]", "not gent"}, []string{`"Gent"`, `"GENT"`, `"aalst"`, `"ä"`}},
	{"locale", "type: string, match: language-range", []string{"nl", "nl-BE", "not fr", "[nl, fr]"}, []string{`"nl"`, `"nl-BE"`, `"NL-nl"`, `"fr"`}},
	{"seats", "type: number, min: 0", []string{"10", "10..", "..5", "2..<8", "[1, 20..]", "not 3"}, []string{`1`, `3`, `7.5`, `10`, `"12"`, `1e3`, `-1`}},
	{"beta", "type: boolean", []string{"true", "false", "missing"}, []string{`true`, `false`, `"true"`}},
	{"since", "type: date", []string{"2026-01-31", "2026-01-01..", "..2025-12-31T12:00:00Z", "not 2026-01-31"}, []string{`"2026-01-31"`, `"2026-01-31T23:30:00.123456Z"`, `1767225600123.5`, `"2025-05-05"`}},
	{"app", "type: string, format: semver", []string{"^2.1", "~2.1.3", "2.0..<2.2", "1.0.0"}, []string{`"2.1.3"`, `"v2.1"`, `"2.1.0-rc.1"`, `"1.0.0"`}},
	{"ip", "type: string, format: ip", []string{"10.0.0.0/8", "not 10.0.0.0/8", `"192.168.1.1"`}, []string{`"10.1.2.3"`, `"192.168.1.1"`, `"::1"`}},
	{"tags", "type: list", []string{"a", "{ all: [a, b] }", "{ none: [c] }", "{ size: 2.. }", "a*", "[b, c]"}, []string{`["a"]`, `["a","b"]`, `["c",1,true]`, `"b"`, `[]`}},
	{"deep", "type: string, path: account.tier", []string{"gold", "not gold", "missing"}, nil},
	// A field of the gateway, which a context can't set.
	{"health.shaky", "", []string{"up", "down", "not up", "present", "missing"}, []string{`"up"`, `"down"`}},
}

// shaky is a provider that is available at random.
type shaky struct {
	failing
	down atomic.Bool
}

func (s *shaky) Unavailable() error {
	if s.down.Load() {
		return errors.New("it is down")
	}
	return nil
}

// provenModel returns their data model. mode says how traces record a field.
func provenModel(mode func(field string) string) string {
	var b strings.Builder
	b.WriteString("timezone: Europe/Brussels\nfields:\n")
	for _, f := range provenFields {
		if f.declared != "" {
			fmt.Fprintf(&b, "  %s: { %s%s }\n", f.name, f.declared, mode(f.name))
		}
	}
	b.WriteString(`computed:
  big: seats > 5.0 && plan == "pro"
  unit: user + "/" + plan
  odd: present(tags) && size(tags) > 1 && now > timestamp("2020-01-01T00:00:00Z")
segments:
  rich: [ { plan: team, seats: 2.. }, { big: true }, { health.shaky: down, plan: pro } ]
  lucky: [ { segment: rich, user: "*1*" }, { odd: true } ]
trace: { always: [app, odd] }
`)
	return b.String()
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// provenRules returns a random table. A row may ask most of the configurations in asks,
// whose values are a and b; answer returns a value of the row.
func provenRules(r *rand.Rand, most int, asks []string, answer func() string) string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range 3 + r.IntN(8) {
		var when []string
		for _, j := range r.Perm(len(provenFields))[:r.IntN(3)] {
			f := provenFields[j]
			when = append(when, f.name+": "+pick(r, f.cells))
		}
		switch r.IntN(8) {
		case 0:
			when = append(when, "segment: "+pick(r, []string{"rich", "not rich", "[rich, lucky]", "{ all: [lucky], none: [rich] }"}))
		case 1:
			when = append(when, pick(r, []string{"big: true", "big: missing", "odd: false", `unit: "*/pro"`}))
		}
		if len(asks) > 0 && r.IntN(3) == 0 {
			var conditions []string
			for _, j := range r.Perm(len(asks))[:1+r.IntN(min(most, len(asks)))] {
				conditions = append(conditions, asks[j]+": "+pick(r, []string{"a", "b", "[a, b]"}))
			}
			when = append(when, "config: { "+strings.Join(conditions, ", ")+" }")
		}
		fmt.Fprintf(&b, "  - id: r%d\n    when: { %s }\n", i, strings.Join(when, ", "))
		switch r.IntN(12) {
		case 0:
			b.WriteString("    from: 2020-01-01\n")
		case 1:
			b.WriteString("    until: 2020-01-01T00:00:00Z\n")
		}
		now := time.Now().UTC()
		unit := pick(r, []string{"user", "user", "seats", "unit", "city"})
		ramp := fmt.Sprintf("ramp: { by: %s, from: 5%%, to: 90%%, start: %s, end: %s }", unit, now.Add(-time.Hour).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339))
		switch r.IntN(6) {
		case 0:
			fmt.Fprintf(&b, "    %s\n    value: %s\n", ramp, answer())
		case 1:
			fmt.Fprintf(&b, "    %s\n    split: { by: %s, of: [ { value: %s, share: 30%% }, { value: %s, share: 45.5%% } ] }\n", ramp, unit, answer(), answer())
		case 2, 3:
			fmt.Fprintf(&b, "    split: { by: %s, salt: s%d, coverage: %d%%, of: [ { value: %s, share: 50%% }, { value: %s, share: 50%% } ] }\n", unit, r.IntN(3), 20+r.IntN(81), answer(), answer())
		default:
			fmt.Fprintf(&b, "    value: %s\n", answer())
		}
	}
	return b.String()
}

// provenKeys are the remote configurations of proofs.
var provenKeys = []string{"c0", "c1", "c2", "c3"}

// provenDefinitions returns random definitions of every kind.
func provenDefinitions(r *rand.Rand, most int, mode func(field string) string) map[string]string {
	files := map[string]string{"definitions/context.yaml": provenModel(mode)}
	ab := func() string { return pick(r, []string{"a", "b"}) }
	for i, key := range provenKeys {
		files["definitions/remoteconfigs/"+key+".yaml"] = "type: string\ndefault: " + ab() + "\n" + provenRules(r, most, provenKeys[:i], ab)
	}
	variable := "{ config: c3 }"
	if most == 1 {
		variable = "{ default: x }"
	}
	files["definitions/prompts/p.yaml"] = "default: b\nvariables: { text: " + variable + " }\nvariants:\n  a: { provider: canned, extra: { echo: true }, messages: [ { role: user, content: \"{{text}}\" } ] }\n  b: { extends: a, messages: [ { role: user, content: b } ] }\n" +
		provenRules(r, most, provenKeys[:2], ab)
	files["definitions/endpoints/e.yaml"] = "prompt: p\naccept: { variants: true }\ndefault: a\nvariants: { a: { timeout: { total: 9s } }, b: { max_attempts: 2, fallback: [ { provider: shaky, model: m } ] } }\n" + provenRules(r, most, provenKeys[1:3], ab)
	return files
}

// provenContext returns a random context.
func provenContext(r *rand.Rand) string {
	if r.IntN(8) == 0 {
		return "{}"
	}
	var members []string
	for _, f := range provenFields {
		switch {
		case r.IntN(5) == 0:
		case f.name == "user":
			members = append(members, fmt.Sprintf(`"user":"u%d"`, r.IntN(100)))
		case f.name == "deep":
			members = append(members, `"account":{"tier":"`+pick(r, []string{"gold", "tin"})+`"}`)
		default:
			members = append(members, `"`+f.name+`":`+pick(r, f.values))
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

// recordedTraces makes requests to a gateway with changing definitions until there are
// n records, and returns them and the sets of definitions by revision.
func recordedTraces(t *testing.T, r *rand.Rand, n, most int, mode func(field string) string, settings ...setting) (traces []*inspect.Traced, revisions map[string]*definition.Snapshot) {
	t.Helper()
	traces, stored := recordedFiles(t, r, n, most, mode, settings...)
	return traces, loaded(t, stored)
}

// loaded returns sets of definitions by revision.
func loaded(t *testing.T, stored map[string]*definition.Past) map[string]*definition.Snapshot {
	t.Helper()
	revisions := make(map[string]*definition.Snapshot)
	for revision, past := range stored {
		var err error
		if revisions[revision], err = past.Load(); err != nil {
			t.Fatal(err)
		}
	}
	return revisions
}

// recordedFiles is recordedTraces with the files of the definitions.
func recordedFiles(t *testing.T, r *rand.Rand, n, most int, mode func(field string) string, settings ...setting) (traces []*inspect.Traced, stored map[string]*definition.Past) {
	t.Helper()
	rounds := min(20, 2+n/2500)
	perRequest, asked := len(provenKeys)+2, 0
	provider := new(shaky)
	g := startGateway(t, provenDefinitions(r, most, mode), append(settings, withProvider("shaky", provider))...)
	for round := range rounds {
		if round > 0 {
			for name, text := range provenDefinitions(r, most, mode) {
				g.write(name, text)
			}
			if err := g.source.Reload(); err != nil {
				t.Fatal(err)
			}
		}
		keys, err := json.Marshal(provenKeys)
		if err != nil {
			t.Fatal(err)
		}
		for range 1 + n/rounds/perRequest {
			context := provenContext(r)
			asked += perRequest
			provider.down.Store(r.IntN(2) == 0)
			for path, body := range map[string]string{
				"/v1/remoteconfigs": `{"keys":` + string(keys) + `,"context":` + context + `}`,
				"/v1/prompts":       `{"keys":["p"],"context":` + context + `}`,
				"/v1/endpoints":     `{"key":"` + []string{"e", "e@a", "e", "e@b"}[asked/perRequest%4] + `","context":` + context + `}`,
			} {
				if a := g.post(path, body); a.status != 200 {
					t.Fatalf("%s %s: %d %s", path, body, a.status, a.body)
				}
			}
		}
	}
	traces, stored = g.recorded(asked)
	if len(traces) < n || len(stored) < rounds {
		t.Fatalf("%d traces of %d revisions, want %d of %d", len(traces), len(stored), n, rounds)
	}
	return traces, stored
}

// recorded waits for so many traces, and returns them and the files of their revisions.
func (g *gateway) recorded(n int) (traces []*inspect.Traced, stored map[string]*definition.Past) {
	t := g.t
	t.Helper()
	reader, err := sqlite.OpenReader(t.Context(), filepath.Join(g.dir, "data/cadenza.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	eventually(t, "all traces are stored", func() bool {
		last, err := reader.LastSeq(t.Context())
		return err == nil && last >= int64(n)
	})
	stored = make(map[string]*definition.Past)
	err = reader.Export(t.Context(), trace.Filter{Workspace: "default"}, func(record *trace.Record, _ []trace.Metrics) error {
		traced := new(inspect.Traced)
		if err := json.Unmarshal(record.AppendJSON(nil), traced); err != nil {
			return err
		}
		traces = append(traces, traced)
		if stored[traced.Revision] != nil {
			return nil
		}
		revision, err := reader.Revision(t.Context(), "default", traced.Revision)
		if err == nil {
			stored[traced.Revision] = &definition.Past{Revision: revision.Revision, Files: revision.Files}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return traces, stored
}

func ofProof(p *inspect.Proof) string {
	text, _ := json.MarshalIndent(p, "", " ")
	return string(text)
}

// TestMustHoldProofOfKeptInputs checks that decisions with recorded inputs, or with a
// recorded context, are proved: of any kind, with cells of any kind, splits, ramps,
// prerequisites and computed fields.
func TestMustHoldProofOfKeptInputs(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	health := make(map[string]int)
	for name, test := range map[string]struct {
		mode    string
		setting setting
	}{"inputs": {", trace: value", options}, "context": {", trace: hash", logContent}} {
		traces, revisions := recordedTraces(t, r, gatewaytest.Full(100_000)/2, 2, func(string) string { return test.mode }, test.setting)
		reasons := make(map[string]int)
		for _, traced := range traces {
			health[fastjson.GetString(traced.Inputs, "health.shaky")]++
			if traced.Row != "" && slices.Contains(traced.Notes, rules.NoteNoContext) {
				health["none"]++
			}
			proof := inspect.Prove(revisions[traced.Revision], traced)
			if proof.Result != inspect.Same {
				recorded, _ := json.Marshal(traced)
				t.Fatalf("%s: %s\n%s", name, ofProof(proof), recorded)
			}
			reasons[traced.Reason]++
		}
		if n := len(traces) / 10; reasons["match"] < n || reasons["split"] < n || reasons["default"] == 0 || reasons["no_context"] == 0 {
			t.Errorf("%s: decisions by reason: %v", name, reasons)
		}
	}
	if health["up"] < 20 || health["down"] < 20 || health["none"] < 5 {
		t.Errorf("decisions by health, and by a row without a context: %v", health)
	}
}

// TestMustHoldProofOfHashes checks that with the values recorded by default, a proof is
// never wrong, and often possible.
func TestMustHoldProofOfHashes(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(2, 2))
	traces, revisions := recordedTraces(t, r, gatewaytest.Full(20_000)/fewer, 2, func(f string) string {
		return map[string]string{"city": ", trace: none", "locale": ", trace: value"}[f]
	}, options)
	results := make(map[string]int)
	for _, traced := range traces {
		proof := inspect.Prove(revisions[traced.Revision], traced)
		results[proof.Result]++
		if proof.Result == inspect.Differs || proof.Result == inspect.Unknown && len(proof.Missing) == 0 {
			recorded, _ := json.Marshal(traced)
			t.Fatalf("%s\n%s", ofProof(proof), recorded)
		}
	}
	if n := len(traces) / 10; results[inspect.Same] < n || results[inspect.Unknown] < n {
		t.Errorf("results: %v", results)
	}
}

// changed returns copies of a trace, by the name of the one member that was changed.
func changed(t *testing.T, traced *inspect.Traced) map[string]*inspect.Traced {
	t.Helper()
	all := make(map[string]*inspect.Traced)
	recorded, err := json.Marshal(traced)
	if err != nil {
		t.Fatal(err)
	}
	change := func(name string, edit func(c *inspect.Traced)) {
		c := new(inspect.Traced)
		if err := json.Unmarshal(recorded, c); err != nil {
			t.Fatal(err)
		}
		edit(c)
		all[name] = c
	}
	text := func(name string, at func(c *inspect.Traced) *string, others ...string) {
		for _, other := range append(others, "other") {
			if *at(traced) != other {
				change(name+"="+other, func(c *inspect.Traced) { *at(c) = other })
			}
		}
	}
	text("reason", func(c *inspect.Traced) *string { return &c.Reason }, "", "match", "split", "default", "no_context")
	text("row", func(c *inspect.Traced) *string { return &c.Row }, "", "r0", "r1")
	text("arm", func(c *inspect.Traced) *string { return &c.Arm }, "", "a", "b", "1")
	text("version", func(c *inspect.Traced) *string { return &c.Version }, "")
	text("revision", func(c *inspect.Traced) *string { return &c.Revision }, "")
	if traced.Kind == "endpoint" {
		text("prompt", func(c *inspect.Traced) *string { return &c.Prompt }, "")
		text("prompt_version", func(c *inspect.Traced) *string { return &c.PromptVersion }, "")
		text("endpoint_variant", func(c *inspect.Traced) *string { return &c.EndpointVariant }, "", "a", "b")
		text("endpoint_row", func(c *inspect.Traced) *string { return &c.EndpointRow }, "", "r0")
	}
	for i := range traced.Splits {
		name := fmt.Sprintf("splits[%d]", i)
		text(name+".arm", func(c *inspect.Traced) *string { return &c.Splits[i].Arm }, "", "a", "1")
		text(name+".definition", func(c *inspect.Traced) *string { return &c.Splits[i].Experiment.Definition }, "remoteconfigs/c0", "prompts/p")
		text(name+".rule", func(c *inspect.Traced) *string { return &c.Splits[i].Experiment.Rule }, "r0", "r1")
		text(name+".salt", func(c *inspect.Traced) *string { return &c.Splits[i].Experiment.Salt }, "", "s0")
		change(name+".bucket", func(c *inspect.Traced) { *c.Splits[i].Bucket = (*c.Splits[i].Bucket + 1) % 100_000 })
		change(name+".bucket far", func(c *inspect.Traced) { *c.Splits[i].Bucket += 100_000 })
		change(name+".share", func(c *inspect.Traced) { c.Splits[i].Share += 0.00001 })
		if traced.Splits[i].WasConsulted() {
			change(name+" removed", func(c *inspect.Traced) { c.Splits = slices.Delete(c.Splits, i, i+1) })
		}
		change(name+".consulted", func(c *inspect.Traced) { c.Splits[i].Consulted = new(!traced.Splits[i].WasConsulted()) })
		change(name+".arms", func(c *inspect.Traced) { c.Splits[i].Arms = map[string]float64{"1": 0.5, "2": 0.4} })
		change(name+" twice", func(c *inspect.Traced) { c.Splits = append(c.Splits, c.Splits[i]) })
	}
	for key := range traced.Read {
		change("read."+key+" removed", func(c *inspect.Traced) { delete(c.Read, key) })
		change("read."+key, func(c *inspect.Traced) { c.Read[key] = "000000000000" })
	}
	if arm := map[string]string{"a": "b", "b": "a"}[traced.Arm]; traced.Kind == "prompt" && arm != "" {
		change("note on a named variant", func(c *inspect.Traced) {
			c.Arm, c.Variant, c.Notes = arm, arm, append(c.Notes, trace.NoteVariant+arm)
		})
	}
	if slices.Contains(traced.Notes, trace.NoteVariant+traced.Arm) {
		change("another variant is named", func(c *inspect.Traced) {
			c.Arm, c.Variant, c.Notes = "c", "c", []string{trace.NoteVariant + "c"}
		})
	}
	change("inputs removed", func(c *inspect.Traced) { c.Inputs = nil })
	return all
}

// TestMustHoldProofOfChangedRecords checks that a record with one changed member is not
// proved. No row asks two configurations: if neither holds, the order in the file decides
// which one was asked, and the parsed definition lacks this order. No variable reads a
// configuration, because a caller may have given its value.
func TestMustHoldProofOfChangedRecords(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 3))
	traces, revisions := recordedTraces(t, r, gatewaytest.Full(10_000), 1, func(string) string { return ", trace: value" }, options)
	changes, inputs := 0, 0
	for _, traced := range traces {
		s := revisions[traced.Revision]
		for name, c := range changed(t, traced) {
			if name == "inputs removed" && (len(traced.Inputs) == 0 || string(traced.Inputs) == "{}") {
				continue
			}
			changes++
			if proof := inspect.Prove(s, c); proof.Result == inspect.Same {
				recorded, _ := json.Marshal(traced)
				t.Fatalf("%s passes: %s\n%s", name, ofProof(proof), recorded)
			}
		}
		// Another input may lead to the same decision; an evaluation tells.
		var members map[string]json.RawMessage
		if len(traced.Inputs) == 0 || json.Unmarshal(traced.Inputs, &members) != nil {
			continue
		}
		for name := range members {
			c := *traced
			other := make(map[string]json.RawMessage)
			for n, v := range members {
				other[n] = v
			}
			for _, f := range provenFields {
				if f.name == name && f.values != nil {
					other[name] = json.RawMessage(pick(r, f.values))
				}
			}
			if r.IntN(3) == 0 || string(other[name]) == string(members[name]) {
				delete(other, name)
			}
			var err error
			if c.Inputs, err = json.Marshal(other); err != nil {
				t.Fatal(err)
			}
			// Of a variant that the caller named, the table chose the row alone.
			named := strings.Contains(fmt.Sprint(traced.Notes), trace.NoteVariant)
			if row, arm := decidedBy(t, s, &c, other); row != traced.Row || arm != traced.Arm && !named {
				inputs++
				if proof := inspect.Prove(s, &c); proof.Result == inspect.Same {
					t.Fatalf("inputs %s for %s pass: %s", c.Inputs, traced.Inputs, ofProof(proof))
				}
			}
		}
	}
	if changes < 15*len(traces) || inputs < len(traces)/20 {
		t.Errorf("%d changes, %d of inputs, of %d traces", changes, inputs, len(traces))
	}
}

// decidedBy returns the decision of the definitions for values of the fields.
func decidedBy(t *testing.T, s *definition.Snapshot, traced *inspect.Traced, values map[string]json.RawMessage) (row, arm string) {
	t.Helper()
	context := make(map[string]any)
	for name, v := range values {
		if name == "deep" {
			context["account"] = map[string]json.RawMessage{"tier": v}
			continue
		}
		context[name] = v
	}
	if !slices.Contains(traced.Notes, rules.NoteNoContext) {
		context["unread"] = true // so that the context is not empty
	}
	text, err := json.Marshal(context)
	if err != nil {
		t.Fatal(err)
	}
	var b rules.Binding
	if err := s.Model.Simulate(&b, fastjson.MustParseBytes(text), traced.Time); err != nil {
		t.Fatal(err)
	}
	var table *rules.Table
	switch traced.Kind {
	case "remoteconfig":
		table = s.RemoteConfigs[traced.Key].Table()
	case "prompt":
		table = s.Prompts[traced.Key].Table()
	default:
		table = s.Prompts[traced.Prompt].Table()
	}
	d := table.Evaluate(&b)
	if d.Row >= 0 {
		row = table.Rows()[d.Row].ID
	}
	if arm = table.Arm(d); traced.Kind != "remoteconfig" {
		arm = s.Prompts["p"].Variant(d).Key
	}
	return row, arm
}
