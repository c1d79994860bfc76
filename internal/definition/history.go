package definition

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/providers"
)

// history is the place of the caller's messages among a variant's, and how
// many of them.
type history struct {
	roles       []string // nil: all
	maxMessages int      // 0: all
	maxBytes    int      // 0: all
}

// HistoryError is the error for messages of a caller that a prompt can't place.
type HistoryError struct {
	reason string
}

// Error says why the messages can't be placed.
func (e *HistoryError) Error() string { return e.reason }

// The bounds of a place for the caller's messages.
const (
	maxHistoryMessages = 100_000
	maxHistoryBytes    = maxAcceptedBody
)

// turnRoles are the roles of a caller's messages.
var turnRoles = []string{"user", "assistant", "tool", "system", "developer"}

// decodeHistory reads the place for the caller's messages.
func decodeHistory(n *document.Node, errs *document.Errors) *history {
	h := &history{}
	n.CheckMembers(errs, "the place for the caller's messages", "history", "roles", "max_messages", "max_bytes")
	if here, ok := n.Get("history").ReadBool(errs, "history"); ok && !here {
		errs.Add(n.Get("history"), "history must be true: for no place leave the element out")
	}
	if m := n.Get("roles"); m != nil {
		h.roles = decodeRoles(m, errs)
	}
	h.maxMessages = int(readWhole(n.Get("max_messages"), "max_messages", 1, maxHistoryMessages, errs))
	if m := n.Get("max_bytes"); m != nil {
		size, _ := readSize(m, "max_bytes", maxHistoryBytes, errs)
		h.maxBytes = int(size)
	}
	return h
}

func decodeRoles(n *document.Node, errs *document.Errors) []string {
	if n.Shape != document.Sequence || len(n.Items) == 0 {
		errs.Add(n, "roles must be a list such as [user, assistant], this is %s", n.Describe())
		return nil
	}
	var list []string
	for _, item := range n.Items {
		if role, ok := item.ReadWord(errs, "a role", turnRoles...); ok && !slices.Contains(list, role) {
			list = append(list, role)
		}
	}
	if slices.Contains(list, "tool") && !slices.Contains(list, "assistant") {
		errs.Add(n, "tool needs assistant: a tool's result means nothing without the call that it answers")
	}
	// In one order, so that the same roles have the same version.
	slices.SortFunc(list, func(a, b string) int { return slices.Index(turnRoles, a) - slices.Index(turnRoles, b) })
	return list
}

// content returns the place for the content of a variant.
func (h *history) content() content {
	c := content{"history": true}
	if h.roles != nil {
		c["roles"] = h.roles
	}
	if h.maxMessages > 0 {
		c["max_messages"] = h.maxMessages
	}
	if h.maxBytes > 0 {
		c["max_bytes"] = h.maxBytes
	}
	return c
}

// HistoryPlace says where the caller's messages go and how many of them, for people: ""
// where the variant has no place for them.
func (v *Variant) HistoryPlace() string {
	at := slices.IndexFunc(v.messages, func(m message) bool { return m.history != nil })
	if at < 0 {
		return ""
	}
	h := v.messages[at].history
	text := fmt.Sprintf("after %d of %d messages", at, len(v.messages)-1)
	if h.roles != nil {
		text += ", of " + strings.Join(h.roles, ", ")
	}
	if h.maxMessages > 0 {
		text += fmt.Sprintf(", at most %d", h.maxMessages)
	}
	if h.maxBytes > 0 {
		text += fmt.Sprintf(", at most %d bytes", h.maxBytes)
	}
	return text
}

