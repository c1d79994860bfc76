package gateway

import (
	"strconv"

	"github.com/cadenza-gateway/cadenza/internal/buffers"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/trace"
)

// addMessages adds the messages of a call to a record, as JSON. The content of a message
// with parts is a list. Inline media and opaque data of providers are replaced by their
// sizes. size is the approximate length of the JSON in bytes, or 0.
func addMessages(record *trace.Record, messages []providers.Message, size int) {
	// Memory that grows with a text takes a multiple of it.
	dst := record.Messages[:0]
	if size > cap(dst) {
		dst = buffers.Get(size)
	}
	dst = append(dst, '[')
	for i := range messages {
		m := &messages[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"role":`...)
		dst = jsontext.AppendString(dst, m.Role)
		dst = append(dst, `,"content":`...)
		if m.Parts == nil {
			dst = m.Content.Append(dst)
		} else {
			dst = appendParts(dst, m.Parts)
		}
		dst = append(dst, '}')
	}
	record.Messages = append(dst, ']')
}

func appendParts(dst []byte, parts []providers.Part) []byte {
	dst = append(dst, '[')
	for i := range parts {
		p := &parts[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"type":"`...)
		dst = append(append(dst, p.Kind.String()...), '"')
		switch p.Kind {
		case providers.PartText, providers.PartThinking:
			if p.Text != "" {
				dst = p.Text.Append(append(dst, `,"text":`...))
			}
		case providers.PartImage, providers.PartAudio, providers.PartFile:
			dst = appendMember(dst, "media_type", p.Media.Type)
			dst = appendMember(dst, "name", p.Media.Name)
			dst = appendMember(dst, "url", p.Media.URL)
			dst = appendSize(dst, "bytes", decodedSize(p.Media.Data))
		case providers.PartToolCall:
			dst = appendMember(dst, "id", p.Call.ID)
			dst = appendMember(dst, "name", p.Call.Name)
			dst = appendMember(dst, "arguments", p.Call.Arguments)
		case providers.PartToolResult:
			dst = appendMember(dst, "tool_call_id", p.Result.Call)
			dst = append(dst, `,"content":`...)
			dst = appendParts(dst, p.Result.Content)
		}
		dst = append(appendSize(dst, "opaque_bytes", len(p.Opaque)+len(p.Raw)), '}')
	}
	return append(dst, ']')
}

// appendMember appends a member unless it is empty.
func appendMember(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	return jsontext.AppendString(dst, value)
}

func appendSize(dst []byte, name string, bytes int) []byte {
	if bytes == 0 {
		return dst
	}
	dst = append(append(append(dst, `,"`...), name...), `":`...)
	return strconv.AppendInt(dst, int64(bytes), 10)
}

// decodedSize returns the number of bytes that padded base64 data decodes to.
func decodedSize(data string) int {
	size := len(data) / 4 * 3
	for n := len(data); n > 0 && data[n-1] == '='; n-- {
		size--
	}
	return size
}
