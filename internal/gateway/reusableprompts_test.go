package gateway_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
)

// TestReusablePrompts makes the calls of an app that used a prompt at OpenAI, with OpenAI's
// library: with another base URL it goes on.
func TestReusablePrompts(t *testing.T) {
	t.Parallel()
	g := startGateway(t, map[string]string{
		"definitions/prompts/hello.yaml": `
variables: { name: { required: true } }
default: en
variants:
  en:
    provider: canned
    extra: { echo: true }
    messages: [ { history: true }, { role: user, content: "Hello, {{name}}!" } ]
  nl: { extends: en, messages: [ { history: true }, { role: user, content: "Dag {{name}}!" } ] }
`,
		"definitions/endpoints/hello.yaml": "prompt: hello\naccept: { history: true }\naliases:\n  - { id: pmpt_1, versions: { \"3\": nl } }\n  - pmpt_2\n",
	}, options)
	client := openai.NewClient(option.WithHTTPClient(g.client), option.WithBaseURL("http://gateway/v1"), option.WithAPIKey(testKey), option.WithMaxRetries(0))
	text := func(s string) responses.ResponsePromptVariableUnionParam {
		return responses.ResponsePromptVariableUnionParam{OfString: param.NewOpt(s)}
	}
	ask := func(id, version string, variable responses.ResponsePromptVariableUnionParam) (answer *responses.Response, ignored string, failure *openai.Error) {
		t.Helper()
		request := responses.ResponseNewParams{Prompt: responses.ResponsePromptParam{ID: id, Variables: map[string]responses.ResponsePromptVariableUnionParam{"name": variable}}}
		if version != "" {
			request.Prompt.Version = param.NewOpt(version)
		}
		var raw *http.Response
		answer, err := client.Responses.New(t.Context(), request, option.WithResponseInto(&raw))
		if err != nil && !errors.As(err, &failure) {
			t.Fatal(err)
		}
		return answer, raw.Header.Get("Cadenza-Ignored"), failure
	}
	inputText := responses.ResponsePromptVariableUnionParam{OfInputText: &responses.ResponseInputTextParam{Text: "Ada"}}
	for _, c := range []struct {
		id, version string
		variable    responses.ResponsePromptVariableUnionParam
		want        string
	}{
		{"pmpt_1", "3", text("Ada"), "Dag Ada!"},
		{"pmpt_1", "3", inputText, "Dag Ada!"},
		{"pmpt_1", "", text("Ada"), "Hello, Ada!"},
		{"pmpt_2", "", text("Ada"), "Hello, Ada!"},
	} {
		answer, ignored, failure := ask(c.id, c.version, c.variable)
		if failure != nil || !strings.Contains(answer.OutputText(), c.want) || answer.Model != c.id || answer.Prompt.ID != c.id || answer.Prompt.Version != c.version || ignored != "" {
			t.Errorf("%s %s: %v, %+v", c.id, c.version, failure, answer)
		}
	}
	image := responses.ResponsePromptVariableUnionParam{OfInputImage: &responses.ResponseInputImageParam{ImageURL: param.NewOpt("https://example.com/a.png")}}
	for _, c := range []struct {
		id, version        string
		variable           responses.ResponsePromptVariableUnionParam
		status             int
		code, param, words string
	}{
		{"pmpt_3", "7", text("Ada"), 404, "model_not_found", "prompt.id", `aliases: [ { id: pmpt_3, versions: { "7": VARIANT } } ]`},
		{"pmpt_3", "", text("Ada"), 404, "model_not_found", "prompt.id", `aliases: [ pmpt_3 ]`},
		{"pmpt_1", "4", text("Ada"), 400, "invalid_request", "prompt.version", `aliases: [ { id: pmpt_1, versions: { "4": VARIANT } } ]`},
		{"pmpt_2", "3", text("Ada"), 400, "invalid_request", "prompt.version", `is "3", for which the endpoint of pmpt_2 names no variant`},
		{"pmpt_1", "3", image, 400, "invalid_request", "prompt.variables.name.type", `must be input_text`},
	} {
		_, _, failure := ask(c.id, c.version, c.variable)
		if failure == nil || failure.StatusCode != c.status || failure.Code != c.code || failure.Param != c.param || !strings.Contains(failure.Message, c.words) {
			t.Errorf("%s %s: %+v, want %s", c.id, c.version, failure, c.words)
		}
	}

	a := g.post("/v1/responses", `{"model":"gpt-5","prompt":{"id":"pmpt_1","version":"3","variables":{"name":"Bob"}},"input":"Hm.","stream":true}`).ok(t)
	if ignored := a.header.Get("Cadenza-Ignored"); ignored != "model" || !strings.Contains(string(a.body), "Dag Bob!") {
		t.Errorf("%s is ignored, %s", ignored, a.body)
	}
	record := g.ended(t, a.header.Get("Cadenza-Trace-Id"))
	if record.Key != "hello" || record.Variant != "nl" || !slices.Contains(record.Notes, "asked as pmpt_1") {
		t.Errorf("the trace has %s, %s and the notes %q", record.Key, record.Variant, record.Notes)
	}
	checkError(t, g.post("/v1/responses", `{"prompt":{"id":"pmpt_1"}}`), "missing_variable", "prompt.variables.name")
	// The id is an alias in the other APIs, too.
	g.post("/v1/chat/completions", `{"model":"pmpt_1","messages":[],"variables":{"name":"Ada"}}`).ok(t)
}
