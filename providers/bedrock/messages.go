package bedrock

import (
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// format is the format of Converse's messages. The service rejects a text of white
// space alone, and Claude wants the results of tools before all else.
// See https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html.
var format = upstream.BlockFormat{
	Text: `{"text":`,

	Thinking: `{"reasoningContent":{"reasoningText":{"text":`, ThinkingEnd: "}}}", ThinkingMember: "text",
	Redacted: `{"reasoningContent":{"redactedContent":`, RedactedEnd: "}}", RedactedMember: "redactedContent",

	Marks:      [...]string{providers.CacheShort: cachePoint + "}}", providers.CacheHour: cachePoint + `,"ttl":"1h"}}`},
	MarkBehind: true,

	Call:   `{"toolUse":{"toolUseId":`,
	Result: `{"toolResult":{"toolUseId":`,
	Failed: `,"status":"error"`,
	End:    "}}",

	ToolsMember: "toolConfig",
	Tools:       `,"toolConfig":{"tools":[`, ToolsEnd: "]}",
	Tool: `{"toolSpec":{"name":`, Schema: `,"inputSchema":{"json":`, ToolEnd: "}}}",

	Empty:      "Converse wants the conversation to begin with a message of the user",
	UserBegins: true,
}

// cachePoint is the beginning of a mark for the cache.
const cachePoint = `{"cachePoint":{"type":"default"`

// writer writes the parts of Converse's format that differ from the blocks of
// format.
type writer struct {
	upstream.Blocks
	names map[string]int // of the documents so far, with the last number of each
}

// media writes an image or a file, which Converse never fetches.
func (w *writer) media(at int, p *providers.Part) error {
	if p.Kind == providers.PartImage {
		return w.image(at, &p.Media)
	}
	return w.file(at, &p.Media)
}

// apart reports whether a model takes no media in the results of tools: all but Claude
// and Nova. A model behind an ARN without its name may be one of these.
// See https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolResultContentBlock.html.
func apart(model string) bool {
	return !strings.Contains(model, "anthropic.") && !strings.Contains(model, "amazon.nova") && !strings.HasPrefix(model, "arn:")
}

// image writes an image.
func (w *writer) image(at int, m *providers.Media) error {
	if m.URL != "" {
		return w.Service.Lacks(at, "images by URL")
	}
	format, ok := strings.CutPrefix(upstream.MediaType(m.Type), "image/")
	switch format {
	case "png", "jpeg", "gif", "webp":
	default:
		ok = false
	}
	if !ok {
		return w.Service.Lacks(at, "images "+upstream.TypeName(m.Type))
	}
	w.Body = append(append(append(w.Body, `{"image":{"format":"`...), format...), '"')
	w.data(m.Data)
	return nil
}

// documentFormats are the formats of documents, by their media types.
var documentFormats = map[string]string{
	"application/pdf": "pdf", "text/plain": "txt", "text/markdown": "md", "text/html": "html", "text/csv": "csv",
	"application/msword": "doc", "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
	"application/vnd.ms-excel": "xls", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
}

// file writes a file as a document. Converse wants a name of each, which no other
// has.
func (w *writer) file(at int, m *providers.Media) error {
	if m.URL != "" {
		return w.Service.Lacks(at, "files by URL")
	}
	format := documentFormats[upstream.MediaType(m.Type)]
	if format == "" {
		return w.Service.Lacks(at, "files "+upstream.TypeName(m.Type))
	}
	w.Body = append(append(append(w.Body, `{"document":{"format":"`...), format...), `","name":`...)
	w.Body = jsontext.AppendString(w.Body, w.documentName(m.Name))
	w.data(m.Data)
	return nil
}

// nameSize bounds the name of a document, in bytes.
const nameSize = 200

// documentName makes of a file's name one that Converse takes: letters, digits,
// single spaces, hyphens, parentheses and brackets. One whose name another has is
// numbered.
func (w *writer) documentName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r|0x20 && r|0x20 <= 'z' && r < 0x80, '0' <= r && r <= '9', strings.ContainsRune("-()[] ", r):
			return r
		}
		return '-'
	}, name[:min(len(name), nameSize)])
	if name = strings.Join(strings.Fields(name), " "); name == "" {
		name = "document"
	}
	if w.names == nil {
		w.names = make(map[string]int)
	}
	own := name
	for w.names[own] > 0 {
		w.names[name]++
		own = name + " (" + strconv.Itoa(w.names[name]) + ")"
	}
	w.names[own] = 1
	return own
}

// data writes the end of a block that has its bytes in base64.
func (w *writer) data(data string) {
	w.Body = jsontext.AppendString(append(w.Body, `,"source":{"bytes":`...), data)
	w.Body = append(w.Body, "}}},"...)
}
