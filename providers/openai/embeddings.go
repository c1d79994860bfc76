package openai

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// EmbeddingQuirks are the ways in which a service's embeddings differ from OpenAI's.
type EmbeddingQuirks struct {
	// Batch is what one request may have.
	Batch providers.EmbeddingBatch
	// NoTokens fails calls whose input is a list of tokens: the service takes texts.
	NoTokens bool
	// NoUser leaves out user: the service rejects it.
	NoUser bool
	// OutputDimension sends dimensions as output_dimension.
	OutputDimension bool
	// NoDimensions leaves out dimensions: the service has none. The gateway checks the
	// length of what comes.
	NoDimensions bool
}

// officialEmbeddings are those of OpenAI and Azure.
var officialEmbeddings = EmbeddingQuirks{Batch: providers.EmbeddingBatch{Inputs: 2048, Tokens: 300_000}}

// AzureEmbeddings are the quirks of Azure.
func AzureEmbeddings() EmbeddingQuirks { return officialEmbeddings }

// EmbeddingBatch returns what one request may have.
func (c *Client) EmbeddingBatch(string) providers.EmbeddingBatch { return c.quirks.Embeddings.Batch }

// Embed asks for the vectors of the inputs.
func (c *Client) Embed(ctx context.Context, req *providers.EmbeddingRequest) (*providers.Embeddings, error) {
	body, err := c.embeddingBody(req)
	if err != nil {
		return nil, err
	}
	k, err := c.Begin()
	if err != nil {
		return nil, err
	}
	r, err := c.Request(ctx, c.embeddings, body, false)
	if err != nil {
		return nil, err
	}
	c.authorize(r, k)
	answer, err := c.Send(k, r, describe)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	return readEmbeddings(&k, answer, len(req.Inputs))
}

// embeddingBody writes the request. A member of Extra replaces the gateway's own.
func (c *Client) embeddingBody(req *providers.EmbeddingRequest) ([]byte, error) {
	quirks := &c.quirks.Embeddings
	if quirks.NoTokens {
		if err := c.CheckTexts(req.Inputs); err != nil {
			return nil, err
		}
	}
	body := append(make([]byte, 0, 256+upstream.InputSize(req.Inputs, 3)), '{')
	member := func(name string) {
		if len(body) > 1 {
			body = append(body, ',')
		}
		body = append(jsontext.AppendString(body, name), ':')
	}
	has := func(name string) bool { return req.Extra[name] != nil }
	if !has("model") {
		member("model")
		body = jsontext.AppendString(body, req.Model)
	}
	if !has("input") {
		member("input")
		body = upstream.AppendInputs(body, req.Inputs)
	}
	if req.Base64 && !has("encoding_format") {
		member("encoding_format")
		body = append(body, `"base64"`...)
	}
	dimensions := "dimensions"
	if quirks.OutputDimension {
		dimensions = "output_dimension"
	}
	if req.Dimensions > 0 && !quirks.NoDimensions && !has(dimensions) {
		member(dimensions)
		body = strconv.AppendInt(body, req.Dimensions, 10)
	}
	if req.User != "" && !quirks.NoUser && !has("user") {
		member("user")
		body = jsontext.AppendString(body, req.User)
	}
	for _, name := range slices.Sorted(maps.Keys(req.Extra)) {
		member(name)
		body = append(body, req.Extra[name]...)
	}
	return append(body, '}'), nil
}

// readEmbeddings reads the answer to a request with so many inputs.
func readEmbeddings(k *upstream.Call, body io.Reader, inputs int) (*providers.Embeddings, error) {
	vectors, v, err := k.Vectors(body)
	if err != nil {
		return nil, err
	}
	m := members(v, [4]string{"error", "model", "usage", "data"})
	if isError(m[0]) || m[3] == nil {
		if e := reported(*k, v); e != nil {
			return nil, e
		}
		return nil, k.Invalid("neither vectors nor an error")
	}
	list := m[3].GetArray()
	if len(list) != inputs {
		return nil, k.Invalid("the answer has " + strconv.Itoa(len(list)) + " vectors for " + strconv.Itoa(inputs) + " inputs")
	}
	answer := &providers.Embeddings{Model: string(m[1].GetStringBytes()), Vectors: make([]json.RawMessage, inputs), Buffer: vectors.Buffer}
	for i, item := range list {
		at := i
		if index := item.Get("index"); index != nil {
			if at, err = index.Int(); err != nil || at < 0 || at >= inputs || answer.Vectors[at] != nil {
				return nil, k.Invalid("the indexes of the vectors are not those of the inputs")
			}
		}
		if answer.Vectors[at] = vectors.Of(item.Get("embedding")); answer.Vectors[at] == nil {
			return nil, k.Invalid("vector " + strconv.Itoa(at) + " is neither numbers nor base64")
		}
	}
	if m[2] != nil {
		var usage providers.Usage
		readUsage(m[2], nil, &usage)
		if usage.PromptTokens == 0 {
			usage.PromptTokens = usage.TotalTokens // all there is
		}
		answer.Usage = usage
	}
	return answer, nil
}
