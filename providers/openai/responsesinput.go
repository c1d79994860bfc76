package openai

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// byResponses are the quirks of a service where it is called by the Responses API,
// which takes other parts than chat completions.
func (q Quirks) byResponses() *Quirks {
	q.NoAudio, q.FileURLs, q.ResultImages, q.ResultFiles = true, true, true, true
	return &q
}

// appendItems appends the items of the input that a message becomes, each with a comma
// behind it: one item for each text, call, result and thought of the assistant's.
func (q *Quirks) appendItems(body []byte, m *providers.Message) []byte {
	switch {
	case m.Role == "tool":
		for i := range m.Parts {
			body = q.appendOutput(body, &m.Parts[i].Result)
		}
		return body
	case m.Role == "assistant" && m.Parts != nil:
		return q.appendTurn(body, m.Parts)
	case m.Role == "assistant" && m.Content == "":
		return body // an answer without text says nothing
	}
	body = append(append(append(body, `{"role":"`...), q.role(m.Role)...), `","content":`...)
	if m.Parts == nil {
		body = m.Content.Append(body)
	} else {
		body = appendInputs(body, m.Parts)
	}
	return append(body, "},"...)
}

// appendTurn appends what the assistant said, in the order in which it was said. A
// thought that nothing follows is left out: the API wants what the model did next.
// A text before calls is no last word, which the model has to know of its own texts.
func (q *Quirks) appendTurn(body []byte, parts []providers.Part) []byte {
	calls := false
	for i := range parts {
		calls = calls || parts[i].Kind == providers.PartToolCall
	}
	end := len(body)
	_ = upstream.InPlace(parts, func(p *providers.Part) error {
		switch p.Kind {
		case providers.PartThinking:
			body = appendReasoning(body, p)
			return nil
		case providers.PartFound:
			body = append(append(body, p.Raw...), ',')
		case providers.PartText:
			if p.Text == "" {
				return nil
			}
			body = appendSaid(append(body, `{"role":"assistant","content":`...), p)
			if calls && q.Responses {
				body = append(body, `,"phase":"commentary"`...)
			}
			body = append(body, "},"...)
		case providers.PartToolCall:
			body = q.appendID(append(body, `{"type":"function_call","call_id":`...), p.Call.ID)
			body = jsontext.AppendString(append(body, `,"name":`...), p.Call.Name)
			body = jsontext.AppendString(append(body, `,"arguments":`...), p.Call.Arguments)
			body = append(body, "},"...)
		}
		end = len(body)
		return nil
	})
	return body[:end]
}

// reasoningPrefix begins the opaque data of a thought: its item without the summary.
const reasoningPrefix = `{"type":"reasoning",`

// appendReasoning appends the item that a thought or a search was, nothing for one of
// another service.
func appendReasoning(body []byte, p *providers.Part) []byte {
	if !strings.HasPrefix(p.Opaque, reasoningPrefix) {
		if fastjson.GetString([]byte(p.Opaque), "type") == searchCall {
			body = append(append(body, p.Opaque...), ',')
		}
		return body
	}
	if !json.Valid([]byte(p.Opaque)) {
		return body
	}
	body = append(append(body, p.Opaque[:len(p.Opaque)-1]...), `,"summary":[`...)
	if p.Text != "" {
		body = p.Text.Append(append(body, `{"type":"summary_text","text":`...))
		body = append(body, '}')
	}
	return append(body, "]},"...)
}

// appendOutput appends the result of a call, and a comma.
func (q *Quirks) appendOutput(body []byte, r *providers.ToolResult) []byte {
	body = q.appendID(append(body, `{"type":"function_call_output","call_id":`...), r.Call)
	body = append(body, `,"output":`...)
	if len(r.Content) == 0 || len(r.Content) == 1 && r.Content[0].Kind == providers.PartText {
		body = r.Text().Append(body)
	} else {
		body = appendInputs(body, r.Content)
	}
	return append(body, "},"...)
}

// appendInputs appends a list of texts, images and files.
func appendInputs(body []byte, parts []providers.Part) []byte {
	body = append(body, '[')
	for i := range parts {
		if i > 0 {
			body = append(body, ',')
		}
		p := &parts[i]
		switch m := &p.Media; p.Kind {
		case providers.PartImage:
			body = appendMedia(append(body, `{"type":"input_image","image_url":`...), m)
			body = jsontext.AppendString(append(body, `,"detail":`...), cmp.Or(m.Detail, "auto"))
		case providers.PartFile:
			if m.URL != "" { // see namesURL
				body = jsontext.AppendString(append(body, `{"type":"input_file","file_url":`...), m.URL)
				break
			}
			body = jsontext.AppendString(append(body, `{"type":"input_file","filename":`...), fileName(m))
			body = appendMedia(append(body, `,"file_data":`...), m)
		default:
			body = p.Text.Append(append(body, `{"type":"input_text","text":`...))
		}
		body = append(body, '}')
	}
	return append(body, ']')
}

// namesURL reports whether a file by URL has a name, for which there is no place beside it.
func namesURL(parts []providers.Part) bool {
	return slices.ContainsFunc(parts, func(p providers.Part) bool {
		return p.Kind == providers.PartFile && p.Media.URL != "" && p.Media.Name != "" || namesURL(p.Result.Content)
	})
}
