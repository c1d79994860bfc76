package anthropic

import (
	"bytes"
	"encoding/json"

	"github.com/cadenza-gateway/cadenza/providers"
)

// block is a content block of text.
type block struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// message is one turn. Its content is a string, or blocks where several
// messages became one turn.
type message struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

// body makes the JSON of a request:
//
//   - system and developer messages, in their order and wherever they are,
//     become the member system; user and assistant messages become turns, those
//     of one role in a row a single turn with a text block each, because turns
//     alternate. Messages without text are left out: the API rejects them.
//   - max_tokens is required and counts tokens of thinking and answer; where
//     the request has none it is Config.MaxTokens.
//   - temperature (0 to 1), top_p (0 to 1) and top_k (a count of tokens) go out
//     as they are, but not to models that take no sampling parameters.
//     Frequency and presence penalty and seed do not exist here and are left out.
//   - stop goes out as stop_sequences. An answer by a schema is
//     output_config.format, always strict; any object in JSON does not exist
//     here and is an error.
//   - the reasoning effort is output_config.effort, where minimal is low; none
//     turns thinking off. Models without effort think only when Extra says so;
//     it is left out for them.
//   - tools are the API's, their parameters input_schema.
//   - the members of Extra replace the members above, except stream.
//
// It also returns the names of the parameters that it left out.
func (c *Client) body(req *providers.Request) (body []byte, leftOut []string, err error) {
	system, turns, err := c.turns(req.Messages)
	if err != nil {
		return nil, nil, err
	}
	members := make(map[string]any, 8+len(req.Extra))
	members["model"] = req.Model
	members["messages"] = turns
	members["max_tokens"] = c.maxTokens
	if len(system) > 0 {
		members["system"] = content(system)
	}
	leftOut = c.sampling(members, req)
	if err := c.output(members, req, &leftOut); err != nil {
		return nil, nil, err
	}
	if err := c.tools(members, &req.Parameters); err != nil {
		return nil, nil, err
	}
	for name, value := range req.Extra {
		members[name] = value
	}
	// How the answer arrives is the caller's choice, not the definition's.
	delete(members, "stream")
	if req.Stream {
		members["stream"] = true
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
	members := make(map[string]any)
	var leftOut []string
	if err := c.output(members, req, &leftOut); err != nil {
		return nil, err
	}
	return nil, c.tools(members, &req.Parameters)
}

// turns splits messages into the system prompt and the conversation.
func (c *Client) turns(messages []providers.Message) (system []block, turns []message, err error) {
	var said [][]block
	turns = make([]message, 0, len(messages))
	for i, m := range messages {
		switch m.Role {
		case "system", "developer":
			if m.Content != "" {
				system = append(system, block{"text", m.Content})
			}
			continue
		case "user", "assistant":
		default:
			return nil, nil, c.Unsendable("message %d has the unknown role %q", i, m.Role)
		}
		if m.Content == "" {
			continue
		}
		if n := len(turns); n > 0 && turns[n-1].Role == m.Role {
			said[n-1] = append(said[n-1], block{"text", m.Content})
			continue
		}
		turns = append(turns, message{Role: m.Role})
		said = append(said, []block{{"text", m.Content}})
	}
	if len(turns) == 0 {
		return nil, nil, c.Unsendable("there is no user or assistant message with text: Anthropic's API needs one beside the system prompt")
	}
	for i := range turns {
		turns[i].Content = content(said[i])
	}
	return system, turns, nil
}

// content is a single text as a string, several as blocks.
func content(blocks []block) any {
	if len(blocks) == 1 {
		return blocks[0].Text
	}
	return blocks
}
