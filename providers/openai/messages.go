package openai

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
)

// checkMessages returns the error for a message that the service does not take.
func (c *Client) checkMessages(messages []providers.Message, quirks *Quirks) error {
	for i := range messages {
		m := &messages[i]
		switch m.Role {
		case "system", "developer", "user", "assistant":
		case "tool":
			if m.Parts == nil {
				return c.Unsendable("message %d is the result of a tool, but of no call", i+1)
			}
		default:
			return c.Unsendable("message %d has the unknown role %q", i+1, m.Role)
		}
		for j := range m.Parts {
			if part := quirks.lacks(m.Role, &m.Parts[j]); part != "" {
				return providers.LacksPart(c.Name, i, part)
			}
		}
	}
	return nil
}

// lacks names the feature of a part that the service does not take, empty if it
// takes the part.
func (q *Quirks) lacks(role string, p *providers.Part) string {
	lacks := false
	switch p.Kind {
	case providers.PartText:
		lacks = role == "tool"
	case providers.PartImage:
		lacks = role != "user" || q.NoImages
	case providers.PartAudio:
		if lacks = role != "user" || q.NoAudio; !lacks && p.Media.URL != "" && !q.Chunks {
			return "audio by URL"
		}
	case providers.PartFile:
		if lacks = role != "user" || q.NoFiles; !lacks && p.Media.URL != "" && !q.Chunks && !q.FileURLs {
			return "file by URL"
		}
	case providers.PartToolCall:
		lacks = role != "assistant" || q.NoTools
	case providers.PartToolResult:
		lacks = role != "tool" || q.NoTools
		for i := range p.Result.Content {
			if c := &p.Result.Content[i]; c.Kind != providers.PartText && !c.IsMedia() {
				return c.Kind.String() + " in the result of a tool"
			}
		}
	case providers.PartThinking, providers.PartFound:
		lacks = role != "assistant"
	default:
		lacks = true
	}
	switch {
	case !lacks:
		return ""
	case role != "user" && p.IsMedia():
		return p.Kind.String() + " in a message of the role " + role
	}
	return p.Kind.String()
}

// inResult reports whether the service takes a part in the result of a tool.
func (q *Quirks) inResult(p *providers.Part) bool {
	taken := q.ResultFiles
	if p.Kind == providers.PartImage {
		taken = q.ResultImages
	}
	return !p.IsMedia() || taken && q.lacks("user", p) == ""
}

// showResults returns messages whose tools' results have nothing but what the service
// takes there. Other media go into a message of the user behind the results, or become
// a text if the service takes none at all. leftOut names the messages of the latter.
// The messages are returned as they are, if possible, and never changed.
//
// For example, assistant (call), tool (image), user becomes assistant (call), tool
// (text), user (image), user.
func (q *Quirks) showResults(messages []providers.Message) (shown []providers.Message, leftOut []string) {
	var behind []providers.Part // media of results, with texts that say so
	for i := range messages {
		m := messages[i]
		if m.Role != "tool" && behind != nil {
			shown, behind = append(shown, providers.Message{Role: "user", Parts: behind}), nil
		}
		if m.Role == "tool" && q.holdsMore(m.Parts) {
			if shown == nil {
				shown = append(make([]providers.Message, 0, len(messages)+1), messages[:i]...)
			}
			before := len(leftOut)
			m.Parts = slices.Clone(m.Parts)
			for j := range m.Parts {
				var unshown bool
				if !q.holdsMore(m.Parts[j : j+1]) {
					continue
				}
				if behind, unshown = q.showResult(&m.Parts[j].Result, behind); unshown && len(leftOut) == before {
					leftOut = append(leftOut, providers.LeftOutMedia(i))
				}
			}
		}
		if shown != nil {
			shown = append(shown, m)
		}
	}
	if behind != nil {
		shown = append(shown, providers.Message{Role: "user", Parts: behind})
	}
	if shown == nil {
		return messages, nil
	}
	return shown, leftOut
}

// holdsMore reports whether a result has a part that the service does not take there.
func (q *Quirks) holdsMore(results []providers.Part) bool {
	for i := range results {
		content := results[i].Result.Content
		for j := range content {
			if !q.inResult(&content[j]) {
				return true
			}
		}
	}
	return false
}

// showResult puts a text in the place of each part of a result that the service does not
// take there, and appends those that it takes from a user to behind. It reports whether
// some are not taken at all. Texts in a row become one, because not every service takes a
// list of them.
func (q *Quirks) showResult(r *providers.ToolResult, behind []providers.Part) (_ []providers.Part, unshown bool) {
	content := make([]providers.Part, 0, len(r.Content))
	begun := false
	for i := range r.Content {
		c := r.Content[i]
		switch {
		case q.inResult(&c):
		case q.lacks("user", &c) != "":
			unshown = true
			c = providers.Part{Kind: providers.PartText, Text: c.Unshown()}
		default:
			if !begun {
				behind = append(behind, providers.Part{Kind: providers.PartText, Text: r.Attachment()})
				begun = true
			}
			behind = append(behind, c)
			c = providers.Part{Kind: providers.PartText, Text: c.Attached()}
		}
		if last := len(content) - 1; last >= 0 && c.Kind == providers.PartText && content[last].Kind == providers.PartText {
			content[last].Text += `\n` + c.Text
			continue
		}
		content = append(content, c)
	}
	r.Content = content
	return behind, unshown
}

