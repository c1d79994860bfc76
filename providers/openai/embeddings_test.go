package openai

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

func texts(list ...string) (inputs []providers.EmbeddingInput) {
	for _, text := range list {
		inputs = append(inputs, providers.EmbeddingInput{Text: text})
	}
	return inputs
}

// embed makes one request at an upstream that gives the reply.
func embed(t *testing.T, reply pt.Reply, req *providers.EmbeddingRequest, change ...func(*Config)) (*providers.Embeddings, []pt.Request, error) {
	t.Helper()
	up := pt.NewUpstream(t).Always(reply)
	c := client(t, up.URL, change...)
	answer, err := c.Embed(context.Background(), req)
	return answer, up.Requests(), err
}

func withEmbeddings(q EmbeddingQuirks) func(*Config) {
	return func(c *Config) { c.Quirks.Embeddings = q }
}

func TestEmbeddingBody(t *testing.T) {
	all := &providers.EmbeddingRequest{Model: "m", Inputs: texts("a \"b\"\n", "ü"), Dimensions: 256, Base64: true, User: "u"}
	tokens := []providers.EmbeddingInput{{Tokens: json.RawMessage(`[1,2]`), Count: 2}}
	for name, test := range map[string]struct {
		req    *providers.EmbeddingRequest
		quirks EmbeddingQuirks
		want   string
	}{
		"texts":     {&providers.EmbeddingRequest{Model: "m", Inputs: texts("a")}, EmbeddingQuirks{}, `{"model":"m","input":["a"]}`},
		"all":       {all, EmbeddingQuirks{}, `{"model":"m","input":["a \"b\"\n","ü"],"encoding_format":"base64","dimensions":256,"user":"u"}`},
		"mistral":   {all, EmbeddingQuirks{NoUser: true, OutputDimension: true}, `{"model":"m","input":["a \"b\"\n","ü"],"encoding_format":"base64","output_dimension":256}`},
		"tokens":    {&providers.EmbeddingRequest{Model: "m", Inputs: tokens}, EmbeddingQuirks{}, `{"model":"m","input":[[1,2]]}`},
		"its extra": {&providers.EmbeddingRequest{Model: "m", Inputs: texts("a"), User: "u", Extra: pt.Extra("user", `"x"`, "input_type", `"query"`)}, EmbeddingQuirks{}, `{"model":"m","input":["a"],"input_type":"query","user":"x"}`},
	} {
		one := pt.Reply{Body: []string{`{"data":[` + strings.Repeat(`{"embedding":[1]},`, len(test.req.Inputs)-1) + `{"embedding":[1]}]}`}}
		_, requests, err := embed(t, one, test.req, withEmbeddings(test.quirks))
		if err != nil || len(requests) != 1 {
			t.Fatalf("%s: %v", name, err)
		}
		if r := requests[0]; r.Body != test.want || r.Path != "/v1/embeddings" || r.Header.Get("Authorization") != "Bearer "+testKey {
			t.Errorf("%s: %s %s, want %s", name, r.Path, r.Body, test.want)
		}
	}
	_, requests, err := embed(t, pt.Reply{}, &providers.EmbeddingRequest{Model: "m", Inputs: tokens}, withEmbeddings(EmbeddingQuirks{NoTokens: true}))
	if e, ok := errors.AsType[*providers.Error](err); !ok || e.Lacks != "input of tokens" || len(requests) != 0 {
		t.Errorf("tokens at a service that takes none: %v, %d requests", err, len(requests))
	}
}

