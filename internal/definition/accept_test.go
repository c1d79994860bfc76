package definition

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/providers"
)

// accepting decodes the member accept of an endpoint.
func accepting(t testing.TB, text string) (*Accept, *document.Errors) {
	t.Helper()
	var errs document.Errors
	n := document.Parse("e.yaml", []byte("accept: "+text), &errs)
	must(t, errs.Err())
	var e Endpoint
	e.decodeAccept(n.Get("accept"), &errs)
	return &e.Accept, &errs
}

func TestAccept(t *testing.T) {
	i := func(v int64) *int64 { return &v }
	f := func(v float64) *float64 { return &v }
	no := func(member string) string {
		return "is not accepted by this endpoint, unless its definition says accept: { " + member + " }"
	}
	for _, tt := range []struct {
		accept, name string
		p            providers.Parameters
		want         string
	}{
		{"~", "tools", providers.Parameters{}, no("tools: true")},
		{"{}", "max_tokens", providers.Parameters{MaxTokens: i(1)}, no("parameters: [max_tokens]")},
		{"{ tools: false }", "tools", providers.Parameters{}, no("tools: true")},
		{"{ tools: true }", "tools", providers.Parameters{Tools: make([]providers.Tool, 129)}, ""},
		{"{ tools: true }", "tool_choice", providers.Parameters{}, ""},
		{"{ tools: true }", "parallel_tool_calls", providers.Parameters{}, no("parameters: [parallel_tool_calls]")},
		{"{ history: true }", "tool_choice", providers.Parameters{}, no("tools: true")},
		{"{ parameters: [max_tokens] }", "max_tokens", providers.Parameters{MaxTokens: i(100_000_000)}, ""},
		{"{ parameters: [max_tokens] }", "max_tokens", providers.Parameters{MaxTokens: i(0)}, "is 0, but must be from 1 to 100000000"},
		{"{ parameters: [max_tokens] }", "temperature", providers.Parameters{Temperature: f(1)}, no("parameters: [temperature]")},
		{"{ parameters: [temperature, { max_tokens: ..800 }] }", "max_tokens", providers.Parameters{MaxTokens: i(800)}, ""},
		{"{ parameters: [temperature, { max_tokens: ..800 }] }", "max_tokens", providers.Parameters{MaxTokens: i(4000)}, "is 4000, but this endpoint accepts at most 800"},
		{"{ parameters: [temperature, { max_tokens: ..800 }] }", "temperature", providers.Parameters{Temperature: f(2)}, ""},
		{"{ parameters: { temperature: 0.5..<1 } }", "temperature", providers.Parameters{Temperature: f(0.99)}, ""},
		{"{ parameters: { temperature: 0.5..<1 } }", "temperature", providers.Parameters{Temperature: f(1)}, "is 1, but this endpoint accepts less than 1"},
		{"{ parameters: { temperature: 0.5..<1 } }", "temperature", providers.Parameters{Temperature: f(0.2)}, "is 0.2, but this endpoint accepts at least 0.5"},
		{"{ parameters: { temperature: ..1 } }", "temperature", providers.Parameters{Temperature: f(2.5)}, "is 2.5, but must be from 0 to 2"},
		{"{ parameters: { topK: \"5..5\" } }", "top_k", providers.Parameters{TopK: i(5)}, ""},
		{"{ parameters: { topK: \"5..5\" } }", "top_k", providers.Parameters{TopK: i(6)}, "is 6, but this endpoint accepts at most 5"},
		{"{ parameters: { frequency_penalty: -1.. , presence_penalty: -1..1, top_p: 0..0.9, logprobs: ..5 } }", "frequency_penalty", providers.Parameters{FrequencyPenalty: f(-1.5)}, "is -1.5, but this endpoint accepts at least -1"},
		{"{ parameters: { frequency_penalty: -1.. , presence_penalty: -1..1, top_p: 0..0.9, logprobs: ..5 } }", "presence_penalty", providers.Parameters{PresencePenalty: f(1.5)}, "is 1.5, but this endpoint accepts at most 1"},
		{"{ parameters: { frequency_penalty: -1.. , presence_penalty: -1..1, top_p: 0..0.9, logprobs: ..5 } }", "top_p", providers.Parameters{TopP: f(0.95)}, "is 0.95, but this endpoint accepts at most 0.9"},
		{"{ parameters: { frequency_penalty: -1.. , presence_penalty: -1..1, top_p: 0..0.9, logprobs: ..5 } }", "logprobs", providers.Parameters{Logprobs: i(6)}, "is 6, but this endpoint accepts at most 5"},
		{"{ parameters: { seed: true, stop: true, parallel_tool_calls: true } }", "seed", providers.Parameters{Seed: i(-1)}, "is -1, but must be from 0 to 9007199254740991"},
		{"{ parameters: { seed: true, stop: true, parallel_tool_calls: true } }", "seed", providers.Parameters{}, ""},
		{"{ parameters: { seed: true, stop: true, parallel_tool_calls: true } }", "stop", providers.Parameters{Stop: make([]string, 4)}, ""},
		{"{ parameters: { seed: true, stop: true, parallel_tool_calls: true } }", "stop", providers.Parameters{Stop: make([]string, 5)}, "has 5 texts, but at most 4 are possible"},
		{"{ parameters: { seed: true, stop: true, parallel_tool_calls: true } }", "parallel_tool_calls", providers.Parameters{Stop: make([]string, 5)}, ""},
		{"{ parameters: { seed: false } }", "seed", providers.Parameters{Seed: i(1)}, no("parameters: [seed]")},
		{"{ parameters: { reasoning_effort: [low, medium] } }", "reasoning_effort", providers.Parameters{ReasoningEffort: "low"}, ""},
		{"{ parameters: { reasoning_effort: [low, medium] } }", "reasoning_effort", providers.Parameters{ReasoningEffort: "high"}, "is high, but this endpoint accepts low, medium"},
		{"{ parameters: { reasoning_effort: low } }", "reasoning_effort", providers.Parameters{ReasoningEffort: "much"}, "must be one of none, minimal, low, medium, high, xhigh, max"},
		{"{ parameters: [reasoning_effort] }", "reasoning_effort", providers.Parameters{ReasoningEffort: "max"}, ""},
		{"{ parameters: { response_format: [text, json] } }", "response_format", providers.Parameters{ResponseFormat: &providers.ResponseFormat{Type: "json_schema"}}, "is json_schema, but this endpoint accepts text, json"},
		{"{ parameters: { response_format: [text, json] } }", "response_format", providers.Parameters{ResponseFormat: &providers.ResponseFormat{Type: "json"}}, ""},
		{"{ parameters: { response_format: [text, json] } }", "response_format", providers.Parameters{}, ""},
		{"{ parameters: [max_tokens] }", "model", providers.Parameters{}, no("parameters: [model]")},
	} {
		a, errs := accepting(t, tt.accept)
		if err := errs.Err(); err != nil {
			t.Errorf("%s: %v", tt.accept, err)
		} else if got := a.Check(tt.name, &tt.p); got != tt.want {
			t.Errorf("%s: %s %q, want %q", tt.accept, tt.name, got, tt.want)
		}
	}
}

