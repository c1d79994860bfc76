package openai

import (
	"slices"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
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

// Parameters reads an object of parameters at a path, with the names of
// Parameter.
func Parameters(at *Path, v *fastjson.Value, c *dialect.Call) *wire.Error {
	if wire.IsNull(v) {
		return nil
	}
	o, err := Object(at, v)
	if err != nil {
		return err
	}
	o.Visit(func(key []byte, member *fastjson.Value) {
		if err != nil || member.Type() == fastjson.TypeNull {
			return
		}
		var known bool
		if known, err = Parameter(at, o, jsontext.View(key), member, c); !known {
			at.Unknown(c, key)
		}
	})
	return err
}

// Parameter reads one member of the object o into c.Parameters and c.Given: a
// parameter by its name in OpenAI's chat API, which definitions have, too, or top_k.
// of is the object's path, nil for the request. known is false if name is no
// parameter. The ranges are the widest that a known provider accepts.
func Parameter(of *Path, o *fastjson.Object, name string, v *fastjson.Value, c *dialect.Call) (known bool, err *wire.Error) {
	i := slices.Index(parameterNames[:], name)
	if i < 0 {
		return false, nil
	}
	// The constant: the given parameters outlive the request, of which name may be a
	// view.
	name = parameterNames[i]
	p := &c.Parameters
	given := name
	at := of.Member(name)
	switch name {
	case "temperature":
		p.Temperature, err = float(at, v, 0, 2)
	case "top_p":
		p.TopP, err = float(at, v, 0, 1)
	case "frequency_penalty":
		p.FrequencyPenalty, err = float(at, v, -2, 2)
	case "presence_penalty":
		p.PresencePenalty, err = float(at, v, -2, 2)
	case "max_tokens":
		p.MaxTokens, err = Whole(at, v, 1, 100_000_000)
	case "max_completion_tokens":
		given = "max_tokens"
		if !wire.IsNull(o.Get("max_tokens")) {
			return true, at.Wrong("and max_tokens are two names of one parameter. Send one of them.")
		}
		p.MaxTokens, err = Whole(at, v, 1, 100_000_000)
	case "top_k":
		p.TopK, err = Whole(at, v, 0, 1_000_000)
	case "seed":
		p.Seed, err = Whole(at, v, -(1<<53 - 1), 1<<53-1)
	case "stop":
		if p.Stop, err = stop(at, v); err == nil && p.Stop == nil {
			return true, nil
		}
	case "reasoning_effort":
		p.ReasoningEffort, err = Effort(at, v)
	case "response_format":
		p.ResponseFormat, err = responseFormat(at, v, c)
	case "parallel_tool_calls":
		var parallel bool
		parallel, err = Bool(at, v)
		p.ParallelToolCalls = &parallel
	case "logprobs":
		var wants bool
		if wants, err = Bool(at, v); err != nil || !wants {
			return true, err
		}
		if p.Logprobs == nil {
			p.Logprobs = new(int64)
		}
	case "top_logprobs":
		if !o.Get("logprobs").GetBool() {
			return true, at.Wrong("needs logprobs: true beside it.")
		}
		// logprobs is among the given parameters.
		p.Logprobs, err = Whole(at, v, 0, 20)
		return true, err
	}
	if err == nil {
		param := name
		if of != nil {
			param = at.String()
		}
		c.Given = append(c.Given, dialect.Given{Name: given, Param: param})
	}
	return true, err
}

// Effort reads how much a model may think.
func Effort(at *Path, v *fastjson.Value) (string, *wire.Error) {
	name, err := String(at, v)
	if err != nil {
		return "", err
	}
	switch name {
	case "none", "minimal", "low", "medium", "high", "xhigh", "max":
		return name, nil
	}
	return "", at.Wrong("is %q, but must be none, minimal, low, medium, high, xhigh or max.", wire.Clip(name))
}

// stop reads a text or a list of texts; nil for an empty list.
func stop(at *Path, v *fastjson.Value) ([]string, *wire.Error) {
	if v.Type() == fastjson.TypeString {
		s, err := Filled(at, v)
		return []string{s}, err
	}
	if v.Type() != fastjson.TypeArray {
		return nil, at.Wrong("must be a string or an array of strings, not %s.", wire.Describe(v))
	}
	list := v.GetArray()
	if len(list) == 0 {
		return nil, nil
	}
	if len(list) > maxStop {
		return nil, at.Wrong("has %d texts, but at most %d are possible.", len(list), maxStop)
	}
	stop := make([]string, len(list))
	for i, element := range list {
		var err *wire.Error
		if stop[i], err = Filled(at.Element(i), element); err != nil {
			return nil, err
		}
	}
	return stop, nil
}

// responseFormat reads {"type":"text"}, {"type":"json_object"} or
// {"type":"json_schema","json_schema":{"name":…,"schema":…}}.
func responseFormat(at *Path, v *fastjson.Value, c *dialect.Call) (*providers.ResponseFormat, *wire.Error) {
	o, err := Object(at, v)
	if err != nil {
		return nil, err
	}
	Others(c, at, o, "type", "json_schema")
	kind, err := String(at.Member("type"), o.Get("type"))
	if err != nil {
		return nil, err
	}
	if kind == "json_schema" {
		return schemaFormat(at.Member("json_schema"), o.Get("json_schema"), c, false)
	}
	if !wire.IsNull(o.Get("json_schema")) {
		return nil, at.Member("json_schema").Wrong("needs the type json_schema beside it.")
	}
	return plainFormat(at, kind)
}

func plainFormat(at *Path, kind string) (*providers.ResponseFormat, *wire.Error) {
	switch kind {
	case "text":
		return &providers.ResponseFormat{Type: providers.FormatText}, nil
	case "json_object":
		return &providers.ResponseFormat{Type: providers.FormatJSON}, nil
	}
	return nil, at.Member("type").Wrong("is %q, but must be text, json_object or json_schema.", wire.Clip(kind))
}

// FlatFormat reads {"type":"text"}, {"type":"json_object"} or
// {"type":"json_schema","name":…,"schema":…} at a path into c.Parameters and
// c.Given.
func FlatFormat(at *Path, v *fastjson.Value, c *dialect.Call) *wire.Error {
	o, err := Object(at, v)
	if err != nil {
		return err
	}
	kind, err := String(at.Member("type"), o.Get("type"))
	if err != nil {
		return err
	}
	var format *providers.ResponseFormat
	switch {
	case kind == "json_schema":
		format, err = schemaFormat(at, v, c, true)
	case !wire.IsNull(o.Get("schema")):
		err = at.Member("schema").Wrong("needs the type json_schema beside it.")
	default:
		Others(c, at, o, "type")
		format, err = plainFormat(at, kind)
	}
	if err != nil {
		return err
	}
	c.Parameters.ResponseFormat = format
	c.Given = append(c.Given, dialect.Given{Name: "response_format", Param: at.String()})
	return nil
}

func schemaFormat(at *Path, v *fastjson.Value, c *dialect.Call, flat bool) (*providers.ResponseFormat, *wire.Error) {
	o, err := Object(at, v)
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
			f.Strict, err = Bool(at.Member("strict"), member)
		case name == "description":
			c.Ignore(at.Member("description").String())
		default:
			at.Unknown(c, key)
		}
	})
	if err != nil {
		return nil, err
	}
	if f.Name, err = FunctionName(at.Member("name"), o.Get("name")); err != nil {
		return nil, err
	}
	f.Schema, err = Schema(at.Member("schema"), o.Get("schema"))
	return f, err
}

func float(at *Path, v *fastjson.Value, least, most float64) (*float64, *wire.Error) {
	f, notNumber := v.Float64()
	if notNumber != nil {
		return nil, at.Wrong("must be a number, not %s.", wire.Describe(v))
	}
	if f < least || f > most {
		return nil, at.Wrong("must be %g to %g.", least, most)
	}
	return &f, nil
}
