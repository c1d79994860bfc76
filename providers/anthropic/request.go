package anthropic

import (
	"slices"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// PrepareRequests makes the form of a target's requests, see providers.Prepare.
func (c *Client) PrepareRequests(req *providers.Request) (any, error) { return c.form(req) }

// form makes the members of a request but for its messages:
//
//   - max_tokens is required and counts tokens of thinking and answer; where
//     the request has none it is Config.MaxTokens.
//   - temperature (0 to 1), top_p (0 to 1) and top_k (a count of tokens) go out
//     as they are, but not to models that take no sampling parameters.
//     Frequency and presence penalty, seed and log probabilities do not exist here
//     and are left out.
//   - stop goes out as stop_sequences. An answer by a schema is
//     output_config.format, always strict; any object in JSON does not exist
//     here and is an error.
//   - the reasoning effort is output_config.effort, where minimal is low, with a model
//     that thinks as much as it finds right, or else a budget of tokens. none turns
//     thinking off. See upstream.Claude. While it thinks temperature, top_p and top_k
//     are left out, as far as the API takes no others than its own.
//   - tools are the API's, their parameters input_schema. That no two are to be called
//     at once is a member of tool_choice.
//   - the members of Extra replace the members above, except stream.
func (c *Client) form(req *providers.Request) (*upstream.Form, error) {
	req, leftOut := upstream.Unforced(req)
	members := make(map[string]any, 8+len(req.Extra))
	members["model"] = req.Model
	members["max_tokens"] = c.maxTokens
	samples, thoughtless, err := c.output(members, req)
	if err != nil {
		return nil, err
	}
	leftOut = slices.Concat(leftOut, c.sampling(members, &req.Parameters, samples), thoughtless)
	if err := c.tools(members, &req.Parameters); err != nil {
		return nil, err
	}
	for name, value := range req.Extra {
		members[name] = value
	}
	if _, own := req.Extra["service_tier"]; own && req.Parameters.FromCaller().Tier != "" {
		leftOut = append(leftOut, "service_tier")
	}
	// How the answer arrives is the caller's choice, not the definition's.
	delete(members, "stream")
	return c.NewForm(members, leftOut)
}

// body writes the body of a request, the messages first. It also returns the names of
// the parameters that it left out.
func (c *Client) body(req *providers.Request) ([]byte, []string, error) {
	req, lost := upstream.Thoughtless(req)
	f, err := c.FormOf(req, c.form)
	if err != nil {
		return nil, nil, err
	}
	w := writer{upstream.Blocks{BlockFormat: &format, Service: &c.Service, Marked: req.Parameters.FromCaller().Marks, Bound: upstream.ClaudeOf(req.Model).Bound}}
	w.Media = w.media
	if c.official {
		w.Attribution = req.Parameters.FromCaller().Attribution
	}
	if err := w.Write(f, req.Messages, nil); err != nil {
		return nil, nil, err
	}
	body, leftOut := f.End(w.Body), append(f.LeftOut, lost...)
	if req.Stream {
		body = append(body[:len(body)-1], `,"stream":true}`...)
	}
	leftOut = append(leftOut, w.LeftOut...)
	if w.Detail {
		leftOut = append(leftOut, "detail")
	}
	return body, leftOut, nil
}
