package providers

import (
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// Message is one message of a chat. A message of one text, as most are, has it in
// Content and no Parts. Any other message has its parts in Parts, and Content is
// empty.
type Message struct {
	Role    string `json:"role"` // system, developer, user, assistant or tool
	Content Text   `json:"content"`
	Parts   []Part `json:"-"`
}

// Text is a text as it is inside a JSON string: escaped, without quotes around it. A
// provider writes it by Append, or has encoding/json do so. Plain is the text itself.
type Text = jsontext.Text

// Escape returns a text without escapes as a Text.
func Escape(text string) Text { return jsontext.Escape(text) }

// PartKind is a kind of part of a message.
type PartKind uint8

// The kinds of parts. A provider that lacks one refuses the request by its name, see
// LacksPart. It never does so for media in a tool's result: these follow the results,
// or become a text, see Part.Unshown.
const (
	PartText  PartKind = iota + 1
	PartImage          // of a user, or in a tool's result
	PartAudio          // of a user
	PartFile           // of a user: a document such as a PDF
	// PartToolCall is a call that the model made, in a message of the assistant.
	PartToolCall
	// PartToolResult is the result of a call, in a message of the role tool: one
	// part for each call.
	PartToolResult
	// PartThinking is the model's thinking before its answer, in a message of the
	// assistant, before its other parts.
	PartThinking
	// PartFound is what a search of the provider's left, in a message of the assistant.
	PartFound
)

var partNames = [...]string{
	PartText: "text", PartImage: "image", PartAudio: "audio", PartFile: "file",
	PartToolCall: "tool_call", PartToolResult: "tool_result", PartThinking: "thinking", PartFound: "web_search",
}

// String returns the kind's name in definitions, errors and traces.
func (k PartKind) String() string {
	if int(k) < len(partNames) && partNames[k] != "" {
		return partNames[k]
	}
	return "unknown"
}

// Part is one part of a message. The members other than Kind that its kind does not
// name are empty. A request's texts may be views of the caller's body, so a provider
// keeps none of them after its stream was closed.
type Part struct {
	Kind PartKind
	// Text is the text of PartText. For PartThinking it is the part that the provider
	// showed of the thought, which may be nothing.
	Text Text
	// Media is that of PartImage, PartAudio and PartFile.
	Media Media
	// Call is that of PartToolCall.
	Call ToolCall
	// Result is that of PartToolResult.
	Result ToolResult
	// Raw is the JSON that a search left, in the API of Caller.Searched: all of PartFound, and
	// the citations of PartText. Unlike Opaque, any provider of the API understands it.
	Raw string
	// Opaque is the provider's own data of PartThinking or PartToolCall, such as a
	// signature or an encrypted thought. Only the target that made it understands it;
	// requests to others come without.
	Opaque string
	// Cache has the provider keep the prompt up to the part, which is the last one of a
	// conversation's prefix that comes again. Any part but PartThinking may have it.
	Cache Cache
	// Adrift reports, of PartThinking, that something of what was said before it is left
	// out of the request.
	Adrift bool
}

// Cache is how long a provider keeps the prompt up to a part or a tool, for the requests
// that begin alike. Zero asks for nothing.
type Cache uint8

// The times of caches. Providers differ in what they take for some minutes.
const (
	CacheShort Cache = iota + 1 // some minutes
	CacheHour                   // an hour
)

// MaxCacheMarks is how many tools and parts of a request may have Cache set, together.
const MaxCacheMarks = 4

// Media is an image, a sound or a file: either by URL or inline.
type Media struct {
	// URL is where the provider fetches it, with the scheme https or http; the
	// gateway never does. Empty for inline data.
	URL string
	// Data is the inline data in base64 with padding, as the caller sent it. The
	// gateway does not decode it.
	Data string
	// Type is the media type, such as image/png. It is never empty with Data.
	Type string
	// Name is a file's name, or empty if the caller gave none.
	Name string
	// Detail is how closely a model looks at an image: auto, low or high; empty: its
	// default.
	Detail string
}

// ToolResult is the result of a tool call.
type ToolResult struct {
	// Call is the id of the call, and Name its tool's name, empty if the history
	// does not have the call.
	Call, Name string
	// Content are the parts of the result: texts and media.
	Content []Part
	// Failed reports that the tool failed, and that Content says how.
	Failed bool
}

// Text returns the message's text: Content, or the texts of its parts, joined.
func (m *Message) Text() Text {
	if m.Parts == nil {
		return m.Content
	}
	return textOf(m.Parts)
}

// Text returns the texts of the result, joined.
func (r *ToolResult) Text() Text { return textOf(r.Content) }

func textOf(parts []Part) Text {
	only, texts := Text(""), 0
	for i := range parts {
		if parts[i].Kind == PartText {
			only = parts[i].Text
			texts++
		}
	}
	if texts < 2 {
		return only
	}
	var b strings.Builder
	for i := range parts {
		if parts[i].Kind == PartText {
			b.WriteString(string(parts[i].Text))
		}
	}
	return Text(b.String())
}

// Size returns the bytes of the message's texts and data.
func (m *Message) Size() int {
	size := len(m.Content)
	for i := range m.Parts {
		size += m.Parts[i].size()
	}
	return size
}

// EscapedSize returns about how many bytes the message takes as JSON, its texts as they are
// escaped, and how many of them are its media and opaque data.
func (m *Message) EscapedSize() (size, data int) {
	size = len(`{"role":"assistant","content":[]},`) + len(m.Content)
	for i := range m.Parts {
		s, d := m.Parts[i].escapedSize()
		size, data = size+s, data+d
	}
	return size, data
}

// PartSize estimates the size of a part as JSON without its text and data, in
// bytes.
const PartSize = 96

func (p *Part) escapedSize() (size, data int) {
	data = len(p.Media.Data) + len(p.Opaque) + len(p.Raw)
	size = PartSize + data + len(p.Text) + len(p.Media.URL) + jsontext.EscapedLen(p.Call.Arguments) + len(p.Call.Name)
	for i := range p.Result.Content {
		s, d := p.Result.Content[i].escapedSize()
		size, data = size+s, data+d
	}
	return size, data
}

func (p *Part) size() int {
	size := len(p.Text) + len(p.Media.URL) + len(p.Media.Data) + len(p.Call.Name) + len(p.Call.Arguments) + len(p.Opaque) + len(p.Raw)
	for i := range p.Result.Content {
		size += p.Result.Content[i].size()
	}
	return size
}
