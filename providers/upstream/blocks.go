package upstream

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
)

// BlockFormat is how a service that takes turns of blocks writes them: Anthropic's
// Messages API, and Bedrock's Converse, which follows it.
//
//	{"role":"user","content":[{"type":"tool_result",…},{"type":"text","text":"And?"}]}
type BlockFormat struct {
	// Text is the JSON of a block of text before the text; a brace ends it.
	Text string
	// Strings writes a text that is alone as a string, without a block.
	Strings bool
	// Call and Result are the JSON of the blocks of a tool call and of a tool's
	// result before the call's id; End ends both. Failed is the member of the result
	// of a tool that failed, with its comma.
	Call, Result, Failed, End string
	// Thinking and ThinkingEnd are around the text and the signature of a thought,
	// Redacted and RedactedEnd around the data of one that is not shown. In answers
	// these are the members ThinkingMember and RedactedMember.
	Thinking, ThinkingEnd, Redacted, RedactedEnd string
	ThinkingMember, RedactedMember               string
	// Found are the types of blocks that searches left. In histories of other APIs they are
	// data of thoughts.
	Found []string
	// Marks are the JSON of a mark for the cache, by its time: a member of the block that
	// it is on, with its comma, or with MarkBehind a block behind that one.
	Marks      [providers.CacheHour + 1]string
	MarkBehind bool
	// ToolsMember is the member of a request that has its tools. Without it the API
	// takes no conversation with calls: Tools are then its first bytes, each tool is
	// Tool, its name, Schema, an empty schema and ToolEnd, and ToolsEnd are the last
	// bytes.
	ToolsMember                            string
	Tools, Tool, Schema, ToolEnd, ToolsEnd string
	// Empty describes the mistake of a conversation without turns or, if the user has
	// to begin it, with one that the assistant begins.
	Empty      string
	UserBegins bool
}

// Blocks writes the messages of a request by appending to Body, because they may hold
// megabytes of images.
type Blocks struct {
	*BlockFormat
	Service *Service
	Body    []byte
	// Media writes an image or a file of message at, with a comma behind it.
	Media func(at int, p *providers.Part) error
	// Apart writes the media of tools' results behind the results of their turn: the
	// model takes none in them.
	Apart bool
	// LeftOut has the messages in which media of results became a text, see
	// providers.LeftOutMedia.
	LeftOut []string
	// Detail reports that an image says how closely to look at it, which no service
	// of this format knows.
	Detail bool
	// Marked reports that parts may be marked for the cache. No text is a string then:
	// a turn with a mark and the same one without it, in the next request, are alike.
	Marked bool
	// Bound leaves out thoughts that are adrift.
	Bound bool
	// Attribution is a first text of the system, before those of the messages.
	Attribution string
	// Uncalled reports that the body has tools because of the calls in its history
	// alone: none of them may be called.
	Uncalled bool

	calls bool // there is a tool call, or the result of one
}

// blockSize estimates the size of a block without its text or data, in bytes.
const blockSize = 96

// Write writes the members messages and system, as far as the form has none, and the
// tools of calls in the history, if the form has none. These are unusedTools, a member
// with its comma, or if it is nil, the members that BlockFormat writes for the names
// of the calls.
func (w *Blocks) Write(f *Form, messages []providers.Message, unusedTools []byte) error {
	w.Body = f.Begin(messages, blockSize)
	if !f.Has("messages") {
		if err := w.turns(Joined(messages)); err != nil {
			return err
		}
	}
	if !f.Has("system") {
		if err := w.system(messages); err != nil {
			return err
		}
	}
	if !w.calls || f.Has(w.ToolsMember) {
		return nil
	}
	if unusedTools != nil {
		w.Body, w.Uncalled = append(w.Body, unusedTools...), true
		return nil
	}
	names := ToolNames(messages)
	if w.Uncalled = len(names) > 0; w.Uncalled {
		w.tools(names)
	}
	return nil
}

// turns writes the member messages.
func (w *Blocks) turns(messages []providers.Message) error {
	w.Body = append(w.Body, `"messages":[`...)
	empty := len(w.Body)
	if err := w.Service.Turns(messages, func(role string, from, to int) error {
		if len(w.Body) > empty {
			w.Body = append(w.Body, ',')
		} else if w.UserBegins && role != "user" {
			return w.Service.Unsendable("%s", w.Empty)
		}
		return w.turn(role, messages, from, to)
	}); err != nil {
		return err
	}
	if len(w.Body) == empty {
		return w.Service.Unsendable("%s", w.Empty)
	}
	w.Body = append(w.Body, ']')
	return nil
}

