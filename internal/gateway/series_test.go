package gateway_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/canned"
)

// series returns the values of all series, by name and labels in the exposed form, without
// the label of the workspace "default".
func (g *gateway) series() map[string]float64 {
	g.t.Helper()
	all := make(map[string]float64)
	for line := range strings.Lines(g.scrape()) {
		name, value, found := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(line, "#") || !found {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue // a label's value has a space
		}
		name = strings.ReplaceAll(name, `,workspace="default"`, "")
		all[strings.ReplaceAll(name, `{workspace="default"}`, "")] = number
	}
	return all
}

// expect waits until series have the values of want; negative means that the series must
// not exist. The series of removed names are deleted a moment after an edit is served.
func (g *gateway) expect(want map[string]float64) {
	g.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		all := g.series()
		var wrong []string
		for name, value := range want {
			if got, exists := all[name]; exists != (value >= 0) || exists && max(got-value, value-got) > 1e-12 {
				wrong = append(wrong, fmt.Sprintf("%s is %v (%t), want %v", name, got, exists, value))
			}
		}
		if len(wrong) == 0 {
			return
		}
		if time.Now().After(deadline) {
			g.t.Error(strings.Join(wrong, "\n"))
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestSeriesExistFromLoad checks that each name of the configuration and of the
// definitions has series with 0 from the beginning.
func TestSeriesExistFromLoad(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, fakeProvider("http://127.0.0.1:9"))
	g.expect(map[string]float64{
		`cadenza_requests_total{code="ok",definition="hello",route="prompts"}`:                0,
		`cadenza_requests_total{code="ok",definition="limits",route="remoteconfigs"}`:         0,
		`cadenza_requests_total{code="ok",definition="chat",route="endpoints"}`:               0,
		`cadenza_requests_total{code="ok",definition="",route="decisions"}`:                   0,
		`cadenza_answers_total{definition="reply",kind="prompt",variant="en"}`:                0,
		`cadenza_answers_total{definition="reply",kind="prompt",variant="nl"}`:                0,
		`cadenza_answers_total{definition="hello",kind="prompt",variant="only"}`:              0,
		`cadenza_answers_total{definition="chat",kind="endpoint",variant="nl"}`:               0,
		`cadenza_answers_total{definition="limits",kind="remoteconfig",variant=""}`:           0,
		`cadenza_cost_usd_total{definition="chat",model="small",provider="fake"}`:             0,
		`cadenza_cost_usd_total{definition="chat",model="",provider="canned"}`:                0,
		`cadenza_tokens_total{model="small",provider="fake",type="cache_write_hour"}`:         0,
		`cadenza_provider_tool_uses_total{model="small",provider="fake",tool="web_search"}`:   0,
		`cadenza_upstream_attempts_total{class="rate_limit",model="small",provider="fake"}`:   0,
		`cadenza_upstream_duration_seconds_count{class="ok",model="small",provider="fake"}`:   0,
		`cadenza_upstream_duration_seconds_count{class="slow",model="small",provider="fake"}`: -1,
		`cadenza_first_token_seconds_count{model="small",provider="fake"}`:                    0,
		`cadenza_upstream_retries_total{provider="fake"}`:                                     0,
		`cadenza_upstream_hedges_total{provider="fake"}`:                                      0,
		`cadenza_cache_hits_total{cache="answers"}`:                                           0,
		`cadenza_cache_lookups_total{cache="decisions",result="miss"}`:                        0,
		`cadenza_target_state{model="small",provider="fake",state="untried"}`:                 1,
		`cadenza_target_state{model="small",provider="fake",state="ejected"}`:                 0,
		`cadenza_streams`: 0,
	})
}

// TestRequestsAndAnswersAreCounted checks that requests count for their only key, and
// answers for each key. Names invented by callers are no labels.
func TestRequestsAndAnswersAreCounted(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { completion(w, "hello") })
	g := startGateway(t, workspace, fakeProvider(u.URL))
	for range 2 {
		g.post("/v1/prompts", `{"keys":["reply"],"context":{"locale":"nl"},`+question+`}`)
	}
	g.post("/v1/prompts", `{"keys":["reply"]}`)                          // without its variable
	g.post("/v1/prompts", `{"keys":["hello"],"context":7}`)              // invalid
	g.post("/v1/prompts", `{"keys":["hello","hello","invented-by-me"]}`) // two keys
	g.post("/v1/remoteconfigs", `{"keys":["invented-by-me"]}`)           // no key
	g.post("/v1/remoteconfigs", `{"keys":["limits","checkout"]}`)        // two
	g.post("/v1/decisions", `{"prompts":["hello"]}`)                     // one, on another route
	g.post("/v1/decisions", `{"remoteconfigs":["limits"]}`)              // one
	g.post("/v1/endpoints", `{"key":"chat","remoteconfigs":["limits"],`+question+`}`)
	g.post("/v1/endpoints", `{"key":"chat"}`)
	g.post("/v1/endpoints", `{"key":"invented-by-me"}`)
	g.post("/v1/chat/completions", `{"model":"chat@nl","messages":[{"role":"user","content":"?"}]}`)
	g.postAs("cadenza-no-key-of-anyone", "/v1/prompts", `{"keys":["hello"]}`)
	g.do("GET", "/invented-by-me", "", nil)
	g.expect(map[string]float64{
		`cadenza_requests_total{code="ok",definition="reply",route="prompts"}`:                      2,
		`cadenza_requests_total{code="missing_variable",definition="reply",route="prompts"}`:        1,
		`cadenza_requests_total{code="invalid_request",definition="hello",route="prompts"}`:         -1,
		`cadenza_requests_total{code="invalid_request",definition="",route="prompts"}`:              1,
		`cadenza_requests_total{code="ok",definition="",route="prompts"}`:                           1,
		`cadenza_requests_total{code="unknown_key",definition="",route="remoteconfigs"}`:            1,
		`cadenza_requests_total{code="ok",definition="",route="remoteconfigs"}`:                     1,
		`cadenza_requests_total{code="ok",definition="hello",route="decisions"}`:                    1,
		`cadenza_requests_total{code="ok",definition="limits",route="decisions"}`:                   1,
		`cadenza_requests_total{code="ok",definition="chat",route="endpoints"}`:                     1,
		`cadenza_requests_total{code="missing_variable",definition="chat",route="endpoints"}`:       1,
		`cadenza_requests_total{code="unknown_endpoint",definition="",route="endpoints"}`:           1,
		`cadenza_requests_total{code="invalid_api_key",definition="",route="prompts",workspace=""}`: 1,
		`cadenza_requests_total{code="not_found",definition="",route="none",workspace=""}`:          1,

		`cadenza_answers_total{definition="reply",kind="prompt",variant="nl"}`:        2,
		`cadenza_answers_total{definition="reply",kind="prompt",variant="en"}`:        0,
		`cadenza_answers_total{definition="hello",kind="prompt",variant="only"}`:      2,
		`cadenza_answers_total{definition="limits",kind="remoteconfig",variant=""}`:   3,
		`cadenza_answers_total{definition="checkout",kind="remoteconfig",variant=""}`: 1,
		`cadenza_answers_total{definition="chat",kind="endpoint",variant="en"}`:       1,
	})
	if text := g.scrape(); strings.Contains(text, "invented-by-me") {
		t.Errorf("a caller's word is in\n%s", text)
	}
}

