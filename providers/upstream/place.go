package upstream

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Place is where in an answer a thought was: after how much of what a history keeps of
// the answer. A model that thinks between its tool calls has its thoughts checked for
// their place when they come back, but a history has the thoughts first, then the
// text, then the calls.
type Place struct {
	Text  int // bytes of the answer's text
	Calls int // tool calls
	Found int // parts that searches left
}

// Opaque returns the provider's data of a thought with its place: "@3,1:" before the
// data of one after three bytes of text and one call, "@3,1,2:" after two parts of searches,
// too. The data of a thought at the beginning stays as it is, and must not begin with an @.
func (p Place) Opaque(data string) string {
	if p == (Place{}) {
		return data
	}
	place := "@" + strconv.Itoa(p.Text) + "," + strconv.Itoa(p.Calls)
	if p.Found > 0 {
		place += "," + strconv.Itoa(p.Found)
	}
	return place + ":" + data
}

// Place returns the current place in the answer.
func (l *Lookahead) Place() Place {
	p := Place{Text: l.bytes, Calls: len(l.Calls.calls)}
	for i := range l.found {
		if l.found[i].Opaque != "" {
			p.Found++
		}
	}
	return p
}

// Thinking returns the text of the thought that goes on, for a provider that wants it
// back with its data. It is false if the data was too large to be kept.
func (l *Lookahead) Thinking() (text string, ok bool) {
	return l.thoughts.text.String(), !l.thoughts.overflow
}

// placed parses the result of Opaque.
func placed(opaque string) (p Place, data string) {
	place, data, ok := strings.Cut(opaque, ":")
	text, calls, both := strings.Cut(strings.TrimPrefix(place, "@"), ",")
	if !ok || !both || !strings.HasPrefix(opaque, "@") {
		return Place{}, opaque
	}
	calls, found, _ := strings.Cut(calls, ",")
	// Anything but a number means the beginning: only the data matters.
	p.Text, _ = strconv.Atoi(text)
	p.Calls, _ = strconv.Atoi(calls)
	p.Found, _ = strconv.Atoi(found)
	return p, data
}

// Joined returns messages in which an answer is one message again that the history has in
// several, as that of OpenAI's Responses API does where the model thought between texts:
// the places of its thoughts count from its beginning. The first message gets all parts.
// The others are empty, so that each message keeps its number.
//
// The messages @0,0 "ab" and @2,0 "cd" become @0,0 "ab" @2,0 "cd" and one without parts.
func Joined(messages []providers.Message) []providers.Message {
	if !slices.ContainsFunc(messages, hasPlace) {
		return messages // as most are: to know where a text ends, it has to be unescaped
	}
	var joined []providers.Message
	first, said := 0, Place{} // of the answer
	for i := range messages {
		m := &messages[i]
		if m.Role != "assistant" || said == (Place{}) || !goesOn(m, said) {
			first, said = i, Place{}
		} else {
			if joined == nil {
				joined = slices.Clone(messages)
			}
			joined[i].Parts = nil
			all := joined[first].Parts
			if all == nil {
				all = []providers.Part{{Kind: providers.PartText, Text: joined[first].Content}}
			}
			joined[first].Parts = slices.Concat(all, m.Parts)
		}
		if m.Role == "assistant" {
			said.Text += len(m.Text().Plain())
			for j := range m.Parts {
				if m.Parts[j].Kind == providers.PartToolCall {
					said.Calls++
				}
			}
		}
	}
	if joined == nil {
		return messages
	}
	return joined
}

// hasPlace reports whether a message has a thought that was not at its beginning.
func hasPlace(m providers.Message) bool {
	return slices.ContainsFunc(m.Parts, func(p providers.Part) bool {
		return p.Kind == providers.PartThinking && strings.HasPrefix(p.Opaque, "@")
	})
}