// turn writes the messages from one to before another as one turn.
func (w *Blocks) turn(role string, messages []providers.Message, from, to int) error {
	w.Body = append(append(append(w.Body, `{"role":"`...), role...), `","content":`...)
	text, alone := OnlyText(messages, from, to)
	alone = alone && !w.Marked
	if alone && w.Strings {
		w.Body = append(text.Append(w.Body), '}')
		return nil
	}
	w.Body = append(w.Body, '[')
	switch {
	case alone:
		w.text(text)
	case role == "user":
		// The results of tools have to come before all else.
		if err := Parts(messages, from, to, w.result); err != nil {
			return err
		}
		if err := Parts(messages, from, to, w.said); err != nil {
			return err
		}
	default:
		if err := Parts(messages, from, to, w.answer); err != nil {
			return err
		}
	}
	w.Body = append(w.Body[:len(w.Body)-1], "]}"...) // without the last comma
	return nil
}

// system writes the member system: the messages of the system and the developer, in
// their order and wherever they are.
func (w *Blocks) system(messages []providers.Message) error {
	texts, err := w.Service.SystemTexts(messages)
	if w.Attribution != "" {
		texts = slices.Insert(texts, 0, providers.Part{Kind: providers.PartText, Text: providers.Escape(w.Attribution)})
	}
	if texts = slices.DeleteFunc(texts, func(p providers.Part) bool { return p.Text.Blank() }); len(texts) == 0 || err != nil {
		return err
	}
	if len(w.Body) > 1 {
		w.Body = append(w.Body, ',')
	}
	w.Body = append(w.Body, `"system":`...)
	if w.Strings && !w.Marked && len(texts) == 1 {
		w.Body = texts[0].Text.Append(w.Body)
		return nil
	}
	w.Body = append(w.Body, '[')
	for i := range texts {
		w.text(texts[i].Text)
		w.mark(texts[i].Cache)
	}
	w.Body[len(w.Body)-1] = ']'
	return nil
}

// mark marks the block that was written last.
func (w *Blocks) mark(c providers.Cache) {
	switch mark := w.Marks[c]; {
	case mark == "" || !w.Marked:
	case w.MarkBehind:
		w.Body = append(append(w.Body, mark...), ',')
	default:
		w.Body = append(append(w.Body[:len(w.Body)-len("},")], mark...), "},"...)
	}
}

// SystemTexts returns the texts of the messages of the system and the developer that
// are not empty. The error is that of a part which is no text.
func (s *Service) SystemTexts(messages []providers.Message) (texts []providers.Part, err error) {
	for at := range messages {
		m := &messages[at]
		if m.Role != "system" && m.Role != "developer" {
			continue
		}
		if m.Content != "" {
			texts = append(texts, providers.Part{Kind: providers.PartText, Text: m.Content})
		}
		for i := range m.Parts {
			if m.Parts[i].Kind != providers.PartText {
				return nil, s.Lacks(at, m.Parts[i].Kind.String()+" of the system")
			}
			if m.Parts[i].Text != "" {
				texts = append(texts, m.Parts[i])
			}
		}
	}
	return texts, nil
}

// Lacks returns the error for a part of message at that the service does not take.
func (s *Service) Lacks(at int, part string) error { return providers.LacksPart(s.Name, at, part) }

// text writes a block of text, and a comma behind it as all blocks are. The services
// reject one of white space.
func (w *Blocks) text(text providers.Text) {
	if !text.Blank() {
		w.Body = append(text.Append(append(w.Body, w.Text...)), "},"...)
	}
}

// answer writes a part of the assistant's.
func (w *Blocks) answer(at int, p *providers.Part) (err error) {
	before := len(w.Body)
	switch p.Kind {
	case providers.PartText:
		w.text(p.Text)
		if p.Raw != "" && len(w.Body) > before {
			w.Body = append(append(w.Body[:len(w.Body)-len("},")], `,"citations":`...), p.Raw...)
			w.Body = append(w.Body, "},"...)
		}
	case providers.PartFound:
		w.Body = append(append(w.Body, p.Raw...), ',')
	case providers.PartThinking:
		if !w.Bound || !p.Adrift {
			w.thought(p.Opaque)
		}
	case providers.PartToolCall:
		w.calls = true
		w.Body = jsontext.AppendString(append(w.Body, w.Call...), ToolID(p.Call.ID))
		w.Body = append(jsontext.AppendString(append(w.Body, `,"name":`...), p.Call.Name), `,"input":`...)
		w.Body, err = w.Service.AppendInput(w.Body, at, p.Call.Arguments)
		w.Body = append(append(w.Body, w.End...), ',')
	default:
		return w.Service.Lacks(at, p.Kind.String()+" of the assistant")
	}
	if len(w.Body) > before && err == nil {
		w.mark(p.Cache)
	}
	return err
}

