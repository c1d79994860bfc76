package openai

import (
	"encoding/json"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// MaxTools is how many tools a request may have.
const MaxTools = 128

// Tools reads the list of tools at the path where, each as
// {"type":"function","function":{"name":…}}; nil where it is absent, null or empty.
func Tools(where string, v *fastjson.Value) ([]providers.Tool, *wire.Error) {
	return tools(where, v, false)
}

// FlatTools reads a list of tools as Tools does, each as {"type":"function","name":…}.
func FlatTools(where string, v *fastjson.Value) ([]providers.Tool, *wire.Error) {
	return tools(where, v, true)
}

func tools(where string, v *fastjson.Value, flat bool) ([]providers.Tool, *wire.Error) {
	if wire.IsNull(v) {
		return nil, nil
	}
	at := path{name: where}
	list, err := array(&at, v)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	if len(list) > MaxTools {
		return nil, at.errorf("has %d tools, but at most %d are possible.", len(list), MaxTools)
	}
	tools := make([]providers.Tool, len(list))
	for i, element := range list {
		here := path{up: &at, index: i}
		o, err := functionOf(&here, element, flat)
		if err != nil {
			return nil, err
		}
		of := &here
		if !flat {
			of = &path{up: &here, name: "function"}
		}
		if tools[i], err = tool(of, o, flat); err != nil {
			return nil, err
		}
		for j := range i {
			if tools[j].Name == tools[i].Name {
				return nil, of.member("name").errorf("is %q, which another tool has, too. Give each tool a name of its own.", tools[i].Name)
			}
		}
	}
	return tools, nil
}

// functionOf returns the object that has a function's name, of a tool or of a choice:
// the member function, or where it is flat, the value itself.
func functionOf(at *path, v *fastjson.Value, flat bool) (*fastjson.Object, *wire.Error) {
	o, err := object(at, v)
	if err != nil {
		return nil, err
	}
	kind, err := text(at.member("type"), o.Get("type"))
	if err != nil {
		return nil, err
	}
	if kind != "function" {
		return nil, at.member("type").errorf("is %q, but must be function: the gateway has no other tools.", wire.Clip(kind))
	}
	if flat {
		return o, nil
	}
	if err := only(at, o, "type", "function", ""); err != nil {
		return nil, err
	}
	return object(at.member("function"), o.Get("function"))
}

func tool(at *path, o *fastjson.Object, flat bool) (t providers.Tool, err *wire.Error) {
	o.Visit(func(key []byte, member *fastjson.Value) {
		if err != nil || member.Type() == fastjson.TypeNull {
			return
		}
		switch name := string(key); {
		case flat && name == "type":
		case name == "name":
		case name == "description":
			t.Description, err = text(at.member("description"), member)
		case name == "parameters":
			if member.Type() == fastjson.TypeObject && member.GetObject().Len() == 0 {
				return // an object without members, as some libraries send for none
			}
			t.Parameters, err = schema(at.member("parameters"), member)
		case name == "strict":
			t.Strict, err = boolean(at.member("strict"), member)
		default:
			err = at.unknown(key)
		}
	})
	if err != nil {
		return t, err
	}
	t.Name, err = functionName(at.member("name"), o.Get("name"))
	return t, err
}

// functionName reads the name of a tool or of a schema, of the form that every provider
// accepts.
func functionName(at *path, v *fastjson.Value) (string, *wire.Error) {
	name, err := text(at, v)
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
		return "", at.errorf("is %q, but a name is a letter or _ and up to 63 letters, digits, _ and -.", wire.Clip(name))
	}
	return name, nil
}

// schema reads the JSON Schema of an object.
func schema(at *path, v *fastjson.Value) (json.RawMessage, *wire.Error) {
	o, err := object(at, v)
	if err != nil {
		return nil, err
	}
	if Text(o.Get("type")) != "object" {
		return nil, at.member("type").errorf("must be \"object\": the schema is that of an object.")
	}
	return jsontext.AppendValue(nil, v), nil
}

// ToolChoice reads the choice of tools at the path where: a word, or
// {"type":"function","function":{"name":…}}; nil where it is absent or null.
func ToolChoice(where string, v *fastjson.Value) (*providers.ToolChoice, *wire.Error) {
	return toolChoice(where, v, false)
}

// FlatToolChoice reads a choice as ToolChoice does, with {"type":"function","name":…}.
func FlatToolChoice(where string, v *fastjson.Value) (*providers.ToolChoice, *wire.Error) {
	return toolChoice(where, v, true)
}

func toolChoice(where string, v *fastjson.Value, flat bool) (*providers.ToolChoice, *wire.Error) {
	if wire.IsNull(v) {
		return nil, nil
	}
	at := path{name: where}
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
		return nil, at.errorf("is %q, but must be auto, none, required or an object that names a function.", wire.Clip(Text(v)))
	case fastjson.TypeObject:
	default:
		return nil, at.errorf("must be a string or an object, not %s.", wire.Describe(v))
	}
	of, chosen := &at, v
	if Text(v.Get("type")) == "allowed_tools" {
		var err *wire.Error
		if of, chosen, err = onlyAllowed(&at, v, flat); err != nil {
			return nil, err
		}
	}
	o, err := functionOf(of, chosen, flat)
	if err != nil {
		return nil, err
	}
	if flat {
		err = only(of, o, "type", "name", "")
	} else {
		of = &path{up: of, name: "function"}
		err = only(of, o, "name", "", "")
	}
	if err != nil {
		return nil, err
	}
	name, err := functionName(of.member("name"), o.Get("name"))
	if err != nil {
		return nil, err
	}
	return &providers.ToolChoice{Mode: providers.ToolsNamed, Name: name}, nil
}

// onlyAllowed returns the one tool that a choice of allowed tools requires. Any other
// such choice is refused: providers beside OpenAI have no list of allowed tools.
func onlyAllowed(at *path, v *fastjson.Value, flat bool) (*path, *fastjson.Value, *wire.Error) {
	choice := v
	where := at
	if !flat {
		if err := only(at, v.GetObject(), "type", "allowed_tools", ""); err != nil {
			return nil, nil, err
		}
		where = at.member("allowed_tools")
		choice = v.Get("allowed_tools")
		if _, err := object(where, choice); err != nil {
			return nil, nil, err
		}
		if err := only(where, choice.GetObject(), "mode", "tools", ""); err != nil {
			return nil, nil, err
		}
	} else if err := only(at, v.GetObject(), "type", "mode", "tools"); err != nil {
		return nil, nil, err
	}
	allowed := choice.GetArray("tools")
	if Text(choice.Get("mode")) != "required" || len(allowed) != 1 {
		return nil, nil, at.errorf("can't restrict the tools to several, which only OpenAI can. Send in tools those that may be called, and the choice auto or required.")
	}
	return &path{up: where.member("tools"), index: 0}, allowed[0], nil
}
