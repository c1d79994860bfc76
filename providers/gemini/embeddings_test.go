package gemini

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// onVertex makes a client of Vertex AI at a test's upstream.
func onVertex(t testing.TB, base string) *Client {
	return pt.Client(t, New, Config{Token: func() (string, error) { return "ya29.token", nil }, Upstream: upstream.Config{BaseURL: pt.URL(t, base+vertexPath)}})
}

// The answers of the three methods.
func batchAnswer(vectors []string) string {
	return `{"embeddings":[` + joinEach(vectors, `{"values":`, `}`) + `]}`
}

func predictAnswer(vectors []string) string {
	return `{"predictions":[` + joinEach(vectors, `{"embeddings":{"statistics":{"truncated":false,"token_count":4},"values":`, `}}`) + `],"metadata":{"billableCharacterCount":11}}`
}

func contentAnswer(vectors []string) string {
	if len(vectors) == 0 {
		return `{"usageMetadata":{"promptTokenCount":3}}`
	}
	return `{"embedding":{"values":` + vectors[0] + `},"usageMetadata":{"promptTokenCount":3,"totalTokenCount":3},"truncated":false}`
}

func joinEach(vectors []string, before, behind string) string {
	if len(vectors) == 0 {
		return ""
	}
	return before + strings.Join(vectors, behind+","+before) + behind
}

func TestEmbeddings(t *testing.T) {
	google := func(t testing.TB, base string) providers.Embedder { return client(t, base) }
	vertex := func(t testing.TB, base string) providers.Embedder { return onVertex(t, base) }
	failure := func(b pt.Behaviour) pt.Reply { return behave(b, false) }
	contents := func(body string) []string { return pt.TextsAt(body, "requests", "content", "parts", "0", "text") }
	instances := func(body string) []string { return pt.TextsAt(body, "instances", "content") }
	for name, e := range map[string]pt.Embedding{
		"Google":        {Model: "gemini-embedding-001", Connect: google, Texts: contents, Answer: batchAnswer, Failure: failure},
		"VertexPredict": {Model: "text-embedding-005", Connect: vertex, Texts: instances, Answer: predictAnswer, Failure: failure},
		"VertexOne":     {Model: "gemini-embedding-001", Connect: vertex, Texts: instances, Answer: predictAnswer, Failure: failure},
		"VertexContent": {Model: "gemini-embedding-2", Connect: vertex, Texts: contents, Answer: contentAnswer, Failure: failure},
	} {
		t.Run(name, func(t *testing.T) { pt.RunEmbeddings(t, e) })
	}
}

func inputs(texts ...string) (list []providers.EmbeddingInput) {
	for _, text := range texts {
		list = append(list, providers.EmbeddingInput{Text: text})
	}
	return list
}

