package openai

import (
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
