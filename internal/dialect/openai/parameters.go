package openai

import (
	"slices"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// parameterNames are the names that Parameter knows.
var parameterNames = [...]string{
	"temperature", "top_p", "frequency_penalty", "presence_penalty", "max_tokens", "max_completion_tokens", "top_k",
	"seed", "stop", "reasoning_effort", "response_format", "parallel_tool_calls", "logprobs", "top_logprobs",
}

// maxStop is how many texts may end an answer.
const maxStop = 4

// Parameters reads an object of parameters at the path where, with the names of
// Parameter.
func Parameters(where string, v *fastjson.Value, c *dialect.Call) *wire.Error {
	if wire.IsNull(v) {
		return nil
	}
	at := path{name: where}
	o, err := object(&at, v)
	if err != nil {
		return err
	}
	prefix := where + "."
	o.Visit(func(key []byte, member *fastjson.Value) {
		if err != nil || member.Type() == fastjson.TypeNull {
			return
		}
		var known bool
		if known, err = Parameter(prefix, o, View(key), member, c); !known {
			err = at.unknown(key)
		}
	})
	return err
}

// Parameter reads one member of the object o into c.Parameters and c.Given: a
// parameter by its name in OpenAI's chat API, which definitions have, too, or top_k.
// prefix is the object's path with a dot, or empty. known is false where name is no
// parameter. The ranges are the widest that a known provider accepts.
func Parameter(prefix string, o *fastjson.Object, name string, v *fastjson.Value, c *dialect.Call) (known bool, err *wire.Error) {
	i := slices.Index(parameterNames[:], name)
	if i < 0 {
		return false, nil
	}
	// The constant: what is given outlives the request, of which name may be a view.
	name = parameterNames[i]
	p := &c.Parameters
	given := name
	at := path{name: name}
	if prefix != "" {
		at.name = prefix + name
	}
	switch name {
	case "temperature":
		p.Temperature, err = float(&at, v, 0, 2)
	case "top_p":
		p.TopP, err = float(&at, v, 0, 1)
	case "frequency_penalty":
		p.FrequencyPenalty, err = float(&at, v, -2, 2)
	case "presence_penalty":
		p.PresencePenalty, err = float(&at, v, -2, 2)
	case "max_tokens":
		p.MaxTokens, err = whole(&at, v, 1, 100_000_000)
	case "max_completion_tokens":
		given = "max_tokens"
		if !wire.IsNull(o.Get("max_tokens")) {
			return true, at.errorf("and max_tokens are two names of one parameter. Send one of them.")
		}
		p.MaxTokens, err = whole(&at, v, 1, 100_000_000)
	case "top_k":
		p.TopK, err = whole(&at, v, 0, 1_000_000)
	case "seed":
		p.Seed, err = whole(&at, v, -(1<<53 - 1), 1<<53-1)
	case "stop":
		if p.Stop, err = stop(&at, v); err == nil && p.Stop == nil {
			return true, nil
		}
	case "reasoning_effort":
		p.ReasoningEffort, err = effort(&at, v)
	case "response_format":
		p.ResponseFormat, err = responseFormat(&at, v, c)
	case "parallel_tool_calls":
		var parallel bool
		parallel, err = boolean(&at, v)
		p.ParallelToolCalls = &parallel
	case "logprobs":
		var wants bool
		if wants, err = boolean(&at, v); err != nil || !wants {
			return true, err
		}
		if p.Logprobs == nil {
			p.Logprobs = new(int64)
		}
	case "top_logprobs":
		if !o.Get("logprobs").GetBool() {
			return true, at.errorf("needs logprobs: true beside it.")
		}
		// logprobs is in the list of what is given.
		p.Logprobs, err = whole(&at, v, 0, 20)
		return true, err
	}
	if err == nil {
		c.Given = append(c.Given, dialect.Given{Name: given, Param: at.name})
	}
	return true, err
}

// Effort reads how much a model may think.
func Effort(param string, v *fastjson.Value) (string, *wire.Error) {
	return effort(&path{name: param}, v)
}

func effort(at *path, v *fastjson.Value) (string, *wire.Error) {
	name, err := text(at, v)
	if err != nil {
		return "", err
	}
	switch name {
	case "none", "minimal", "low", "medium", "high", "xhigh", "max":
		return name, nil
	}
	return "", at.errorf("is %q, but must be none, minimal, low, medium, high, xhigh or max.", wire.Clip(name))
}

// stop reads a text or a list of texts; nil for an empty list.
func stop(at *path, v *fastjson.Value) ([]string, *wire.Error) {
	if v.Type() == fastjson.TypeString {
		s, err := filled(at, v)
		return []string{s}, err
	}
	if v.Type() != fastjson.TypeArray {
		return nil, at.errorf("must be a string or an array of strings, not %s.", wire.Describe(v))
	}
	list := v.GetArray()
	if len(list) == 0 {
		return nil, nil
	}
	if len(list) > maxStop {
		return nil, at.errorf("has %d texts, but at most %d are possible.", len(list), maxStop)
	}
	stop := make([]string, len(list))
	for i, element := range list {
		var err *wire.Error
		if stop[i], err = filled(&path{up: at, index: i}, element); err != nil {
			return nil, err
		}
	}
	return stop, nil
}

// responseFormat reads {"type":"text"}, {"type":"json_object"} or
// {"type":"json_schema","json_schema":{"name":…,"schema":…}}.
func responseFormat(at *path, v *fastjson.Value, c *dialect.Call) (*providers.ResponseFormat, *wire.Error) {
	o, err := object(at, v)
	if err != nil {
		return nil, err
	}
	if err := only(at, o, "type", "json_schema", ""); err != nil {
		return nil, err
	}
	kind, err := text(at.member("type"), o.Get("type"))
	if err != nil {
		return nil, err
	}
	if kind == "json_schema" {
		return schemaFormat(at.member("json_schema"), o.Get("json_schema"), c, false)
	}
	if !wire.IsNull(o.Get("json_schema")) {
		return nil, at.member("json_schema").errorf("needs the type json_schema beside it.")
	}
	return plainFormat(at, kind)
}

func plainFormat(at *path, kind string) (*providers.ResponseFormat, *wire.Error) {
	switch kind {
	case "text":
		return &providers.ResponseFormat{Type: providers.FormatText}, nil
	case "json_object":
		return &providers.ResponseFormat{Type: providers.FormatJSON}, nil
	}
	return nil, at.member("type").errorf("is %q, but must be text, json_object or json_schema.", wire.Clip(kind))
}

// FlatFormat reads {"type":"text"}, {"type":"json_object"} or
// {"type":"json_schema","name":…,"schema":…} at the path where into c.Parameters and
// c.Given.
func FlatFormat(where string, v *fastjson.Value, c *dialect.Call) *wire.Error {
	at := path{name: where}
	o, err := object(&at, v)
	if err != nil {
		return err
	}
	kind, err := text(at.member("type"), o.Get("type"))
	if err != nil {
		return err
	}
	var format *providers.ResponseFormat
	if kind == "json_schema" {
		format, err = schemaFormat(&at, v, c, true)
	} else if err = only(&at, o, "type", "", ""); err == nil {
		format, err = plainFormat(&at, kind)
	}
	if err != nil {
		return err
	}
	c.Parameters.ResponseFormat = format
	c.Given = append(c.Given, dialect.Given{Name: "response_format", Param: where})
	return nil
}

func schemaFormat(at *path, v *fastjson.Value, c *dialect.Call, flat bool) (*providers.ResponseFormat, *wire.Error) {
	o, err := object(at, v)
	if err != nil {
		return nil, err
	}
	f := &providers.ResponseFormat{Type: providers.FormatSchema}
	o.Visit(func(key []byte, member *fastjson.Value) {
		if err != nil || member.Type() == fastjson.TypeNull {
			return
		}
		switch name := string(key); {
		case flat && name == "type", name == "name", name == "schema":
		case name == "strict":
			f.Strict, err = boolean(at.member("strict"), member)
		case name == "description":
			c.Ignored = append(c.Ignored, at.member("description").String())
		default:
			err = at.unknown(key)
		}
	})
	if err != nil {
		return nil, err
	}
	if f.Name, err = functionName(at.member("name"), o.Get("name")); err != nil {
		return nil, err
	}
	f.Schema, err = schema(at.member("schema"), o.Get("schema"))
	return f, err
}

func float(at *path, v *fastjson.Value, least, most float64) (*float64, *wire.Error) {
	f, notNumber := v.Float64()
	if notNumber != nil {
		return nil, at.errorf("must be a number, not %s.", wire.Describe(v))
	}
	if f < least || f > most {
		return nil, at.errorf("must be %g to %g.", least, most)
	}
	return &f, nil
}

// Whole reads a whole number from least to most.
func Whole(param string, v *fastjson.Value, least, most int64) (*int64, *wire.Error) {
	return whole(&path{name: param}, v, least, most)
}

func whole(at *path, v *fastjson.Value, least, most int64) (*int64, *wire.Error) {
	if v.Type() != fastjson.TypeNumber {
		return nil, at.errorf("must be a whole number, not %s.", wire.Describe(v))
	}
	n, notWhole := v.Int64()
	if notWhole != nil || n < least || n > most {
		return nil, at.errorf("must be a whole number from %d to %d.", least, most)
	}
	return &n, nil
}

// Bool reads true or false.
func Bool(param string, v *fastjson.Value) (bool, *wire.Error) {
	return boolean(&path{name: param}, v)
}