// TestCallsAreCounted checks that attempts, also failed ones, tokens, costs and times
// count under the definition's model name.
func TestCallsAreCounted(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(call int64, w http.ResponseWriter, _ *http.Request) {
		if call == 1 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		completion(w, "hello") // 7 prompt and 3 completion tokens, with another model name
	})
	g := startGateway(t, workspace, fakeProvider(u.URL), with(func(c *gw.WorkspaceConfig) {
		c.Log = definition.LogNone // calls still count
		c.Prices = map[string]*price.Price{"small": {Prompt: 2, Completion: 10}}
	}))
	g.post("/v1/endpoints", ask("?", false)).ok(t)
	g.expect(map[string]float64{
		`cadenza_upstream_attempts_total{class="transient",model="small",provider="fake"}`:         1,
		`cadenza_upstream_attempts_total{class="ok",model="small",provider="fake"}`:                1,
		`cadenza_upstream_duration_seconds_count{class="transient",model="small",provider="fake"}`: 1,
		`cadenza_upstream_duration_seconds_count{class="ok",model="small",provider="fake"}`:        1,
		`cadenza_upstream_retries_total{provider="fake"}`:                                          1,
		`cadenza_upstream_fallbacks_total{provider="fake"}`:                                        0,
		`cadenza_tokens_total{model="small",provider="fake",type="prompt"}`:                        7,
		`cadenza_tokens_total{model="small",provider="fake",type="completion"}`:                    3,
		`cadenza_cost_usd_total{definition="chat",model="small",provider="fake"}`:                  44e-6,
		`cadenza_first_token_seconds_count{model="small",provider="fake"}`:                         0,
		`cadenza_target_state{model="small",provider="fake",state="ok"}`:                           1,
		`cadenza_target_state{model="small",provider="fake",state="untried"}`:                      0,
	})
	if text := g.scrape(); strings.Contains(text, "small-1") {
		t.Errorf("a provider's word is in\n%s", text)
	}
}

