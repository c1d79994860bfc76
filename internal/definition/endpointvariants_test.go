package definition

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/rules"
)

// variedFiles are a workspace whose endpoint is the text after its prompt's key.
func variedFiles(text string) map[string]string {
	return map[string]string{
		"context.yaml":           "fields:\n  plan: { type: string, values: [free, pro, enterprise] }\n  id: string\n",
		"remoteconfigs/big.yaml": "type: boolean\ndefault: false\nrules: [ { when: { plan: enterprise }, value: true } ]\n",
		"prompts/p.yaml":         "provider: a\nmodel: m\ntemperature: 1\nextra: { seed: 1 }\nmessages: [ { role: user, content: x } ]\n",
		"endpoints/e.yaml":       "prompt: p\n" + text,
	}
}

// loadVaried loads it and returns the endpoint and the warnings.
func loadVaried(t *testing.T, text string) (*Snapshot, *Endpoint, []string) {
	t.Helper()
	dir := workspace(t, variedFiles(text))
	s := mustLoad(t, dir)
	var warnings []string
	for _, w := range s.Warnings {
		warnings = append(warnings, strings.ReplaceAll(w.String(), dir+"/", "")+" ["+w.Kind+"]")
	}
	return s, s.Endpoints["e"], warnings
}

// TestEndpointWithoutVariants holds that the version of an endpoint without variants
// is the one that it has had since before there were any.
func TestEndpointWithoutVariants(t *testing.T) {
	for text, want := range map[string]string{
		"": `250cc4c83ec7 {"kind":"endpoint","max_attempts":4,"prompt":"p","timeout":{"first_token":"20s","idle":"30s","total":"2m0s"}}`,
		"log: none\nidempotency: true\ncache: { ttl: 10m }\n": `5e44add4a021 {"cache":{"ttl":"10m0s"},"idempotency":true,"kind":"endpoint","log":"none","max_attempts":4,"prompt":"p","timeout":{"first_token":"20s","idle":"30s","total":"2m0s"}}`,
		"retry: { count: 2, on_codes: [503, 429] }\nmax_attempts: 7\ntimeout: { total: 9s, idle: 1s }\nhedge: { after: 1s }\nweight: 2\nfallback:\n" +
			"  - { provider: b, model: n, weight: 3, temperature: 0.5, extra: { k: [1.0] } }\n  - { provider: canned, extra: { answer: hi } }\n": `7c32a959c7d1 {"fallback":[{"extra":{"k":[1.0]},"model":"n","provider":"b","temperature":0.5,"weight":3},{"extra":{"answer":"hi"},"provider":"canned"}],"hedge":{"after":"1s"},"kind":"endpoint","max_attempts":7,"prompt":"p","retry":{"count":2,"on_codes":[429,503]},"timeout":{"first_token":"9s","idle":"1s","total":"9s"},"weight":2}`,
	} {
		_, e, _ := loadVaried(t, text)
		if got := e.Version + " " + string(e.Content()); got != want {
			t.Errorf("%q\ngot  %s\nwant %s", text, got, want)
		}
		if e.Table() != nil || e.Default().Key != "" {
			t.Errorf("%q has a table, or a variant %q", text, e.Default().Key)
		}
	}
}

// plans is an endpoint that calls enterprise, free and other callers differently.
const plans = `
timeout: { total: 60s, first_token: 10s }
retry: { count: 2, on_codes: [429, 503] }
max_attempts: 5
weight: 2
cache: { ttl: 1m }
fallback: [ { provider: b, model: n, weight: 1, extra: { k: 1 } } ]
variants:
  usual: { description: For most. }
  enterprise:
    hedge: { after: 2s }
    cache: ~
    timeout: { total: 30s }
    retry: { count: 0 }
  free:
    fallback: [ { provider: c, model: small, weight: 1 } ]
    weight: 0
    max_attempts: ~
    retry: ~
    timeout: ~
    cache: { ttl: 24h }
  trial:
    extends: free
    cache: { ttl: 1h }
default: usual
columns: [ plan, value ]
matrix:
  - [ enterprise, enterprise ]
  - [ free, free ]
  - [ pro, trial ]
tests:
  - { context: { plan: enterprise }, variant: enterprise, rule: row 1 }
  - { variant: usual, rule: default }
`

