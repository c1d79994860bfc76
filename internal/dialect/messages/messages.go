// Package messages is Anthropic's Messages API.
package messages

import (
	"strconv"

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
	body, err := r.Object()
	if err != nil {
		return nil, nil, err
	}
	w := &writer{}
	p := parser{request: r, body: body, call: &w.call}
	if err := members.Read(&p, p.call, "", body); err != nil {
		return nil, nil, err
	}
	if w.call.Endpoint == "" {
		_, _, err := openai.Model(nil)
		return nil, nil, err
	}
	p.finish()
	if w.call.Context == nil {
		// The libraries have a parameter for metadata, and none for context.
		w.call.Context = w.call.Metadata
	}
	return &w.call, w, nil
}

// parser reads one request.
type parser struct {
	request *wire.Request
	body    *fastjson.Object
	call    *dialect.Call

	instructions []providers.Message // the caller's system blocks
	turns        turns
	effort       string // what thinking comes to; empty where it says nothing of it
	effortAt     string // the path of what says so
}

func (p *parser) ignore(path string) { p.call.Ignored = append(p.call.Ignored, path) }

func (p *parser) given(name, path string) {
	p.call.Given = append(p.call.Given, dialect.Given{Name: name, Param: path})
}

// finish adds what several members say together.
func (p *parser) finish() {
	switch set := &p.call.Parameters.ReasoningEffort; {
	case p.effort == "":
	case *set == "" || p.effort == "none":
		if *set != "" {
			// Both are one parameter in definitions, and without thoughts there is no effort.
			p.withdraw("reasoning_effort")
			p.ignore("output_config.effort")
		}
		*set = p.effort
		p.given("reasoning_effort", p.effortAt)
	default:
		p.ignore(p.effortAt)
	}
	p.addTurns()
}

// withdraw takes a parameter out of what is given.
func (p *parser) withdraw(name string) {
	for i, g := range p.call.Given {
		if g.Name == name {
			p.call.Given = append(p.call.Given[:i], p.call.Given[i+1:]...)
			return
		}
	}
}

func (p *parser) model(v *fastjson.Value) (err *wire.Error) {
	p.call.EndpointParam = "model"
	p.call.Endpoint, p.call.Variant, err = openai.Model(v)
	return err
}

func (p *parser) stream(v *fastjson.Value) (err *wire.Error) {
	p.call.Stream, err = openai.Bool("stream", v)
	return err
}

func (p *parser) context(*fastjson.Value) (err *wire.Error) {
	p.call.Context, err = wire.ObjectMember(p.body, "context")
	return err
}

func (p *parser) variables(*fastjson.Value) (err *wire.Error) {
	p.call.Variables, err = wire.ObjectMember(p.body, "variables")
	return err
}

func (p *parser) metadata(v *fastjson.Value) (err *wire.Error) {
	if p.call.Metadata, err = p.request.MetadataMember(p.body); err != nil {
		return err
	}
	if user := v.Get("user_id"); !wire.IsNull(user) {
		p.call.UserParam = "metadata.user_id"
		p.call.User, err = openai.User(p.call.UserParam, user)
	}
	return err
}

func (p *parser) stop(v *fastjson.Value) *wire.Error {
	const most = 4 // as in definitions
	list, err := openai.Array("stop_sequences", v)
	if err != nil || len(list) == 0 {
		return err
	}
	if len(list) > most {
		return dialect.Wrong("stop_sequences", "has %d texts, but at most %d are possible.", len(list), most)
	}
	for i, element := range list {
		text := openai.Text(element)
		if text == "" {
			return dialect.Wrong("stop_sequences["+strconv.Itoa(i)+"]", "must be a string that is not empty.")
		}
		p.call.Parameters.Stop = append(p.call.Parameters.Stop, text)
	}
	p.given("stop", "stop_sequences")
	return nil
}

// thinking reads whether the model is to think, which the effort says in definitions.
func (p *parser) thinking(v *fastjson.Value) *wire.Error {
	o, err := openai.Object("thinking", v)
	if err != nil {
		return err
	}
	switch kind := openai.Text(o.Get("type")); kind {
	case "disabled":
		p.effort, p.effortAt = "none", "thinking.type"
	case "enabled":
		if wire.IsNull(o.Get("budget_tokens")) {
			return dialect.Wrong("thinking.budget_tokens", "is required: a whole number.")
		}
		budget, err := openai.Whole("thinking.budget_tokens", o.Get("budget_tokens"), 1, mostTokens)
		if err != nil {
			return err
		}
		p.effort, p.effortAt = effortOf(*budget), "thinking.budget_tokens"
	case "adaptive":
		// So it is where nothing is said of it, on models that think.
		p.ignore("thinking.type")
	default:
		return dialect.Wrong("thinking.type", "is %q, but must be enabled, adaptive or disabled.", wire.Clip(kind))
	}
	o.Visit(func(key []byte, v *fastjson.Value) {
		if err != nil || v.Type() == fastjson.TypeNull {
			return
		}
		switch name := string(key); {
		case name == "type", name == "budget_tokens" && p.effortAt == "thinking.budget_tokens":
		case name == "budget_tokens", name == "display":
			p.ignore("thinking." + name)
		default:
			err = openai.Unknown("thinking.", name)
		}
	})
	return err
}

