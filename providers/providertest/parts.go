package providertest

import (
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
)

// partCase is a kind of part that the contract sends.
type partCase struct {
	name     string // in the table of docs/providers.md
	messages []providers.Message
	// marks are the texts of the part that the service must get.
	marks []string
	// inResult, if set, is a medium in the result of a tool. It may follow the results, or
	// be replaced by a text, but must not be refused.
	inResult *providers.Part
}

// The cells of the table for kinds of parts.
const (
	taken   = "yes"
	refused = "–"
	behind  = "behind"  // the medium of a result follows the results
	unshown = "as text" // a text replaces it
)

const (
	mark      = "c2VudA==" // the data of a part
	markedURL = "https://parts.example/a-part"
)

func userWith(kind providers.PartKind, m providers.Media) []providers.Message {
	return []providers.Message{{Role: "user", Parts: []providers.Part{{Kind: providers.PartText, Text: "What is it?"}, {Kind: kind, Media: m}}}}
}

// resultWith returns a history with a tool call that has this result.
func resultWith(content ...providers.Part) []providers.Message {
	return []providers.Message{
		{Role: "user", Content: "Look."},
		{Role: "assistant", Parts: []providers.Part{{Kind: providers.PartToolCall, Call: providers.ToolCall{ID: "call00001", Name: "get_weather", Arguments: `{"city":"a-marked-city"}`}}}},
		{Role: "tool", Parts: []providers.Part{{Kind: providers.PartToolResult, Result: providers.ToolResult{Call: "call00001", Name: "get_weather", Content: content}}}},
	}
}

// partCases returns all kinds of parts except thoughts, in the order of the table.
func partCases() []partCase {
	image := providers.Media{Data: mark, Type: "image/png"}
	sound := providers.Media{Data: mark, Type: "audio/wav"}
	file := providers.Media{Data: mark, Type: "application/pdf", Name: "a.pdf"}
	inResult := func(name string, p providers.Part) partCase {
		return partCase{name, resultWith(Text("a-marked-result"), p), []string{"a-marked-result", mark}, &p}
	}
	return []partCase{
		{"image", userWith(providers.PartImage, image), []string{mark}, nil},
		{"image by URL", userWith(providers.PartImage, providers.Media{URL: markedURL}), []string{markedURL}, nil},
		{"audio", userWith(providers.PartAudio, sound), []string{mark}, nil},
		{"audio by URL", userWith(providers.PartAudio, providers.Media{URL: markedURL, Type: "audio/wav"}), []string{markedURL}, nil},
		{"file", userWith(providers.PartFile, file), []string{mark}, nil},
		{"file by URL", userWith(providers.PartFile, providers.Media{URL: markedURL, Type: "application/pdf", Name: "a.pdf"}), []string{markedURL}, nil},
		{"tool calls, results", resultWith(providers.Part{Kind: providers.PartText, Text: "a-marked-result"}), []string{"a-marked-city", "a-marked-result"}, nil},
		inResult("image in a result", Media(providers.PartImage, image)),
		inResult("file in a result", Media(providers.PartFile, file)),
	}
}

// thoughtText and thoughtData are the contract's thought and its opaque data of the
// service. The data is base64, like signatures.
const (
	thoughtText = "A-marked thought \"ü\"."
	thoughtData = "RXJVQkNrWUlDeA=="
)

// capture makes a provider with a behaviour, and records the bodies of its requests.
func capture(t *testing.T, factory Factory, b Behaviour, req *providers.Request) (p providers.Provider, bodies func() []string) {
	t.Helper()
	var mu sync.Mutex
	var sent []string
	b.asked = func(r Request) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, r.Body)
	}
	return factory(t, b, req), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(sent)
	}
}

// takes sends a kind of part, and returns what the table says of it. If the provider does
// not take it, the provider must return an error before it sends anything.
func takes(t *testing.T, factory Factory, c partCase) string {
	t.Helper()
	req := request(false)
	req.Messages = c.messages
	req.Parameters.Tools = withTools(false).Parameters.Tools
	if c.messages[0].Parts != nil {
		req.Parameters.Tools = nil
	}
	p, bodies := capture(t, factory, Behaviour{Words: words}, req)
	o := outcome(t, p, req)
	sent := bodies()
	if o.Err != nil {
		e, ok := errors.AsType[*providers.Error](o.Err)
		if !ok || e.Kind != providers.Status || e.Status != http.StatusBadRequest || len(sent) > 0 {
			t.Fatalf("%s: error %v after %d requests, want *providers.Error with status 400 before the first", c.name, o.Err, len(sent))
		}
		if !strings.Contains(e.Reason, " takes no ") && !strings.Contains(e.Reason, " has no tools") {
			t.Errorf("%s: refused by %q, which does not name it: see providers.LacksPart", c.name, e.Reason)
		}
		if c.inResult != nil && !strings.Contains(e.Reason, "tool_call") && !strings.Contains(e.Reason, " has no tools") {
			t.Errorf("%s: refused by %q: see providers.Part.Unshown", c.name, e.Reason)
		}
		return refused
	}
	cell := taken
	if all := strings.Join(sent, ""); c.inResult != nil && strings.Contains(all, c.inResult.Attached().Plain()) {
		cell = behind
	} else if c.inResult != nil && strings.Contains(all, c.inResult.Unshown().Plain()) {
		cell, c.marks = unshown, c.marks[:1]
		if name := providers.LeftOutMedia(len(c.messages) - 1); !slices.Contains(o.Result.LeftOut, name) {
			t.Errorf("%s: %s is not named in the result's LeftOut %q", c.name, name, o.Result.LeftOut)
		}
	}
	for _, body := range sent {
		for _, mark := range c.marks {
			if !strings.Contains(body, mark) {
				t.Errorf("%s: %q is missing in what was sent: %s", c.name, mark, body)
			}
		}
	}
	return cell
}

