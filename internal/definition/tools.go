package definition

import (
	"encoding/json"
	"regexp"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/providers"
)

// maxTools is how many tools a request may have.
const maxTools = 128

// functionName matches the names of tools and schemas that every provider accepts.
var functionName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)

// readName reads the name of a tool or of a schema.
func readName(n, of *document.Node, what string, errs *document.Errors) string {
	if n == nil {
		errs.Add(of, "%s needs a name", what)
		return ""
	}
	name, ok := n.ReadString(errs, "name")
	if ok && !functionName.MatchString(name) {
		errs.Add(n, "%s can't be the name of %s: a letter or _ and up to 63 letters, digits, _ and -", n.Describe(), what)
	}
	return name
}

// readStrict reads the member strict. It returns false if there is none.
func readStrict(n *document.Node, errs *document.Errors) bool {
	m := n.Get("strict")
	if m == nil {
		return false
	}
	strict, _ := m.ReadBool(errs, "strict")
	return strict
}

// readSchema reads a JSON Schema for a model. Its members keep the order of the
// file.
func readSchema(n *document.Node, what string, errs *document.Errors) json.RawMessage {
	if n.Shape != document.Mapping {
		errs.Add(n, "%s must be a JSON Schema, this is %s", what, n.Describe())
		return nil
	}
	if t := n.Get("type"); t == nil || t.Shape != document.Scalar || t.Text != "object" {
		at := t
		if at == nil {
			at = n
		}
		errs.Add(at, "%s must be the schema of an object: give it type: object", what)
	}
	compileSchema(n, nil, errs) // only to report mistakes
	// compileSchema has reported the values that JSON does not have.
	return n.AppendJSON(nil, new(document.Errors))
}

// decodeResponseFormat reads text, json, or {json_schema: {name, schema}}.
func decodeResponseFormat(n *document.Node, errs *document.Errors) *providers.ResponseFormat {
	if n.Shape != document.Mapping {
		if n.Shape != document.Scalar || n.Text != providers.FormatText && n.Text != providers.FormatJSON {
			errs.Add(n, "response_format must be text, json or {json_schema: {name, schema}}, this is %s", n.Describe())
			return nil
		}
		return &providers.ResponseFormat{Type: n.Text}
	}
	spellings := []string{"json_schema", "jsonSchema"}
	n.CheckMembers(errs, "response_format", spellings...)
	m := spelled(n, errs, spellings)
	if m == nil {
		errs.Add(n, "response_format must be text, json or {json_schema: {name, schema}}")
		return nil
	}
	if !m.CheckMembers(errs, "json_schema", "name", "schema", "strict") {
		return nil
	}
	f := &providers.ResponseFormat{
		Type: providers.FormatSchema, Name: readName(m.Get("name"), m, "a schema", errs), Strict: readStrict(m, errs),
	}
	if schema := m.Get("schema"); schema == nil {
		errs.Add(m, "json_schema needs a schema")
	} else {
		f.Schema = readSchema(schema, "schema", errs)
	}
	return f
}

// decodeTools reads a list of tools. An empty list is not nil: it removes the
// inherited tools.
func decodeTools(n *document.Node, errs *document.Errors) []providers.Tool {
	if n.Shape != document.Sequence {
		errs.Add(n, "tools must be a list of {name, description, parameters}, this is %s", n.Describe())
		return nil
	}
	if len(n.Items) > maxTools {
		errs.Add(n, "there are %d tools, at most %d are possible", len(n.Items), maxTools)
	}
	tools := make([]providers.Tool, 0, len(n.Items))
	names := make(map[string]bool, len(n.Items))
	for _, item := range n.Items {
		if !item.CheckMembers(errs, "a tool", "name", "description", "parameters", "strict") {
			continue
		}
		t := providers.Tool{Name: readName(item.Get("name"), item, "a tool", errs), Strict: readStrict(item, errs)}
		if names[t.Name] {
			errs.Add(item.Get("name"), "there are two tools %s", t.Name)
		}
		names[t.Name] = true
		if m := item.Get("description"); m != nil {
			t.Description, _ = m.ReadString(errs, "description")
		}
		if m := item.Get("parameters"); m != nil {
			t.Parameters = readSchema(m, "parameters", errs)
		}
		tools = append(tools, t)
	}
	return tools
}

// decodeToolChoice reads auto, none, required, or {name: …}.
func decodeToolChoice(n *document.Node, errs *document.Errors) *providers.ToolChoice {
	if n.Shape == document.Mapping {
		n.CheckMembers(errs, "tool_choice", "name")
		return &providers.ToolChoice{Mode: providers.ToolsNamed, Name: readName(n.Get("name"), n, "a tool", errs)}
	}
	if n.Shape == document.Scalar {
		switch n.Text {
		case providers.ToolsAuto, providers.ToolsNone, providers.ToolsRequired:
			return &providers.ToolChoice{Mode: n.Text}
		}
	}
	errs.Add(n, "tool_choice must be auto, none, required or {name: a tool's}, this is %s", n.Describe())
	return nil
}

// mischosen returns the mistake in the tool choice of a request, or "".
func mischosen(p *providers.Parameters) string {
	c := p.ToolChoice
	if c == nil || c.Mode == providers.ToolsNone {
		return ""
	}
	if len(p.Tools) == 0 {
		return "there are no tools to choose from"
	}
	if c.Mode != providers.ToolsNamed {
		return ""
	}
	names := make([]string, len(p.Tools))
	for i, t := range p.Tools {
		if t.Name == c.Name {
			return ""
		}
		names[i] = t.Name
	}
	return "there is no tool " + quoted(c.Name) + document.DidYouMean(c.Name, names)
}

// The forms of these parameters in the API and in a definition's content.

type schemaJSON struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema,omitempty"`
	Strict bool            `json:"strict,omitempty"`
}

type toolJSON struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Strict      bool            `json:"strict,omitempty"`
}

func responseFormatJSON(f *providers.ResponseFormat) string {
	if f.Type != providers.FormatSchema {
		return quoted(f.Type)
	}
	return string(canonicalJSON(map[string]schemaJSON{"jsonSchema": {f.Name, f.Schema, f.Strict}}))
}

func toolsJSON(tools []providers.Tool) string {
	list := make([]toolJSON, len(tools))
	for i, t := range tools {
		list[i] = toolJSON{t.Name, t.Description, t.Parameters, t.Strict}
	}
	return string(canonicalJSON(list))
}

func toolChoiceJSON(c *providers.ToolChoice) string {
	if c.Mode != providers.ToolsNamed {
		return quoted(c.Mode)
	}
	return `{"name":` + quoted(c.Name) + "}"
}