// mostTokens bounds numbers of tokens, as in definitions.
const mostTokens = 100_000_000

// effortOf returns the effort that comes closest to a budget of thinking tokens.
func effortOf(budget int64) string {
	switch {
	case budget < 4096:
		return "low"
	case budget < 16384:
		return "medium"
	}
	return "high"
}

func (p *parser) outputEffort(v *fastjson.Value) (err *wire.Error) {
	p.call.Parameters.ReasoningEffort, err = openai.Effort("output_config.effort", v)
	p.given("reasoning_effort", "output_config.effort")
	return err
}

// format reads {"type":"json_schema","schema":…} at the path.
func format(path string) func(p *parser, v *fastjson.Value) *wire.Error {
	return func(p *parser, v *fastjson.Value) *wire.Error {
		o, err := openai.Object(path, v)
		if err != nil {
			return err
		}
		if kind := openai.Text(o.Get("type")); kind != "json_schema" {
			return dialect.Wrong(path+".type", "is %q, but must be json_schema.", wire.Clip(kind))
		}
		if err := onlyOf(path, o, "type", "schema"); err != nil {
			return err
		}
		if p.call.Parameters.ResponseFormat != nil {
			return dialect.Wrong(path, "is there twice: output_format is an older name of output_config.format. Send one of them.")
		}
		schema, err := openai.Schema(path+".schema", o.Get("schema"))
		// The API has no name for it, and other providers need one.
		p.call.Parameters.ResponseFormat = &providers.ResponseFormat{Type: providers.FormatSchema, Name: "answer", Schema: schema, Strict: true}
		p.given("response_format", path)
		return err
	}
}

// serviceTier reads what a caller pays for speed, which is the definition's to say.
func (p *parser) serviceTier(v *fastjson.Value) *wire.Error {
	if tier := openai.Text(v); tier != "auto" && tier != "standard_only" {
		return dialect.Wrong("service_tier", "must be \"auto\" or \"standard_only\".")
	}
	p.ignore("service_tier")
	return nil
}

// contextManagement reads what the API is to clear of a conversation. Agents ask for all
// thoughts to be kept, which is so in any case.
func (p *parser) contextManagement(v *fastjson.Value) *wire.Error {
	const name = "context_management"
	o, err := openai.Object(name, v)
	if err != nil {
		return err
	}
	if err := onlyOf(name, o, "edits"); err != nil {
		return err
	}
	if edits := o.Get("edits"); !wire.IsNull(edits) {
		list, err := openai.Array(name+".edits", edits)
		if err != nil {
			return err
		}
		for i, edit := range list {
			if openai.Text(edit.Get("type")) != "clear_thinking_20251015" || openai.Text(edit.Get("keep")) != "all" {
				return dialect.Wrong(name+".edits["+strconv.Itoa(i)+"]", "must be {\"type\":\"clear_thinking_20251015\",\"keep\":\"all\"}. The endpoint's prompt says how much of a history the model gets.")
			}
		}
	}
	p.ignore(name)
	return nil
}

func (p *parser) system(v *fastjson.Value) *wire.Error {
	add := func(text string) {
		if text != "" {
			p.instructions = append(p.instructions, providers.Message{Role: "system", Content: text})
		}
	}
	if v.Type() == fastjson.TypeString {
		add(openai.Text(v))
		return nil
	}
	list, err := openai.Array("system", v)
	if err != nil {
		return err
	}
	for i, element := range list {
		at := place{message: inSystem, block: i}
		o, kind, err := block(at, element)
		if err != nil {
			return err
		}
		if kind != "text" {
			return dialect.Wrong(at.Member("type"), "is %q, but here it must be text.", wire.Clip(kind))
		}
		text, err := p.text(at, o)
		if err != nil {
			return err
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
	if len(t.list) == 0 {
		return
	}
	p.call.Turns, p.call.TurnsParam = t.list, "messages"
	if len(t.list) == n {
		p.call.TurnsParam = "system"
	}
	if n == 0 && !t.shifted {
		return
	}
	p.call.TurnParams = make([]string, len(t.list))
	for i := range t.list {
		if i < n {
			p.call.TurnParams[i] = "system"
			continue
		}
		p.call.TurnParams[i] = place{message: t.from[i-n], block: whole}.Member("")
	}
}

// AppendError appends an error in the API's shape. details has the gateway's own code,
// and the path of what is wrong.
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
	dst = appendMember(dst, "message", e.Message)
	code := e.Name
	if e.Code == wire.InvalidRequest && e.Param == "thread" {
		code = unthreaded
	}
	dst = append(dst, `,"details":{"error_code":"`...)
	dst = append(append(dst, code...), '"')
	if e.Param != "" {
		dst = appendMember(dst, "param", e.Param)
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

// typeOf returns the API's word for errors of a status. Overloads are those after which
// libraries and agents wait and try again.
func typeOf(status int) string {
	switch status {
	case 401:
		return "authentication_error"
	case 404:
		return "not_found_error"
	case 413:
		return "request_too_large"
	case 429:
		return "rate_limit_error"
	case 503:
		return "overloaded_error"
	case 504:
		return "timeout_error"
	case 0, 500, 502:
		return "api_error"
	}
	return "invalid_request_error"
}