func TestEmbeddingAnswer(t *testing.T) {
	long := strings.Repeat("AACAPwAA", 12)
	for name, test := range map[string]struct {
		reply string
		want  []string // of two texts; nil: the answer is invalid
		usage providers.Usage
	}{
		"as they came":    {`{"object":"list","data":[{"index":0,"embedding":[0.10, -1E-3]},{"index":1,"embedding":[2,3]}],"model":"x","usage":{"prompt_tokens":5,"total_tokens":5}}`, []string{`[0.10, -1E-3]`, `[2,3]`}, providers.Usage{PromptTokens: 5, TotalTokens: 5}},
		"by index":        {`{"data":[{"index":1,"embedding":[1]},{"index":0,"embedding":[0]}],"usage":{"total_tokens":4}}`, []string{`[0]`, `[1]`}, providers.Usage{PromptTokens: 4, TotalTokens: 4}},
		"without indexes": {`{"data":[{"embedding":[0]},{"embedding":[1]}]}`, []string{`[0]`, `[1]`}, providers.Usage{}},
		"base64":          {`{"data":[{"index":0,"embedding":"` + long + `"},{"index":1,"embedding":"AACAPw=="}]}`, []string{`"` + long + `"`, `"AACAPw=="`}, providers.Usage{}},
		"one is missing":  {`{"data":[{"index":0,"embedding":[0]}]}`, nil, providers.Usage{}},
		"one too many":    {`{"data":[{"embedding":[0]},{"embedding":[0]},{"embedding":[0]}]}`, nil, providers.Usage{}},
		"one twice":       {`{"data":[{"index":1,"embedding":[0]},{"index":1,"embedding":[0]}]}`, nil, providers.Usage{}},
		"beyond":          {`{"data":[{"index":0,"embedding":[0]},{"index":2,"embedding":[0]}]}`, nil, providers.Usage{}},
		"negative":        {`{"data":[{"index":-1,"embedding":[0]},{"index":1,"embedding":[0]}]}`, nil, providers.Usage{}},
		"an index's word": {`{"data":[{"index":"0","embedding":[0]},{"index":1,"embedding":[0]}]}`, nil, providers.Usage{}},
		"an empty vector": {`{"data":[{"embedding":[]},{"embedding":[0]}]}`, nil, providers.Usage{}},
		"other values":    {`{"data":[{"embedding":[0,"a"]},{"embedding":[0]}]}`, nil, providers.Usage{}},
		"no vector":       {`{"data":[{},{"embedding":[0]}]}`, nil, providers.Usage{}},
		"no list":         {`{"data":{}}`, nil, providers.Usage{}},
		"nothing":         {``, nil, providers.Usage{}},
		"no JSON":         {`<html>`, nil, providers.Usage{}},
		"cut":             {`{"data":[{"embedding":[0`, nil, providers.Usage{}},
		"another answer":  {`{"choices":[]}`, nil, providers.Usage{}},
	} {
		answer, _, err := embed(t, pt.Reply{Body: []string{test.reply}}, &providers.EmbeddingRequest{Model: "m", Inputs: texts("a", "b")})
		if test.want == nil {
			if e, ok := errors.AsType[*providers.Error](err); !ok || e.Kind != providers.Invalid {
				t.Errorf("%s: %+v, %v; want an invalid answer", name, answer, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, want := range test.want {
			if string(answer.Vectors[i]) != want {
				t.Errorf("%s: vector %d is %s, want %s", name, i, answer.Vectors[i], want)
			}
		}
		if answer.Usage != test.usage {
			t.Errorf("%s: %+v", name, answer.Usage)
		}
	}
}

func TestEmbeddingErrors(t *testing.T) {
	req := &providers.EmbeddingRequest{Model: "m", Inputs: texts("a")}
	refused := pt.Reply{Status: 429, Header: map[string]string{"Retry-After": "7"}, Body: []string{`{"error":{"message":"Slow down.","code":"rate_limit_exceeded"}}`}}
	_, _, err := embed(t, refused, req)
	if e, ok := errors.AsType[*providers.Error](err); !ok || e.Status != 429 || e.Code != "rate_limit_exceeded" || e.RetryAfter.Seconds() != 7 {
		t.Errorf("429: %v", err)
	}
	_, _, err = embed(t, pt.Reply{Body: []string{`{"error":{"message":"No.","code":"bad"}}`}}, req)
	if e, ok := errors.AsType[*providers.Error](err); !ok || e.Kind != providers.Reported || e.Code != "bad" {
		t.Errorf("an error of status 200: %v", err)
	}
	_, _, err = embed(t, pt.Ended(pt.Cut, pt.Reply{Body: []string{`{"data":[{"embedding":[1`}}), req)
	if e, ok := errors.AsType[*providers.Error](err); !ok || e.Kind != providers.Truncated {
		t.Errorf("a cut answer: %v", err)
	}
	up := pt.NewUpstream(t)
	up.Close()
	_, err = client(t, up.URL).Embed(context.Background(), req)
	if _, ok := errors.AsType[*providers.ConnectError](err); !ok {
		t.Errorf("no upstream: %v", err)
	}
}

func TestEmbeddingBatches(t *testing.T) {
	for base, want := range map[string]providers.EmbeddingBatch{DefaultBaseURL: {Inputs: 2048, Tokens: 300_000}, "https://llm.example/v1": {}} {
		c := client(t, "http://127.0.0.1", func(c *Config) { c.Upstream.BaseURL = pt.URL(t, base) })
		if got := c.EmbeddingBatch("m"); got != want {
			t.Errorf("%s: %+v, want %+v", base, got, want)
		}
	}
	for _, s := range services {
		if s.Name == "cohere" && s.Quirks.Embeddings.Batch.Inputs != 96 {
			t.Error("Cohere takes 96 texts")
		}
	}
}
