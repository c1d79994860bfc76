package definition

import (
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/cadenza-gateway/cadenza/providers"
)

// message is one element of a variant's messages: a message's template, or the place
// where those of the caller go.
type message struct {
	role   string
	text   *prompt.Template
	source string
	pos    document.Position

	history *history // not nil: the place, without the members above
}

// Messages renders the messages for a model, with those of the caller in their place.
// Where the variant has no place for them they are left out. The error is a
// *prompt.TooLargeError or a *HistoryError.
func (v *Variant) Messages(values *prompt.Values, turns []providers.Message) ([]providers.Message, error) {
	if err := v.checkText(values); err != nil {
		return nil, err
	}
	room := len(v.messages)
	if v.takesHistory {
		room += len(turns) - 1
	}
	messages := make([]providers.Message, 0, room)
	for i := range v.messages {
		m := &v.messages[i]
		if m.history == nil {
			messages = append(messages, providers.Message{Role: m.role, Content: m.text.Text(values)})
			continue
		}
		var err error
		if messages, err = m.history.append(messages, turns); err != nil {
			return nil, err
		}
	}
	if len(messages) == 0 {
		return nil, &HistoryError{"there is none to send: send one at least"}
	}
	return messages, nil
}

// TakesHistory reports whether the variant has a place for the caller's messages.
func (v *Variant) TakesHistory() bool { return v.takesHistory }

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
		if text == nil || text.Shape != document.Scalar || text.IsNull() {
			at := text
			if at == nil {
				at = item
			}
			errs.Add(at, "the content of a message must be text")
			continue
		}
		messages = append(messages, message{role: word, text: prompt.Compile(text, vars, errs), source: text.Text, pos: text.Pos})
	}
	return messages
}

// appendTo adds the message to the answer that the API gives, after a comma unless it
// is the first. The place for the caller's messages is not in it.
func (m *message) appendTo(a *prompt.Answer, first bool) {
	if !first {
		a.Literal(",")
	}
	a.Literal(`{"role":` + quoted(m.role) + `,"content":"`)
	a.Template(m.text)
	a.Literal(`"}`)
}

// content returns the message for a definition's content.
func (m *message) content() content {
	if m.history != nil {
		return m.history.content()
	}
	return content{"role": m.role, "content": m.source}
}
