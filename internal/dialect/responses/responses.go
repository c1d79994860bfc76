// Package responses is OpenAI's Responses API
// (https://platform.openai.com/docs/api-reference/responses) without its state: the
// gateway keeps no answer, so a caller sends its whole conversation each time.
package responses

import (
	"slices"

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
	return parseBody(r, false)
}

// parseBody reads a request. alone has it answered by a summary alone.
func parseBody(r *wire.Request, alone bool) (*dialect.Call, dialect.Writer, *wire.Error) {
	read := r.Conversation
	if alone {
		read = r.Object // the answer repeats the user's messages
	}
	body, err := read()
	if err != nil {
		return nil, nil, err
	}
	of := new(struct {
		call   dialect.Call
		writer writer
	})
	p := parser{Request: openai.Request{Wire: r, Body: body, Call: &of.call, Flat: true}}
	if err := members.ReadBody(&p, p.Call, body); err != nil {
		return nil, nil, err
	}
	if alone {
		if p.Call.Stream {
			return nil, nil, dialect.Wrong("stream", "must be false: a summary comes whole.")
		}
		p.compacts = true
	}
	p.finish()
	of.writer.callables = p.callables
	of.writer.searches = of.call.Search != nil && of.call.Search.Tool != nil
	of.writer.rest = appendEcho(make([]byte, 0, 768), body, p.Call)
	if !p.compacts {
		return &of.call, &of.writer, nil
	}
	w := &summaryWriter{writer: of.writer, alone: alone}
	if alone {
		w.rest = append(w.rest[:0], '}')
		w.keepUsers(body.Get("input"))
	}
	return &of.call, w, nil
}

// parser reads one request.
type parser struct {
	openai.Request
	instructed   providers.Text // the caller's instructions
	turns        turns
	logprobs     string // the path of the member that asks for log probabilities
	alternatives *int64 // top_logprobs
	toolsRead    bool
	callables    []callable
	compacts     bool // a summary is asked for

	searches             bool   // the choice is the search
	sources, maxSearches string // the paths of members about it
	uses                 *int64 // max_tool_calls
}

// finish adds the parameters that depend on several members.
func (p *parser) finish() {
	switch {
	case p.logprobs != "":
		if p.alternatives == nil {
			p.alternatives = new(int64)
		}
		p.Call.Parameters.Logprobs = p.alternatives
		p.Given("logprobs", p.logprobs)
	case p.alternatives != nil:
		p.Ignore("top_logprobs")
	}
	p.boundSearch()
	p.nameChoice()
	if p.compacts {
		p.askForSummary()
	}
	p.SettleChoice()
	p.addTurns()
}

func (p *parser) maxToolCalls(v *fastjson.Value) (err *wire.Error) {
	p.maxSearches = "max_tool_calls"
	p.Ignore(p.maxSearches) // see boundSearch
	p.uses, err = openai.SearchUses(openai.At(p.maxSearches), v)
	return err
}

func (p *parser) instructions(v *fastjson.Value) *wire.Error {
	if v.Type() != fastjson.TypeString {
		return dialect.Wrong("instructions", "must be a string, not %s.", wire.Describe(v))
	}
	p.instructed = p.Wire.Literal(v)
	return nil
}

func (p *parser) maxTokens(v *fastjson.Value) (err *wire.Error) {
	const most = 100_000_000 // as in definitions
	p.Call.Parameters.MaxTokens, err = openai.Whole(openai.At("max_output_tokens"), v, 1, most)
	p.Given("max_tokens", "max_output_tokens")
	return err
}

func (p *parser) effort(v *fastjson.Value) (err *wire.Error) {
	p.Call.Parameters.ReasoningEffort, err = openai.Effort(openai.At("reasoning.effort"), v)
	p.Given("reasoning_effort", "reasoning.effort")
	return err
}

// summary reads that thoughts are to be shown; how detailed they are is the provider's.
func summary(path string) func(p *parser, v *fastjson.Value) *wire.Error {
	return func(p *parser, v *fastjson.Value) *wire.Error {
		if _, err := openai.String(openai.At(path), v); err != nil {
			return err
		}
		p.Call.Parameters.Thinking = &providers.Thinking{Display: providers.DisplaySummarized}
		p.Given("thinking", path)
		return nil
	}
}

func (p *parser) format(v *fastjson.Value) *wire.Error {
	return openai.FlatFormat(openai.At("text.format"), v, p.Call)
}

// verbosity reads how long an answer should be, which only some models know. Codex always
// sends it.
func (p *parser) verbosity(v *fastjson.Value) *wire.Error {
	if word := openai.Text(v); word != "low" && word != "medium" && word != "high" {
		return dialect.Wrong("text.verbosity", "must be low, medium or high.")
	}
	p.Ignore("text.verbosity")
	return nil
}

func (p *parser) topLogprobs(v *fastjson.Value) (err *wire.Error) {
	const most = 20
	p.alternatives, err = openai.Whole(openai.At("top_logprobs"), v, 0, most)
	return err
}

func (p *parser) include(v *fastjson.Value) *wire.Error {
	at := openai.At("include")
	if v.Type() != fastjson.TypeArray {
		return at.Wrong("must be an array of strings, not %s.", wire.Describe(v))
	}
	for i, element := range v.GetArray() {
		here := at.Element(i)
		switch word := openai.Text(element); word {
		case "message.output_text.logprobs":
			p.logprobs = here.String()
		case "reasoning.encrypted_content":
			// It is in every answer whose provider has it.
		case "web_search_call.action.sources":
			p.sources = here.String()
			p.Ignore(p.sources) // see boundSearch
		case "code_interpreter_call.outputs", "computer_call_output.output.image_url", "file_search_call.results",
			"message.input_image.image_url", "web_search_call.results":
			p.Ignore(here.String())
		default:
			return here.Wrong("must be one of the words of OpenAI's API, such as \"message.output_text.logprobs\".")
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
		for i := range p.Call.Summaries {
			p.Call.Summaries[i]++
		}
	}
	if len(t.list) == 0 {
		return
	}
	p.Call.Turns, p.Call.TurnsParam = t.list, "input"
	if len(t.list) == 1 && p.instructed != "" {
		p.Call.TurnsParam = "instructions"
	}
	if !t.shifted {
		return
	}
	p.Call.TurnParams = make([]string, len(t.items))
	for i, item := range t.items {
		switch item {
		case instructed:
			p.Call.TurnParams[i] = "instructions"
		case whole:
			p.Call.TurnParams[i] = "input"
		default:
			p.Call.TurnParams[i] = openai.At("input").Element(item).String()
		}
	}
}