func testParts(t *testing.T, factory Factory) {
	for _, c := range partCases() {
		takes(t, factory, c)
	}
}

// thoughts is the treatment of a history's thoughts.
type thoughts string

const (
	thoughtsTaken  thoughts = "yes"
	thoughtsOwn    thoughts = "its own" // the ones with its opaque data
	thoughtsDenied thoughts = "left out"
)

// testThoughts has an answer with a thought, whose data must be returned to the service
// unchanged.
func testThoughts(t *testing.T, factory Factory) thoughts {
	taken := thoughtsDenied
	for _, stream := range []bool{false, true} {
		req := request(stream)
		p := factory(t, Behaviour{Words: words, Thought: &providers.Thought{Text: thoughtText, Opaque: thoughtData}}, req)
		if p == nil {
			break
		}
		answer := invoke(t, p, req)
		var said strings.Builder
		var told []providers.Thought
		for {
			d, err := answer.Next()
			if err != nil {
				break
			}
			if d.Content != "" && d.Thinking != "" {
				t.Errorf("stream=%v: a delta has content and a thought: %+v", stream, d)
			}
			said.WriteString(d.Thinking)
			if d.Thought != nil {
				told = append(told, *d.Thought)
			}
		}
		list := answer.Result().Thoughts
		shown := ""
		for _, thought := range list {
			shown += thought.Text
		}
		// A thought without data need not be reported.
		withData := slices.DeleteFunc(slices.Clone(list), func(t providers.Thought) bool { return t.Opaque == "" })
		if shown != thoughtText || said.String() != shown || len(withData) == 0 || !slices.Equal(told, withData) {
			t.Fatalf("stream=%v: the thoughts are %q, the deltas said %q and told of %q", stream, list, said.String(), told)
		}
		if body := history(t, factory, list...); body != "" && !strings.Contains(body, thoughtData) {
			t.Errorf("stream=%v: the data of the thoughts %q did not come back, but %s", stream, list, body)
		}
		taken = thoughtsOwn
	}
	if body := history(t, factory, providers.Thought{Text: thoughtText}); body == "" || strings.Contains(body, "A-marked thought") {
		taken = thoughtsTaken
	}
	return taken
}

// history sends a history with thoughts, and returns the service's request. It is empty
// if there is no service.
func history(t *testing.T, factory Factory, list ...providers.Thought) string {
	t.Helper()
	req := request(false)
	var parts []providers.Part
	for _, thought := range list {
		parts = append(parts, providers.Part{Kind: providers.PartThinking, Text: providers.Escape(thought.Text), Opaque: thought.Opaque})
	}
	parts = append(parts, providers.Part{Kind: providers.PartText, Text: providers.Escape(strings.Join(words, ""))})
	req.Messages = append(req.Messages, providers.Message{Role: "assistant", Parts: parts}, providers.Message{Role: "user", Content: "Again."})
	p, bodies := capture(t, factory, Behaviour{Words: words}, req)
	if o := outcome(t, p, req); o.Err != nil {
		t.Fatalf("a history with the thoughts %q: %v", list, o.Err)
	}
	return strings.Join(bodies(), "\n")
}

// CheckTable checks the line of a provider in the table of parts of docs/providers.md
// against the provider.
func CheckTable(t *testing.T, name string, factory Factory) {
	t.Helper()
	docs, err := os.ReadFile("../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	names, cells := []string{"module"}, []string{"`" + name + "`"}
	for _, c := range partCases() {
		names = append(names, c.name)
		cells = append(cells, takes(t, factory, c))
	}
	names, cells = append(names, "thoughts"), append(cells, string(testThoughts(t, factory)))
	for _, want := range [][]string{names, cells} {
		line := "| " + strings.Join(want, " | ") + " |"
		found := slices.ContainsFunc(strings.Split(string(docs), "\n"), func(l string) bool { return l == line })
		if !found {
			t.Errorf("docs/providers.md lacks the line\n%s", line)
		}
	}
}

// checkPieces checks that the pieces of tool calls make up the calls.
func checkPieces(t testing.TB, pieces []providers.CallPiece, calls []providers.ToolCall) {
	t.Helper()
	var joined []providers.ToolCall
	for _, p := range pieces {
		begins := p.Index == len(joined)
		if begins {
			joined = append(joined, providers.ToolCall{ID: p.ID, Name: p.Name})
		}
		if p.Index != len(joined)-1 || !begins && p.ID != "" || begins != (p.Name != "") {
			t.Fatalf("the piece %+v comes when there are %d calls", p, len(joined))
		}
		joined[p.Index].Arguments += p.Arguments
		joined[p.Index].Opaque += p.Opaque
	}
	if diff := cmp.Diff(calls, joined); diff != "" {
		t.Errorf("the pieces of the tool calls are others (-whole +pieces):\n%s", diff)
	}
}