func TestAcceptMembers(t *testing.T) {
	for text, want := range map[string]Accept{
		"~":                       {},
		"{ history: true }":       {History: true},
		"{ max_body_size: 2MiB }": {MaxBodySize: 2 << 20},
		"{ history: true, system: true, tools: true, variants: true, max_body_size: 500kB }": {History: true, System: true, Tools: true, Variants: true, MaxBodySize: 500_000},
		"{ history: false, max_body_size: 67108864 }":                                        {MaxBodySize: 64 << 20},
		"{ tools: { hosted: refuse } }":                                                      {Tools: true, RefuseHosted: true},
		"{ tools: { hosted: ignore } }":                                                      {Tools: true},
		"{ tools: { hosted: [web_search] } }":                                                {Tools: true, WebSearch: true},
		"{ unknown: refuse }":                                                                {RefuseUnknown: true},
		"{ unknown: ignore }":                                                                {},
	} {
		a, errs := accepting(t, text)
		if a.History != want.History || a.Tools != want.Tools || a.System != want.System || a.Variants != want.Variants || a.MaxBodySize != want.MaxBodySize || a.RefuseUnknown != want.RefuseUnknown || a.RefuseHosted != want.RefuseHosted || a.WebSearch != want.WebSearch || errs.Len() > 0 {
			t.Errorf("%s: %+v, %v", text, a, errs.Err())
		}
	}
}

func TestAcceptMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"true":                                      "e.yaml:1:9: accept must be a mapping such as { history: true, parameters: [max_tokens] }, this is \"true\"",
		"{ histroy: true }":                         `e.yaml:1:11: unknown member "histroy" in accept: did you mean "history"?`,
		"{ history: yes }":                          `e.yaml:1:20: history must be true or false, this is "yes": write true`,
		"{ system: true }":                          "e.yaml:1:19: system is about the caller's messages, which are not accepted: add history: true",
		"{ parameters: true }":                      `e.yaml:1:23: parameters must be a list such as [temperature, { max_tokens: ..800 }], this is "true"`,
		"{ parameters: [[seed]] }":                  "e.yaml:1:24: a parameter must be a name, or a mapping such as { max_tokens: ..800 }, this is a list",
		"{ parameters: [max_token] }":               `e.yaml:1:24: "max_token" is no parameter that callers can set: did you mean "max_tokens"?`,
		"{ parameters: [user] }":                    `e.yaml:1:24: "user" is no parameter that callers can set (known: temperature, max_tokens, top_p, top_k, frequency_penalty, presence_penalty, seed, logprobs, reasoning_effort, response_format, service_tier, stop, parallel_tool_calls)`,
		"{ parameters: [tools] }":                   `e.yaml:1:24: "tools" is no parameter that callers can set: write tools: true beside parameters, which accepts both`,
		"{ parameters: [messages] }":                `e.yaml:1:24: "messages" is no parameter that callers can set: write history: true beside parameters`,
		"{ parameters: [model] }":                   `e.yaml:1:24: "model" is no parameter that callers can set: only definitions say it`,
		"{ parameters: [max_tokens, maxTokens] }":   "e.yaml:1:36: max_tokens is there already: give it once",
		"{ parameters: { max_tokens: 800 } }":       `e.yaml:1:37: what is accepted of max_tokens must be true, or a range such as ..800, this is "800": write ..800 for at most 800, 800..800 for nothing else`,
		"{ parameters: { max_tokens: [..800] } }":   "e.yaml:1:37: what is accepted of max_tokens must be true, or a range such as ..800, this is a list",
		"{ parameters: { max_tokens: .. } }":        `e.yaml:1:37: ".." is a range without ends: write true for any value`,
		"{ parameters: { max_tokens: 5..< } }":      `e.yaml:1:37: "5..<" has no value behind <`,
		"{ parameters: { max_tokens: 0..800 } }":    `e.yaml:1:37: max_tokens must be a number from 1 to 100000000, this is "0"`,
		"{ parameters: { max_tokens: ..1.5 } }":     `e.yaml:1:37: max_tokens must be a whole number from 1 to 100000000, this is "1.5"`,
		"{ parameters: { temperature: ..3 } }":      `e.yaml:1:38: temperature must be a number from 0 to 2, this is "3"`,
		"{ parameters: { temperature: 1..0 } }":     "e.yaml:1:38: the range 1..0 is empty",
		"{ parameters: { temperature: 1..<1 } }":    "e.yaml:1:38: the range 1..<1 is empty",
		"{ parameters: { stop: ..2 } }":             `e.yaml:1:31: stop must be true or false, this is "..2"`,
		"{ parameters: { reasoning_effort: hig } }": `e.yaml:1:43: reasoning_effort must be one of none, minimal, low, medium, high, xhigh, max, this is "hig": did you mean "high"?`,
		"{ parameters: { reasoning_effort: [] } }":  "e.yaml:1:43: what is accepted of reasoning_effort must be true, or one of none, minimal, low, medium, high, xhigh, max at least",
		"{ unknown: refused }":                      `e.yaml:1:20: unknown must be one of ignore, refuse, this is "refused": did you mean "refuse"?`,
		"{ tools: { hosted: [mcp] } }":              `e.yaml:1:29: a tool of hosted must be web_search, this is "mcp"`,
		"{ tools: { hosted: [web_serch] } }":        `e.yaml:1:29: a tool of hosted must be web_search, this is "web_serch": did you mean "web_search"?`,
		"{ tools: { hosted: [] } }":                 `e.yaml:1:28: hosted is an empty list: write hosted: ignore, or name the tools that callers may use: web_search`,
		"{ tools: { hosted: refused } }":            `e.yaml:1:28: hosted must be one of ignore, refuse, this is "refused": did you mean "refuse"?`,
		"{ tools: { hosts: refuse } }":              `e.yaml:1:20: unknown member "hosts" in tools (known: hosted)`,
		"{ tools: [web_search] }":                   `e.yaml:1:18: tools must be true or false, this is a list`,
		"{ unknown: true }":                         `e.yaml:1:20: unknown must be one of ignore, refuse, this is "true"`,
		"{ max_body_size: 65MiB }":                  `e.yaml:1:26: max_body_size must be a number of bytes from 1 to 64MiB such as 500kB, 64KiB or 1.5MiB, this is "65MiB"`,
		"{ max_body_size: 0 }":                      `e.yaml:1:26: max_body_size must be a number of bytes from 1 to 64MiB such as 500kB, 64KiB or 1.5MiB, this is "0"`,
		"{ max_body_size: \"1,5MiB\" }":             `e.yaml:1:26: max_body_size must be a number of bytes from 1 to 64MiB such as 500kB, 64KiB or 1.5MiB, this is "1,5MiB"`,
	} {
		if _, errs := accepting(t, text); errs.Err() == nil || errs.Err().Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", text, errs.Err(), want)
		}
	}
}

