package canned

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

func TestEmbed(t *testing.T) {
	p := &Provider{}
	ask := func(req providers.EmbeddingRequest) *providers.Embeddings {
		t.Helper()
		answer, err := p.Embed(context.Background(), &req)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	inputs := []providers.EmbeddingInput{{Text: "a cat"}, {Text: "a dog"}, {Text: "a cat"}, {Tokens: json.RawMessage(`[1,2,3]`), Count: 3}}
	answer := ask(providers.EmbeddingRequest{Model: "m", Inputs: inputs, Dimensions: 16})
	if answer.Model != "m" || answer.Usage.PromptTokens != 9 || answer.Usage.TotalTokens != 9 {
		t.Errorf("%+v", answer)
	}
	vectors := make([][]float32, len(inputs))
	for i, raw := range answer.Vectors {
		if err := json.Unmarshal(raw, &vectors[i]); err != nil || len(vectors[i]) != 16 {
			t.Fatalf("%s: %v", raw, err)
		}
		sum := 0.0
		for _, n := range vectors[i] {
			sum += float64(n) * float64(n)
		}
		if math.Abs(sum-1) > 1e-5 {
			t.Errorf("%s has the length %g", raw, math.Sqrt(sum))
		}
	}
	if string(answer.Vectors[0]) != string(answer.Vectors[2]) || string(answer.Vectors[0]) == string(answer.Vectors[1]) {
		t.Error("a text has another vector each time, or two have the same")
	}

	inBase64 := ask(providers.EmbeddingRequest{Inputs: inputs[:1], Dimensions: 16, Base64: true})
	var text string
	if err := json.Unmarshal(inBase64.Vectors[0], &text); err != nil {
		t.Fatal(err)
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(data) != 64 || math.Float32frombits(binary.LittleEndian.Uint32(data)) != vectors[0][0] {
		t.Errorf("%s: %v", text, err)
	}
	if inBase64.Model != name || len(ask(providers.EmbeddingRequest{Inputs: inputs[:1]}).Vectors[0]) < 8*2 {
		t.Errorf("%+v", inBase64)
	}
}

func TestEmbedder(t *testing.T) { pt.RunEmbedder(t, &Provider{}, "m") }

func TestEmbedFails(t *testing.T) {
	for extra, status := range map[string]int{`{"status": 503}`: 503, `{"kind": "dance"}`: 400} {
		_, err := (&Provider{}).Embed(context.Background(), &providers.EmbeddingRequest{Inputs: []providers.EmbeddingInput{{Text: "a"}}, Extra: map[string]json.RawMessage{"fail": json.RawMessage(extra)}})
		if e, ok := errors.AsType[*providers.Error](err); !ok || e.Status != status {
			t.Errorf("%s: %v", extra, err)
		}
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := (&Provider{}).Embed(ended, &providers.EmbeddingRequest{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
