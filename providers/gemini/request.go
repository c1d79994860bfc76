package gemini

import (
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// generationConfig is the member of Extra, and of a request's JSON, that holds
// the parameters of sampling. It is merged with the definition's extra.
const generationConfig = "generationConfig"

// PrepareRequests makes the form of a target's requests, see providers.Prepare.
func (c *Client) PrepareRequests(req *providers.Request) (any, error) { return c.form(req) }

// form makes the members of a request but for its messages:
//
//   - temperature (0 to 2), maxOutputTokens (thinking included), topP (0 to 1),
//     topK (a count of tokens), presencePenalty and frequencyPenalty (-2 to 2,
//     not with every model), seed (below 2³¹, else it is left out) and
//     stopSequences go out as they are, in generationConfig.
//   - an answer in JSON is responseMimeType there, by a schema with
//     responseJsonSchema, always strict. The reasoning effort is thinkingConfig.
//     Log probabilities are responseLogprobs if the API has them, see logprobs.
//   - tools are functionDeclarations, the choice among them
//     functionCallingConfig. The API has no strict tools, and none that are not
//     called at once: these words are left out. A search is googleSearch, which
//     can't be forced.
//   - the members of Extra replace the members above; those of its
//     generationConfig replace one parameter each.
func (c *Client) form(req *providers.Request) (*upstream.Form, error) {
	generation, leftOut, err := c.generation(req)
	if err != nil {
		return nil, err
	}
	members := make(map[string]any, 3+len(req.Extra))
	if err := c.tools(members, &req.Parameters, &leftOut); err != nil {
		return nil, err
	}
	if tier := c.tier(req); tier != "" && !c.vertex() {
		members["serviceTier"] = tier
	}
	for name, value := range req.Extra {
		members[name] = value
	}
	delete(members, generationConfig)
	if len(generation) > 0 {
		members[generationConfig] = generation
	}
	return c.NewForm(members, leftOut)
}

// body writes the body of a request, the messages first. It also returns the names of
// the parameters that it left out.
func (c *Client) body(req *providers.Request) ([]byte, []string, error) {
	f, err := c.FormOf(req, c.form)
	if err != nil {
		return nil, nil, err
	}
	w := writer{client: c, generation: generationOf(req.Model), combines: combines(&req.Parameters), body: f.Begin(req.Messages, partSize)}
	if !f.Has("contents") {
		if err := w.contents(upstream.Joined(req.Messages)); err != nil {
			return nil, nil, err
		}
	}
	if !f.Has("systemInstruction") {
		if err := w.system(req.Messages); err != nil {
			return nil, nil, err
		}
	}
	leftOut := f.LeftOut
	if w.detail {
		leftOut = append(leftOut, "detail")
	}
	if w.named {
		leftOut = append(leftOut, "filename")
	}
	return f.End(w.body), leftOut, nil
}

// partSize estimates the size of a part without its text or data, in bytes.
const partSize = 64
