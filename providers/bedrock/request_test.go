package bedrock

import (
	"encoding/json"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

func TestRequestBody(t *testing.T) {
	user := []providers.Message{{Role: "user", Content: "u"}}
	all := providers.Parameters{
		Temperature: new(0.0), MaxTokens: new(int64(400)), TopP: new(0.9), TopK: new(int64(40)),
		FrequencyPenalty: new(-0.5), PresencePenalty: new(0.25),
	}
	pt.CheckBodies(t, client, answer("fine", "end_turn", 1, 1), true, []pt.Body[Config]{
		{"nothing set", providers.Request{Model: testModel, Messages: user}, nil, `{"messages":[{"role":"user","content":[{"text":"u"}]}]}`},
		{"a stream is the same", providers.Request{Model: testModel, Messages: user, Stream: true}, nil, `{"messages":[{"role":"user","content":[{"text":"u"}]}]}`},
		{"all roles", providers.Request{Model: testModel, Messages: []providers.Message{
			{Role: "system", Content: `a <b> & \"c\"`}, {Role: "user", Content: `ü\n`}, {Role: "developer", Content: "d"},
			{Role: "user", Content: "more"}, {Role: "assistant", Content: "x"}, {Role: "assistant", Content: ""}, {Role: "system", Content: ""}, {Role: "user", Content: "y"},
		}}, nil, `{"system":[{"text":"a <b> & \"c\""},{"text":"d"}],"messages":[{"role":"user","content":[{"text":"ü\n"},{"text":"more"}]},{"role":"assistant","content":[{"text":"x"}]},{"role":"user","content":[{"text":"y"}]}]}`},
		{"all parameters", providers.Request{Model: "meta.llama3-3-70b-instruct-v1:0", Messages: user, Parameters: all},
			nil, `{"messages":[{"role":"user","content":[{"text":"u"}]}],"inferenceConfig":{"temperature":0,"maxTokens":400,"topP":0.9}}`},
		{"top_k of Claude", providers.Request{Model: testModel, Messages: user, Parameters: providers.Parameters{TopK: new(int64(40))}},
			nil, `{"messages":[{"role":"user","content":[{"text":"u"}]}],"additionalModelRequestFields":{"top_k":40}}`},
		{"top_k of Nova", providers.Request{Model: "us.amazon.nova-lite-v1:0", Messages: user, Parameters: providers.Parameters{TopK: new(int64(40))}},
			nil, `{"messages":[{"role":"user","content":[{"text":"u"}]}],"additionalModelRequestFields":{"inferenceConfig":{"topK":40}}}`},
		{"top_k of Command R", providers.Request{Model: "cohere.command-r-plus-v1:0", Messages: user, Parameters: providers.Parameters{TopK: new(int64(40))}},
			nil, `{"messages":[{"role":"user","content":[{"text":"u"}]}],"additionalModelRequestFields":{"k":40}}`},
		{"extra", providers.Request{Model: testModel, Messages: user, Parameters: all, Extra: map[string]json.RawMessage{
			"inferenceConfig":              json.RawMessage(`{"stopSequences":["END"],"topP":0.5}`),
			"additionalModelRequestFields": json.RawMessage(`{"thinking":{"type":"enabled"}}`),
			"guardrailConfig":              json.RawMessage(`{"guardrailIdentifier":"g","guardrailVersion":"1"}`),
			"system":                       json.RawMessage(`[{"text":"s"},{"cachePoint":{"type":"default"}}]`),
		}}, nil, `{"messages":[{"role":"user","content":[{"text":"u"}]}],"system":[{"text":"s"},{"cachePoint":{"type":"default"}}],"inferenceConfig":{"temperature":0,"maxTokens":400,"topP":0.5,"stopSequences":["END"]},"additionalModelRequestFields":{"top_k":40,"thinking":{"type":"enabled"}},"guardrailConfig":{"guardrailIdentifier":"g","guardrailVersion":"1"}}`},
	})
}

func TestRequestsThatTheServiceWouldReject(t *testing.T) {
	user := []providers.Message{{Role: "user", Content: "u"}}
	subject.CheckUnsendable(t, []pt.Unsendable{
		{"no model", "", providers.Request{Messages: user}},
		{"a model that climbs", "", providers.Request{Model: "..", Messages: user}},
		{"no message", "", providers.Request{Model: "m"}},
		{"system messages only", "", providers.Request{Model: "m", Messages: []providers.Message{{Role: "system", Content: "s"}}}},
		{"an assistant that begins", "", providers.Request{Model: "m", Messages: []providers.Message{{Role: "assistant", Content: "a"}}}},
		{"an unknown role", "", providers.Request{Model: "m", Messages: []providers.Message{{Role: "wizard", Content: "w"}}}},
		{"an extra that is no object", "", providers.Request{Model: "m", Messages: user, Parameters: providers.Parameters{TopP: new(1.0)}, Extra: map[string]json.RawMessage{"inferenceConfig": json.RawMessage(`3`)}}},
		{"an extra that is no JSON", "", providers.Request{Model: "m", Messages: user, Extra: map[string]json.RawMessage{"x": json.RawMessage(`{`)}}},
		{"a temperature that is none", "", providers.Request{Model: "m", Messages: user, Parameters: providers.Parameters{Temperature: new(inf())}}},
	})
}

func inf() float64 { zero := 0.0; return 1 / zero }

func TestARedirectIsNotFollowed(t *testing.T) { subject.CheckRedirect(t) }

func TestBadConfigurations(t *testing.T) {
	key := func() (string, error) { return "x", nil }
	for name, config := range map[string]Config{
		"no region":           {APIKey: key},
		"a region with a dot": {Region: "us-east-1.evil.example", APIKey: key},
		"no key":              {Region: "us-east-1"},
	} {
		if _, err := New(config); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	for region, want := range map[string]string{
		"us-east-1":     "https://bedrock-runtime.us-east-1.amazonaws.com",
		"us-gov-west-1": "https://bedrock-runtime.us-gov-west-1.amazonaws.com",
		"cn-north-1":    "https://bedrock-runtime.cn-north-1.amazonaws.com.cn",
	} {
		if u, err := BaseURL(region); err != nil || u.String() != want {
			t.Errorf("%s: %v, %v", region, u, err)
		}
	}
	if u, _ := BaseURL("us-east-1"); providers.ModuleNamed("bedrock").Host != u.Host {
		t.Errorf("the module is described with another host than %s", u.Host)
	}
}