// appendMessage appends a message, which the service takes, and a comma. One of text
// is written as the SDK writes it. The role needs no escape.
func (q *Quirks) appendMessage(body []byte, m *providers.Message) []byte {
	if m.Role == "tool" {
		for i := range m.Parts {
			body = q.appendResult(body, &m.Parts[i].Result)
		}
		return body
	}
	body = append(body, `{"content":`...)
	if m.Parts == nil {
		body = m.Content.Append(body)
	} else {
		body = q.appendParts(body, m.Parts)
	}
	return append(append(append(body, `,"role":"`...), q.role(m.Role)...), `"},`...)
}

// role is the service's word for a role.
func (q *Quirks) role(role string) string {
	if role == "developer" && q.DeveloperIsSystem {
		return "system"
	}
	return role
}

// appendParts appends the parts of a message: the value of its content, and the
// members next to it.
func (q *Quirks) appendParts(body []byte, parts []providers.Part) []byte {
	calls, thoughts := false, false
	for i := range parts {
		calls = calls || parts[i].Kind == providers.PartToolCall
		thoughts = thoughts || parts[i].Kind == providers.PartThinking
	}
	body = q.appendContent(body, parts, calls)
	if thoughts {
		body = q.appendThoughts(body, parts)
	}
	if !calls {
		return body
	}
	body = append(body, `,"tool_calls":[`...)
	for i := range parts {
		if parts[i].Kind != providers.PartToolCall {
			continue
		}
		call := &parts[i].Call
		body = q.appendID(append(body, `{"id":`...), call.ID)
		body = jsontext.AppendString(append(body, `,"function":{"arguments":`...), call.Arguments)
		body = jsontext.AppendString(append(body, `,"name":`...), call.Name)
		body = append(body, `},"type":"function"},`...)
	}
	return append(body[:len(body)-1], ']')
}

// appendContent appends the content that parts are: a text alone as such, null for
// none in addition to tool calls.
func (q *Quirks) appendContent(body []byte, parts []providers.Part, calls bool) []byte {
	content, only := 0, providers.Text("")
	for i := range parts {
		if p := &parts[i]; q.inContent(p) {
			if content++; p.Kind == providers.PartText {
				only = p.Text
			} else {
				content++ // it wants a list
			}
		}
	}
	switch {
	case content == 0 && calls:
		return append(body, "null"...)
	case content < 2:
		return only.Append(body)
	}
	body = append(body, '[')
	for i := range parts {
		if q.inContent(&parts[i]) {
			body = append(q.appendPart(body, &parts[i]), ',')
		}
	}
	return append(body[:len(body)-1], ']')
}

// inContent reports whether a part is one of the content.
func (q *Quirks) inContent(p *providers.Part) bool {
	switch p.Kind {
	case providers.PartText, providers.PartImage, providers.PartAudio, providers.PartFile:
		return true
	case providers.PartThinking:
		return q.Chunks && p.Text != ""
	}
	return false
}

// appendPart appends a part of the content.
func (q *Quirks) appendPart(body []byte, p *providers.Part) []byte {
	m := &p.Media
	switch p.Kind {
	case providers.PartImage:
		body = appendMedia(append(body, `{"image_url":{"url":`...), m)
		if m.Detail != "" {
			body = jsontext.AppendString(append(body, `,"detail":`...), m.Detail)
		}
		return append(body, `},"type":"image_url"}`...)
	case providers.PartAudio:
		if q.Chunks {
			body = append(body, `{"input_audio":`...)
			if m.URL != "" {
				body = jsontext.AppendString(body, m.URL)
			} else {
				body = jsontext.AppendString(body, m.Data)
			}
			return append(body, `,"type":"input_audio"}`...)
		}
		body = jsontext.AppendString(append(body, `{"input_audio":{"data":`...), m.Data)
		body = jsontext.AppendString(append(body, `,"format":`...), soundFormat(m.Type))
		return append(body, `},"type":"input_audio"}`...)
	case providers.PartFile:
		if q.Chunks {
			body = appendMedia(append(body, `{"document_url":`...), m)
			if m.Name != "" {
				body = jsontext.AppendString(append(body, `,"document_name":`...), m.Name)
			}
			return append(body, `,"type":"document_url"}`...)
		}
		body = appendMedia(append(body, `{"file":{"file_data":`...), m)
		body = jsontext.AppendString(append(body, `,"filename":`...), fileName(m))
		return append(body, `},"type":"file"}`...)
	case providers.PartThinking:
		body = p.Text.Append(append(body, `{"thinking":[{"text":`...))
		return append(body, `,"type":"text"}],"type":"thinking"}`...)
	}
	body = p.Text.Append(append(body, `{"text":`...))
	return append(body, `,"type":"text"}`...)
}

