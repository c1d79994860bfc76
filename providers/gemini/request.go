package gemini

import (
	"bytes"
	"encoding/json"

	"github.com/cadenza-gateway/cadenza/providers"
)

// part is a piece of a content.
type part struct {
	Text string `json:"text"`
}

// content is one turn, or, without a role, the system instruction.
type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts"`
}

// generationConfig is the member of Extra, and of a request's JSON, that holds
// the parameters of sampling. It is merged with what the definition sets.
const generationConfig = "generationConfig"

// body makes the JSON of a request:
//
//   - system and developer messages, in their order and wherever they are,
//     become the parts of systemInstruction; user and assistant messages become
//     the turns of user and model, those of one role in a row a single turn with
//     a part each, because turns alternate. Messages without text are left out.
//   - temperature (0 to 2), maxOutputTokens (thinking included), topP (0 to 1),
//     topK (a count of tokens), presencePenalty and frequencyPenalty (-2 to 2,
//     not with every model), seed (below 2³¹, else it is left out) and
//     stopSequences go out as they are, in generationConfig.
//   - an answer in JSON is responseMimeType there, by a schema with
//     responseJsonSchema, always strict. The reasoning effort is thinkingConfig.
//   - tools are functionDeclarations, the choice among them
//     functionCallingConfig. The API has no strict tools: the word is left out.
//   - the members of Extra replace the members above; those of its
//     generationConfig replace one parameter each.
//
// It also returns the names of the parameters that it left out.
func (c *Client) body(req *providers.Request) (body []byte, leftOut []string, err error) {
	system, turns, err := c.turns(req.Messages)
	if err != nil {
		return nil, nil, err
	}
	generation, leftOut, err := c.generation(req)
	if err != nil {
		return nil, nil, err
	}
	members := make(map[string]any, 3+len(req.Extra))
	members["contents"] = turns
	if len(system) > 0 {
		members["systemInstruction"] = content{Parts: system}
	}
	if err := c.tools(members, &req.Parameters, &leftOut); err != nil {
		return nil, nil, err
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
	// Escaped for HTML, a prompt full of markup grows severalfold.
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(members); err != nil {
		return nil, nil, c.Unsendable("the request cannot be written as JSON: %v", err)
	}
	return b.Bytes(), leftOut, nil
}

// PrepareRequests prepares nothing. It returns what keeps requests from being sent, see
// providers.Prepare.
func (c *Client) PrepareRequests(req *providers.Request) (any, error) {
	_, leftOut, err := c.generation(req)
	if err != nil {
		return nil, err
	}
	return nil, c.tools(make(map[string]any), &req.Parameters, &leftOut)
}

// turns splits messages into the system instruction and the conversation.
func (c *Client) turns(messages []providers.Message) (system []part, turns []content, err error) {
	turns = make([]content, 0, len(messages))
	for i, m := range messages {
		role := m.Role
		switch role {
		case "system", "developer":
			if m.Content != "" {
				system = append(system, part{m.Content})
			}
			continue
		case "user":
		case "assistant":
			role = "model"
		default:
			return nil, nil, c.Unsendable("message %d has the unknown role %q", i, m.Role)
		}
		if m.Content == "" {
			continue
		}
		if n := len(turns); n > 0 && turns[n-1].Role == role {
			turns[n-1].Parts = append(turns[n-1].Parts, part{m.Content})
			continue
		}
		turns = append(turns, content{Role: role, Parts: []part{{m.Content}}})
	}
	if len(turns) == 0 {
		return nil, nil, c.Unsendable("there is no user or assistant message with text: Gemini's API needs one beside the system instruction")
	}
	return system, turns, nil
}
