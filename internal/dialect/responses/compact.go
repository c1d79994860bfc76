package responses

import (
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// Compact is POST /v1/responses/compact: the endpoint's model writes a summary of a
// conversation, which an agent sends back in place of it.
var Compact dialect.Dialect = compact{}

type compact struct{ responses }

// Parse reads the body of a request for a summary. It has the members of a request for a
// response.
func (compact) Parse(r *wire.Request) (*dialect.Call, dialect.Writer, *wire.Error) {
	return parseBody(r, true)
}

// compactPrompt asks for a summary, after the conversation.
var compactPrompt = providers.Escape(`Write a summary of the conversation above, by which another model that sees nothing else of it can go on with the task.
Say what the user wants, in the user's own words where they matter; what was done, found and decided, with the names of files, functions, commands and values; what failed, and why; and what remains to be done, in its order.
Call no tool. Answer with the summary alone.`)

// The types of items of compaction.
const (
	compactionTrigger = "compaction_trigger"
	compactionItem    = "compaction"
	olderCompaction   = "compaction_summary"
)

// summary reads an item with a summary. The gateway opens it.
func (p *parser) summary(index int, at *openai.Path, o *fastjson.Object) *wire.Error {
	if err := p.only(at, o, itemMembers, "encrypted_content", "created_by"); err != nil {
		return err
	}
	sealed, err := openai.Filled(at.Member("encrypted_content"), o.Get("encrypted_content"))
	if err != nil {
		return err
	}
	t := &p.turns
	if err := t.answered(); err != nil {
		return err
	}
	t.close()
	t.calls = t.calls[:0]
	t.parts = append(t.parts, providers.Part{Kind: providers.PartText, Opaque: sealed})
	n := len(t.parts)
	t.add(providers.Message{Role: "user", Parts: t.parts[n-1 : n : n]}, index)
	p.Call.Summaries = append(p.Call.Summaries, len(t.list)-1)
	return nil
}

// askForSummary makes the call one for a summary: as the conversation goes on, so that
// providers' caches have it, but without calls and of no form.
func (p *parser) askForSummary() {
	p.Call.Compacts = true
	p.turns.add(providers.Message{Role: "user", Content: compactPrompt}, whole)
	if p.Call.Parameters.ResponseFormat != nil {
		p.Call.Parameters.ResponseFormat = nil
		p.TakeBack("response_format")
		p.Ignore("text.format")
	}
	if p.Call.Parameters.ToolChoice != nil {
		p.TakeBack("tool_choice")
		p.Ignore("tool_choice")
		p.Call.Parameters.ToolChoice = nil
	}
	if len(p.Call.Parameters.Tools) > 0 {
		p.Call.Parameters.ToolChoice = &providers.ToolChoice{Mode: providers.ToolsNone}
		p.Given("tool_choice", "tools")
	}
}

// summaryWriter writes an answer that is one item, the sealed summary. It is known at its
// end.
type summaryWriter struct {
	writer
	alone bool   // the answer is no response, see Compact
	users []byte // the user's messages, as the inside of a list: they stay in the conversation
	said  []byte
}

// keepUsers keeps the user's messages of a request.
func (w *summaryWriter) keepUsers(input *fastjson.Value) {
	if text := openai.Text(input); text != "" {
		w.users = append(w.users, `{"type":"message","role":"user","content":[{"type":"input_text","text":`...)
		w.users = append(jsontext.AppendString(w.users, text), `}]}`...)
	}
	for _, item := range input.GetArray() {
		if kind := openai.Text(item.Get("type")); (kind == "" || kind == "message") && openai.Text(item.Get("role")) == "user" {
			w.users = jsontext.AppendValue(separate(w.users), item)
		}
	}
}

// Pieces is false: the summary is sealed as a whole.
func (w *summaryWriter) Pieces() bool { return false }

// Held returns how many bytes the writer keeps, and will append beside the summary.
func (w *summaryWriter) Held() int { return w.writer.Held() + len(w.users) + 6*len(w.said) }

// Answer appends the body of a whole answer.
func (w *summaryWriter) Answer(dst []byte, a *dialect.Answer) []byte {
	if w.alone {
		dst = append(a.AppendID(append(dst, `{"id":"resp_`...)), `","object":"response.compaction","created_at":`...)
		dst = strconv.AppendInt(dst, a.Time.Unix(), 10)
		dst = append(append(dst, `,"output":[`...), w.users...)
		if len(w.users) > 0 {
			dst = append(dst, ',')
		}
	} else {
		dst = appendStart(dst, a, completed, nil)
	}
	dst = appendSummary(appendItemStart(dst, a, compacted, 0), a.Seal(a.Content))
	return w.appendEnd(dst, a)
}

// Delta appends the beginning of the stream, and keeps the piece.
func (w *summaryWriter) Delta(dst []byte, a *dialect.Answer, d providers.Delta) []byte {
	w.said = append(w.said, d.Content...)
	return w.begin(dst, a)
}

// Finish appends the item and the whole response. Without a summary the stream has failed:
// an agent would go on without its conversation.
func (w *summaryWriter) Finish(dst []byte, a *dialect.Answer) []byte {
	dst = w.begin(dst, a)
	if len(w.said) == 0 {
		w.said = append(w.said, a.Content...)
	}
	if len(w.said) == 0 {
		return w.Fail(dst, a, NoSummary())
	}
	dst = appendSummary(w.add(dst, a, compacted), "")
	dst = endEvent(dst)
	start := w.keep(a)
	w.output = appendSummary(w.output, a.Seal(string(w.said)))
	dst = w.endItem(dst, start)
	dst = append(w.event(dst, "response.completed"), `,"response":`...)
	dst = append(appendStart(dst, a, completed, nil), w.output...)
	return endEvent(w.appendEnd(dst, a))
}

// NoSummary returns the error of a model that wrote no summary.
func NoSummary() *wire.Error {
	return wire.Errorf(wire.UpstreamInvalidResponse, "", "The model wrote no summary. Send the request again.")
}

func appendSummary(dst []byte, sealed string) []byte {
	return append(dialect.AppendMember(dst, "encrypted_content", sealed), '}')
}

// summarized begins the text that a summary becomes for the model.
const summarized = "The conversation before this was summarized:\n\n"

// OpenSummaries puts the text into the messages that are summaries. One that the gateway
// has not sealed is refused: nothing else says what was before it.
func OpenSummaries(sealer dialect.Sealer, c *dialect.Call) *wire.Error {
	for _, i := range c.Summaries {
		m := &c.Turns[i]
		origin, text, ok := sealer.Unseal(m.Parts[0].Opaque)
		if !ok || origin != dialect.SummaryOrigin {
			return dialect.Wrong(c.Turn(i)+".encrypted_content", "is no summary of this gateway, so that no model can read it. Send the conversation itself.")
		}
		m.Content, m.Parts = providers.Escape(summarized+strings.TrimSpace(text)), nil
	}
	c.Summaries = nil
	return nil
}