// TestCallersWhoLeaveAreCounted checks that a call whose caller leaves counts with the
// code of its trace, and not as answered.
func TestCallersWhoLeaveAreCounted(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, _ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client leaves
		<-r.Context().Done()
	})
	g := startGateway(t, workspace, fakeProvider(u.URL))
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		eventually(t, "the model is asked", func() bool { return u.Calls.Load() == 1 })
		leave()
	}()
	if _, err := g.send(ctx, "POST", "/v1/endpoints", ask("?", false), bearer(testKey)); err == nil {
		t.Error("the caller was answered")
	}
	g.expect(map[string]float64{
		`cadenza_requests_total{code="client_gone",definition="chat",route="endpoints"}`:     1,
		`cadenza_requests_total{code="ok",definition="chat",route="endpoints"}`:              0,
		`cadenza_upstream_attempts_total{class="client_gone",model="small",provider="fake"}`: 1,
		`cadenza_answers_total{definition="chat",kind="endpoint",variant="en"}`:              0,
	})
}

// TestHedgesAndFirstTokensAreCounted streams from the hedge of a target that does not answer.
func TestHedgesAndFirstTokensAreCounted(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, _ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client leaves
		<-r.Context().Done()
	})
	g := startGateway(t, endpointWith("hedge: { after: 20ms }\nfallback: [ { provider: canned, model: quick, extra: { answer: fine } } ]\n"), fakeProvider(u.URL))
	g.post("/v1/endpoints", ask("?", true)).ok(t)
	g.expect(map[string]float64{
		`cadenza_upstream_hedges_total{provider="canned"}`:                                  1,
		`cadenza_upstream_hedges_total{provider="fake"}`:                                    0,
		`cadenza_upstream_retries_total{provider="canned"}`:                                 0,
		`cadenza_upstream_attempts_total{class="superseded",model="small",provider="fake"}`: 1,
		`cadenza_first_token_seconds_count{model="quick",provider="canned"}`:                1,
	})
}

// served edits the gateway's definitions and has it serve the edit.
func (g *gateway) served(edit func()) {
	g.t.Helper()
	before := g.source.Snapshot().Revision
	edit()
	if err := g.source.Reload(); err != nil || g.source.Snapshot().Revision == before {
		g.t.Fatalf("the edit is not served: %v", err)
	}
	g.post("/v1/prompts", `{"keys":["hello"]}`) // updates the counters
}

// remove removes a file of the gateway's directory.
func (g *gateway) remove(name string) {
	g.t.Helper()
	if err := os.Remove(filepath.Join(g.dir, name)); err != nil {
		g.t.Fatal(err)
	}
}