// TestAcceptComesBack checks that the accepted members change the endpoint's version,
// and comes back from the store.
func TestAcceptComesBack(t *testing.T) {
	versions := map[string]string{}
	for _, accept := range []string{
		"", "accept: { tools: true }\n", "accept: { variants: true }\n", "accept: { max_body_size: 4MiB }\n",
		"accept: { parameters: [temperature] }\n", "accept: { parameters: { temperature: ..1 } }\n", "accept: { parameters: { temperature: ..<1 } }\n",
		"accept: { parameters: { temperature: 0.5.. } }\n", "accept: { parameters: { temperature: ..<2 } }\n", "accept: { parameters: { temperature: 0.5..1 } }\n",
		"accept: { parameters: { reasoning_effort: [low, medium], response_format: [json] } }\n", "accept: { parameters: { reasoning_effort: [low], seed: true, stop: true } }\n",
	} {
		dir := workspace(t, map[string]string{"prompts/p.yaml": "provider: x\nmodel: m\nmessages: [ { role: user, content: hi } ]\n", "endpoints/e.yaml": "prompt: p\n" + accept})
		comesBack(t, dir)
		v := mustLoad(t, dir).Endpoints["e"].Version
		if other, twice := versions[v]; twice {
			t.Errorf("%q has the version of %q", accept, other)
		}
		versions[v] = accept
	}
	// What says the same has the same version.
	for a, b := range map[string]string{
		"accept: {}\n": "", "accept: ~\n": "", "accept: { tools: false, parameters: { seed: false } }\n": "",
		"accept: { parameters: { maxTokens: ' 1 .. 800 ' } }\n": "accept: { parameters: [ { max_tokens: ..800 } ] }\n",
		"accept: { parameters: { temperature: 0..2 } }\n":       "accept: { parameters: { temperature: ..2.0 } }\n",
	} {
		version := func(accept string) string {
			return mustLoad(t, workspace(t, map[string]string{"prompts/p.yaml": "provider: x\nmodel: m\nmessages: [ { role: user, content: hi } ]\n", "endpoints/e.yaml": "prompt: p\n" + accept})).Endpoints["e"].Version
		}
		if version(a) != version(b) {
			t.Errorf("%q and %q have different versions", a, b)
		}
	}
}

// TestAcceptOfVariants holds that a variant can't accept on its own.
func TestAcceptOfVariants(t *testing.T) {
	_, err := Load(workspace(t, map[string]string{
		"prompts/p.yaml":   "provider: x\nmodel: m\nmessages: [ { role: user, content: hi } ]\n",
		"endpoints/e.yaml": "prompt: p\nvariants: { a: { accept: { tools: true } } }\n",
	}))
	if err == nil || !strings.Contains(err.Error(), "e.yaml:2:18: accept holds for the whole endpoint: write it beside variants, not into one") {
		t.Error(err)
	}
}

// TestAcceptedBounds holds that callers may set what definitions may.
func TestAcceptedBounds(t *testing.T) {
	decodes := func(of acceptable, v float64) bool {
		var errs document.Errors
		n := document.Parse("p.yaml", []byte(of.name+": "+digits(v)), &errs)
		decodeParameters(n, &providers.Parameters{}, &errs)
		return errs.Len() == 0
	}
	for _, of := range acceptables {
		if of.number == nil || of.name == "logprobs" { // which definitions don't set
			continue
		}
		if !decodes(of, of.lo) || !decodes(of, of.hi) || decodes(of, of.lo-1) || decodes(of, of.hi+1) {
			t.Errorf("%s: callers may set %v to %v, and definitions may not, or more", of.name, of.lo, of.hi)
		}
	}
}