// TestRemembers: one variant whose answers may be remembered is enough.
func TestRemembers(t *testing.T) {
	const variants = "variants:\n  a: {}\n  b: { %s }\ndefault: a\nrules: [ { when: { plan: pro }, value: b } ]\n"
	for endpoint, want := range map[string]bool{
		"":                     false,
		"cache: { ttl: 1m }\n": true,
		fmt.Sprintf(variants, "retry: { count: 1 }"): false,
		fmt.Sprintf(variants, "cache: { ttl: 1m }"):  true,
	} {
		if s, _, _ := loadVaried(t, endpoint); s.Remembers != want {
			t.Errorf("%q: %t", endpoint, s.Remembers)
		}
	}
}

func TestEndpointVariants(t *testing.T) {
	s, e, warnings := loadVaried(t, plans)
	if len(warnings) > 0 || s.Tests != 2 {
		t.Errorf("%d tests, warnings %q", s.Tests, warnings)
	}
	two, none := 2, 0
	b, c := Target{Provider: "b", Model: "n"}, Target{Provider: "c", Model: "small"}
	usual := Policy{
		Key: "usual", Retry: Retry{&two, []int{429, 503}}, MaxAttempts: 5, Fallback: []Target{b}, Weights: []int{2, 1},
		Timeout: Timeout{time.Minute, 10 * time.Second, 30 * time.Second}, CacheTTL: time.Minute,
	}
	enterprise := usual
	enterprise.Key, enterprise.Retry.Count, enterprise.CacheTTL, enterprise.HedgeAfter = "enterprise", &none, 0, 2*time.Second
	enterprise.Timeout.Total = 30 * time.Second
	free := Policy{
		Key: "free", MaxAttempts: 4, Fallback: []Target{c}, Weights: []int{0, 1},
		Timeout: Timeout{2 * time.Minute, 20 * time.Second, 30 * time.Second}, CacheTTL: 24 * time.Hour,
	}
	trial := free
	trial.Key, trial.CacheTTL = "trial", time.Hour
	for context, want := range map[string]Policy{
		`null`: usual, `{"id":"x"}`: usual, `{"plan":"enterprise"}`: enterprise, `{"plan":"free"}`: free, `{"plan":"pro"}`: trial,
	} {
		got := e.Policy(e.Table().Evaluate(bind(t, s, context)))
		ignore := cmp.FilterPath(func(p cmp.Path) bool {
			return p.Last().String() == ".origin" || p.Last().String() == ".Extra"
		}, cmp.Ignore())
		if diff := cmp.Diff(&want, got, ignore, cmp.AllowUnexported(Target{})); diff != "" {
			t.Errorf("%s: %s", context, diff)
		}
	}
	// The own target of the prompt's variant comes first, and fallbacks have its
	// parameters.
	targets := e.Policy(rules.Decision{Outcome: 1}).Targets(e.Prompt.fallback)
	if len(targets) != 2 || targets[0].Provider != "a" || string(targets[0].Extra["seed"]) != "1" ||
		targets[1].Model != "small" || *targets[1].Parameters.Temperature != 1 || targets[1].Extra != nil {
		t.Errorf("targets %+v", targets)
	}
	var named []string
	for target := range e.Named() {
		named = append(named, target.Provider)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, named); diff != "" {
		t.Errorf("each target once: %s", diff)
	}
}

