package bedrock

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// isCohere reports whether a model, or the profile or ARN of one, is Cohere's Embed.
func isCohere(model string) bool { return strings.Contains(model, "cohere.embed-") }

// EmbeddingBatch returns what one request may have: Cohere's models take lists of texts.
func (c *Client) EmbeddingBatch(model string) providers.EmbeddingBatch {
	if isCohere(model) {
		return providers.EmbeddingBatch{Inputs: 96}
	}
	return providers.EmbeddingBatch{Inputs: 1}
}

// Embed asks for the vectors of the inputs by InvokeModel, in the words of the model:
// Amazon's Titan Text Embeddings and Cohere's Embed are known.
func (c *Client) Embed(ctx context.Context, req *providers.EmbeddingRequest) (*providers.Embeddings, error) {
	if err := c.CheckTexts(req.Inputs); err != nil {
		return nil, err
	}
	body, err := c.embeddingBody(req)
	if err != nil {
		return nil, err
	}
	k, answer, header, err := c.send(ctx, req.Model, "invoke", body, "")
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	return readEmbeddings(k, answer, header, len(req.Inputs))
}

// embeddingBody writes the request. Members of Extra, such as input_type and truncate, or
// normalize, replace the gateway's own. Cohere wants an input_type, which without Extra is
// search_document: texts that are to be found, as most are
// (https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-embed-v4.html,
// https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-text.html).
func (c *Client) embeddingBody(req *providers.EmbeddingRequest) ([]byte, error) {
	members, input, dimensions := make(map[string]any, 3+len(req.Extra)), "inputText", "dimensions"
	switch {
	case isCohere(req.Model):
		input, dimensions = "texts", "output_dimension"
		members["input_type"], members["embedding_types"] = "search_document", []string{"float"}
	case !strings.Contains(req.Model, "amazon.titan-embed-text-"):
		return nil, c.Unsendable("%q is none of the models that make vectors: amazon.titan-embed-text-… and cohere.embed-…", req.Model)
	}
	if req.Dimensions > 0 {
		members[dimensions] = req.Dimensions
	}
	for name, value := range req.Extra {
		members[name] = value
	}
	f, err := c.NewForm(members, nil)
	if err != nil {
		return nil, err
	}
	body := append(make([]byte, 0, 256+upstream.InputSize(req.Inputs, 3)), '{')
	switch {
	case f.Has(input):
	case input == "texts":
		body = upstream.AppendInputs(append(body, `"texts":`...), req.Inputs)
	default:
		body = jsontext.AppendString(append(body, `"inputText":`...), req.Inputs[0].Text)
	}
	return f.End(body), nil
}

// readEmbeddings reads the answer to a request with so many inputs. Titan's has the one
// vector and the count of its tokens. Cohere's has a list, or where types were asked for
// one of each type; the tokens are in a header.
func readEmbeddings(k upstream.Call, body io.Reader, header http.Header, inputs int) (*providers.Embeddings, error) {
	vectors, v, err := k.Vectors(body)
	if err != nil {
		return nil, err
	}
	if e := k.Error(providers.Reported); describe(k, e, v) {
		return nil, e
	}
	var list []*fastjson.Value
	switch all := v.Get("embeddings"); {
	case all == nil:
		list = []*fastjson.Value{v.Get("embedding")}
	case all.Type() == fastjson.TypeObject:
		list = all.GetArray("float")
	default:
		list = all.GetArray()
	}
	answer := &providers.Embeddings{Buffer: vectors.Buffer}
	if answer.Vectors, err = vectors.OfEach(k, list, inputs); err != nil {
		return nil, err
	}
	tokens := upstream.Tokens(v.Get("inputTextTokenCount"))
	if n, err := strconv.ParseUint(header.Get("X-Amzn-Bedrock-Input-Token-Count"), 10, 53); err == nil && tokens == 0 {
		tokens = int64(n)
	}
	answer.Usage.PromptTokens, answer.Usage.TotalTokens = tokens, tokens
	return answer, nil
}