// TestAcceptWarnings checks settings that are allowed and probably not meant.
func TestAcceptWarnings(t *testing.T) {
	for _, tt := range []struct {
		name, place, members, accept, want string
	}{
		{"all is well", ", max_messages: 5, roles: [user, assistant, tool]", "max_tokens: 800\nreasoning_effort: low", "tools: true\n  parameters: { max_tokens: ..800, reasoning_effort: [low] }", ""},
		{"no tools", ", max_messages: 1, roles: [user]", "max_tokens: 800", "parameters: [max_tokens, temperature]", ""},
		{"a short history", ", max_messages: 4", "max_tokens: 800", "tools: true", "4:12: the variant p of the prompt p takes 4 of the caller's messages: a loop of tools needs 5 at least, or the model forgets its calls and makes them again"},
		{"a short history of a prompt with tools", ", max_messages: 4", "tools: [ { name: f } ]", "tools: false", "4:12: the variant p of the prompt p takes 4 of the caller's messages: a loop of tools needs 5 at least, or the model forgets its calls and makes them again"},
		{"results left out", ", roles: [user, assistant]", "max_tokens: 800", "tools: true", "4:12: the variant p of the prompt p leaves calls of tools and their results out of the caller's messages, so the model never learns what its calls came to: add tool to the roles of its place"},
		{"a low ceiling", "", "max_tokens: 1000", "parameters: { max_tokens: ..800 }", "3:15: the max_tokens of the variant p of the prompt p is 1000, but this endpoint accepts at most 800: a caller that sets it can't ask for as much as one that does not"},
		{"another word", "", "reasoning_effort: high", "parameters: { reasoning_effort: [low] }", "3:15: the reasoning_effort of the variant p of the prompt p is high, but this endpoint accepts low: a caller that sets it can't ask for as much as one that does not"},
	} {
		s := mustLoad(t, workspace(t, map[string]string{
			"prompts/p.yaml":   "provider: x\nmodel: m\n" + tt.members + "\nmessages: [ { history: true" + tt.place + " } ]\n",
			"endpoints/e.yaml": "prompt: p\naccept:\n  " + tt.accept + "\n  history: true\n",
		}))
		got := ""
		for _, w := range s.Warnings {
			got += fmt.Sprintf("%d:%d: %s", w.Pos.Line, w.Pos.Column, w.Message)
		}
		if got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// FuzzAccept checks that an endpoint accepts the same after its content was
// read back, and that every value is checked.
func FuzzAccept(f *testing.F) {
	f.Add("{ history: true, tools: true, parameters: [temperature, { max_tokens: ..800, reasoning_effort: [low] }], max_body_size: 16MiB }", int64(800), 0.5)
	f.Add("{ parameters: { temperature: 0.5..<1, topP: ..1, seed: true, response_format: json, presence_penalty: -1.. } }", int64(-1), -1.5)
	f.Add("{ history: true, system: true, variants: true, parameters: { logprobs: 0..5, stop: true } }", int64(1)<<60, 1e300)
	f.Fuzz(func(t *testing.T, text string, whole int64, fraction float64) {
		decode := func(text string) (*Accept, bool) {
			var errs document.Errors
			n := document.Parse("e.yaml", []byte("accept: "+text), &errs)
			var e Endpoint
			e.decodeAccept(n.Get("accept"), &errs)
			return &e.Accept, errs.Len() == 0
		}
		a, ok := decode(text)
		if !ok {
			return
		}
		content := a.JSON()
		if content == nil {
			return
		}
		again, ok := decode(string(content))
		if !ok || string(again.JSON()) != string(content) {
			t.Fatalf("%s comes back as %s", content, again.JSON())
		}
		p := providers.Parameters{
			Temperature: &fraction, TopP: &fraction, FrequencyPenalty: &fraction, PresencePenalty: &fraction,
			MaxTokens: &whole, TopK: &whole, Seed: &whole, Logprobs: &whole, ReasoningEffort: "high", ResponseFormat: &providers.ResponseFormat{Type: "text"},
		}
		for _, of := range acceptables {
			if got := a.Check(of.name, &p); got != again.Check(of.name, &p) {
				t.Fatalf("%s: %s %q, and %q once read back", content, of.name, got, again.Check(of.name, &p))
			}
		}
	})
}

func TestBodyLimit(t *testing.T) {
	for _, test := range []struct {
		accept          Accept
		workspace, want int64
	}{
		{Accept{}, 1 << 20, 1 << 20},
		{Accept{Tools: true}, 16 << 20, 16 << 20},
		{Accept{History: true}, 1 << 20, 8 << 20},
		{Accept{History: true}, 16 << 20, 16 << 20},
		{Accept{History: true, MaxBodySize: 2 << 20}, 16 << 20, 2 << 20},
		{Accept{MaxBodySize: 20 << 20}, 16 << 20, 20 << 20},
	} {
		if got := test.accept.BodyLimit(test.workspace); got != test.want {
			t.Errorf("%+v in a workspace of %d: %d, want %d", test.accept, test.workspace, got, test.want)
		}
	}
}