// append appends the caller's messages of the roles to a request's, as many as
// the bounds allow. The oldest go first, whole exchanges where possible:
//
//   - The messages of an assistant with tool calls and the results that follow are one
//     unit: it is there, or it is not.
//   - The newest unit, the last message of a user, and all system and developer messages
//     always stay. Where they have more than maxBytes together the error is a
//     *HistoryError; they may be more than maxMessages.
//   - The remaining conversation begins with a message of a user.
//
// For example, of these messages maxMessages 5 leaves those with a star:
//
//	system * | user, assistant | user * | assistant (call), tool | assistant (call) *, tool *, tool *
//
// where the last message of a user stays though calls that came after it do not.
func (h *history) append(dst, turns []providers.Message) ([]providers.Message, error) {
	if h.maxMessages == 0 && h.maxBytes == 0 {
		for i := range turns {
			if h.takes(&turns[i]) {
				dst = append(dst, turns[i])
			}
		}
		return dst, nil
	}
	from, question, err := h.trim(turns)
	if err != nil {
		return dst, err
	}
	for i := range turns {
		for j := range turns[i].Parts {
			turns[i].Parts[j].Adrift = from > 0 && turns[i].Parts[j].Kind == providers.PartThinking
		}
		if (i >= from || i == question || instructs(&turns[i])) && h.takes(&turns[i]) {
			dst = append(dst, turns[i])
		}
	}
	return dst, nil
}

// trim returns from which message on all stay, and the user's last message, which stays
// too, or -1.
func (h *history) trim(turns []providers.Message) (from, question int, err error) {
	room := budget{messages: math.MaxInt, bytes: math.MaxInt, sizes: h.maxBytes > 0}
	if h.maxMessages > 0 {
		room.messages = h.maxMessages
	}
	if h.maxBytes > 0 {
		room.bytes = h.maxBytes
	}
	question = -1
	for i := range turns {
		if turns[i].Role == "user" && h.takes(&turns[i]) {
			question = i
		}
	}
	for i := range turns {
		if i == question || instructs(&turns[i]) && h.takes(&turns[i]) {
			room.spend(&turns[i])
		}
	}
	newest := true
	for from = len(turns); from > 0; {
		unit, left, taken := unitStart(turns, from), room, false
		for i := unit; i < from; i++ {
			switch t := &turns[i]; {
			case instructs(t) || !h.takes(t):
			case i == question:
				taken = true
			default:
				left.spend(t)
				taken = true
			}
		}
		if !newest && (left.messages < 0 || left.bytes < 0) {
			break
		}
		room, from, newest = left, unit, newest && !taken
	}
	if room.bytes < 0 {
		return 0, 0, &HistoryError{fmt.Sprintf("the newest message and what always goes with it have %d bytes, and the prompt takes %d: send less", h.maxBytes-room.bytes, h.maxBytes)}
	}
	if from > 0 && from <= question {
		for turns[from].Role != "user" || !h.takes(&turns[from]) {
			from++
		}
	}
	return from, question, nil
}

// budget is the remainder of the bounds of a place.
type budget struct {
	messages, bytes int
	sizes           bool // bytes are counted
}

func (b *budget) spend(m *providers.Message) {
	b.messages--
	if b.sizes {
		b.bytes -= m.Size()
	}
}

// takes reports whether a message has one of the roles. One with tool calls goes where
// their results do not.
func (h *history) takes(m *providers.Message) bool {
	return h.roles == nil || slices.Contains(h.roles, m.Role) && (m.Role != "assistant" || slices.Contains(h.roles, "tool") || !callsTools(m))
}

// instructs reports whether a message is an instruction, and no turn of the
// conversation.
func instructs(m *providers.Message) bool { return m.Role == "system" || m.Role == "developer" }

func callsTools(m *providers.Message) bool {
	return slices.ContainsFunc(m.Parts, func(p providers.Part) bool { return p.Kind == providers.PartToolCall })
}

// unitStart returns where the unit begins that ends before the message end.
func unitStart(turns []providers.Message, end int) int {
	i := end - 1
	for i > 0 && turns[i].Role == "tool" {
		i--
	}
	switch turns[i].Role {
	case "assistant":
	case "tool":
		return i
	default:
		return min(i+1, end-1) // results without a call, or no results at all
	}
	// Some callers have a message for each call.
	for i > 0 && callsTools(&turns[i]) && turns[i-1].Role == "assistant" && callsTools(&turns[i-1]) {
		i--
	}
	return i
}
