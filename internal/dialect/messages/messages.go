// Package messages is Anthropic's Messages API
// (https://docs.anthropic.com/en/api/messages).
package messages

import (
	"fmt"
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// Dialect is Anthropic's Messages API. A request to count tokens has the same members.
var Dialect dialect.Dialect = messages{}

type messages struct{}

// Parse reads the body of a request for an endpoint's answer.
func (messages) Parse(r *wire.Request) (*dialect.Call, dialect.Writer, *wire.Error) {
	body, err := r.Conversation()
	if err != nil {
		return nil, nil, err
	}
	w := &writer{}
	p := parser{Request: openai.Request{Wire: r, Body: body, Call: &w.call, MaxTools: maxTools}}
	if err := members.ReadBody(&p, p.Call, body); err != nil {
		return nil, nil, err
	}
	p.finish()
	return &w.call, w, nil
}

// parser reads one request.
type parser struct {
	openai.Request
	instructions []providers.Message // the caller's system blocks
	turns        turns
	effort       string // the effort that thinking means; empty if it means none
	effortAt     string // the path of the member that sets it
}

// finish adds the parameters that depend on several members.
func (p *parser) finish() {
	switch set := &p.Call.Parameters.ReasoningEffort; {
	case p.effort == "":
	case *set == "" || p.effort == "none":
		if *set != "" {
			// Both are one parameter in definitions, and without thoughts there is no effort.
			p.Call.Given = slices.DeleteFunc(p.Call.Given, func(g dialect.Given) bool { return g.Name == "reasoning_effort" })
			p.Ignore("output_config.effort")
		}
		*set = p.effort
		p.Given("reasoning_effort", p.effortAt)
	default:
		p.Given("thinking", p.effortAt) // a budget beside an effort
	}
	p.SettleChoice()
	p.addTurns()
}

func (p *parser) metadata(v *fastjson.Value) (err *wire.Error) {
	if err = p.Metadata(v); err != nil {
		return err
	}
	if user := v.Get("user_id"); !wire.IsNull(user) {
		return p.UserMember("metadata.user_id", user)
	}
	return err
}

func (p *parser) stop(v *fastjson.Value) *wire.Error {
	const most = 4 // as in definitions
	at := openai.At("stop_sequences")
	list, err := openai.Array(at, v)
	if err != nil || len(list) == 0 {
		return err
	}
	if len(list) > most {
		return at.Wrong("has %d texts, but at most %d are possible.", len(list), most)
	}
	for i, element := range list {
		text := openai.Text(element)
		if text == "" {
			return at.Element(i).Wrong("must be a string that is not empty.")
		}
		p.Call.Parameters.Stop = append(p.Call.Parameters.Stop, text)
	}
	p.Given("stop", "stop_sequences")
	return nil
}

// thinking reads whether the model is to think. What the effort says in definitions is the
// effort here, too, so that bounds of it hold.
func (p *parser) thinking(v *fastjson.Value) *wire.Error {
	at := openai.At("thinking")
	o, err := openai.Object(at, v)
	if err != nil {
		return err
	}
	asked := providers.Thinking{On: true}
	switch kind := openai.Text(o.Get("type")); kind {
	case "disabled", "between_tools":
		asked.On = false
		p.effort, p.effortAt = "none", "thinking.type"
	case "enabled":
		at := openai.At("thinking.budget_tokens")
		if wire.IsNull(o.Get("budget_tokens")) {
			return at.Wrong("is required: a whole number.")
		}
		budget, err := openai.Whole(at, o.Get("budget_tokens"), 1, mostTokens)
		if err != nil {
			return err
		}
		asked.Budget = *budget
		p.effort, p.effortAt = asked.Effort(), "thinking.budget_tokens"
	case "adaptive":
		p.Given("thinking", "thinking.type")
	default:
		return at.Member("type").Wrong("is %q, but must be enabled, adaptive, between_tools or disabled.", wire.Clip(kind))
	}
	if asked.On {
		p.Call.Parameters.Thinking = &asked
	}
	o.Visit(func(key []byte, v *fastjson.Value) {
		if err != nil || v.Type() == fastjson.TypeNull {
			return
		}
		switch name := string(key); {
		case name == "type", name == "budget_tokens" && asked.Budget > 0:
		case name == "display" && asked.On:
			err = p.display(at.Member(name), v, &asked)
		case name == "budget_tokens", name == "display":
			p.Ignore("thinking." + name)
		default:
			at.Unknown(p.Call, key)
		}
	})
	return err
}

// display reads how the answer has the thoughts. The words are constants, so that they do
// not keep the request.
func (p *parser) display(at *openai.Path, v *fastjson.Value, asked *providers.Thinking) *wire.Error {
	switch openai.Text(v) {
	case providers.DisplaySummarized:
		asked.Display = providers.DisplaySummarized
	case providers.DisplayOmitted:
		asked.Display = providers.DisplayOmitted
	default:
		return at.Wrong("must be summarized or omitted.")
	}
	p.Given("thinking", "thinking.display")
	return nil
}

// mostTokens bounds numbers of tokens, as in definitions.
const mostTokens = 100_000_000

func (p *parser) outputEffort(v *fastjson.Value) (err *wire.Error) {
	p.Call.Parameters.ReasoningEffort, err = openai.Effort(openai.At("output_config.effort"), v)
	p.Given("reasoning_effort", "output_config.effort")
	return err
}

// format reads {"type":"json_schema","schema":…} at the path.
func format(path string) func(p *parser, v *fastjson.Value) *wire.Error {
	return func(p *parser, v *fastjson.Value) *wire.Error {
		at := openai.At(path)
		o, err := openai.Object(at, v)
		if err != nil {
			return err
		}
		if kind := openai.Text(o.Get("type")); kind != "json_schema" {
			return at.Member("type").Wrong("is %q, but must be json_schema.", wire.Clip(kind))
		}
		openai.Others(p.Call, at, o, "type", "schema")
		if p.Call.Parameters.ResponseFormat != nil {
			return at.Wrong("is there twice: output_format is an older name of output_config.format. Send one of them.")
		}
		schema, err := openai.Schema(at.Member("schema"), o.Get("schema"))
		// The API has no name for it, and other providers need one.
		p.Call.Parameters.ResponseFormat = &providers.ResponseFormat{Type: providers.FormatSchema, Name: "answer", Schema: schema, Strict: true}
		p.Given("response_format", path)
		return err
	}
}

// tiers are the API's classes of service, in OpenAI's words.
var tiers = map[string]string{"auto": "auto", "standard_only": "default"}

func (p *parser) serviceTier(v *fastjson.Value) *wire.Error { return p.ServiceTier(v, tiers) }

// contextManagement reads which parts of a conversation the API shall clear. Agents ask
// for all thoughts to be kept, which the gateway does in any case.
func (p *parser) contextManagement(v *fastjson.Value) *wire.Error {
	const name = "context_management"
	at := openai.At(name)
	o, err := openai.Object(at, v)
	if err != nil {
		return err
	}
	if edits := o.Get("edits"); !wire.IsNull(edits) {
		list, err := openai.Array(at.Member("edits"), edits)
		if err != nil {
			return err
		}
		for i, edit := range list {
			if openai.Text(edit.Get("type")) != "clear_thinking_20251015" || openai.Text(edit.Get("keep")) != "all" {
				return at.Member("edits").Element(i).Wrong("must be {\"type\":\"clear_thinking_20251015\",\"keep\":\"all\"}. The endpoint's prompt says how much of a history the model gets.")
			}
		}
	}
	p.Ignore(name)
	return nil
}

// attribution begins a system block of agents that differs with each request: Claude
// Code's own first one.
const attribution = "x-anthropic-billing-header:"

func (p *parser) system(v *fastjson.Value) *wire.Error {
	add := func(text providers.Text) {
		if text != "" {
			p.instructions = append(p.instructions, providers.Message{Role: "system", Content: text})
		}
	}
	if v.Type() == fastjson.TypeString {
		add(p.Wire.Literal(v))
		return nil
	}
	list, err := openai.Array(openai.At("system"), v)
	if err != nil {
		return err
	}
	for i, element := range list {
		at := openai.At("system").Element(i)
		o, kind, err := block(at, element)
		if err != nil {
			return err
		}
		if kind != "text" {
			return at.Member("type").Wrong("is %q, but here it must be text.", wire.Clip(kind))
		}
		text, err := p.text(at, o)
		if err != nil {
			return err
		}
		if strings.HasPrefix(string(text), attribution) && p.Caller().Attribution == "" {
			p.Caller().Attribution = text.Plain()
			p.Given("attribution", at.String())
			p.Place(openai.MarkSystem, nil)
			continue
		}
		if p.Marked() {
			part := []providers.Part{{Kind: providers.PartText, Text: text}}
			if p.Place(openai.MarkSystem, part); part[0].Cache > 0 {
				p.instructions = append(p.instructions, providers.Message{Role: "system", Parts: part})
				continue
			}
		}
		add(text)
	}
	return nil
}

// addTurns adds the caller's instructions and turns to the call, with their paths.
func (p *parser) addTurns() {
	t, n := &p.turns, len(p.instructions)
	if n > 0 {
		t.list = append(p.instructions, t.list...)
	}
	p.PlaceMarks(t.list)
	if len(t.list) == 0 {
		return
	}
	p.Call.Turns, p.Call.TurnsParam = t.list, "messages"
	if len(t.list) == n {
		p.Call.TurnsParam = "system"
	}
	if n == 0 && !t.shifted {
		return
	}
	p.Call.TurnParams = make([]string, len(t.list))
	for i := range t.list {
		if i < n {
			p.Call.TurnParams[i] = "system"
			continue
		}
		p.Call.TurnParams[i] = openai.At("messages").Element(t.from[i-n]).String()
	}
}

// AppendError appends an error in the API's shape
// (https://docs.anthropic.com/en/api/errors). details has the gateway's own code, and
// the path of the wrong member.
func (messages) AppendError(dst []byte, e *wire.Error) []byte {
	shown := *e
	if shown.Code == wire.InvalidAPIKey {
		shown = *wire.Unauthorized(false)
		shown.RequestID = e.RequestID
	}
	return appendError(dst, &shown)
}

// unthreaded is the API's own code of a request that it can't thread. Tool runners of
// Anthropic's library begin with a thread, and send whole conversations after it.
const unthreaded = "thread_unsupported_request"

func appendError(dst []byte, e *wire.Error) []byte {
	dst = append(dst, `{"type":"error","error":{"type":"`...)
	dst = append(dst, typeOf(e.Status)...)
	dst = append(dst, '"')
	dst = dialect.AppendMember(dst, "message", messageOf(e))
	code := e.Name
	if e.Code == wire.InvalidRequest && e.Param == "thread" {
		code = unthreaded
	}
	dst = append(dst, `,"details":{"error_code":"`...)
	dst = append(append(dst, code...), '"')
	if e.Param != "" {
		dst = dialect.AppendMember(dst, "param", e.Param)
	}
	dst = append(dst, `}},"request_id":`...)
	id := e.RequestID
	if id == "" {
		id = e.TraceID
	}
	if id == "" {
		return append(dst, "null}"...)
	}
	dst = append(dst, '"')
	return append(append(dst, id...), `"}`...)
}

// messageOf returns the text of an error. That of a prompt that is too long has the API's
// own words, by which agents know that they have to compact the conversation.
func messageOf(e *wire.Error) string {
	switch {
	case e.Code != wire.ContextLengthExceeded:
		return e.Message
	case e.Tokens == 0:
		return "prompt is too long"
	}
	return fmt.Sprintf("prompt is too long: %d tokens > %d maximum", e.Tokens, e.Window)
}

// typeOf returns the API's word for errors of a status. Overloads are those after which
// libraries and agents wait and try again.
func typeOf(status int) string {
	switch status {
	case 401:
		return "authentication_error"
	case 403:
		return "permission_error"
	case 404:
		return "not_found_error"
	case 413:
		return "request_too_large"
	case 429:
		return "rate_limit_error"
	case 503, wire.StatusOverloaded:
		return "overloaded_error"
	case 504:
		return "timeout_error"
	case 0, 500, 502:
		return "api_error"
	}
	return "invalid_request_error"
}
