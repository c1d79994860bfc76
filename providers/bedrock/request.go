package bedrock

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/cadenza-gateway/cadenza/providers"
)

// The members of a request of Converse that are derived from ours.
type block struct {
	Text string `json:"text"`
}

type turn struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// body translates a request.
//
// System and developer messages go to the member system. The others become
// turns, which must alternate between user and assistant: messages of one role
// in a row are the blocks of one turn. Empty messages are left out, because
// Converse rejects empty blocks.
//
// MaxTokens (tokens, from 1), Temperature and TopP (0 to 1) go to
// inferenceConfig. Converse has no TopK: where the model is known to have one
// it goes to additionalModelRequestFields under the model's own name, else it
// is left out. FrequencyPenalty, PresencePenalty and Seed exist nowhere and are
// left out, and so is the reasoning effort, which only some models take.
//
// An answer by a schema is outputConfig.textFormat, always strict; any object
// in JSON does not exist here and is an error. Tools are toolConfig. As there is
// no way to have none of them called, the choice none leaves them out.
//
// Extra members replace derived ones; in inferenceConfig, outputConfig and
// additionalModelRequestFields, which both may fill, it is their members that
// do.
//
// body also returns the names of the parameters that it left out.
func (c *Client) body(req *providers.Request) (text []byte, leftOut []string, err error) {
	if req.Model == "" || req.Model == "." || req.Model == ".." {
		return nil, nil, c.unfit("%q is no model id", req.Model)
	}
	system, turns, err := c.turns(req.Messages)
	if err != nil {
		return nil, nil, err
	}
	members := map[string]any{"messages": turns}
	if len(system) > 0 {
		members["system"] = system
	}
	leftOut = c.sampling(members, req)
	if err := c.format(members, req.Parameters.ResponseFormat); err != nil {
		return nil, nil, err
	}
	if err := c.tools(members, &req.Parameters, &leftOut); err != nil {
		return nil, nil, err
	}
	for name, value := range req.Extra {
		merged, err := merge(members[name], name, value)
		if err != nil {
			return nil, nil, c.unfit("extra %s: %v", name, err)
		}
		members[name] = merged
	}
	if text, err = json.Marshal(members); err != nil {
		return nil, nil, c.unfit("%v", err)
	}
	return text, leftOut, nil
}

// PrepareRequests prepares nothing. It returns what keeps requests from being sent, see
// providers.Prepare.
func (c *Client) PrepareRequests(req *providers.Request) (any, error) {
	members := make(map[string]any)
	if err := c.format(members, req.Parameters.ResponseFormat); err != nil {
		return nil, err
	}
	var leftOut []string
	return nil, c.tools(members, &req.Parameters, &leftOut)
}

// turns splits messages into the system prompt and the conversation.
func (c *Client) turns(messages []providers.Message) (system []block, turns []turn, err error) {
	for i, m := range messages {
		role := m.Role
		switch role {
		case "user", "assistant":
		case "system", "developer":
			if m.Content != "" {
				system = append(system, block{m.Content})
			}
			continue
		default:
			return nil, nil, c.unfit("message %d has the unknown role %q", i, m.Role)
		}
		if m.Content == "" {
			continue
		}
		if last := len(turns) - 1; last >= 0 && turns[last].Role == role {
			turns[last].Content = append(turns[last].Content, block{m.Content})
			continue
		}
		turns = append(turns, turn{role, []block{{m.Content}}})
	}
	if len(turns) == 0 || turns[0].Role != "user" {
		return nil, nil, c.unfit("Converse wants the conversation to begin with a message of the user")
	}
	return system, turns, nil
}

// unfit is the error of a request that the service would reject.
func (c *Client) unfit(format string, arguments ...any) error {
	e := c.Unsendable(format, arguments...)
	e.Code = "ValidationException"
	return e
}

// merge adds an extra member to a derived one.
func merge(derived any, name string, extra json.RawMessage) (any, error) {
	if derived == nil || name != "inferenceConfig" && name != "outputConfig" && name != "additionalModelRequestFields" {
		return extra, nil
	}
	text, err := json.Marshal(derived)
	if err != nil {
		return nil, err
	}
	var base, over map[string]json.RawMessage
	if err := json.Unmarshal(text, &base); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(extra, &over); err != nil {
		return nil, fmt.Errorf("must be an object: %w", err)
	}
	maps.Copy(base, over)
	return base, nil
}
