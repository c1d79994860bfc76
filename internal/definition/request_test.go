package definition

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/cadenza-gateway/cadenza/providers"
)

const toolbox = `provider: x
model: m
seed: 7
stop: END
reasoning_effort: low
response_format: { json_schema: { name: ticket, strict: true, schema: { type: object, properties: { z: { type: string }, a: { type: "null" } } } } }
tools:
- { name: find, description: "Finds it.", parameters: { type: object, properties: { id: { type: string } }, required: [id] }, strict: true }
- { name: stop_now }
tool_choice: { name: find }
messages: [ { role: user, content: hi } ]
`

func toolboxParameters() providers.Parameters {
	seed := int64(7)
	return providers.Parameters{
		Seed: &seed, Stop: []string{"END"}, ReasoningEffort: "low",
		ResponseFormat: &providers.ResponseFormat{
			Type: providers.FormatSchema, Name: "ticket", Strict: true,
			Schema: json.RawMessage(`{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"null"}}}`),
		},
		Tools: []providers.Tool{
			{Name: "find", Description: "Finds it.", Strict: true, Parameters: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`)},
			{Name: "stop_now"},
		},
		ToolChoice: &providers.ToolChoice{Mode: providers.ToolsNamed, Name: "find"},
	}
}

func TestRequestParameters(t *testing.T) {
	s := mustLoad(t, workspace(t, map[string]string{"prompts/p.yaml": toolbox}))
	p := s.Prompts["p"]
	if diff := cmp.Diff(toolboxParameters(), p.fallback.Parameters); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	camel := strings.NewReplacer("reasoning_effort", "reasoningEffort", "response_format", "responseFormat", "json_schema", "jsonSchema", "tool_choice", "toolChoice", "stop: END", "stop: [END]").Replace(toolbox)
	if other := mustLoad(t, workspace(t, map[string]string{"prompts/p.yaml": camel})).Prompts["p"]; other.Version != p.Version {
		t.Errorf("the other spelling is another version:\n%s\n%s", p.Content(), other.Content())
	}

	var values prompt.Values
	must(t, p.Variables().Bind(nil, nil, nil, &values))
	got, err := p.fallback.AppendJSON(nil, &values)
	must(t, err)
	const want = `{"name":"p","messages":[{"role":"user","content":"hi"}],"provider":"x","model":"m","seed":7,"stop":["END"],"reasoningEffort":"low",` +
		`"responseFormat":{"jsonSchema":{"name":"ticket","schema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"null"}}},"strict":true}},` +
		`"tools":[{"name":"find","description":"Finds it.","parameters":{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]},"strict":true},{"name":"stop_now"}],` +
		`"toolChoice":{"name":"find"}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("the prompt's value differs (-want +got):\n%s", diff)
	}
}

func TestEveryRequestParameterIsPartOfTheVersion(t *testing.T) {
	version := func(text string) string {
		return mustLoad(t, workspace(t, map[string]string{"prompts/p.yaml": text})).Prompts["p"].Version
	}
	seen := map[string]string{version(toolbox): "nothing"}
	for _, change := range [][2]string{
		{"seed: 7", "seed: 8"}, {"END", "FIN"}, {"effort: low", "effort: high"},
		{"strict: true, schema", "strict: false, schema"}, {"name: ticket", "name: card"}, {"z: {", "y: {"},
		// A model may fill in properties in the order in which it reads them.
		{`z: { type: string }, a: { type: "null" }`, `a: { type: "null" }, z: { type: string }`},
		{"Finds it.", "Finds."}, {"required: [id]", "required: []"}, {"}, strict: true }\n- {", "} }\n- {"}, {"stop_now", "now"},
		{"{ name: find }\n", "{ name: stop_now }\n"}, {"{ name: find }\n", "required\n"},
		{"response_format: {", "response_format: text\nextra: {"},
	} {
		text := strings.Replace(toolbox, change[0], change[1], 1)
		if text == toolbox {
			t.Fatalf("%q is not there", change[0])
		}
		v := version(text)
		if other, ok := seen[v]; ok {
			t.Errorf("%q to %q makes the version of %s", change[0], change[1], other)
		}
		seen[v] = change[1]
	}
}

func TestRequestParametersAreInherited(t *testing.T) {
	indented := "    " + strings.ReplaceAll(strings.TrimSuffix(toolbox, "\n"), "\n", "\n    ") + "\n"
	s := mustLoad(t, workspace(t, map[string]string{
		"prompts/p.yaml": "default: a\nvariants:\n  a:\n" + indented +
			"  b: { extends: a, seed: 8, tool_choice: none }\n  c: { extends: a, tools: [], stop: [], response_format: text }\n  d: { extends: c }\n",
		"endpoints/e.yaml": "prompt: p\nfallback:\n- { provider: y, model: m }\n- { provider: z, model: m, tools: [], stop: [], seed: 9, reasoning_effort: none, response_format: json }\n",
	}))
	p := s.Prompts["p"]
	b, c, d := p.Variants()[1], p.Variants()[2], p.Variants()[3]
	want := toolboxParameters()
	seed := int64(8)
	want.Seed, want.ToolChoice = &seed, &providers.ToolChoice{Mode: providers.ToolsNone}
	if diff := cmp.Diff(want, b.Parameters); diff != "" {
		t.Errorf("b (-want +got):\n%s", diff)
	}
	want = toolboxParameters()
	want.Tools, want.ToolChoice, want.Stop, want.ResponseFormat = nil, nil, nil, &providers.ResponseFormat{Type: providers.FormatText}
	for _, v := range []*Variant{c, d} {
		if diff := cmp.Diff(want, v.Parameters); diff != "" {
			t.Errorf("%s (-want +got):\n%s", v.Key, diff)
		}
	}

	targets := s.Endpoints["e"].fallback.Targets(p.fallback)
	for i, target := range targets[:2] {
		if diff := cmp.Diff(toolboxParameters(), target.Parameters); diff != "" {
			t.Errorf("target %d (-want +got):\n%s", i, diff)
		}
	}
	seed = 9
	want = providers.Parameters{
		Seed: &seed, Stop: []string{}, Tools: []providers.Tool{}, ReasoningEffort: "none",
		ResponseFormat: &providers.ResponseFormat{Type: providers.FormatJSON},
	}
	if diff := cmp.Diff(want, targets[2].Parameters); diff != "" {
		t.Errorf("the second fallback (-want +got):\n%s", diff)
	}
}

func TestBadRequestParameters(t *testing.T) {
	const head = "provider: x\nmessages: [ { role: user, content: hi } ]\n"
	for _, test := range []struct{ text, want string }{
		{"seed: -1\n", "x.yaml:3:7: seed must be a whole number from 0"},
		{"seed: 1.5\n", "seed must be a whole number"},
		{"stop: [a, b, c, d, e]\n", "stop has 5 texts, at most 4 are possible"},
		{"stop: ''\n", "can't be empty"},
		{"stop: [[a]]\n", "stop must be text"},
		{"stop:\n", "stop must be text, this is empty"},
		{"reasoning_effort: lots\n", "reasoning_effort must be one of none, minimal, low, medium, high, xhigh, max"},
		{"reasoning_effort: low\nreasoningEffort: low\n", "another spelling"},
		{"response_format: yaml\n", "response_format must be text, json or"},
		{"response_format: []\n", "response_format must be text, json or"},
		{"response_format: {}\n", "response_format must be text, json or"},
		{"response_format: { schema: {} }\n", `unknown member "schema" in response_format`},
		{"response_format: { json_schema: {} }\n", "a schema needs a name"},
		{"response_format: { json_schema: { name: a } }\n", "json_schema needs a schema"},
		{"response_format: { json_schema: { name: a b, schema: { type: object } } }\n", "can't be the name of a schema"},
		{"response_format: { json_schema: { name: a, schema: 7 } }\n", "schema must be a JSON Schema"},
		{"response_format: { json_schema: { name: a, schema: { type: array } } }\n", "must be the schema of an object"},
		{"response_format: { json_schema: { name: a, schema: { type: object, required: x } } }\n", "x.yaml:3:78: schema: "},
		{"response_format: { json_schema: { name: a, strict: maybe, schema: { type: object } } }\n", "strict must be true or false"},
		{"response_format: { json_schema: { name: a, schema: { type: object }, }, jsonSchema: { name: b, schema: { type: object } } }\n", "another spelling"},
		{"tools: find\n", "tools must be a list"},
		{"tools: [ {} ]\n", "a tool needs a name"},
		{"tools: [ find ]\n", "a tool must be a mapping"},
		{"tools: [ { name: 1a } ]\n", "can't be the name of a tool"},
		{"tools: [ { name: a }, { name: a } ]\n", "there are two tools a"},
		{"tools: [ { name: a, parameters: [] } ]\n", "parameters must be a JSON Schema"},
		{"tools: [ { name: a, parameters: { properties: {} } } ]\n", "give it type: object"},
		{"tools: [ { name: a, parameters: { type: object, properties: { x: { type: text } } } } ]\n", "x.yaml:3:74: schema: "},
		{"tools: [ { name: a, parameters: { type: object, properties: { x: { $ref: 'https://example.com/s' } } } } ]\n", "is not read"},
		{"tools: [ { name: a, parameters: { type: object, maxProperties: 0x10 } } ]\n", "is not a JSON number"},
		{"tool_choice: auto\n", "there are no tools to choose from"},
		{"tools: [ { name: find } ]\ntool_choice: { name: fnd }\n", `there is no tool "fnd": did you mean "find"?`},
		{"tools: [ { name: find } ]\ntool_choice: some\n", "tool_choice must be auto, none, required or"},
		{"tools: [ { name: find } ]\ntool_choice: {}\n", "a tool needs a name"},
	} {
		_, err := Load(workspace(t, map[string]string{"prompts/x.yaml": head + test.text}))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %s", test.text, err, test.want)
		}
	}
	_, err := Load(workspace(t, map[string]string{
		"prompts/x.yaml": head + "tools: [ { name: find } ]\ntool_choice: { name: find }\n", "endpoints/e.yaml": "prompt: x\nfallback: [ { provider: y, model: m, tools: [ { name: other } ] } ]\n",
	}))
	if err == nil || !strings.Contains(err.Error(), `the fallback y cannot answer for the variant x: tool_choice: there is no tool "find"`) {
		t.Errorf("a fallback without the tool to be called: %v", err)
	}
}