func TestEmbeddingRequests(t *testing.T) {
	two := inputs("a <b> \"c\"\n", "ü")
	all := func(model string, inputs []providers.EmbeddingInput, extra ...string) *providers.EmbeddingRequest {
		return &providers.EmbeddingRequest{Model: model, Inputs: inputs, Dimensions: 768, Base64: true, User: "u", Extra: pt.Extra(extra...)}
	}
	for name, test := range map[string]struct {
		vertex     bool
		req        *providers.EmbeddingRequest
		path, want string
	}{
		"Google AI": {false, &providers.EmbeddingRequest{Model: "gemini-embedding-001", Inputs: two[1:]}, "/v1beta/models/gemini-embedding-001:batchEmbedContents",
			`{"requests":[{"content":{"parts":[{"text":"ü"}]},"model":"models/gemini-embedding-001"}]}`},
		"Google AI, all": {false, all("models/gemini-embedding-2", two, "taskType", `"RETRIEVAL_QUERY"`), "/v1beta/models/gemini-embedding-2:batchEmbedContents",
			`{"requests":[{"content":{"parts":[{"text":"a <b> \"c\"\n"}]},"model":"models/gemini-embedding-2","outputDimensionality":768,"taskType":"RETRIEVAL_QUERY"},{"content":{"parts":[{"text":"ü"}]},"model":"models/gemini-embedding-2","outputDimensionality":768,"taskType":"RETRIEVAL_QUERY"}]}`},
		"Vertex AI": {true, &providers.EmbeddingRequest{Model: "text-embedding-005", Inputs: two[1:]}, vertexPath + "/models/text-embedding-005:predict",
			`{"instances":[{"content":"ü"}],"parameters":{"autoTruncate":false}}`},
		"Vertex AI, all": {true, all("text-embedding-005", two, "taskType", `"RETRIEVAL_DOCUMENT"`, "title", `"T"`, "autoTruncate", "true"), vertexPath + "/models/text-embedding-005:predict",
			`{"instances":[{"content":"a <b> \"c\"\n","task_type":"RETRIEVAL_DOCUMENT","title":"T"},{"content":"ü","task_type":"RETRIEVAL_DOCUMENT","title":"T"}],"parameters":{"autoTruncate":true,"outputDimensionality":768}}`},
		"its own word wins": {true, all("gemini-embedding-001", two[1:], "taskType", `"CLUSTERING"`, "task_type", `"CLASSIFICATION"`), vertexPath + "/models/gemini-embedding-001:predict",
			`{"instances":[{"content":"ü","task_type":"CLASSIFICATION"}],"parameters":{"autoTruncate":false,"outputDimensionality":768}}`},
		"Vertex AI's later models": {true, all("gemini-embedding-2-preview", two[1:], "taskType", `"CLUSTERING"`), vertexPath + "/models/gemini-embedding-2-preview:embedContent",
			`{"content":{"parts":[{"text":"ü"}]},"outputDimensionality":768,"taskType":"CLUSTERING"}`},
	} {
		up := pt.NewUpstream(t)
		c, header, want := client(t, up.URL), "X-Goog-Api-Key", testKey
		if test.vertex {
			c, header, want = onVertex(t, up.URL), "Authorization", "Bearer ya29.token"
		}
		_, _ = c.Embed(t.Context(), test.req) // the upstream has no answer
		r := up.Requests()[0]
		if diff := cmp.Diff(test.want, r.Body); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
		if r.Method != http.MethodPost || r.Path != test.path || r.Query != "prettyPrint=false" || r.Header.Get(header) != want {
			t.Errorf("%s: %s %s?%s with %q", name, r.Method, r.Path, r.Query, r.Header)
		}
	}
}

