package providers

import "encoding/json"

// The types of ResponseFormat.
const (
	FormatText   = "text"
	FormatJSON   = "json" // any JSON object
	FormatSchema = "json_schema"
)

// ResponseFormat is the form that the text of an answer must have.
type ResponseFormat struct {
	Type string // FormatText, FormatJSON or FormatSchema
	// Of FormatSchema: the schema's name (a letter or _, then up to 63 letters,
	// digits, _ and -), the JSON Schema, and whether the provider has to hold
	// the model to it rather than only show it.
	Name   string
	Schema json.RawMessage
	Strict bool
}

// Beside returns the JSON that the model reads beside messages and tools: the schema of
// its answer, if there is one.
func (p *Parameters) Beside() []json.RawMessage {
	if f := p.ResponseFormat; f != nil && len(f.Schema) > 0 {
		return []json.RawMessage{f.Schema}
	}
	return nil
}

// Tool is a function of the caller that a model may ask to have called.
type Tool struct {
	Name        string // a letter or _, then up to 63 letters, digits, _ and -
	Description string
	// Parameters is the JSON Schema of the arguments, an object; nil for none.
	Parameters json.RawMessage
	// Strict has the provider hold the arguments to the schema.
	Strict bool
	// Cache has the provider keep the prompt up to the tool, as Part.Cache does.
	Cache Cache `json:"-"`
}

// The modes of ToolChoice.
const (
	ToolsAuto     = "auto"     // the model decides
	ToolsNone     = "none"     // it calls none
	ToolsRequired = "required" // it calls one at least
	ToolsNamed    = "named"    // it calls the one that is named
	ToolsSearch   = "search"   // it searches the web, see WebSearch
)

// ToolChoice says whether a model may or must call tools.
type ToolChoice struct {
	Mode string // one of the modes
	Name string // of ToolsNamed
}

// ToolCall is a model's request to call a tool.
type ToolCall struct {
	// ID is the provider's own. It is empty in an answer where the provider gives none:
	// the gateway then makes one, which no other call of the conversation has.
	ID        string
	Name      string
	Arguments string // JSON; models may disregard the tool's parameters
	// Opaque is the provider's own data of the call, see Part; mostly empty.
	Opaque string
}

// NoArguments is the JSON Schema of the arguments of a tool without any.
var NoArguments = json.RawMessage(`{"type":"object","properties":{}}`)