// goesOn reports whether a message of the assistant goes on with an answer of which so much
// was said before: its first thought with a place was then between two of its texts, or
// within what was said, where a stream has the thoughts behind all of the text.
func goesOn(m *providers.Message, said Place) bool {
	for i := range m.Parts {
		at, _ := placed(m.Parts[i].Opaque)
		if m.Parts[i].Kind != providers.PartThinking || at == (Place{}) {
			continue
		}
		text := said.Text
		for j := 0; j < len(m.Parts) && text < at.Text; j++ {
			if m.Parts[j].Kind == providers.PartText {
				text += len(m.Parts[j].Text.Plain())
			}
		}
		within := at.Text <= said.Text && len(m.Text().Plain()) < at.Text
		return within || text == at.Text && at.Calls >= said.Calls
	}
	return false
}

// InPlace calls each with the parts of an assistant's message, in the order in which the
// answer had them: a thought in its place, whose Opaque is then the data alone, and the
// texts, cut where thoughts were between them, and what searches left between them. The
// text that follows a thought up to the next one has its texts first, then its calls.
// Other parts come last. InPlace ends with the first error of each, which is its own.
//
// The thoughts @0,0 and @2,1, the text "abcd" and the calls c and d come as
// @0,0 "ab" c @2,1 "cd" d.
func InPlace(parts []providers.Part, each func(*providers.Part) error) error {
	w := inOrder{parts: parts, each: each}
	for i := range parts {
		if parts[i].Kind != providers.PartThinking {
			continue
		}
		place, data := placed(parts[i].Opaque)
		w.upTo(place)
		if data == parts[i].Opaque {
			w.hand(&parts[i])
		} else {
			w.hand(changed(parts[i], parts[i].Text, data))
		}
	}
	w.upTo(Place{Text: behind, Calls: behind})
	for i := range parts {
		switch parts[i].Kind {
		case providers.PartText, providers.PartToolCall, providers.PartThinking, providers.PartFound:
		default:
			w.hand(&parts[i])
		}
	}
	return w.err
}

// behind is after the end of every answer.
const behind = math.MaxInt32

// inOrder walks twice through the parts of a message, for its texts and for its calls.
type inOrder struct {
	parts []providers.Part
	each  func(*providers.Part) error
	err   error

	text, offset int // the part, and the bytes of it, from which texts are still to come
	call         int // the part from which calls are still to come
	said         Place
}

func (w *inOrder) found(p *providers.Part) {
	w.hand(p)
	w.said.Found++
}

func (w *inOrder) hand(p *providers.Part) {
	if w.err == nil {
		w.err = w.each(p)
	}
}

// upTo hands on the texts, then the calls, that are before a place.
func (w *inOrder) upTo(place Place) {
	for ; w.text < len(w.parts) && w.said.Text < place.Text; w.text, w.offset = w.text+1, 0 {
		p := &w.parts[w.text]
		if p.Kind == providers.PartFound {
			w.found(p)
		}
		if p.Kind != providers.PartText {
			continue
		}
		if place.Text == behind && w.offset == 0 {
			w.hand(p) // no cut is to come
			continue
		}
		text := p.Text.Plain()
		rest := text[w.offset:]
		end := min(place.Text-w.said.Text, len(rest))
		for end < len(rest) && !utf8.RuneStart(rest[end]) {
			end++ // the caller has changed the text
		}
		if end == len(text) {
			w.hand(p)
		} else {
			w.hand(changed(*p, providers.Escape(rest[:end]), ""))
		}
		w.said.Text += end
		if end < len(rest) {
			w.offset += end
			break
		}
	}
	for ; w.text < len(w.parts) && w.offset == 0 && w.said.Found < place.Found; w.text++ {
		p := &w.parts[w.text]
		if p.Kind == providers.PartText && p.Text != "" {
			break
		}
		if p.Kind == providers.PartFound {
			w.found(p)
		}
	}
	for ; w.call < len(w.parts) && w.said.Calls < place.Calls; w.call++ {
		if p := &w.parts[w.call]; p.Kind == providers.PartToolCall {
			w.hand(p)
			w.said.Calls++
		}
	}
}

// changed returns a part with another text and other data. Only parts that are cut are
// copied.
func changed(p providers.Part, text providers.Text, opaque string) *providers.Part {
	p.Text, p.Opaque, p.Raw = text, opaque, ""
	return &p
}
