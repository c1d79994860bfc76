package responses

import (
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// byPrompt reports whether the request names a prompt, as it did at OpenAI. The prompt's
// endpoint has the model, and the prompt the variables.
func (p *parser) byPrompt() bool { return !wire.IsNull(p.Body.Get("prompt")) }

func (p *parser) model(v *fastjson.Value) *wire.Error {
	if p.byPrompt() {
		p.Ignore("model")
		return nil
	}
	return p.Model(v)
}

func (p *parser) variables(v *fastjson.Value) *wire.Error {
	if p.byPrompt() {
		return dialect.Wrong("variables", "can't stand beside prompt. Send prompt.variables.")
	}
	return p.Variables(v)
}

// prompt reads the id, the version and the variables of a prompt.
func (p *parser) prompt(v *fastjson.Value) *wire.Error {
	at := openai.At("prompt")
	o, err := openai.Object(at, v)
	if err != nil {
		return err
	}
	openai.Others(p.Call, at, o, "id", "version", "variables")
	id, err := openai.Filled(at.Member("id"), o.Get("id"))
	if err != nil {
		return err
	}
	if !wire.LegalKey(id) {
		return at.Member("id").Wrong("is %q, but must be an alias or the key of an endpoint: 1 to %d of the characters A-Z a-z 0-9 . _ : / -", wire.Clip(id), wire.MaxKeyLength)
	}
	p.Call.Endpoint, p.Call.EndpointParam = id, "prompt.id"
	if version := o.Get("version"); !wire.IsNull(version) {
		if p.Call.Version, err = openai.Filled(at.Member("version"), version); err != nil {
			return err
		}
	}
	if variables := o.Get("variables"); !wire.IsNull(variables) {
		p.Call.Variables = variables
		return p.texts(at.Member("variables"), variables)
	}
	return nil
}

// texts makes variables that are {"type":"input_text","text":…} texts.
func (p *parser) texts(at *openai.Path, variables *fastjson.Value) *wire.Error {
	o, err := openai.Object(at, variables)
	if err != nil {
		return err
	}
	o.Visit(func(key []byte, v *fastjson.Value) {
		if err != nil || v.Type() != fastjson.TypeObject {
			return
		}
		here := at.Member(wire.Clip(string(key)))
		if kind := openai.Text(v.Get("type")); kind != "input_text" {
			err = here.Member("type").Wrong("must be input_text: a prompt's variable is a text. Send images and files in input.")
		} else if _, err = openai.String(here.Member("text"), v.Get("text")); err == nil {
			openai.Others(p.Call, here, v.GetObject(), "type", "text")
			o.Set(string(key), v.Get("text"))
		}
	})
	return err
}
