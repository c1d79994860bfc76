package gemini

import (
	"context"
	"io"
	"regexp"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// vectorMethod is a method of the API that makes vectors.
type vectorMethod struct {
	name string
	// The text of an input stands between before and behind, with members of its own
	// after them. The inputs are a list in the member that open begins; empty: there is
	// one input, which is the whole body.
	open, before, behind string
	// list is where an answer has the list of the vectors, each at values; empty: the
	// answer has one vector.
	list   string
	values []string
}

var (
	// batchEmbedContents is Google AI's (https://ai.google.dev/api/embeddings).
	batchEmbedContents = vectorMethod{"batchEmbedContents", `{"requests":[`, `{"content":{"parts":[{"text":`, `}]}`, "embeddings", []string{"values"}}
	// predict is Vertex AI's for models before gemini-embedding-2
	// (https://docs.cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api),
	// embedContent its for that and later ones
	// (https://docs.cloud.google.com/vertex-ai/docs/reference/rest/v1beta1/projects.locations.publishers.models/embedContent).
	predict      = vectorMethod{"predict", `{"instances":[`, `{"content":`, "", "predictions", []string{"embeddings", "values"}}
	embedContent = vectorMethod{"embedContent", "", `{"content":{"parts":[{"text":`, `}]}`, "", []string{"embedding", "values"}}
)

// unpredicted matches the models that predict does not have.
var unpredicted = regexp.MustCompile(`^(?:models/)?gemini-embedding-(?:[2-9]|[1-9]\d)`)

func (c *Client) vectorMethod(model string) *vectorMethod {
	switch {
	case !c.vertex():
		return &batchEmbedContents
	case unpredicted.MatchString(model):
		return &embedContent
	}
	return &predict
}

// EmbeddingBatch returns what one request may have.
func (c *Client) EmbeddingBatch(model string) providers.EmbeddingBatch {
	switch {
	case !c.vertex():
		return providers.EmbeddingBatch{Inputs: 100}
	case strings.Contains(model, "gemini-embedding-"):
		return providers.EmbeddingBatch{Inputs: 1}
	}
	return providers.EmbeddingBatch{Inputs: 250, Tokens: 20_000}
}

// Embed asks for the vectors of the inputs.
func (c *Client) Embed(ctx context.Context, req *providers.EmbeddingRequest) (*providers.Embeddings, error) {
	if err := c.CheckTexts(req.Inputs); err != nil {
		return nil, err
	}
	m := c.vectorMethod(req.Model)
	body, err := c.embeddingBody(req, m)
	if err != nil {
		return nil, err
	}
	// By default each number has a line of its own, and vectors are twice as long.
	target, err := c.method(req.Model, m.name, "prettyPrint=false")
	if err != nil {
		return nil, err
	}
	k, err := c.Begin()
	if err != nil {
		return nil, err
	}
	r, err := c.Request(ctx, target, body, false)
	if err != nil {
		return nil, err
	}
	c.authorize(r, k)
	answer, err := c.Send(k, r, describe)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	return m.read(k, answer, len(req.Inputs))
}

// embeddingBody writes the request. Members of Extra, such as taskType and title, go to
// each input, but with predict to its parameters if they are not one of these two.
// Unless Extra says so, predict does not cut texts that are too long: it refuses them.
func (c *Client) embeddingBody(req *providers.EmbeddingRequest, m *vectorMethod) ([]byte, error) {
	own, whole := make(map[string]any, 3+len(req.Extra)), make(map[string]any, 1)
	if req.Dimensions > 0 {
		own["outputDimensionality"] = req.Dimensions
	}
	switch m {
	case &batchEmbedContents:
		own["model"] = resource(req.Model)
	case &predict:
		own["autoTruncate"] = false
	}
	for name, value := range req.Extra {
		own[name] = value
	}
	if m == &predict {
		parameters := own
		own, whole["parameters"] = make(map[string]any, 2), parameters
		for _, name := range [...][2]string{{"taskType", "task_type"}, {"task_type", "task_type"}, {"title", "title"}} {
			if value, ok := parameters[name[0]]; ok {
				own[name[1]] = value
				delete(parameters, name[0])
			}
		}
	}
	each, err := c.NewForm(own, nil)
	if err != nil {
		return nil, err
	}
	rest, err := c.NewForm(whole, nil)
	if err != nil {
		return nil, err
	}
	body := append(make([]byte, 0, 256+upstream.InputSize(req.Inputs, 160)), m.open...)
	for i := range req.Inputs {
		if i > 0 {
			body = append(body, ',')
		}
		body = jsontext.AppendString(append(body, m.before...), req.Inputs[i].Text)
		body = each.End(append(body, m.behind...))
	}
	if m.open == "" {
		return body, nil
	}
	return rest.End(append(body, ']')), nil
}

// read reads the answer to a request with so many inputs. predict counts the tokens of
// each text, the others those of all together, or none.
func (m *vectorMethod) read(k upstream.Call, body io.Reader, inputs int) (*providers.Embeddings, error) {
	vectors, v, err := k.Vectors(body)
	if err != nil {
		return nil, err
	}
	if e := k.Error(providers.Reported); describe(k, e, v) {
		return nil, e
	}
	list := []*fastjson.Value{v}
	if m.list != "" {
		list = v.GetArray(m.list)
	}
	answer := &providers.Embeddings{Buffer: vectors.Buffer}
	if answer.Vectors, err = vectors.OfEach(k, list, inputs, m.values...); err != nil {
		return nil, err
	}
	if m != &predict {
		readUsage(v.Get("usageMetadata"), &answer.Usage)
		return answer, nil
	}
	sum := int64(0)
	for _, item := range list {
		tokens := upstream.Tokens(item.Get("embeddings", "statistics", "token_count"))
		if tokens == 0 {
			return answer, nil // a sum without it would be too low
		}
		sum += tokens
	}
	answer.Usage.PromptTokens, answer.Usage.TotalTokens = sum, sum
	return answer, nil
}