// TestEndpointVariantsInTheVersion holds that the content has variants with all they
// inherit, and only members with an effect.
func TestEndpointVariantsInTheVersion(t *testing.T) {
	_, e, _ := loadVaried(t, "cache: { ttl: 60s }\nvariants:\n  a: {}\n  b: { extends: a, hedge: { after: 1s }, fallback: [ { provider: b, model: n } ] }\ndefault: a\nrules: [ { when: { plan: pro }, value: b } ]\n")
	policy := func(more string) string {
		return `{"cache":{"ttl":"1m0s"},` + more + `"max_attempts":4,"timeout":{"first_token":"20s","idle":"30s","total":"2m0s"}}`
	}
	want := `{"default":"a","kind":"endpoint","prompt":"p","rules":[{"value":"b","when":{"plan":"pro"}}],"variants":{"a":` + policy("") +
		`,"b":` + policy(`"fallback":[{"model":"n","provider":"b"}],"hedge":{"after":"1s"},`) + `}}`
	if string(e.Content()) != want {
		t.Errorf("\ngot  %s\nwant %s", e.Content(), want)
	}
	// The same, said in another way.
	_, other, _ := loadVaried(t, "variants:\n  b:\n    description: d\n    fallback: [ { provider: b, model: n } ]\n    hedge: { after: 1000ms }\n    cache: { ttl: 1m }\n  a: { extends: b, fallback: [], hedge: ~ }\ndefault: a\nrules: [ { when: { plan: pro }, value: b } ]\n")
	if other.Version != e.Version {
		t.Errorf("another spelling is another version: %s", other.Content())
	}
	seen := map[string]string{e.Version: "the first"}
	for _, edit := range [][2]string{{"default: a", "default: b"}, {"plan: pro", "plan: free"}, {"1s", "2s"}, {"60s", "61s"}, {"a: {}", "a: { retry: { count: 1 } }"}, {"value: b", "value: a"}} {
		text := "cache: { ttl: 60s }\nvariants:\n  a: {}\n  b: { hedge: { after: 1s }, fallback: [ { provider: b, model: n } ] }\ndefault: a\nrules: [ { when: { plan: pro }, value: b } ]\n"
		_, e, _ := loadVaried(t, strings.Replace(text, edit[0], edit[1], 1))
		if before, ok := seen[e.Version]; ok {
			t.Errorf("%q and %q have one version", edit, before)
		}
		seen[e.Version] = fmt.Sprint(edit)
	}
}

