package caddymodule_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// TestEmbeddingsThroughCaddy has OpenAI's library ask Caddy, whose provider
// fails once.
func TestEmbeddingsThroughCaddy(t *testing.T) {
	u := gatewaytest.NewUpstream(t, func(call int64, w http.ResponseWriter, r *http.Request) {
		if call == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if r.URL.Path != "/v1/embeddings" || r.Header.Get("Authorization") != "Bearer "+testKey {
			t.Errorf("%s with %s", r.URL.Path, r.Header.Get("Authorization"))
		}
		fmt.Fprint(w, `{"object":"list","data":[{"index":1,"embedding":[0.25,1]},{"index":0,"embedding":[0.50,1]}],"model":"m-1","usage":{"prompt_tokens":4,"total_tokens":4}}`)
	})
	g := startGateway(t, map[string]string{"definitions/endpoints/docs.yaml": `
task: embedding
targets: [ { provider: fake, model: m, space: s } ]
`}, fakeProvider(u.URL)+"price m 1000 0\n")
	client := g.openaiClient(testKey)
	answer, err := client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: "docs", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a b", "c d"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.Data) != 2 || answer.Data[0].Embedding[0] != 0.5 || answer.Data[1].Embedding[0] != 0.25 || answer.Usage.TotalTokens != 4 || answer.Model != "docs" {
		t.Errorf("%+v", answer)
	}
	if raw := answer.RawJSON(); !strings.Contains(raw, "[0.50,1]") {
		t.Errorf("numbers are printed anew: %s", raw)
	}
	_, err = client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{Model: "docs", Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("")}})
	if e, ok := errors.AsType[*openai.Error](err); !ok || e.StatusCode != http.StatusBadRequest || e.Param != "input" {
		t.Errorf("an empty text: %v", err)
	}
}