func TestUnsendableEmbeddings(t *testing.T) {
	up := pt.NewUpstream(t)
	c := client(t, up.URL)
	for name, req := range map[string]*providers.EmbeddingRequest{
		"a path as the model":   {Model: "../x", Inputs: inputs("a")},
		"extra that is no JSON": {Model: "m", Inputs: inputs("a"), Extra: pt.Extra("taskType", "{")},
		"a list of tokens":      {Model: "m", Inputs: []providers.EmbeddingInput{{Tokens: []byte("[1]"), Count: 1}}},
	} {
		_, err := c.Embed(t.Context(), req)
		if e, ok := errors.AsType[*providers.Error](err); !ok || e.Status != 400 || (e.Lacks == "input of tokens") != (name == "a list of tokens") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := onVertex(t, up.URL).Embed(t.Context(), &providers.EmbeddingRequest{Model: "text-embedding-005", Inputs: inputs("a"), Extra: pt.Extra("x", "{")}); err == nil {
		t.Error("parameters that are no JSON")
	}
	if len(up.Requests()) != 0 {
		t.Errorf("sent: %+v", up.Requests())
	}
}

func TestEmbeddingBatches(t *testing.T) {
	google, vertex := client(t, "http://127.0.0.1"), onVertex(t, "http://127.0.0.1")
	for model, want := range map[string]providers.EmbeddingBatch{
		"text-embedding-005": {Inputs: 250, Tokens: 20_000}, "text-multilingual-embedding-002": {Inputs: 250, Tokens: 20_000},
		"gemini-embedding-001": {Inputs: 1}, "gemini-embedding-2": {Inputs: 1}, "models/gemini-embedding-2": {Inputs: 1},
	} {
		if got := vertex.EmbeddingBatch(model); got != want {
			t.Errorf("%s on Vertex AI: %+v, want %+v", model, got, want)
		}
		if got := google.EmbeddingBatch(model); got != (providers.EmbeddingBatch{Inputs: 100}) {
			t.Errorf("%s: %+v", model, got)
		}
	}
	for model, want := range map[string]*vectorMethod{
		"text-embedding-005": &predict, "gemini-embedding-001": &predict, "gemini-embedding-exp-03-07": &predict,
		"gemini-embedding-2": &embedContent, "models/gemini-embedding-2-preview": &embedContent, "gemini-embedding-10": &embedContent,
	} {
		if got := vertex.vectorMethod(model); got != want {
			t.Errorf("%s: %s, want %s", model, got.name, want.name)
		}
	}
}

func TestEmbeddingUsage(t *testing.T) {
	for name, test := range map[string]struct {
		vertex string // the model there; empty: Google AI
		reply  string
		want   int64
	}{
		"Google AI gives none":     {"", batchAnswer([]string{"[1]", "[2]"}), 0},
		"Google AI gives one":      {"", strings.TrimSuffix(batchAnswer([]string{"[1]", "[2]"}), "}") + `,"usageMetadata":{"promptTokenCount":7}}`, 7},
		"predict":                  {"text-embedding-005", predictAnswer([]string{"[1]", "[2]"}), 8},
		"predict with a point":     {"text-embedding-005", strings.ReplaceAll(predictAnswer([]string{"[1]", "[2]"}), `:4`, `:4.0`), 8},
		"predict without one":      {"text-embedding-005", strings.Replace(predictAnswer([]string{"[1]", "[2]"}), `,"token_count":4`, ``, 1), 0},
		"a count that is no count": {"text-embedding-005", strings.Replace(predictAnswer([]string{"[1]", "[2]"}), `4`, `-4`, 1), 0},
	} {
		up := pt.NewUpstream(t).Always(pt.JSON(200, test.reply))
		c, model := client(t, up.URL), test.vertex
		if model != "" {
			c = onVertex(t, up.URL)
		}
		answer, err := c.Embed(t.Context(), &providers.EmbeddingRequest{Model: "m" + model, Inputs: inputs("a", "b")})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if want := (providers.Usage{PromptTokens: test.want, TotalTokens: test.want}); answer.Usage != want {
			t.Errorf("%s: %+v, want %+v", name, answer.Usage, want)
		}
	}
}

func TestAnErrorInPlaceOfVectors(t *testing.T) {
	up := pt.NewUpstream(t).Always(pt.JSON(200, errorBody(500, "INTERNAL", "It broke.")))
	_, err := client(t, up.URL).Embed(t.Context(), &providers.EmbeddingRequest{Model: "m", Inputs: inputs("a")})
	if e, ok := errors.AsType[*providers.Error](err); !ok || e.Kind != providers.Reported || e.Code != "500" {
		t.Error(err)
	}
}

// TestModuleMakesVectors checks that the gateway finds the client behind the module.
func TestModuleMakesVectors(t *testing.T) {
	up := pt.NewUpstream(t).Always(pt.JSON(200, batchAnswer([]string{"[1]"})))
	m := pt.Provisioned(t, &Module{Options: httpmodule.Options{BaseURL: up.URL + "/v1beta"}})
	if _, err := providers.EmbedderOf(m).Embed(t.Context(), &providers.EmbeddingRequest{Model: "m", Inputs: inputs("a")}); err != nil {
		t.Error(err)
	}
}
