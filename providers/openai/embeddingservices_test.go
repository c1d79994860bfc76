package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// serviceClient makes a client of a service of the table at a test's upstream.
func serviceClient(t testing.TB, name, base string) *Client {
	s := services[slices.IndexFunc(services, func(s Service) bool { return s.Name == name })]
	if name == "openai" {
		s.Quirks.Embeddings = officialEmbeddings
	}
	return pt.Client(t, New, Config{Name: name, Key: testKey, Quirks: s.Quirks, Upstream: upstream.Config{BaseURL: pt.URL(t, base+pt.URL(t, s.BaseURL).Path)}})
}

// vectorAnswer is an answer whose last vector comes first.
func vectorAnswer(vectors []string) string {
	var data []string
	for i, v := range slices.Backward(vectors) {
		data = append(data, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":%s}`, i, v))
	}
	return `{"object":"list","data":[` + strings.Join(data, ",") + `],"model":"m-001","usage":{"prompt_tokens":4,"total_tokens":4}}`
}

func TestEmbeddings(t *testing.T) {
	for _, name := range []string{"openai", "cohere", "mistral", "ollama", "vllm"} {
		t.Run(name, func(t *testing.T) {
			pt.RunEmbeddings(t, pt.Embedding{
				Model:   "m",
				Connect: func(t testing.TB, base string) providers.Embedder { return serviceClient(t, name, base) },
				Texts:   func(body string) []string { return pt.TextsAt(body, "input") },
				Answer:  vectorAnswer,
				Failure: func(b pt.Behaviour) pt.Reply { return pt.OpenAIBehaviour(b, false) },
			})
		})
	}
}

// TestEmbeddingsOfServices has the request of each service with all that a caller may
// set, as the service's reference has it:
// https://docs.cohere.com/docs/compatibility-api#unsupported-parameters,
// https://docs.mistral.ai/api/endpoint/embeddings,
// https://docs.ollama.com/api/openai-compatibility and
// https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html.
func TestEmbeddingsOfServices(t *testing.T) {
	for name, test := range map[string]struct {
		path, want string
		batch      providers.EmbeddingBatch
		tokens     bool // lists of tokens are taken
	}{
		"openai":  {"/v1/embeddings", `"encoding_format":"base64","dimensions":256,"user":"u"`, providers.EmbeddingBatch{Inputs: 2048, Tokens: 300_000}, true},
		"cohere":  {"/compatibility/v1/embeddings", `"encoding_format":"base64"`, providers.EmbeddingBatch{Inputs: 96}, false},
		"mistral": {"/v1/embeddings", `"encoding_format":"base64","output_dimension":256`, providers.EmbeddingBatch{Inputs: 512, Tokens: 16_384}, false},
		"ollama":  {"/v1/embeddings", `"encoding_format":"base64","dimensions":256,"user":"u"`, providers.EmbeddingBatch{}, false},
		"vllm":    {"/v1/embeddings", `"encoding_format":"base64","dimensions":256,"user":"u"`, providers.EmbeddingBatch{}, true},
	} {
		up := pt.NewUpstream(t).Always(pt.JSON(200, vectorAnswer([]string{"[1]", "[2]"})))
		c := serviceClient(t, name, up.URL)
		req := &providers.EmbeddingRequest{Model: "m", Inputs: texts("a", "ü"), Dimensions: 256, Base64: true, User: "u"}
		if _, err := c.Embed(t.Context(), req); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if r := up.Requests()[0]; r.Path != test.path || r.Body != `{"model":"m","input":["a","ü"],`+test.want+`}` {
			t.Errorf("%s: %s %s", name, r.Path, r.Body)
		}
		if got := c.EmbeddingBatch("m"); got != test.batch {
			t.Errorf("%s: a batch has %+v, want %+v", name, got, test.batch)
		}
		tokens := []providers.EmbeddingInput{{Tokens: json.RawMessage("[1]"), Count: 1}, {Tokens: json.RawMessage("[2]"), Count: 1}}
		if _, err := c.Embed(t.Context(), &providers.EmbeddingRequest{Model: "m", Inputs: tokens}); (err == nil) != test.tokens {
			t.Errorf("%s: lists of tokens: %v", name, err)
		}
	}
}