func TestEndpointVariantsThatAreWrong(t *testing.T) {
	const (
		fallback = "fallback: [ { provider: b, model: n } ]"
		ab       = "variants: { a: {}, b: {} }\n"
	)
	for _, test := range []struct {
		text string
		want []string
	}{
		{"variants: {}\n", []string{"2:11: variants must be a mapping of names to variants, with one at least"}},
		{"variants: [ a ]\n", []string{"2:11: variants must be a mapping of names to variants, with one at least"}},
		{"variants:\n  a: ~\n", []string{`3:6: a variant must be a mapping, this is empty: {} has nothing of its own`}},
		{"variants: { a b: {} }\n", []string{`2:13: "a b" can't be the name of a variant: 1 to 256 letters, digits and . _ : / -`}},
		{ab, []string{"1:1: default is missing: it names the variant that answers when no row does (known: a, b)"}},
		{ab + "default: c\n", []string{`3:10: there is no variant "c" (known: a, b)`}},
		{"variants: { usual: {}, free: {} }\ndefault: usaul\n", []string{`3:10: there is no variant "usaul": did you mean "usual"?`}},
		{"variants: { usual: {}, free: {} }\ndefault: usual\nrules: [ { when: { plan: free }, value: fre } ]\n", []string{`4:41: there is no variant "fre": did you mean "free"?`}},
		{ab + "default: a\nrules: [ { when: { plna: free }, value: b } ]\n", []string{`4:20: unknown field "plna": did you mean "plan"?`}},
		{ab + "default: a\nrules: [ { when: { config: { bgi: true } }, value: b } ]\n", []string{`4:30: there is no remote configuration "bgi": did you mean "big"?`}},
		{"variants: { a: { extends: b }, b: { extends: a } }\ndefault: a\n", []string{"2:46: the variant a extends itself by way of this one"}},
		{"variants: { a: { extends: a } }\n", []string{"2:27: the variant a extends itself by way of this one"}},
		{"variants: { usual: {}, b: { extends: usuall } }\ndefault: usual\n", []string{`2:38: there is no variant "usuall" to extend: did you mean "usual"?`}},
		{"variants: { a: { extends: 7, hegde: {} } }\n", []string{`2:27: there is no variant "7" to extend (known: a)`, `2:30: unknown member "hegde" in a variant: did you mean "hedge"?`}},
		// Members in the wrong place.
		{"variants: { a: { idempotency: true } }\n", []string{"2:18: idempotency holds for the whole endpoint: write it beside variants, not into one"}},
		{"variants: { a: { log: none, prompt: p } }\n", []string{"2:18: log holds for the whole endpoint: write it beside variants, not into one", "2:29: prompt holds for the whole endpoint: write it beside variants, not into one"}},
		{"variants: { a: { rules: [] } }\n", []string{"2:18: rules holds for the whole endpoint: write it beside variants, not into one"}},
		{"variants: { a: { model: m } }\n", []string{"2:18: model is no member of an endpoint's variant, which says how to call: write it into the prompt, or into a fallback"}},
		{"variants: { a: { first_token: 1s } }\n", []string{`2:18: unknown member "first_token" in a variant (known: extends, description, retry, max_attempts, fallback, weight, hedge, timeout, cache)`}},
		{"extends: a\nvariants: { a: {} }\n", []string{`2:1: unknown member "extends" in an endpoint`}},
		// A table without variants.
		{"default: a\n", []string{"2:1: default is about variants, and the endpoint has none: add variants that say how to call, or put the table into its prompt"}},
		{"rules: [ { value: a } ]\nhit: first\n", []string{"2:1: rules is about variants, and the endpoint has none: add variants that say how to call, or put the table into its prompt"}},
		{"varaints: { a: {} }\ndefault: a\n", []string{`2:1: unknown member "varaints" in an endpoint: did you mean "variants"?`}},
		// Members of variants together with inherited ones.
		{"max_attempts: 1\nvariants:\n  a: {}\n  b: { " + fallback + " }\n  c: { extends: b, cache: { ttl: 1h } }\n  d: { " + fallback + ", max_attempts: 1 }\ndefault: a\n", []string{
			"5:18: max_attempts is 1 (endpoints/e.yaml:2:15) and there are 2 targets: some could never be tried",
			"2:15: max_attempts is 1 and there are 2 targets: some could never be tried",
			"7:63: max_attempts is 1 and there are 2 targets: some could never be tried",
		}},
		{"max_attempts: 1\n" + fallback + "\nvariants: { a: {}, b: { cache: { ttl: 1h } } }\ndefault: a\n", []string{"2:15: max_attempts is 1 and there are 2 targets: some could never be tried"}},
		{"variants: { a: { fallback: [ { provider: b } ] }, b: { extends: a } }\ndefault: b\n", []string{"2:30: this fallback of the endpoint e has no model: name the one that b is to call by the member model"}},
		{"variants: { a: { fallback: [ { provider: b, model: n, weight: 0 } ], weight: -1, retry: 2, timeout: { totl: 1s }, cache: {}, hedge: {}, max_attempts: 11 } }\n", []string{
			`2:63: weight must be a whole number from 1 to 1000, this is "0"`,
			`2:78: weight must be a whole number from 0 to 1000, this is "-1"`,
			`2:89: retry must be a mapping such as { count: 2 }, this is "2"`,
			`2:103: unknown member "totl" in timeout: did you mean "total"?`,
			`2:122: ttl is missing: how long an answer is given again, such as 10m`,
			`2:133: after is missing: how long a request waits for an answer until the next target is asked too, such as 2s`,
			`2:151: max_attempts must be a whole number from 1 to 10, this is "11"`,
		}},
		{"weight: 0\nmax_attempts: ~\nvariants: { a: {} }\n", []string{`2:9: weight must be a whole number from 1 to 1000, this is "0"`, `3:15: max_attempts must be a whole number from 1 to 10, this is empty`}},
		// Tests.
		{"variants: { a: {}, b: {} }\ndefault: a\nrules: [ { id: r, when: { plan: pro }, value: b } ]\ntests: [ { context: { plan: pro }, variant: a }, { context: { plan: free }, rule: r }, { context: { plan: pro } }, { variant: b, variables: {} } ]\n", []string{
			`5:45: test failed: expected the variant "a", got "b" (r)`,
			`5:83: test failed: expected rule "r", got "default"`,
			`5:88: the test expects nothing: add variant or rule`,
			`5:127: test failed: expected the variant "b", got "a" (default)`,
			`5:130: unknown member "variables" in a test (known: name, context, unchecked_context, at, variant, value, rule)`,
		}},
		{"variants: { a: {}, b: {} }\ndefault: a\nrules: [ { id: r, from: 2026-12-01, value: b } ]\ntests: [ { variant: a } ]\n", []string{
			"5:10: this table has a schedule, so its tests need an instant, at: 2026-01-31T09:00:00Z: without one they would break on the day",
		}},
		{"variants: { a: {}, b: {} }\ndefault: a\nhit: unique\nrules: [ { when: { plan: pro }, value: b }, { when: { id: x }, value: a } ]\n", []string{
			`5:45: row 1 and row 2 match the same context with different values, for example for {"plan":"pro","id":"x"} (the table has hit: unique)`,
		}},
	} {
		dir := workspace(t, variedFiles(test.text))
		_, err := Load(dir)
		want := make([]string, len(test.want))
		for i, line := range test.want {
			want[i] = "endpoints/e.yaml:" + line
		}
		t.Run(test.text, func(t *testing.T) {
			if err == nil {
				t.Fatal("no error")
			}
			got := strings.Split(strings.ReplaceAll(err.Error(), dir+"/", ""), "\n")
			if diff := cmp.Diff(want, got, sorted); diff != "" {
				t.Error(diff)
			}
		})
	}
}

