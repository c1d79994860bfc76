package canned

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/canned/script"
)

// defaultDimensions is the length of a vector if a request asks for none.
const defaultDimensions = 8

// EmbeddingBatch has no bounds.
func (p *Provider) EmbeddingBatch(string) providers.EmbeddingBatch {
	return providers.EmbeddingBatch{}
}

// Embed makes a vector of each input, of length 1 and from its hash: the same text has the
// same vector, and no two are alike. Of Extra it knows fail.
func (p *Provider) Embed(ctx context.Context, req *providers.EmbeddingRequest) (*providers.Embeddings, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	all, err := script.Parse(req.Extra)
	if err != nil {
		return nil, rejected("invalid_extra", err)
	}
	if f := all.At(nil).Fail; f.Applies(ctx) {
		return nil, f.Error(ctx, false)
	}
	dimensions := int(req.Dimensions)
	if dimensions == 0 {
		dimensions = defaultDimensions
	}
	answer := &providers.Embeddings{Model: req.Model, Vectors: make([]json.RawMessage, len(req.Inputs))}
	if req.Model == "" {
		answer.Model = name
	}
	for i, in := range req.Inputs {
		text := in.Text
		answer.Usage.PromptTokens += wordsOf(in.Text)
		if in.Tokens != nil {
			text = string(in.Tokens)
			answer.Usage.PromptTokens += int64(in.Count)
		}
		answer.Vectors[i] = appendVector(vectorOf(text, dimensions), req.Base64)
	}
	answer.Usage.TotalTokens = answer.Usage.PromptTokens
	return answer, nil
}

// vectorOf returns the vector of a text.
func vectorOf(text string, dimensions int) []float32 {
	random := rand.New(rand.NewChaCha8(sha256.Sum256([]byte(text))))
	numbers, sum := make([]float64, dimensions), 0.0
	for i := range numbers {
		numbers[i] = random.NormFloat64()
		sum += numbers[i] * numbers[i]
	}
	vector := make([]float32, dimensions)
	for i, n := range numbers {
		vector[i] = float32(n / math.Sqrt(sum))
	}
	return vector
}

// appendVector returns the JSON of a vector.
func appendVector(vector []float32, inBase64 bool) json.RawMessage {
	if inBase64 {
		data := make([]byte, 0, 4*len(vector))
		for _, n := range vector {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(n))
		}
		return append(base64.StdEncoding.AppendEncode([]byte{'"'}, data), '"')
	}
	raw := []byte{'['}
	for i, n := range vector {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = strconv.AppendFloat(raw, float64(n), 'f', -1, 32)
	}
	return append(raw, ']')
}