// appendMedia appends a medium as a URL.
func appendMedia(body []byte, m *providers.Media) []byte {
	if m.URL != "" {
		return jsontext.AppendString(body, m.URL)
	}
	body = jsontext.AppendEscaped(append(body, `"data:`...), m.Type)
	return append(jsontext.AppendEscaped(append(body, ";base64,"...), m.Data), '"')
}

// fileName is the name of a file, which is required.
func fileName(m *providers.Media) string { return cmp.Or(m.Name, "document") }

// soundFormat is the API's word for a media type: mp3 for audio/mpeg.
func soundFormat(mediaType string) string {
	format := strings.TrimPrefix(strings.TrimPrefix(mediaType, "audio/"), "x-")
	switch format {
	case "mpeg":
		return "mp3"
	case "wave", "vnd.wave":
		return "wav"
	}
	return format
}

// appendThoughts appends the member that takes the thoughts of a message back, where
// the service has one and takes such thoughts.
func (q *Quirks) appendThoughts(body []byte, parts []providers.Part) []byte {
	if q.Thoughts == "" {
		return body
	}
	before := len(body)
	body = append(append(append(body, `,"`...), q.Thoughts...), `":`...)
	end := byte('"')
	if q.Thoughts == reasoningDetails {
		body, end = append(body, '['), ']'
	} else {
		body = append(body, '"')
	}
	from := len(body)
	for i := range parts {
		switch p := &parts[i]; {
		case p.Kind != providers.PartThinking:
		case q.Thoughts != reasoningDetails:
			body = append(body, p.Text...)
		default:
			body = appendDetail(body, p)
		}
	}
	if len(body) == from {
		return body[:before]
	}
	if end == ']' {
		body = body[:len(body)-1] // the last comma
	}
	return append(body, end)
}

// appendResult appends the result of a call, as a message of its own, and a
// comma.
func (q *Quirks) appendResult(body []byte, r *providers.ToolResult) []byte {
	body = q.appendContent(append(body, `{"content":`...), r.Content, false)
	body = q.appendID(append(body, `,"tool_call_id":`...), r.Call)
	return append(body, `,"role":"tool"},`...)
}

const (
	// idSize bounds the id of a tool call, in bytes: OpenAI takes no longer ones.
	idSize = 40
	// shortID is the length of all ids of tool calls with ShortIDs.
	shortID = 9

	alphanumeric = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// appendID appends the id of a tool call. The history of a conversation has calls of
// other services, too, whose ids may be ones that this one does not take. These become
// a digest, always the same one.
func (q *Quirks) appendID(body []byte, id string) []byte {
	if len(id) <= idSize && !q.ShortIDs || len(id) == shortID && strings.Trim(id, alphanumeric) == "" {
		return jsontext.AppendString(body, id)
	}
	digest, size := sha256.Sum256([]byte(id)), idSize
	if q.ShortIDs {
		size = shortID
	}
	return append(append(append(body, '"'), base32.StdEncoding.EncodeToString(digest[:])[:size]...), '"')
}

// arrange is the service's order of messages. If it wants nothing
// special they are returned as they are; the request's own are never changed.
func (q *Quirks) arrange(messages []providers.Message) []providers.Message {
	if !q.Alternate {
		return messages
	}
	turns := make([]providers.Message, 0, len(messages))
	for _, system := range []bool{true, false} {
		for _, m := range messages {
			m.Role = q.role(m.Role)
			if (m.Role == "system" || m.Role == "developer") != system {
				continue
			}
			if last := len(turns) - 1; last >= 0 && turns[last].Role == m.Role {
				turns[last] = joined(turns[last], m)
				continue
			}
			turns = append(turns, m)
		}
	}
	return turns
}

// emptyLine is the end of a line, and an empty one.
const emptyLine providers.Text = `\n\n`

// joined is one message of two, with an empty line between their texts.
func joined(a, b providers.Message) providers.Message {
	if a.Parts == nil && b.Parts == nil {
		a.Content += emptyLine + b.Content
		return a
	}
	var parts []providers.Part
	for _, m := range [...]providers.Message{a, {Content: emptyLine}, b} {
		if m.Parts == nil {
			parts = append(parts, providers.Part{Kind: providers.PartText, Text: m.Content})
		}
		parts = append(parts, m.Parts...)
	}
	return providers.Message{Role: a.Role, Parts: parts}
}
