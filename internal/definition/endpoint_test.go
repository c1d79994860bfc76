package definition

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/invoke"
)

// endpointOf loads a workspace with one endpoint whose prompt names a provider.
func endpointOf(t *testing.T, text string) (*Endpoint, []string) {
	t.Helper()
	dir := workspace(t, map[string]string{
		"prompts/p.yaml":   "provider: a\nmodel: m\nmessages: [ { role: user, content: x } ]\n",
		"endpoints/e.yaml": "prompt: p\n" + text,
	})
	s := mustLoad(t, dir)
	var warnings []string
	for _, w := range s.Warnings {
		warnings = append(warnings, strings.ReplaceAll(w.String(), dir+"/", ""))
	}
	return s.Endpoints["e"], warnings
}

func TestWeightsAndHedge(t *testing.T) {
	for _, test := range []struct {
		text     string
		weights  []int
		hedge    time.Duration
		warnings []string
	}{
		{"", nil, 0, nil},
		{"fallback: [ { provider: b, model: n } ]\n", nil, 0, nil},
		{"weight: 3\nfallback: [ { provider: b, weight: 1000, model: n }, { provider: c, model: n } ]\n", []int{3, 1000, 0}, 0, nil},
		{"fallback: [ { provider: b, weight: 2, model: n }, { provider: c, weight: 1, model: n } ]\n", []int{0, 2, 1}, 0,
			[]string{"endpoints/e.yaml:2:11: the fallbacks have weights and the endpoint has none: they are tried before the variant's own target"}},
		{"weight: 1\nfallback: [ { provider: b, model: n } ]\n", []int{1, 0}, 0,
			[]string{"endpoints/e.yaml:2:9: weight has no effect: no fallback has one to share requests with"}},
		{"hedge: { after: 1500ms }\nfallback: [ { provider: b, model: n } ]\n", nil, 1500 * time.Millisecond, nil},
		{"timeout: { total: 8s, first_token: 4s }\nfallback: [ { provider: b, model: n } ]\n", nil, 0, nil},
		{"timeout: { total: 8s, first_token: 8s }\n", nil, 0, nil},
		{"timeout: { total: 8s, first_token: 8s }\nhedge: { after: 1s }\nfallback: [ { provider: b, model: n } ]\n", nil, time.Second, nil},
		{"timeout: { total: 8s, first_token: 4s }\nfallback: [ { provider: b, model: n }, { provider: c, model: n } ]\n", nil, 0,
			[]string{"endpoints/e.yaml:2:19: a stream may wait 4s (first_token) at each target before the last one (2), and total is 8s: the last is never tried then; with a first_token of 2.667s each has its share"}},
		{"timeout: { total: 8s }\nfallback: [ { provider: b, model: n } ]\n", nil, 0,
			[]string{"endpoints/e.yaml:2:19: a stream may wait 8s (first_token) at each target before the last one (1), and total is 8s: the last is never tried then; with a first_token of 4s each has its share"}},
		{"timeout: { first_token: 60s }\nfallback: [ { provider: b, model: n }, { provider: c, model: n } ]\n", nil, 0,
			[]string{"endpoints/e.yaml:3:11: a stream may wait 1m0s (first_token) at each target before the last one (2), and total is 2m0s: the last is never tried then; with a first_token of 40s each has its share"}},
		{"hedge: ~\n", nil, 0, nil},
		{"hedge: { after: 2s }\n", nil, 2 * time.Second,
			[]string{"endpoints/e.yaml:2:8: hedge has no effect: there is no fallback to ask"}},
		{"hedge: { after: 5s }\nfallback: [ { provider: b, model: n } ]\ntimeout: { total: 5s }\n", nil, 5 * time.Second,
			[]string{"endpoints/e.yaml:2:17: after (5s) is not shorter than the timeout's total (5s), which ends the request first"}},
	} {
		e, warnings := endpointOf(t, test.text)
		if e.Default().HedgeAfter != test.hedge {
			t.Errorf("%q: hedge after %s", test.text, e.Default().HedgeAfter)
		}
		if diff := cmp.Diff(test.weights, e.Default().Weights); diff != "" {
			t.Errorf("%q: weights %s", test.text, diff)
		}
		if n := len(e.fallback.Targets(e.Prompt.fallback)); e.fallback.Weights != nil && len(e.fallback.Weights) != n {
			t.Errorf("%q: %d weights of %d targets", test.text, len(e.Default().Weights), n)
		}
		if diff := cmp.Diff(test.warnings, warnings); diff != "" {
			t.Errorf("%q: warnings %s", test.text, diff)
		}
	}
}

