package openai

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// MaxTools is how many tools a request of OpenAI's APIs may have.
const MaxTools = 128

func (r *Request) mostTools() int { return cmp.Or(r.MaxTools, MaxTools) }

// ToolList reads the list of tools at a path. read adds each of them by AddTool, or names it as
// ignored.
func (r *Request) ToolList(at *Path, v *fastjson.Value, read func(at *Path, v *fastjson.Value) *wire.Error) *wire.Error {
	if wire.IsNull(v) {
		return nil
	}
	list, err := Array(at, v)
	if err != nil {
		return err
	}
	if len(list) > r.mostTools() {
		return at.Wrong("has %d tools, but at most %d are possible.", len(list), r.mostTools())
	}
	for i, element := range list {
		if err := read(at.Element(i), element); err != nil {
			return err
		}
	}
	if len(r.Call.Parameters.Tools) > 0 && !slices.ContainsFunc(r.Call.Given, func(g dialect.Given) bool { return g.Name == "tools" }) {
		r.Given("tools", at.String())
	}
	return nil
}

// AddTool adds the tool at a path. of is the path of the object that has its name.
func (r *Request) AddTool(at, of *Path, t *providers.Tool) *wire.Error {
	p := &r.Call.Parameters
	if r.HasTool(t.Name) {
		return of.Member("name").Wrong("is %q, which another tool has, too. Give each tool a name of its own.", t.Name)
	}
	if most := r.mostTools(); len(p.Tools) == most {
		return at.Wrong("is the %dth tool, but at most %d are possible.", most+1, most)
	}
	p.Tools = append(p.Tools, *t)
	r.Call.ToolParams = append(r.Call.ToolParams, at.String())
	return nil
}

// HasTool reports whether a tool with the name was added.
func (r *Request) HasTool(name string) bool {
	return slices.ContainsFunc(r.Call.Parameters.Tools, func(t providers.Tool) bool { return t.Name == name })
}

// tool reads a tool. A flat one has the members of its function beside its type.
func (r *Request) tool(at *Path, v *fastjson.Value) *wire.Error {
	o, err := r.functionOf(at, v, "cache_control")
	if err != nil {
		return err
	}
	of := at
	if !r.Flat {
		of = at.Member("function")
	}
	t, err := r.Function(of, o)
	if mark := v.Get("cache_control"); err == nil && !r.Flat && !wire.IsNull(mark) {
		err = r.MarkTool(at, mark, &t)
	}
	if err == nil {
		t.Name, err = FunctionName(of.Member("name"), o.Get("name"))
	}
	if err != nil {
		return err
	}
	return r.AddTool(at, of, &t)
}

// functionOf returns the object with a function's name, of a tool or of a choice: the
// member function, or if it is flat, the value itself. known are further members beside it.
func (r *Request) functionOf(at *Path, v *fastjson.Value, known ...string) (*fastjson.Object, *wire.Error) {
	o, err := Object(at, v)
	if err != nil {
		return nil, err
	}
	kind, err := String(at.Member("type"), o.Get("type"))
	if err != nil {
		return nil, err
	}
	if kind != "function" && (!r.Flat || kind != "custom") {
		return nil, at.Member("type").Wrong("is %q, but must be function: the gateway has no other tools.", wire.Clip(kind))
	}
	if r.Flat {
		return o, nil
	}
	Others(r.Call, at, o, append(known, "type", "function")...)
	return Object(at.Member("function"), o.Get("function"))
}

// Function reads a function from the object that has its name, all but the name.
func (r *Request) Function(at *Path, o *fastjson.Object) (t providers.Tool, err *wire.Error) {
	o.Visit(func(key []byte, member *fastjson.Value) {
		if err != nil || member.Type() == fastjson.TypeNull {
			return
		}
		switch name := string(key); {
		case r.Flat && name == "type":
		case name == "name":
		case name == "description":
			t.Description, err = String(at.Member("description"), member)
		case name == "parameters":
			if member.Type() == fastjson.TypeObject && member.GetObject().Len() == 0 {
				return // an object without members, as some libraries send for none
			}
			t.Parameters, err = Schema(at.Member("parameters"), member)
		case name == "strict":
			t.Strict, err = Bool(at.Member("strict"), member)
		case name == "cache_control" && !r.Flat:
			err = r.MarkTool(at, member, &t)
		default:
			at.Unknown(r.Call, key)
		}
	})
	return t, err
}