// thought writes a block of a thought, or of a search, as it came. Without its signature
// a thought is nothing to the model.
func (w *Blocks) thought(block string) {
	ours := strings.HasPrefix(block, w.Thinking) || strings.HasPrefix(block, w.Redacted) ||
		w.Found != nil && slices.Contains(w.Found, fastjson.GetString([]byte(block), "type"))
	if ours && json.Valid([]byte(block)) {
		w.Body = append(append(w.Body, block...), ',')
	}
}

// result writes a part of the user's turn that is the result of a tool.
func (w *Blocks) result(at int, p *providers.Part) error {
	if p.Kind != providers.PartToolResult {
		return nil
	}
	w.calls = true
	r := &p.Result
	w.Body = jsontext.AppendString(append(w.Body, w.Result...), ToolID(r.Call))
	switch {
	case w.Strings && len(r.Content) == 0:
	case w.Strings && len(r.Content) == 1 && r.Content[0].Kind == providers.PartText:
		w.Body = r.Content[0].Text.Append(append(w.Body, `,"content":`...))
	default:
		w.Body = append(w.Body, `,"content":[`...)
		empty := len(w.Body)
		for i := range r.Content {
			switch c := &r.Content[i]; {
			case !c.IsMedia():
				if err := w.said(at, c); err != nil {
					return err
				}
			case w.Apart:
				w.text(c.Attached())
			default:
				if err := w.show(at, c); err != nil {
					return err
				}
			}
		}
		w.Body = append(w.Body[:max(empty, len(w.Body)-1)], ']')
	}
	if r.Failed {
		w.Body = append(w.Body, w.Failed...)
	}
	w.Body = append(append(w.Body, w.End...), ',')
	w.mark(p.Cache)
	return nil
}

// show writes a medium of a result or, if the service takes no such one, a text.
func (w *Blocks) show(at int, p *providers.Part) error {
	from := len(w.Body)
	err := w.said(at, p)
	if e, ok := errors.AsType[*providers.Error](err); !ok || e.Lacks == "" {
		return err
	}
	w.Body = w.Body[:from]
	w.text(p.Unshown())
	if name := providers.LeftOutMedia(at); !slices.Contains(w.LeftOut, name) {
		w.LeftOut = append(w.LeftOut, name)
	}
	return nil
}

// attached writes the media of a result that follow the results.
func (w *Blocks) attached(at int, r *providers.ToolResult) error {
	begun := false
	for i := range r.Content {
		c := &r.Content[i]
		if !c.IsMedia() {
			continue
		}
		if !begun {
			w.text(r.Attachment())
			begun = true
		}
		if err := w.show(at, c); err != nil {
			return err
		}
	}
	return nil
}

// said writes any other part of the user's turn, or a part of a result.
func (w *Blocks) said(at int, p *providers.Part) (err error) {
	before := len(w.Body)
	switch p.Kind {
	case providers.PartText:
		w.text(p.Text)
	case providers.PartImage, providers.PartFile:
		// All images are looked at in the same way, as auto asks.
		w.Detail = w.Detail || p.Media.Detail != "" && p.Media.Detail != "auto"
		err = w.Media(at, p)
	case providers.PartToolResult: // written before, but for its media
		if w.Apart {
			err = w.attached(at, &p.Result)
		}
	default:
		err = w.Service.Lacks(at, p.Kind.String())
	}
	if len(w.Body) > before && err == nil {
		w.mark(p.Cache)
	}
	return err
}

// tools writes tools of these names, of which none may be called.
func (w *Blocks) tools(names []string) {
	w.Body = append(w.Body, w.Tools...)
	for i, name := range names {
		if i > 0 {
			w.Body = append(w.Body, ',')
		}
		w.Body = append(jsontext.AppendString(append(w.Body, w.Tool...), name), w.Schema...)
		w.Body = append(append(w.Body, providers.NoArguments...), w.ToolEnd...)
	}
	w.Body = append(w.Body, w.ToolsEnd...)
}