// TestSeriesGoWithTheirNames checks that the series of a removed definition, variant and
// target are deleted, and all others stay.
func TestSeriesGoWithTheirNames(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, options)
	for range 2 {
		g.post("/v1/remoteconfigs", `{"keys":["limits"]}`)
		g.post("/v1/remoteconfigs", `{"keys":["checkout"]}`)
	}
	g.post("/v1/remoteconfigs", `{"keys":["limits"],"context":7}`)
	g.post("/v1/endpoints", `{"key":"chat",`+question+`}`)
	const (
		limits   = `cadenza_requests_total{code="ok",definition="limits",route="remoteconfigs"}`
		answers  = `cadenza_answers_total{definition="limits",kind="remoteconfig",variant=""}`
		checkout = `cadenza_answers_total{definition="checkout",kind="remoteconfig",variant=""}`
		dutch    = `cadenza_answers_total{definition="reply",kind="prompt",variant="nl"}`
		tokens   = `cadenza_tokens_total{model="",provider="canned",type="completion"}`
		seconds  = `cadenza_upstream_duration_seconds_count{class="ok",model="",provider="canned"}`
		cost     = `cadenza_cost_usd_total{definition="chat",model="",provider="canned"}`
		retries  = `cadenza_upstream_retries_total{provider="canned"}`
	)
	g.expect(map[string]float64{limits: 2, answers: 2, checkout: 2, dutch: 0, seconds: 1, cost: 0, retries: 0})

	g.served(func() { g.write("definitions/remoteconfigs/limits.yaml", "type: number\ndefault: 1\n") })
	g.expect(map[string]float64{limits: 2, answers: 2, checkout: 2, seconds: 1}) // an edit keeps them

	g.served(func() { g.remove("definitions/remoteconfigs/limits.yaml") })
	g.expect(map[string]float64{limits: -1, answers: -1, checkout: 2, seconds: 1})

	g.served(func() {
		g.write("definitions/prompts/reply.yaml", strings.Replace(strings.Replace(workspace["definitions/prompts/reply.yaml"], "  - [ nl, nl ]", "  - [ nl, fr ]", 1), "  nl:\n", "  fr:\n", 1))
		g.write("definitions/endpoints/chat.yaml", "prompt: reply\n")
	})
	g.expect(map[string]float64{dutch: -1, strings.Replace(dutch, "nl", "fr", 1): 0, tokens: -1, seconds: -1, cost: -1, retries: 0, checkout: 2})

	g.served(func() { g.write("definitions/remoteconfigs/limits.yaml", "type: number\ndefault: 1\n") })
	g.expect(map[string]float64{limits: 0, answers: 0, checkout: 2})

	// A reload keeps the series that both configurations have.
	g.load(with(func(c *gw.WorkspaceConfig) {
		c.Providers = map[string]providers.Provider{"other": &canned.Provider{}}
	}))
	g.expect(map[string]float64{retries: -1, strings.Replace(retries, "canned", "other", 1): 0, checkout: 2})
}

// TestSeriesGoWithTheirWorkspace checks that all series of a removed workspace are deleted.
func TestSeriesGoWithTheirWorkspace(t *testing.T) {
	t.Parallel()
	old := &limit.Limit{Name: "old", Ceilings: []limit.Ceiling{yearly(limit.Requests, 5), {Measure: limit.InFlight, Most: 5}}}
	kept := *old
	kept.Ceilings = old.Ceilings[:1]
	const refused = `cadenza_limit_refused_total{limit="old",measure="%s"%s}`
	const second = `,workspace="second"`
	g := startGateway(t, workspace, withLimits(old), withWorkspace("second", map[string]string{"two": otherKey}), withLimits(old))
	g.expect(map[string]float64{fmt.Sprintf(refused, "requests", ""): 0, fmt.Sprintf(refused, "in_flight", ""): 0, fmt.Sprintf(refused, "requests", second): 0})
	g.postAs(otherKey, "/v1/prompts", `{"keys":["hello"]}`)
	g.post("/v1/prompts", `{"keys":["hello"]}`)
	g.expect(map[string]float64{`cadenza_answers_total{definition="hello",kind="prompt",variant="only",workspace="second"}`: 1})
	g.load(withLimits(&kept))
	g.expect(map[string]float64{fmt.Sprintf(refused, "requests", ""): 0, fmt.Sprintf(refused, "in_flight", ""): -1})
	for line := range strings.Lines(g.scrape()) {
		// The recorder, which the other workspace uses too, keeps its counts of drops.
		if strings.Contains(line, `workspace="second"`) && !strings.HasPrefix(line, "cadenza_store_") {
			t.Errorf("left: %s", line)
		}
	}
	g.expect(map[string]float64{`cadenza_answers_total{definition="hello",kind="prompt",variant="only"}`: 1})
}

// heldCalls has a provider whose calls wait until release is called. It refuses questions
// with the word "refuse".
func heldCalls(t *testing.T, files map[string]string, settings ...setting) (g *gateway, ask func(question string) (ended chan answer), release func()) {
	t.Helper()
	asked, held := make(chan struct{}), make(chan struct{})
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked <- struct{}{}
		<-held
		if strings.Contains(string(body), "refuse") {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		completion(w, "hello")
	})
	g = startGateway(t, files, append(settings, fakeProvider(u.URL))...)
	return g, func(question string) chan answer {
		ended := make(chan answer, 1)
		go func() {
			ended <- g.post("/v1/endpoints", fmt.Sprintf(`{"key":"chat","variables":{"question":%q}}`, question))
		}()
		<-asked
		return ended
	}, sync.OnceFunc(func() { close(held) })
}