var sorted = cmp.Transformer("sorted", func(list []string) map[string]bool {
	set := make(map[string]bool)
	for _, line := range list {
		set[line] = true
	}
	return set
})

// TestEndpointVariantsWarn checks members without an effect in one variant and
// with one in another that inherits it.
func TestEndpointVariantsWarn(t *testing.T) {
	const fallback = "fallback: [ { provider: b, model: n } ]"
	for text, want := range map[string][]string{
		"hedge: { after: 5s }\nvariants:\n  a: {}\n  b: { " + fallback + " }\n  c: { " + fallback + ", timeout: { total: 1s } }\ndefault: a\nrules: [ { when: { plan: pro }, value: b }, { when: { plan: free }, value: c } ]\n": nil,
		"hedge: { after: 5s }\nvariants:\n  a: {}\n  c: { " + fallback + ", timeout: { total: 1s } }\ndefault: a\nrules: [ { when: { plan: free }, value: c } ]\n": {
			"endpoints/e.yaml:2:8: hedge has no effect: there is no fallback to ask [hedge]",
			"endpoints/e.yaml:2:17: after (5s) is not shorter than the timeout's total (1s), which ends the request first [hedge]",
		},
		"weight: 3\nvariants: { a: {}, b: { fallback: [ { provider: b, model: n, weight: 1 } ] } }\ndefault: a\nrules: [ { when: { plan: free }, value: b } ]\n": nil,
		"variants: { a: { weight: 3 }, b: { fallback: [ { provider: b, model: n, weight: 1 } ] }, c: { extends: b, weight: 0 } }\ndefault: a\nrules: [ { when: { plan: free }, value: b }, { value: c } ]\n": {
			"endpoints/e.yaml:2:26: weight has no effect: no fallback has one to share requests with [weight]",
			"endpoints/e.yaml:2:46: the fallbacks have weights and the variant b has none: they are tried before the prompt's own target (weight: 0 says that this is meant) [weight]",
		},
		"timeout: { first_token: 10s }\nvariants: { a: {}, b: { timeout: { total: 5s } } }\ndefault: a\nrules: [ { when: { plan: free }, value: b } ]\n": nil,
		"timeout: { first_token: 10s }\nvariants: { b: { timeout: { total: 5s } } }\n": {
			"endpoints/e.yaml:2:25: first_token (10s) is longer than total (5s), which ends the request first [timeout]",
		},
		"cache: { ttl: 1h }\ntimeout: { total: 9s }\n" + fallback + "\nvariants: { a: { cache: ~, timeout: { total: 1s }, fallback: [] }, b: { extends: a, cache: { ttl: 2h } } }\ndefault: a\nrules: [ { when: { plan: free }, value: b } ]\n": {
			"endpoints/e.yaml:2:8: cache has no effect: each variant has its own, or none [unused-member]",
			"endpoints/e.yaml:4:11: fallback has no effect: each variant has its own, or none [unused-member]",
		},
		"variants: { a: {}, b: {}, c: {}, d: { extends: c } }\ndefault: a\nrules: [ { when: { plan: free }, value: d } ]\n": {
			"endpoints/e.yaml:2:20: the variant b is never used: no row picks it, no variant extends it, and it is not the default [unused-variant]",
		},
		"variants: { a: {}, b: {} }\ndefault: a\nrules: [ { when: { plan: free }, value: b }, { when: { plan: [free] }, value: a } ]\n": {
			"endpoints/e.yaml:4:46: row 2 is never reached: row 1 above matches all that it matches, for example for {\"plan\":\"free\"} [unreachable]",
		},
	} {
		if _, _, warnings := loadVaried(t, text); !cmp.Equal(want, warnings) {
			t.Errorf("%s%s", text, cmp.Diff(want, warnings))
		}
	}
}