// FunctionName reads the name of a tool or of a schema, of the form that every provider
// accepts.
func FunctionName(at *Path, v *fastjson.Value) (string, *wire.Error) {
	name, err := String(at, v)
	if err != nil {
		return "", err
	}
	legal := name != "" && len(name) <= 64
	for i := range len(name) {
		c := name[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_'
		legal = legal && (letter || i > 0 && (c >= '0' && c <= '9' || c == '-'))
	}
	if !legal {
		return "", at.Wrong("is %q, but a name is a letter or _ and up to 63 letters, digits, _ and -.", wire.Clip(name))
	}
	return name, nil
}

// Schema reads the JSON Schema of an object.
func Schema(at *Path, v *fastjson.Value) (json.RawMessage, *wire.Error) {
	o, err := Object(at, v)
	if err != nil {
		return nil, err
	}
	if Text(o.Get("type")) != "object" {
		return nil, at.Member("type").Wrong("must be \"object\": the schema is that of an object.")
	}
	return jsontext.AppendValue(nil, v), nil
}

// toolChoice reads the choice of tools at a path, or nil if it is absent or null.
func (r *Request) toolChoice(at *Path, v *fastjson.Value) (*providers.ToolChoice, *wire.Error) {
	if wire.IsNull(v) {
		return nil, nil
	}
	switch v.Type() {
	case fastjson.TypeString:
		switch Text(v) {
		case providers.ToolsAuto:
			return &providers.ToolChoice{Mode: providers.ToolsAuto}, nil
		case providers.ToolsNone:
			return &providers.ToolChoice{Mode: providers.ToolsNone}, nil
		case providers.ToolsRequired:
			return &providers.ToolChoice{Mode: providers.ToolsRequired}, nil
		}
		return nil, at.Wrong("is %q, but must be auto, none, required or an object that names a function.", wire.Clip(Text(v)))
	case fastjson.TypeObject:
	default:
		return nil, at.Wrong("must be a string or an object, not %s.", wire.Describe(v))
	}
	of, chosen := at, v
	if Text(v.Get("type")) == "allowed_tools" {
		var err *wire.Error
		if of, chosen, err = r.onlyAllowed(at, v); err != nil {
			return nil, err
		}
	}
	o, err := r.functionOf(of, chosen)
	if err != nil {
		return nil, err
	}
	if r.Flat {
		Others(r.Call, of, o, "type", "name")
	} else {
		of = of.Member("function")
		Others(r.Call, of, o, "name")
	}
	name, err := FunctionName(of.Member("name"), o.Get("name"))
	if err != nil {
		return nil, err
	}
	return &providers.ToolChoice{Mode: providers.ToolsNamed, Name: name}, nil
}

// onlyAllowed returns the one tool that a choice of allowed tools requires. Any other
// such choice is refused: providers other than OpenAI have no list of allowed tools.
func (r *Request) onlyAllowed(at *Path, v *fastjson.Value) (*Path, *fastjson.Value, *wire.Error) {
	choice := v
	list := at
	if !r.Flat {
		Others(r.Call, at, v.GetObject(), "type", "allowed_tools")
		list = at.Member("allowed_tools")
		choice = v.Get("allowed_tools")
		if _, err := Object(list, choice); err != nil {
			return nil, nil, err
		}
		Others(r.Call, list, choice.GetObject(), "mode", "tools")
	} else {
		Others(r.Call, at, v.GetObject(), "type", "mode", "tools")
	}
	allowed := choice.GetArray("tools")
	if Text(choice.Get("mode")) != "required" || len(allowed) != 1 {
		return nil, nil, at.Wrong("can't restrict the tools to several, which only OpenAI can. Send in tools those that may be called, and the choice auto or required.")
	}
	return list.Member("tools").Element(0), allowed[0], nil
}