// TestCallOfARemovedDefinition checks that calls whose endpoint and target are removed
// while they run count without these names, so that no deleted series returns.
func TestCallOfARemovedDefinition(t *testing.T) {
	t.Parallel()
	files := maps.Clone(workspace)
	files["definitions/endpoints/chat.yaml"] = "prompt: reply\n"
	files["definitions/endpoints/other.yaml"] = "prompt: hello\n"
	files["definitions/prompts/hello.yaml"] = "provider: canned\nmodel: echo\nextra: { answer: fine }\nmessages: [ { role: user, content: Hi } ]\n"
	g, ask, release := heldCalls(t, files, with(func(c *gw.WorkspaceConfig) {
		c.Prices = map[string]*price.Price{"small": {Prompt: 2, Completion: 10}}
	}))
	defer release()
	answered, failed := ask("?"), ask("refuse")
	g.served(func() {
		g.write("definitions/prompts/reply.yaml", files["definitions/prompts/hello.yaml"])
		g.remove("definitions/endpoints/chat.yaml")
	})
	release()
	if a := <-answered; a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := <-failed; a.status != http.StatusBadGateway {
		t.Fatalf("%d %s", a.status, a.body)
	}
	g.expect(map[string]float64{
		`cadenza_requests_total{code="ok",definition="",route="endpoints"}`:                    1,
		`cadenza_requests_total{code="upstream_rejected",definition="",route="endpoints"}`:     1,
		`cadenza_cost_usd_total{definition="",model="",provider="fake"}`:                       44e-6,
		`cadenza_tokens_total{model="",provider="fake",type="prompt"}`:                         7,
		`cadenza_upstream_attempts_total{class="ok",model="",provider="fake"}`:                 1,
		`cadenza_requests_total{code="ok",definition="chat",route="endpoints"}`:                -1,
		`cadenza_requests_total{code="upstream_rejected",definition="chat",route="endpoints"}`: -1,
		`cadenza_cost_usd_total{definition="chat",model="small",provider="fake"}`:              -1,
		`cadenza_tokens_total{model="small",provider="fake",type="prompt"}`:                    -1,
	})
}

// TestCallsOfAFormerConfiguration checks that calls that end after a reload count under
// names of the new configuration, and calls of a removed workspace not at all.
func TestCallsOfAFormerConfiguration(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		reload func(*gateway)
		want   map[string]float64
		gone   string // a label
	}{
		{
			"another name of the workspace",
			func(g *gateway) { g.load(func(_ *gateway, c *gw.Config) { c.Workspaces[0].Name = "renamed" }) },
			nil,
			`workspace="default"`,
		},
		{
			"a provider that is gone",
			func(g *gateway) {
				g.write("definitions/prompts/reply.yaml", "provider: other\nmodel: echo\nmessages: [ { role: user, content: Hi } ]\n")
				g.load(with(func(c *gw.WorkspaceConfig) { c.Providers = map[string]providers.Provider{"other": &canned.Provider{}} }))
				g.served(func() { g.write("definitions/remoteconfigs/limits.yaml", "type: number\ndefault: 1\n") })
			},
			map[string]float64{
				`cadenza_requests_total{code="ok",definition="chat",route="endpoints"}`:                1,
				`cadenza_requests_total{code="upstream_rejected",definition="chat",route="endpoints"}`: 1,
				`cadenza_upstream_attempts_total{class="ok",model="",provider=""}`:                     1,
				`cadenza_upstream_attempts_total{class="rejected",model="",provider=""}`:               1,
			},
			`provider="fake"`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			files := maps.Clone(workspace)
			files["definitions/endpoints/chat.yaml"] = "prompt: reply\n"
			g, ask, release := heldCalls(t, files)
			defer release()
			answered, failed := ask("?"), ask("refuse")
			c.reload(g)
			release()
			if a := <-answered; a.status != http.StatusOK {
				t.Errorf("%d %s", a.status, a.body)
			}
			if a := <-failed; a.status != http.StatusBadGateway {
				t.Errorf("%d %s", a.status, a.body)
			}
			g.expect(c.want)
			for line := range strings.Lines(g.scrape()) {
				if strings.Contains(line, c.gone) {
					t.Errorf("left: %s", line)
				}
			}
		})
	}
}

