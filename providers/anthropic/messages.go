package anthropic

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// format is the format of the API's messages.
// See https://docs.anthropic.com/en/api/messages.
var format = upstream.BlockFormat{
	Text:    `{"type":"text","text":`,
	Strings: true,

	Thinking: `{"type":"thinking","thinking":`, ThinkingEnd: "}", ThinkingMember: "thinking",
	Redacted: `{"type":"redacted_thinking","data":`, RedactedEnd: "}", RedactedMember: "data",
	Found: []string{"server_tool_use", "web_search_tool_result"},

	Marks: [...]string{providers.CacheShort: `,"cache_control":{"type":"ephemeral"}`, providers.CacheHour: `,"cache_control":{"type":"ephemeral","ttl":"1h"}`},

	Call:   `{"type":"tool_use","id":`,
	Result: `{"type":"tool_result","tool_use_id":`,
	Failed: `,"is_error":true`,
	End:    "}",

	ToolsMember: "tools",
	Tools:       `,"tool_choice":{"type":"none"},"tools":[`, ToolsEnd: "]",
	Tool: `{"name":`, Schema: `,"input_schema":`, ToolEnd: "}",

	Empty: "there is no user or assistant message with text: Anthropic's API needs one beside the system prompt",
}

// writer writes the parts of the API's format that differ from the blocks of
// format.
type writer struct{ upstream.Blocks }

// media writes an image, or a file as a document: a PDF as it is, a text decoded.
func (w *writer) media(at int, p *providers.Part) error {
	m := &p.Media
	if p.Kind == providers.PartImage {
		w.Body = append(w.Body, `{"type":"image","source":`...)
		if m.URL != "" {
			w.url(m.URL)
		} else {
			w.data(m)
		}
		w.Body = append(w.Body, "},"...)
		return nil
	}
	w.Body = append(w.Body, `{"type":"document","source":`...)
	switch kind := upstream.MediaType(m.Type); {
	case m.URL != "" && (kind == "" || kind == typePDF):
		w.url(m.URL)
	case m.URL != "":
		return w.Service.Lacks(at, "files "+upstream.TypeName(kind)+" by URL")
	case kind == typePDF:
		w.data(m)
	case strings.HasPrefix(kind, "text/"), kind == "application/json":
		text, err := base64.StdEncoding.DecodeString(m.Data)
		if err != nil || !utf8.Valid(text) {
			return w.Service.Unsendable("message %d has a file %s that is not UTF-8 in base64", at+1, upstream.TypeName(kind))
		}
		w.Body = append(jsontext.AppendString(append(w.Body, `{"type":"text","media_type":"text/plain","data":`...), text), '}')
	default:
		return w.Service.Lacks(at, "files "+upstream.TypeName(kind))
	}
	if m.Name != "" {
		w.Body = jsontext.AppendString(append(w.Body, `,"title":`...), m.Name)
	}
	w.Body = append(w.Body, "},"...)
	return nil
}

const typePDF = "application/pdf"

// url writes a source that the API fetches.
func (w *writer) url(url string) {
	w.Body = append(jsontext.AppendString(append(w.Body, `{"type":"url","url":`...), url), '}')
}

// data writes a source in base64.
func (w *writer) data(m *providers.Media) {
	w.Body = jsontext.AppendString(append(w.Body, `{"type":"base64","media_type":`...), upstream.MediaType(m.Type))
	w.Body = append(jsontext.AppendString(append(w.Body, `,"data":`...), m.Data), '}')
}