func TestWeightsAndHedgeThatAreWrong(t *testing.T) {
	for text, want := range map[string]string{
		"weight: 0\n":    `endpoints/e.yaml:2:9: weight must be a whole number from 1 to 1000, this is "0"`,
		"weight: 1001\n": `endpoints/e.yaml:2:9: weight must be a whole number from 1 to 1000, this is "1001"`,
		"weight: 50%\n":  `endpoints/e.yaml:2:9: weight must be a whole number from 1 to 1000, this is "50%"`,
		"fallback: [ { provider: b, weight: -1, model: n } ]\n": `endpoints/e.yaml:2:36: weight must be a whole number from 1 to 1000, this is "-1"`,
		"hedge: 2s\n":                                  `endpoints/e.yaml:2:8: hedge must be a mapping such as { after: 2s }, this is "2s"`,
		"hedge: {}\n":                                  `endpoints/e.yaml:2:8: after is missing: how long a request waits for an answer until the next target is asked too, such as 2s`,
		"hedge: { after: 2 }\n":                        `endpoints/e.yaml:2:17: after must be a duration from 10ms to 1h such as 500ms, 30s or 1m30s, this is "2"`,
		"hedge: { after: 1s, max: 2 }\n":               `endpoints/e.yaml:2:21: unknown member "max" in hedge (known: after)`,
		"hedge: { after: 1s }\nwieght: 1\n":            `endpoints/e.yaml:3:1: unknown member "wieght" in an endpoint: did you mean "weight"?`,
		"fallback: 7\nweight: 1\n":                     `endpoints/e.yaml:2:11: fallback must be a list of {provider, model}, this is a single value`,
		"fallback: [ 7, { provider: b, model: n } ]\n": `endpoints/e.yaml:2:13: a fallback must be a mapping such as { provider: openai, model: gpt-6-luna }, this is "7"`,
	} {
		dir := workspace(t, map[string]string{
			"prompts/p.yaml":   "provider: a\nmodel: m\nmessages: [ { role: user, content: x } ]\n",
			"endpoints/e.yaml": "prompt: p\n" + text,
		})
		_, err := Load(dir)
		wantErrors(t, dir, err, want)
	}
}

func TestWeightsAndHedgeArePartOfTheVersion(t *testing.T) {
	seen := map[string]string{}
	for _, text := range []string{
		"fallback: [ { provider: b, model: n } ]\n",
		"fallback: [ { provider: b, weight: 1, model: n } ]\n",
		"fallback: [ { provider: b, weight: 2, model: n } ]\n",
		"weight: 1\nfallback: [ { provider: b, weight: 2, model: n } ]\n",
		"hedge: { after: 1s }\nfallback: [ { provider: b, model: n } ]\n",
		"hedge: { after: 2s }\nfallback: [ { provider: b, model: n } ]\n",
	} {
		e, _ := endpointOf(t, text)
		if other, ok := seen[e.Version]; ok {
			t.Errorf("%q and %q have one version", text, other)
		}
		seen[e.Version] = text
	}
	if e, _ := endpointOf(t, "weight: 1\nfallback: [ { provider: b, model: n } ]\n"); strings.Count(string(e.content), "weight") != 1 {
		t.Errorf("a weight that is not given is part of the version: %s", e.content)
	}
	same, _ := endpointOf(t, "hedge: { after: 1000ms }\nfallback: [ { provider: b, model: n } ]\n")
	if seen[same.Version] != "hedge: { after: 1s }\nfallback: [ { provider: b, model: n } ]\n" {
		t.Error("another spelling of the same time is another version")
	}
}

// TestRetry reads retry. An empty list of statuses is none at all, which is
// something else than no list.
func TestRetry(t *testing.T) {
	for text, want := range map[string]Retry{
		"":                                  {},
		"retry: ~\n":                        {},
		"retry: {}\n":                       {},
		"retry: { on_codes: ~ }\n":          {},
		"retry: { on_codes: [] }\n":         {OnCodes: []int{}},
		"retry: { on_codes: [429, 400] }\n": {OnCodes: []int{400, 429}},
		"retry: { count: 0 }\n":             {Count: new(int)},
	} {
		e, _ := endpointOf(t, text)
		if diff := cmp.Diff(want, e.Default().Retry); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestRetryIsPartOfTheVersion(t *testing.T) {
	seen := map[string]string{}
	for _, text := range []string{
		"",
		"retry: { count: 0 }\n",
		"retry: { count: 1 }\n",
		"retry: { count: 2 }\n",
		"retry: { on_codes: [] }\n",
		"retry: { on_codes: [429] }\n",
		"retry: { on_codes: [429, 503] }\n",
		"retry: { count: 2, on_codes: [429] }\n",
	} {
		e, _ := endpointOf(t, text)
		if other, ok := seen[e.Version]; ok {
			t.Errorf("%q and %q have one version", text, other)
		}
		seen[e.Version] = text
	}
	same, _ := endpointOf(t, "retry: { on_codes: [503, 429, 503] }\n")
	if seen[same.Version] != "retry: { on_codes: [429, 503] }\n" {
		t.Error("another order of the same statuses is another version")
	}
}

// TestFallbacksAreBounded: each target needs an attempt.
func TestFallbacksAreBounded(t *testing.T) {
	fallbacks := func(n int) string {
		return "fallback: [ " + strings.Repeat("{ provider: b, model: n }, ", n) + "]\n"
	}
	e, _ := endpointOf(t, fallbacks(invoke.MaxAttempts-1))
	if len(e.Default().Fallback) != invoke.MaxAttempts-1 || e.Default().MaxAttempts != invoke.MaxAttempts {
		t.Errorf("%d fallbacks, %d attempts", len(e.Default().Fallback), e.Default().MaxAttempts)
	}
	dir := workspace(t, map[string]string{
		"prompts/p.yaml":   "provider: a\nmodel: m\nmessages: [ { role: user, content: x } ]\n",
		"endpoints/e.yaml": "prompt: p\n" + fallbacks(invoke.MaxAttempts),
	})
	_, err := Load(dir)
	wantErrors(t, dir, err, "endpoints/e.yaml:2:11: there are 10 fallbacks, at most 9 are possible")
}
