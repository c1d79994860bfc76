package definition

import (
	"cmp"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/cadenza-gateway/cadenza/providers"
)

// message is one element of a variant's messages: a message's template, or the place
// where the caller's messages go.
type message struct {
	role string
	// The content: a text, or parts.
	text   *prompt.Template
	source string // of text
	pos    document.Position
	parts  []contentPart

	history *history // not nil: the place, without the members above
}

// Messages renders the messages for a model, with the caller's in their place.
// Where the variant has no place for them they are left out. The error is a
// *prompt.TooLargeError, a *prompt.InvalidError or a *HistoryError.
func (v *Variant) Messages(values *prompt.Values, turns []providers.Message) ([]providers.Message, error) {
	if err := v.checkText(values); err != nil {
		return nil, err
	}
	room := len(v.messages)
	if v.takesHistory {
		room += len(turns) - 1
	}
	messages := make([]providers.Message, 0, room)
	var err error
	for i := range v.messages {
		switch m := &v.messages[i]; {
		case m.history != nil:
			messages, err = m.history.append(messages, turns)
		case m.parts != nil:
			messages, err = m.appendParts(messages, values)
		default:
			messages = append(messages, providers.Message{Role: m.role, Content: m.text.Text(values)})
		}
		if err != nil {
			return nil, err
		}
	}
	if len(messages) == 0 {
		return nil, &HistoryError{"there is none to send: send one at least"}
	}
	return messages, nil
}

// appendParts appends a message of parts, without empty ones. If all are,
// it appends none.
func (m *message) appendParts(messages []providers.Message, values *prompt.Values) ([]providers.Message, error) {
	parts := make([]providers.Part, 0, len(m.parts))
	for i := range m.parts {
		part, has, err := m.parts[i].render(values)
		if err != nil {
			return nil, err
		}
		if has {
			parts = append(parts, part)
		}
	}
	switch {
	case len(parts) == 0:
		return messages, nil
	case len(parts) == 1 && parts[0].Kind == providers.PartText:
		return append(messages, providers.Message{Role: m.role, Content: parts[0].Text}), nil
	}
	return append(messages, providers.Message{Role: m.role, Parts: parts}), nil
}

// roles are the roles a message may have.
var roles = []string{"system", "developer", "user", "assistant"}

func decodeMessages(n *document.Node, vars *prompt.Variables, errs *document.Errors) []message {
	if n.Shape != document.Sequence || len(n.Items) == 0 {
		errs.Add(n, "messages must be a list of {role, content}, with one at least")
		return nil
	}
	messages := make([]message, 0, len(n.Items))
	var place *document.Node
	for _, item := range n.Items {
		if item.Get("history") != nil {
			if place != nil {
				errs.Add(item, "the caller's messages have a place already (%s): they go in once", place.Pos)
				continue
			}
			place = item
			messages = append(messages, message{history: decodeHistory(item, errs)})
			continue
		}
		if !item.CheckMembers(errs, "a message", "role", "content") {
			continue
		}
		role, text := item.Get("role"), item.Get("content")
		if role == nil {
			role = item
		}
		word, _ := role.ReadWord(errs, "role", roles...)
		m := message{role: word}
		switch {
		case text != nil && text.Shape == document.Sequence:
			m.parts = decodeParts(text, word, vars, errs)
		case text == nil || text.Shape != document.Scalar || text.IsNull():
			errs.Add(cmp.Or(text, item), "the content of a message must be text, or a list of parts")
			continue
		default:
			m.text, m.source, m.pos = prompt.Compile(text, vars, errs), text.Text, text.Pos
		}
		messages = append(messages, m)
	}
	return messages
}

// answerMessages adds the messages to the answer that the API gives. The place for the
// caller's is not among them.
func (v *Variant) answerMessages(a *prompt.Answer) {
	first := true
	for i := range v.messages {
		m := &v.messages[i]
		switch {
		case m.history != nil:
			continue
		case v.hasParts:
			item, always := m.item()
			a.Item(item, always)
			continue
		case !first:
			a.Literal(",")
		}
		first = false
		m.answerText(a)
	}
}

func (m *message) answerText(a *prompt.Answer) {
	a.Literal(`{"role":` + quoted(m.role) + `,"content":"`)
	a.Template(m.text)
	a.Literal(`"}`)
}

// item returns the message as an element of the answer, and whether it is always there.
func (m *message) item() (item *prompt.Answer, always bool) {
	item = &prompt.Answer{}
	if m.parts == nil {
		m.answerText(item)
		return item, true
	}
	item.Literal(`{"role":` + quoted(m.role) + `,"content":[`)
	for i := range m.parts {
		p := &m.parts[i]
		item.Item(p.item(), p.always())
		always = always || p.always()
	}
	item.Literal("]}")
	return item, always
}

// eachText calls f for each text of the message.
func (m *message) eachText(f func(t *prompt.Template, source string, pos document.Position)) {
	if m.text != nil {
		f(m.text, m.source, m.pos)
	}
	for i := range m.parts {
		if p := &m.parts[i]; p.text != nil {
			f(p.text, p.source, p.pos)
		}
	}
}

// eachVariable calls f for each variable that the message reads.
func (m *message) eachVariable(vars *prompt.Variables, f func(name string)) {
	m.eachText(func(t *prompt.Template, _ string, _ document.Position) { t.Uses(vars, f) })
	for i := range m.parts {
		if p := &m.parts[i]; p.slot >= 0 {
			f(p.name)
		}
	}
}

// size estimates the bytes of the message's content.
func (m *message) size() int {
	size := len(m.role) + len(m.source)
	for i := range m.parts {
		size += len(m.parts[i].source)
	}
	return size
}

// content returns the message for a definition's content.
func (m *message) content() content {
	switch {
	case m.history != nil:
		return m.history.content()
	case m.parts == nil:
		return content{"role": m.role, "content": m.source}
	}
	parts := make([]content, len(m.parts))
	for i := range m.parts {
		parts[i] = m.parts[i].content()
	}
	return content{"role": m.role, "content": parts}
}
