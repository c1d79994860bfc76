package gemini

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/cadenza-gateway/cadenza/providers"
)

// generationConfig is the member of Extra, and of a request's JSON, that holds
// the parameters of sampling. It is merged with what the definition sets.
const generationConfig = "generationConfig"

// form is what the bodies of requests with the same model, parameters and extra have
// in common.
type form struct {
	client *Client
	// rest are all members but contents and systemInstruction, from the comma before
	// them to the brace behind them.
	rest []byte
	// contents and system mean that extra has these members, which are in rest then.
	contents, system bool
	leftOut          []string
}

// PrepareRequests makes what the requests of a target have in common, see
// providers.Prepare.
func (c *Client) PrepareRequests(req *providers.Request) (any, error) { return c.form(req) }

// formOf returns the form of a request: the one that was prepared for it, if one was.
func (c *Client) formOf(req *providers.Request) (*form, error) {
	if f, ok := req.Prepared.(*form); ok && f.client == c {
		return f, nil
	}
	return c.form(req)
}

// form makes the members of a request but for its messages:
//
//   - temperature (0 to 2), maxOutputTokens (thinking included), topP (0 to 1),
//     topK (a count of tokens), presencePenalty and frequencyPenalty (-2 to 2,
//     not with every model), seed (below 2³¹, else it is left out) and
//     stopSequences go out as they are, in generationConfig.
//   - an answer in JSON is responseMimeType there, by a schema with
//     responseJsonSchema, always strict. The reasoning effort is thinkingConfig.
//     Log probabilities are responseLogprobs where the API has them, see logprobs.
//   - tools are functionDeclarations, the choice among them
//     functionCallingConfig. The API has no strict tools, and none that are not
//     called at once: these words are left out.
//   - the members of Extra replace the members above; those of its
//     generationConfig replace one parameter each.
func (c *Client) form(req *providers.Request) (*form, error) {
	generation, leftOut, err := c.generation(req)
	if err != nil {
		return nil, err
	}
	members := make(map[string]any, 3+len(req.Extra))
	if err := c.tools(members, &req.Parameters, &leftOut); err != nil {
		return nil, err
	}
	for name, value := range req.Extra {
		members[name] = value
	}
	delete(members, generationConfig)
	if len(generation) > 0 {
		members[generationConfig] = generation
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	// Escaped for HTML, a schema full of markup grows severalfold.
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(members); err != nil {
		return nil, c.Unsendable("the request cannot be written as JSON: %v", err)
	}
	rest := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if rest[0] = ','; len(members) == 0 {
		rest = rest[1:] // the brace alone
	}
	f := &form{client: c, rest: slices.Clip(rest), leftOut: slices.Clip(leftOut)}
	_, f.contents = members["contents"]
	_, f.system = members["systemInstruction"]
	return f, nil
}

// body writes the body of a request, the messages first. It also returns the names of
// what it left out.
func (f *form) body(req *providers.Request) ([]byte, []string, error) {
	size := len(`{"contents":[],"systemInstruction":{"parts":[]}`) + len(f.rest)
	for i := range req.Messages {
		// Few characters of most texts need an escape.
		m := &req.Messages[i]
		said := m.Size()
		size += len(`{"role":"model","parts":[]},`) + said + said/16 + (1+len(m.Parts))*partSize
	}
	w := writer{client: f.client, generation: generationOf(req.Model), body: append(make([]byte, 0, size), '{')}
	if !f.contents {
		if err := w.contents(req.Messages); err != nil {
			return nil, nil, err
		}
	}
	if !f.system {
		if err := w.system(req.Messages); err != nil {
			return nil, nil, err
		}
	}
	rest := f.rest
	if len(w.body) == 1 && len(rest) > 1 {
		rest = rest[1:]
	}
	leftOut := f.leftOut
	if w.detail {
		leftOut = append(leftOut, "detail")
	}
	return append(w.body, rest...), leftOut, nil
}

// partSize is about what a part has beside its text or data, in bytes.
const partSize = 64
