package caddymodule_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

// TestResponsesLibrary calls endpoints through OpenAI's library, with its Responses API.
func TestResponsesLibrary(t *testing.T) {
	g := startGateway(t, documentedAssistant(t), options)
	client, ctx := g.openaiClient(testKey), t.Context()

	// ask returns a whole response, or the last response of a stream.
	ask := func(t *testing.T, streamed bool, params responses.ResponseNewParams, more ...option.RequestOption) *responses.Response {
		t.Helper()
		if !streamed {
			answer, err := client.Responses.New(ctx, params, more...)
			if err != nil {
				t.Fatal(err)
			}
			return answer
		}
		stream := client.Responses.NewStreaming(ctx, params, more...)
		defer stream.Close()
		said := ""
		var last responses.ResponseStreamEventUnion
		for stream.Next() {
			if last = stream.Current(); last.Type == "response.output_text.delta" {
				said += last.Delta
			}
		}
		if err := stream.Err(); err != nil || last.Type != "response.completed" || last.Response.OutputText() != said {
			t.Fatalf("%v, %q, %s", err, said, last.RawJSON())
		}
		return &last.Response
	}

	// The call of the page with a prompt that was at OpenAI.
	for _, streamed := range []bool{false, true} {
		prompt := responses.ResponsePromptParam{ID: "pmpt_68b0", Version: openai.String("3"), Variables: map[string]responses.ResponsePromptVariableUnionParam{"company": {OfString: openai.String("Globex")}}}
		if answer := ask(t, streamed, responses.ResponseNewParams{Prompt: prompt, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Hello!")}}); answer.Model != "pmpt_68b0" || answer.OutputText() != "Hello!" {
			t.Errorf("%s", answer.RawJSON())
		}
	}

	for name, streamed := range map[string]bool{"whole": false, "streamed": true} {
		t.Run(name, func(t *testing.T) {
			var response *http.Response
			params := responses.ResponseNewParams{
				Model: "assistant", Temperature: openai.Float(0.5), MaxOutputTokens: openai.Int(100), PromptCacheKey: openai.String("k"),
				Tools: []responses.ToolUnionParam{responses.ToolParamOfFunction("get_weather", map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"}}, true)},
			}
			conversation := []any{map[string]any{"role": "user", "content": "What is the weather?"}}
			first := ask(t, streamed, params, option.WithJSONSet("input", conversation), option.WithResponseInto(&response))
			if id := response.Header.Get("X-Request-Id"); id == "" || first.ID != "resp_"+strings.ReplaceAll(id, "-", "") || response.Header.Get("Cadenza-Ignored") != "prompt_cache_key" {
				t.Errorf("%s: %v", first.ID, response.Header)
			}
			if first.Usage.TotalTokens == 0 || first.Model != "assistant" || first.Status != "completed" || first.Temperature != 0.5 || len(first.Tools) != 1 || !strings.Contains(first.RawJSON(), `"store":false`) {
				t.Errorf("%s", first.RawJSON())
			}
			for _, item := range first.Output {
				conversation = append(conversation, json.RawMessage(item.RawJSON()))
				if item.Type == "function_call" {
					if item.Name != "get_weather" || !json.Valid([]byte(item.AsFunctionCall().Arguments)) {
						t.Errorf("%s", item.RawJSON())
					}
					conversation = append(conversation, map[string]any{"type": "function_call_output", "call_id": item.CallID, "output": "It rains."})
				}
			}
			if len(conversation) < 3 {
				t.Fatalf("no call: %s", first.RawJSON())
			}
			if second := ask(t, streamed, params, option.WithJSONSet("input", conversation)); second.OutputText() != "It rains." {
				t.Errorf("%s", second.RawJSON())
			}

			// A model's thoughts are sent back to it.
			thought := ask(t, streamed, responses.ResponseNewParams{Model: "thinker"}, option.WithJSONSet("input", "How many?"))
			if kind := thought.Output[0]; kind.Type != "reasoning" || kind.Summary[0].Text != "I count." || kind.EncryptedContent == "" || thought.OutputText() != "Four." {
				t.Errorf("%s", thought.RawJSON())
			}
			history := []any{json.RawMessage(thought.Output[0].RawJSON()), json.RawMessage(thought.Output[1].RawJSON()), map[string]any{"role": "user", "content": "Sure?"}}
			again := ask(t, streamed, responses.ResponseNewParams{Model: "thinker"}, option.WithJSONSet("input", history), option.WithResponseInto(&response))
			if ignored := response.Header.Get("Cadenza-Ignored"); again.OutputText() != "Four." || ignored != "" {
				t.Errorf("%s, ignored: %s", again.RawJSON(), ignored)
			}
		})
	}

	t.Run("errors", func(t *testing.T) {
		hello := responses.ResponseNewParamsInputUnion{OfString: openai.String("Hello!")}
		for name, c := range map[string]struct {
			params      responses.ResponseNewParams
			status      int
			code, param string
		}{
			"model":        {responses.ResponseNewParams{Model: "gpt-5", Input: hello}, 404, "model_not_found", "model"},
			"store":        {responses.ResponseNewParams{Model: "assistant", Input: hello, Store: openai.Bool(true)}, 400, "invalid_request", "store"},
			"state":        {responses.ResponseNewParams{Model: "assistant", Input: hello, PreviousResponseID: openai.String("resp_1")}, 400, "invalid_request", "previous_response_id"},
			"ceiling":      {responses.ResponseNewParams{Model: "assistant", Input: hello, MaxOutputTokens: openai.Int(801)}, 400, "invalid_request", "max_output_tokens"},
			"parameter":    {responses.ResponseNewParams{Model: "assistant", Input: hello, TopP: openai.Float(1)}, 400, "invalid_request", "top_p"},
			"instructions": {responses.ResponseNewParams{Model: "assistant", Input: hello, Instructions: openai.String("Obey.")}, 400, "invalid_request", "instructions"},
			"history":      {responses.ResponseNewParams{Model: "down", Input: hello}, 400, "invalid_request", "input"},
			"upstream":     {responses.ResponseNewParams{Model: "down"}, 502, "upstream_error", ""},
		} {
			_, err := client.Responses.New(ctx, c.params)
			apiErr, ok := errors.AsType[*openai.Error](err)
			if !ok || apiErr.StatusCode != c.status || apiErr.Code != c.code || apiErr.Param != c.param || apiErr.Response.Header.Get("X-Request-Id") == "" {
				t.Errorf("%s: %v", name, err)
			}
		}
	})

	t.Run("broken stream", func(t *testing.T) {
		stream := client.Responses.NewStreaming(ctx, responses.ResponseNewParams{Model: "broken", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Hi")}})
		defer stream.Close()
		said := ""
		for stream.Next() {
			said += stream.Current().Delta
		}
		if err := stream.Err(); err == nil || !strings.Contains(err.Error(), "upstream_interrupted") || !strings.HasPrefix("Half an answer", said) || said == "" {
			t.Errorf("%q, %v", said, err)
		}
	})
}
