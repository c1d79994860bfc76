// Package chat is OpenAI's Chat Completions API, POST /v1/chat/completions
// (https://platform.openai.com/docs/api-reference/chat).
package chat

import (
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// Dialect is OpenAI's Chat Completions API.
var Dialect dialect.Dialect = chat{}

type chat struct{}

// AppendError appends an error's own body, which has OpenAI's members.
func (chat) AppendError(dst []byte, e *wire.Error) []byte { return e.AppendJSON(dst) }

// Parse reads a request's body.
func (chat) Parse(r *wire.Request) (*dialect.Call, dialect.Writer, *wire.Error) {
	body, err := r.Conversation()
	if err != nil {
		return nil, nil, err
	}
	// One allocation for all three.
	of := new(struct {
		parser parser
		call   dialect.Call
		writer writer
	})
	p := &of.parser
	p.Request = openai.Request{Wire: r, Body: body, Call: &of.call}
	p.writer = &of.writer
	if err := members.ReadBody(p, p.Call, body); err != nil {
		return nil, nil, err
	}
	p.PlaceMarks(p.Call.Turns)
	return p.Call, p.writer, nil
}

// parser reads one request.
type parser struct {
	openai.Request
	writer *writer
}

func (p *parser) n(v *fastjson.Value) *wire.Error {
	if n, notWhole := v.Int64(); notWhole != nil || n != 1 {
		return dialect.Wrong("n", "must be 1: an endpoint has one answer. Send a request for each answer.")
	}
	return nil
}

// search reads that the web is to be searched.
func (p *parser) search(v *fastjson.Value) *wire.Error {
	at := openai.At("web_search_options")
	o, err := openai.Object(at, v)
	if err != nil {
		return err
	}
	return p.SearchTool(at, o, new(providers.WebSearch), "")
}

func (p *parser) modalities(v *fastjson.Value) *wire.Error {
	if list := v.GetArray(); len(list) != 1 || openai.Text(list[0]) != "text" {
		return dialect.Wrong("modalities", `must be ["text"]: answers are text.`)
	}
	return nil
}

func (p *parser) store(v *fastjson.Value) *wire.Error {
	store, err := openai.Bool(openai.At("store"), v)
	if store {
		p.Ignore("store")
	}
	return err
}

func (p *parser) streamOptions(v *fastjson.Value) *wire.Error {
	options, err := openai.Object(openai.At("stream_options"), v)
	if err != nil {
		return err
	}
	if !p.Body.Get("stream").GetBool() {
		p.Ignore("stream_options")
	}
	options.Visit(func(key []byte, v *fastjson.Value) {
		if err != nil || v.Type() == fastjson.TypeNull {
			return
		}
		switch string(key) {
		case "include_usage":
			p.writer.usage, err = openai.Bool(openai.At("stream_options.include_usage"), v)
		case "include_obfuscation":
			err = p.Obfuscation(v)
		default:
			openai.At("stream_options").Unknown(p.Call, key)
		}
	})
	return err
}

// refused is a member that a request must not have. The note is the rest of the error's
// message.
func refused(path, note string) openai.Member[*parser] {
	return openai.Member[*parser]{Path: path, Fate: dialect.Refused, Note: note, Read: func(_ *parser, v *fastjson.Value) *wire.Error {
		if path == "logit_bias" && v.Type() == fastjson.TypeObject && v.GetObject().Len() == 0 {
			return nil // no bias
		}
		return dialect.Wrong(path, "is not accepted: %s", note)
	}}
}
