package openai

import (
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// TestContractByModel runs the contract with a model that needs the Responses API for
// tools: the upstream has both APIs, and its chat completions refuse as OpenAI's do.
func TestContractByModel(t *testing.T) {
	pt.Run(t, func(t *testing.T, b pt.Behaviour, req *providers.Request) providers.Provider {
		if b.Thought != nil || b.Key != "" {
			return nil
		}
		req.Model = "gpt-5.6-sol"
		up := pt.NewUpstream(t)
		up.Play(b, func(r pt.Request) pt.Reply {
			stream := strings.Contains(r.Body, `"stream":true`)
			if strings.HasSuffix(r.Path, "/responses") {
				return pt.ResponsesBehaviour(b, stream)
			}
			if refusal, ok := pt.RefusesTools(r); ok {
				return refusal
			}
			return pt.OpenAIBehaviour(b, stream)
		})
		return client(t, up.URL, func(c *Config) { c.Quirks = officialQuirks })
	})
}

// TestWhichAPI holds the table of models against what OpenAI refuses.
func TestWhichAPI(t *testing.T) {
	const chat, resp = "chat", "responses"
	type want struct{ plain, tools, low, none string } // without tools; with tools, and with an effort beside them
	never, named, unlessOff, only := want{chat, chat, chat, chat}, want{chat, chat, resp, resp}, want{chat, resp, resp, chat}, want{resp, resp, resp, resp}
	for model, want := range map[string]want{
		"gpt-4o-mini": never, "gpt-4.1": never, "o3": never, "o4-mini": never, "gpt-5": never, "gpt-5-mini": never, "gpt-5-2025-08-07": never, "gpt-5.1": never,
		"gpt-5.2-chat-latest": never, "gpt-5.3-chat-latest": never, "gpt-5.5-chat-latest": never, "gpt-oss-120b": never, "my-deployment": never, "llama-gpt-6": never, "gpt-4.5-preview": never,
		"gpt-5.2": named, "gpt-5.2-2025-12-11": named, "gpt-5.4": named, "gpt-5.4-mini-2026-03-17": named, "gpt-5.4-nano": named, "gpt-5-4": named, "ft:gpt-5.4-mini:acme::1": named,
		"gpt-5.5": unlessOff, "gpt-5.5-2026-04-23": unlessOff, "gpt-5.6": unlessOff, "gpt-5.6-sol": unlessOff, "gpt-5-6-luna": unlessOff, "gpt-6-luna": unlessOff, "gpt-6-astra": unlessOff, "gpt-6.1-sol": unlessOff, "gpt-10": unlessOff, "ft:gpt-6-luna:acme::1": unlessOff,
		"gpt-5-codex": only, "gpt-5.1-codex": only, "gpt-5.1-codex-max": only, "gpt-5.3-codex": only, "codex-mini-latest": only,
		"gpt-5-pro": only, "gpt-5-pro-2025-10-06": only, "gpt-5.2-pro": only, "gpt-5.5-pro-2026-04-23": only, "o1-pro": only, "o3-pro-2025-06-10": only,
		"o3-deep-research": only, "o4-mini-deep-research-2025-06-26": only, "computer-use-preview": only, "gpt-5.6-cyber": only, "gpt-6-rosalind": only, "gpt-rosalind-research": only, "gpt-daybreak-blue-latest": only,
	} {
		ask := func(change func(*Config), extra string, tools bool, effort string) string {
			req := &providers.Request{Model: model, Parameters: providers.Parameters{ReasoningEffort: effort}}
			if extra != "" {
				req.Extra = pt.Extra(extra, "1")
			}
			if tools {
				req.Parameters.Tools = pt.Tools()
			}
			r := sent(t, req, func(c *Config) { c.Quirks = Quirks{Responses: true} }, change)
			_, path, _ := strings.Cut(r.Path, "/v1/")
			api := strings.TrimSuffix(path, "/completions")
			if _, refused := pt.RefusesTools(r); refused {
				return "refused by " + api
			}
			return api
		}
		nothing := func(*Config) {}
		if got := (struct{ plain, tools, low, none string }{ask(nothing, "", false, "low"), ask(nothing, "", true, ""), ask(nothing, "", true, "low"), ask(nothing, "", true, "none")}); got != want {
			t.Errorf("%s: %v, want %v", model, got, want)
		}
		spoken := ask(nothing, "verbosity", true, "low")
		if (want == only) != (spoken == resp) || ask(nothing, "prompt_cache_key", true, "low") != want.low {
			t.Errorf("%s: by %s with a member of chat completions", model, spoken)
		}
		if api := ask(func(c *Config) { c.Quirks.Responses = false }, "", true, "low"); !strings.HasSuffix(api, chat) {
			t.Errorf("%s: another service is called by %s", model, api)
		}
	}
}

// TestTheOptionDecides holds that the option goes before the table.
func TestTheOptionDecides(t *testing.T) {
	req := &providers.Request{Model: "gpt-5.6-sol", Parameters: providers.Parameters{Tools: pt.Tools()}}
	for api, want := range map[string]string{"": "/v1/responses", APIChat: "/v1/chat/completions", APIResponses: "/v1/responses"} {
		r := sent(t, req, func(c *Config) { c.API, c.Quirks.Responses = api, true })
		if r.Path != want {
			t.Errorf("%q: %s", api, r.Path)
		}
	}
	r := sent(t, req, func(c *Config) { c.Upstream.Proxy = c.Upstream.BaseURL; c.Upstream.BaseURL = official(t) })
	if r.Path != "/v1/responses" {
		t.Errorf("OpenAI itself: %s", r.Path)
	}
	other := moduleOf("groq")
	other.Options = httpmodule.Options{APIKey: pt.Key}
	other.API = APIResponses
	pt.CheckProvision(t, req, nil, []pt.Provisioning[Module]{{Name: "another service", Module: other, Err: "api, organization and project are OpenAI's: provider groq has none of them"}})
}
