package openai

import (
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
)

// appendMessage appends a message as the SDK writes it. The role needs no escape.
func appendMessage(body []byte, m providers.Message) []byte {
	body = jsontext.AppendString(append(body, `{"content":`...), m.Content)
	return append(append(append(body, `,"role":"`...), m.Role...), `"}`...)
}

// arrange is how the service wants the messages. Where it wants nothing
// special they are returned as they are; the request's own are never changed.
func (q Quirks) arrange(messages []providers.Message) []providers.Message {
	if !q.DeveloperIsSystem && !q.Alternate {
		return messages
	}
	arranged := make([]providers.Message, len(messages))
	copy(arranged, messages)
	for i := range arranged {
		if arranged[i].Role == "developer" && q.DeveloperIsSystem {
			arranged[i].Role = "system"
		}
	}
	if !q.Alternate {
		return arranged
	}
	turns := make([]providers.Message, 0, len(arranged))
	for _, system := range []bool{true, false} {
		for _, m := range arranged {
			if (m.Role == "system" || m.Role == "developer") != system {
				continue
			}
			if last := len(turns) - 1; last >= 0 && turns[last].Role == m.Role {
				turns[last].Content += "\n\n" + m.Content
				continue
			}
			turns = append(turns, m)
		}
	}
	return turns
}