// TestEndpointVariantsComeBack checks that inherited members are written out, and
// the version stays.
func TestEndpointVariantsComeBack(t *testing.T) {
	comesBack(t, workspace(t, variedFiles(plans)))
	comesBack(t, workspace(t, variedFiles("log: none\nidempotency: true\nvariants: { \"1.10\": {}, \"null\": { retry: { count: 0, on_codes: [] }, weight: 2 } }\ndefault: \"1.10\"\nhit: unique\n"+
		"rules: [ { id: r, when: { config: { big: true } }, split: { by: id, coverage: 10%, of: [ { value: \"null\", share: 20% } ] } } ]\n")))
}

// TestEndpointsDependOnConfigs: an edit of a configuration that an endpoint's table
// asks for reaches the endpoint, which has not changed itself.
func TestEndpointsDependOnConfigs(t *testing.T) {
	dir := workspace(t, variedFiles("variants: { a: {}, b: {} }\ndefault: a\nrules: [ { when: { config: { big: true } }, value: b } ]\ntests: [ { context: { plan: enterprise }, variant: b } ]\n"))
	source := opened(t, dir)
	picks := func(plan string) string {
		s := source.Snapshot()
		e := s.Endpoints["e"]
		return e.Policy(e.Table().Evaluate(bind(t, s, `{"plan":"`+plan+`"}`))).Key
	}
	if got := picks("enterprise") + picks("pro"); got != "ba" {
		t.Errorf("before: %s", got)
	}
	version := source.Snapshot().Endpoints["e"].Version
	write(t, dir+"/remoteconfigs/big.yaml", "type: boolean\ndefault: false\nrules: [ { when: { plan: [pro, enterprise] }, value: true } ]\n")
	must(t, source.Reload())
	if got := picks("enterprise") + picks("pro"); got != "bb" || source.Snapshot().Endpoints["e"].Version != version {
		t.Errorf("after: %s, version %s", got, source.Snapshot().Endpoints["e"].Version)
	}
	write(t, dir+"/remoteconfigs/big.yaml", "type: boolean\ndefault: false\n")
	if err := source.Reload(); err == nil || !strings.Contains(err.Error(), `expected the variant "b", got "a"`) {
		t.Errorf("the endpoint's test does not hold any more: %v", err)
	}
}

// TestEndpointVariantsAndProviders: a target that variants inherit is reported once,
// and one that every variant replaces not at all.
func TestEndpointVariantsAndProviders(t *testing.T) {
	dir := workspace(t, variedFiles("fallback: [ { provider: none, model: m } ]\nvariants:\n  a: { fallback: [ { provider: opnai, model: m } ] }\n  b: { extends: a, cache: { ttl: 1h } }\n  c: { extends: b, fallback: [] }\ndefault: a\nrules: [ { when: { plan: pro }, value: b }, { when: { plan: free }, value: c } ]\n"))
	_, err := Load(dir, Configuration{Providers: Providers{"a": {Module: "openai"}, "openai": {Module: "openai"}}})
	wantErrors(t, dir, err, `endpoints/e.yaml:4:32: the provider "opnai", which the endpoint e calls, is not configured: did you mean "openai"?`)
	found := mustLoad(t, dir).CheckPrices([]string{"m", "opnai/m", "none/m"}, nil, func(_, _, _ string) (string, bool, bool) { return "", true, true })
	if diff := cmp.Diff([]string{`price none/m: no endpoint calls this model`}, found); diff != "" {
		t.Error(diff)
	}
}
