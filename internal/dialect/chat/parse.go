// Package chat is OpenAI's Chat Completions API: POST /v1/chat/completions.
package chat

import (
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// Dialect is OpenAI's Chat Completions API.
var Dialect dialect.Dialect = chat{}

type chat struct{}

// AppendError appends an error's own body, which has OpenAI's members.
func (chat) AppendError(dst []byte, e *wire.Error) []byte { return e.AppendJSON(dst) }

// Parse reads a request's body.
func (chat) Parse(r *wire.Request) (*dialect.Call, dialect.Writer, *wire.Error) {
	body, err := r.Object()
	if err != nil {
		return nil, nil, err
	}
	w := &writer{}
	c := &w.call
	c.EndpointParam, c.TurnsParam = "model", "messages"
	if c.Endpoint, c.Variant, err = openai.Model(body.Get("model")); err != nil {
		return nil, nil, err
	}
	body.Visit(func(key []byte, v *fastjson.Value) {
		if err == nil && v.Type() != fastjson.TypeNull {
			err = w.member(body, openai.View(key), v)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	if c.Context, err = wire.ObjectMember(body, "context"); err != nil {
		return nil, nil, err
	}
	if c.Variables, err = wire.ObjectMember(body, "variables"); err != nil {
		return nil, nil, err
	}
	if c.Metadata, err = r.MetadataMember(body); err != nil {
		return nil, nil, err
	}
	if c.Context == nil {
		// The libraries have a parameter for metadata, and none for context.
		c.Context = c.Metadata
	}
	return c, w, nil
}

// member reads one member that is not null.
func (w *writer) member(body *fastjson.Object, name string, v *fastjson.Value) (err *wire.Error) {
	c := &w.call
	switch name {
	case "model", "context", "variables", "metadata":
		return nil // read beside
	case "messages":
		c.Turns, err = openai.Messages("messages", v, &c.Ignored)
	case "stream":
		c.Stream, err = openai.Bool("stream", v)
	case "stream_options":
		err = w.streamOptions(body, v)
	case "tools":
		if c.Parameters.Tools, err = openai.Tools("tools", v); c.Parameters.Tools != nil {
			c.Given = append(c.Given, dialect.Given{Name: "tools", Param: "tools"})
		}
	case "tool_choice":
		c.Given = append(c.Given, dialect.Given{Name: "tool_choice", Param: "tool_choice"})
		c.Parameters.ToolChoice, err = openai.ToolChoice("tool_choice", v)
	case "user": // name is a view of the request, which errors outlive
		return w.user(body, "user", v)
	case "safety_identifier":
		return w.user(body, "safety_identifier", v)
	case "n":
		if n, notWhole := v.Int64(); notWhole != nil || n != 1 {
			return wire.Errorf(wire.InvalidRequest, "n", `"n" must be 1: an endpoint has one answer. Send a request for each answer.`)
		}
	case "modalities":
		if list := v.GetArray(); len(list) != 1 || openai.Text(list[0]) != "text" {
			return wire.Errorf(wire.InvalidRequest, "modalities", `"modalities" must be ["text"]: answers are text.`)
		}
	case "store":
		var store bool
		if store, err = openai.Bool("store", v); err == nil && !store {
			return nil
		}
		c.Ignored = append(c.Ignored, "store")
	case "service_tier":
		if tier := openai.Text(v); tier != "auto" && tier != "default" {
			return wire.Errorf(wire.InvalidRequest, "service_tier", `"service_tier" must be auto or default. Have the endpoint's definition set any other in extra.`)
		}
		c.Ignored = append(c.Ignored, "service_tier")
	case "logit_bias":
		if v.Type() == fastjson.TypeObject && v.GetObject().Len() == 0 {
			return nil
		}
		return refuse(name)
	default:
		known, err := openai.Parameter("", body, name, v, c)
		if known {
			return err
		}
		return w.other(name)
	}
	return err
}

// other ignores or refuses a member as Members says.
func (w *writer) other(name string) *wire.Error {
	for i := range Members {
		if m := &Members[i]; m.Name == name && m.Fate == dialect.Ignored {
			w.call.Ignored = append(w.call.Ignored, m.Name)
			return nil
		}
	}
	return refuse(name)
}

// refuse returns the error of a member that a request must not have.
func refuse(name string) *wire.Error {
	for i := range Members {
		if m := &Members[i]; m.Name == name && m.Fate == dialect.Refused {
			return wire.Errorf(wire.InvalidRequest, m.Name, "%q is not accepted: %s", m.Name, m.Note)
		}
	}
	return openai.Unknown("", name)
}

func (w *writer) streamOptions(body *fastjson.Object, v *fastjson.Value) (err *wire.Error) {
	options, notObject := v.Object()
	if notObject != nil {
		return wire.Errorf(wire.InvalidRequest, "stream_options", `"stream_options" must be an object, not %s.`, wire.Describe(v))
	}
	if !body.Get("stream").GetBool() {
		w.call.Ignored = append(w.call.Ignored, "stream_options")
	}
	options.Visit(func(key []byte, v *fastjson.Value) {
		if err != nil || v.Type() == fastjson.TypeNull {
			return
		}
		switch string(key) {
		case "include_usage":
			w.usage, err = openai.Bool("stream_options.include_usage", v)
		case "include_obfuscation":
			var obfuscate bool
			if obfuscate, err = openai.Bool("stream_options.include_obfuscation", v); obfuscate {
				w.call.Ignored = append(w.call.Ignored, "stream_options.include_obfuscation")
			}
		default:
			err = openai.Unknown("stream_options.", string(key))
		}
	})
	return err
}

// user reads the caller's own user, which has two names in the API.
func (w *writer) user(body *fastjson.Object, name string, v *fastjson.Value) *wire.Error {
	user, err := openai.User(name, v)
	if err != nil {
		return err
	}
	if name == "user" && !wire.IsNull(body.Get("safety_identifier")) {
		w.call.Ignored = append(w.call.Ignored, "user")
		return nil
	}
	w.call.User, w.call.UserParam = user, name
	return nil
}