// TestManyDefinitionsHaveNoSeriesOfTheirOwn has more definitions than the ceiling of
// definitions with series.
func TestManyDefinitionsHaveNoSeriesOfTheirOwn(t *testing.T) {
	t.Parallel()
	snapshot := &definition.Snapshot{RemoteConfigs: make(map[string]*definition.RemoteConfig)}
	for i := range gw.MaxCountedDefinitions + 1 {
		key := fmt.Sprint("config", i)
		config := &definition.RemoteConfig{Definition: definition.Definition{Kind: kind.RemoteConfig, Key: key}}
		snapshot.RemoteConfigs[key] = config
		snapshot.Definitions = append(snapshot.Definitions, &config.Definition)
	}
	process := gw.NewProcess()
	if n := process.SeriesOf(snapshot); n != 0 {
		t.Errorf("%d definitions have series", n)
	}
	delete(snapshot.RemoteConfigs, "config0")
	snapshot.Definitions = snapshot.Definitions[1:]
	if n := process.SeriesOf(snapshot); n != gw.MaxCountedDefinitions {
		t.Errorf("%d definitions have series, want %d", n, gw.MaxCountedDefinitions)
	}
}

// TestScrapeStaysSmall measures the size of a scrape with 1,000 definitions, requested on two
// routes, and with 20 models of 3 providers, which failed in four ways.
func TestScrapeStaysSmall(t *testing.T) {
	t.Parallel()
	const maximum = 1 << 20
	files := map[string]string{"definitions/context.yaml": "fields: { plan: { type: string, values: [free, pro] } }\n"}
	target := func(i int) string { return fmt.Sprintf("provider: provider%d, model: gpt-5-mini-%02d", i%20%3, i%20) }
	for i := range 500 {
		files[fmt.Sprintf("definitions/remoteconfigs/checkout_option_%03d.yaml", i)] = "type: boolean\ndefault: false\n"
	}
	for i := range 300 {
		files[fmt.Sprintf("definitions/prompts/support_reply_%03d.yaml", i)] = fmt.Sprintf(`
default: en
variants:
  en: { %s, messages: [ { role: user, content: Hello } ] }
  nl: { extends: en, messages: [ { role: user, content: Hallo } ] }
columns: [ plan, value ]
matrix: [ [ pro, nl ] ]
`, target(i))
	}
	for i := range 200 {
		files[fmt.Sprintf("definitions/endpoints/support_chat_%03d.yaml", i)] = fmt.Sprintf(
			"prompt: support_reply_%03d\nfallback: [ { %s }, { %s } ]\n", i, target(i+1), target(i+2))
	}
	three := all(withProvider("provider0", &canned.Provider{}), withProvider("provider1", &canned.Provider{}), withProvider("provider2", &canned.Provider{}))
	g := startGateway(t, files, three)
	atLoad := len(g.scrape())
	g.process.CountEverywhere("default", g.source.Snapshot())
	called := len(g.scrape())
	t.Logf("%d bytes at the load, %d once everything was called", atLoad, called)
	if atLoad > maximum || called > maximum {
		t.Errorf("a scrape has %d bytes, then %d, at most %d", atLoad, called, maximum)
	}
}

// TestRequestsOfAnOldSnapshot checks that requests with an earlier snapshot count for the
// definition with their key in the served snapshot.
func TestRequestsOfAnOldSnapshot(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, options)
	former := g.source.Snapshot()
	g.served(func() {
		g.write("definitions/remoteconfigs/limits.yaml", "type: number\ndefault: 1\n")
		g.remove("definitions/remoteconfigs/checkout.yaml")
	})
	w := g.current.Load().Workspace("default")
	for d, want := range map[*definition.Definition]bool{
		&former.RemoteConfigs["limits"].Definition:   true,
		&former.Prompts["reply"].Definition:          true,
		&former.Endpoints["chat"].Definition:         true,
		&former.RemoteConfigs["checkout"].Definition: false,
	} {
		if got := w.Counts(d); got != want {
			t.Errorf("%s %s is counted: %t", d.Kind, d.Key, got)
		}
	}
}
