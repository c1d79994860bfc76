// Package responses is OpenAI's Responses API without its state: the gateway keeps no
// answer, so a caller sends its whole conversation each time.
package responses

import (
	"slices"
	"strconv"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// Dialect is OpenAI's Responses API.
var Dialect dialect.Dialect = responses{}

type responses struct{}

// AppendError appends an error's own body, which has OpenAI's members.
func (responses) AppendError(dst []byte, e *wire.Error) []byte { return e.AppendJSON(dst) }

// Parse reads the body of a request for an endpoint's answer.
func (responses) Parse(r *wire.Request) (*dialect.Call, dialect.Writer, *wire.Error) {
	body, err := r.Object()
	if err != nil {
		return nil, nil, err
	}
	of := new(struct {
		call   dialect.Call
		writer writer
	})
	p := parser{request: r, body: body, call: &of.call}
	if err := members.Read(&p, p.call, "", body); err != nil {
		return nil, nil, err
	}
	if of.call.Endpoint == "" {
		_, _, err := openai.Model(nil)
		return nil, nil, err
	}
	p.finish()
	if of.call.Context == nil {
		// The libraries have a parameter for metadata, and none for context.
		of.call.Context = of.call.Metadata
	}
	of.writer.rest = appendEcho(make([]byte, 0, 768), body)
	return &of.call, &of.writer, nil
}

// parser reads one request.
type parser struct {
	request *wire.Request
	body    *fastjson.Object
	call    *dialect.Call

	instructed   string // the caller's instructions
	turns        turns
	logprobs     string // the path of what asks for log probabilities
	alternatives *int64 // top_logprobs
}

func (p *parser) ignore(path string) { p.call.Ignored = append(p.call.Ignored, path) }

func (p *parser) given(name, path string) {
	p.call.Given = append(p.call.Given, dialect.Given{Name: name, Param: path})
}

// finish adds what several members say together.
func (p *parser) finish() {
	switch {
	case p.logprobs != "":
		if p.alternatives == nil {
			p.alternatives = new(int64)
		}
		p.call.Parameters.Logprobs = p.alternatives
		p.given("logprobs", p.logprobs)
	case p.alternatives != nil:
		p.ignore("top_logprobs")
	}
	p.addTurns()
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

func (p *parser) metadata(*fastjson.Value) (err *wire.Error) {
	p.call.Metadata, err = p.request.MetadataMember(p.body)
	return err
}

func (p *parser) variables(*fastjson.Value) (err *wire.Error) {
	p.call.Variables, err = wire.ObjectMember(p.body, "variables")
	return err
}

// user reads safety_identifier, or user, which is its old name.
func (p *parser) user(v *fastjson.Value) *wire.Error {
	own := p.body.Get("safety_identifier")
	if v == own {
		var err *wire.Error
		p.call.User, err = openai.User("safety_identifier", v)
		p.call.UserParam = "safety_identifier"
		return err
	}
	user, err := openai.User("user", v)
	if err != nil {
		return err
	}
	if !wire.IsNull(own) {
		p.ignore("user")
		return nil
	}
	p.call.User, p.call.UserParam = user, "user"
	return nil
}

func (p *parser) instructions(v *fastjson.Value) *wire.Error {
	if v.Type() != fastjson.TypeString {
		return dialect.Wrong("instructions", "must be a string, not %s.", wire.Describe(v))
	}
	p.instructed = openai.Text(v)
	return nil
}

func (p *parser) maxTokens(v *fastjson.Value) (err *wire.Error) {
	const most = 100_000_000 // as in definitions
	p.call.Parameters.MaxTokens, err = openai.Whole("max_output_tokens", v, 1, most)
	p.given("max_tokens", "max_output_tokens")
	return err
}

func (p *parser) effort(v *fastjson.Value) (err *wire.Error) {
	p.call.Parameters.ReasoningEffort, err = openai.Effort("reasoning.effort", v)
	p.given("reasoning_effort", "reasoning.effort")
	return err
}

func (p *parser) format(v *fastjson.Value) *wire.Error {
	return openai.FlatFormat("text.format", v, p.call)
}

// verbosity reads how long an answer should be, which only some models know.
func (p *parser) verbosity(v *fastjson.Value) *wire.Error {
	if openai.Text(v) != "medium" {
		return dialect.Wrong("text.verbosity", "must be \"medium\": only some models have others. Have the endpoint's definition set it in extra.")
	}
	p.ignore("text.verbosity")
	return nil
}

// serviceTier reads what a caller pays for speed, which is the definition's to say.
func (p *parser) serviceTier(v *fastjson.Value) *wire.Error {
	if tier := openai.Text(v); tier != "auto" && tier != "default" {
		return dialect.Wrong("service_tier", "must be \"auto\" or \"default\". Have the endpoint's definition set any other in extra.")
	}
	p.ignore("service_tier")
	return nil
}

// obfuscation reads whether events are padded, which they are not.
func (p *parser) obfuscation(v *fastjson.Value) *wire.Error {
	pad, err := openai.Bool("stream_options.include_obfuscation", v)
	if pad {
		p.ignore("stream_options.include_obfuscation")
	}
	return err
}

func (p *parser) tools(v *fastjson.Value) (err *wire.Error) {
	if p.call.Parameters.Tools, err = openai.FlatTools("tools", v); p.call.Parameters.Tools != nil {
		p.given("tools", "tools")
	}
	return err
}

func (p *parser) toolChoice(v *fastjson.Value) (err *wire.Error) {
	p.call.Parameters.ToolChoice, err = openai.FlatToolChoice("tool_choice", v)
	p.given("tool_choice", "tool_choice")
	return err
}

func (p *parser) topLogprobs(v *fastjson.Value) (err *wire.Error) {
	const most = 20
	p.alternatives, err = openai.Whole("top_logprobs", v, 0, most)
	return err
}

func (p *parser) include(v *fastjson.Value) *wire.Error {
	if v.Type() != fastjson.TypeArray {
		return dialect.Wrong("include", "must be an array of strings, not %s.", wire.Describe(v))
	}
	for i, element := range v.GetArray() {
		path := func() string { return "include[" + strconv.Itoa(i) + "]" }
		switch word := openai.Text(element); word {
		case "message.output_text.logprobs":
			p.logprobs = path()
		case "reasoning.encrypted_content":
			// It is in every answer whose provider has it.
		case "code_interpreter_call.outputs", "computer_call_output.output.image_url", "file_search_call.results",
			"message.input_image.image_url", "web_search_call.action.sources", "web_search_call.results":
			p.ignore(path())
		default:
			return dialect.Wrong(path(), "must be one of the words of OpenAI's API, such as \"message.output_text.logprobs\".")
		}
	}
	return nil
}

// addTurns adds the caller's instructions and turns to the call, with their paths.
func (p *parser) addTurns() {
	t := &p.turns
	if p.instructed != "" {
		t.list = slices.Insert(t.list, 0, providers.Message{Role: "system", Content: p.instructed})
		t.items = slices.Insert(t.items, 0, instructed)
		t.shifted = true
	}
	if len(t.list) == 0 {
		return
	}
	p.call.Turns, p.call.TurnsParam = t.list, "input"
	if len(t.list) == 1 && p.instructed != "" {
		p.call.TurnsParam = "instructions"
	}
	if !t.shifted {
		return
	}
	p.call.TurnParams = make([]string, len(t.items))
	for i, item := range t.items {
		switch item {
		case instructed:
			p.call.TurnParams[i] = "instructions"
		case whole:
			p.call.TurnParams[i] = "input"
		default:
			p.call.TurnParams[i] = place{item: item}.Member("")
		}
	}
}
