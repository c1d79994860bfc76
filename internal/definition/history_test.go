package definition

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/cadenza-gateway/cadenza/providers"
	"pgregory.net/rapid"
)

// turnsOf makes a caller's messages of words: s, u, a and t for the roles, d for
// developer, c for an assistant that calls a tool. Each is 10 bytes long unless it has
// a number behind it.
func turnsOf(words string) []providers.Message {
	var turns []providers.Message
	for i, word := range strings.Fields(words) {
		size := 10
		if len(word) > 1 {
			_, _ = fmt.Sscan(word[1:], &size)
		}
		text := fmt.Sprintf("%0*d", size, i)
		m := providers.Message{Role: map[byte]string{'s': "system", 'd': "developer", 'u': "user", 'a': "assistant", 'c': "assistant", 't': "tool"}[word[0]], Content: providers.Escape(text)}
		switch word[0] {
		case 'c':
			m.Content, m.Parts = "", []providers.Part{{Kind: providers.PartToolCall, Call: providers.ToolCall{ID: "i", Arguments: text}}}
		case 't':
			m.Content, m.Parts = "", []providers.Part{{Kind: providers.PartToolResult, Result: providers.ToolResult{Call: "i", Content: []providers.Part{{Kind: providers.PartText, Text: providers.Escape(text)}}}}}
		}
		turns = append(turns, m)
	}
	return turns
}

// indices returns which of the turns are in a list of messages.
func indices(turns, messages []providers.Message) []int {
	list := []int{}
	at := 0
	for i := range turns {
		if at < len(messages) && turns[i].Role == messages[at].Role && turns[i].Content == messages[at].Content && slices.EqualFunc(turns[i].Parts, messages[at].Parts, func(a, b providers.Part) bool {
			return a.Call == b.Call && a.Result.Text() == b.Result.Text()
		}) {
			list = append(list, i)
			at++
		}
	}
	if at < len(messages) {
		return nil // something else, or in another order
	}
	return list
}

// withHistory loads a prompt with a place of the members between a system message and
// a user's, and returns its only variant with bound values.
func withHistory(t testing.TB, members string) (*Variant, *prompt.Values) {
	t.Helper()
	s := mustLoad(t, workspace(t, map[string]string{"prompts/p.yaml": "messages:\n  - { role: system, content: S }\n  - { history: true" + members + " }\n  - { role: user, content: U }\n"}))
	var values prompt.Values
	v := s.Prompts["p"].fallback
	must(t, s.Prompts["p"].Bind(v, nil, bind(t, s, "{}"), &values))
	return v, &values
}

func TestHistory(t *testing.T) {
	for _, tt := range []struct{ members, turns, want string }{
		{"", "u a u", "0 1 2"},
		{"", "", ""},
		{"", "s d a c t t u", "0 1 2 3 4 5 6"},
		{", max_messages: 100, max_bytes: 1MiB", "a c t t u", "0 1 2 3 4"},
		// The oldest go first, and the remaining ones begin with a user.
		{", max_messages: 3", "u a u a u", "2 3 4"},
		{", max_messages: 2", "u a u a u", "4"},
		{", max_messages: 1", "u a u a u", "4"},
		{", max_messages: 2", "a u", "0 1"},
		{", max_bytes: 30", "u a u a u", "2 3 4"},
		{", max_bytes: 29", "u a u a u", "4"},
		{", max_bytes: 30", "u a u1 a19 u10", "2 3 4"},
		{", max_messages: 4, max_bytes: 30", "u a u a u", "2 3 4"},
		// A call and its results are one.
		{", max_messages: 4", "u c t a u", "4"},
		{", max_messages: 5", "u c t a u", "0 1 2 3 4"},
		{", max_messages: 3", "u c t a", "0 3"},
		{", max_messages: 4", "u c t a", "0 1 2 3"},
		{", max_messages: 3", "u c t t a", "0 4"},
		{", max_messages: 4", "u c c t t a", "0 5"},
		// In a loop of tools the question stays, and the newest call.
		{", max_messages: 3", "u a u c t c t", "2 5 6"},
		{", max_messages: 5", "u a u c t c t", "2 3 4 5 6"},
		{", max_messages: 1", "u a u c t c t t", "2 5 6 7"},
		{", max_bytes: 40", "u a u c t c t t", "2 5 6 7"},
		{", max_messages: 2", "u c t c", "0 3"},
		{", max_messages: 3", "a c t c t", "3 4"},
		{", max_messages: 1", "c t", "0 1"},
		// Results without a call stay together.
		{", max_messages: 3", "t t u", "0 1 2"},
		{", max_messages: 2", "t t u", "2"},
		{", max_messages: 3", "u t t", "0 1 2"},
		// Instructions stay.
		{", max_messages: 3", "s u a d u", "0 3 4"},
		{", max_messages: 1", "s u a d u", "0 3 4"},
		{", max_bytes: 30", "s u a d u", "0 3 4"},
		// Roles.
		{", roles: [user]", "s u a c t u", "1 5"},
		{", roles: [user, assistant]", "s u a c t d u", "1 2 6"},
		{", roles: [tool, assistant]", "s u a c t d u", "2 3 4"},
		{", roles: [user, assistant], max_messages: 3", "u a u c t a c t c t u", "2 5 10"},
		{", roles: [user, system], max_messages: 2", "s u d a a u", "0 5"},
		{", roles: [assistant], max_messages: 1", "u a u a u", "3"},
		{", roles: [user], max_bytes: 10", "u a9999 u c9999 t9999", "2"},
	} {
		v, values := withHistory(t, tt.members)
		turns := turnsOf(tt.turns)
		messages, err := v.Messages(values, turns)
		if err != nil || len(messages) < 2 || messages[0].Content != "S" || messages[len(messages)-1].Content != "U" {
			t.Errorf("%s of %s: %v, %v", tt.members, tt.turns, messages, err)
			continue
		}
		if got := strings.Trim(fmt.Sprint(indices(turns, messages[1:len(messages)-1])), "[]"); got != tt.want {
			t.Errorf("%s of %s: %s, want %s", tt.members, tt.turns, got, tt.want)
		}
		if out, err := v.AppendJSON(nil, values); err != nil || string(out) != `{"name":"p","messages":[{"role":"system","content":"S"},{"role":"user","content":"U"}]}` {
			t.Errorf("%s, %v", out, err)
		}
	}
}

// TestHistoryTooLarge holds that a message which can't go whole does not go at all.
func TestHistoryTooLarge(t *testing.T) {
	v, values := withHistory(t, ", max_bytes: 29")
	for turns, want := range map[string]string{
		"u30":         "the newest message and what always goes with it have 30 bytes, and the prompt takes 29: send less",
		"u a u30":     "the newest message and what always goes with it have 30 bytes, and the prompt takes 29: send less",
		"u1 c10 t20":  "the newest message and what always goes with it have 31 bytes, and the prompt takes 29: send less",
		"u20 a1 a1 s": "the newest message and what always goes with it have 31 bytes, and the prompt takes 29: send less",
		"s30 u1":      "the newest message and what always goes with it have 31 bytes, and the prompt takes 29: send less",
	} {
		messages, err := v.Messages(values, turnsOf(turns))
		if _, ok := errors.AsType[*HistoryError](err); !ok || messages != nil {
			t.Errorf("%s: %v, %v", turns, messages, err)
		} else if err.Error() != want {
			t.Errorf("%s: %v, want %s", turns, err, want)
		}
	}
	if messages, err := v.Messages(values, turnsOf("u20 a30 a9")); err != nil || len(messages) != 4 {
		t.Errorf("%v, %v", messages, err)
	}
}

// TestHistoryHolds compares the trimming of any conversation with its
// documentation.
func TestHistoryHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{maxMessages: rapid.IntRange(0, 8).Draw(t, "messages"), maxBytes: rapid.IntRange(0, 12).Draw(t, "kilobytes") * 10}
		if rapid.Bool().Draw(t, "some roles") {
			h.roles = rapid.SampledFrom([][]string{{"user"}, {"user", "assistant"}, {"user", "assistant", "tool"}, {"assistant", "tool", "system"}}).Draw(t, "roles")
		}
		words := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"u", "a", "c", "t", "s", "u3", "a25"}), 0, 14).Draw(t, "turns"), " ")
		turns := turnsOf(words)
		messages, err := h.append(nil, turns)
		kept := indices(turns, messages)
		in := func(i int) bool { return slices.Contains(kept, i) }
		size, pinned := 0, 0
		question, last := -1, -1
		for i := range turns {
			if !h.takes(&turns[i]) {
				if in(i) {
					t.Fatalf("%s: %v has a message of another role", words, kept)
				}
				continue
			}
			switch {
			case instructs(&turns[i]):
				pinned++
				if err == nil && !in(i) {
					t.Fatalf("%s: %v lost an instruction", words, kept)
				}
				continue
			case turns[i].Role == "user":
				question = i
			}
			last = i
		}
		if err != nil {
			if h.maxBytes == 0 {
				t.Fatal(err)
			}
			return
		}
		for _, i := range kept {
			size += turns[i].Size()
		}
		if h.maxBytes > 0 && size > h.maxBytes {
			t.Fatalf("%s: %v has %d bytes, more than %d", words, kept, size, h.maxBytes)
		}
		if last >= 0 && (!in(last) || question >= 0 && !in(question)) {
			t.Fatalf("%s: %v lost the newest", words, kept)
		}
		unit := -1
		for i := range turns {
			if turns[i].Role != "tool" || i == 0 || turns[i-1].Role == "system" || turns[i-1].Role == "user" {
				unit = i
			}
			if h.takes(&turns[i]) && h.takes(&turns[unit]) && turns[i].Role == "tool" && in(i) != in(unit) {
				t.Fatalf("%s: %v tears a call from its result", words, kept)
			}
		}
		if h.maxMessages > 0 && len(kept) > h.maxMessages {
			// No more than the messages that always stay: instructions, the question,
			// the newest.
			for _, i := range kept {
				if !instructs(&turns[i]) && i != question && i < unitStart(turns, last+1) {
					t.Fatalf("%s: %v has more than %d messages", words, kept, h.maxMessages)
				}
			}
		}
		// Of the conversation before the question, what stays is its end.
		for i := 1; i < question; i++ {
			if in(i-1) && !in(i) && h.takes(&turns[i]) && h.takes(&turns[i-1]) && !instructs(&turns[i-1]) {
				t.Fatalf("%s: %v has a gap", words, kept)
			}
		}
	})
}

func TestHistoryMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"- { history: false }":                                   "p.yaml:1:14: history must be true: for no place leave the element out",
		"- { history: yes }":                                     `p.yaml:1:14: history must be true or false, this is "yes": write true`,
		"- { history: true, role: user }":                        `p.yaml:1:20: unknown member "role" in the place for the caller's messages: did you mean "roles"?`,
		"- { history: true, max_message: 3 }":                    `p.yaml:1:20: unknown member "max_message" in the place for the caller's messages: did you mean "max_messages"?`,
		"- { history: true, roles: user }":                       `p.yaml:1:27: roles must be a list such as [user, assistant], this is "user"`,
		"- { history: true, roles: [] }":                         `p.yaml:1:27: roles must be a list such as [user, assistant], this is a list`,
		"- { history: true, roles: [usr] }":                      `p.yaml:1:28: a role must be one of user, assistant, tool, system, developer, this is "usr": did you mean "user"?`,
		"- { history: true, roles: [user, tool] }":               "p.yaml:1:27: tool needs assistant: a tool's result means nothing without the call that it answers",
		"- { history: true, max_messages: 0 }":                   `p.yaml:1:34: max_messages must be a whole number from 1 to 100000, this is "0"`,
		"- { history: true, max_bytes: 64 KB of it }":            `p.yaml:1:31: max_bytes must be a number of bytes from 1 to 64MiB such as 500kB, 64KiB or 1.5MiB, this is "64 KB of it"`,
		"- { history: true }\n- { history: true, max_bytes: 1 }": "p.yaml:2:3: the caller's messages have a place already (p.yaml:1:3): they go in once",
	} {
		var errs document.Errors
		n := document.Parse("p.yaml", []byte(text), &errs)
		decodeMessages(n, nil, &errs)
		if errs.Err() == nil || errs.Err().Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", text, errs.Err(), want)
		}
	}
}

// TestHistoryAndEndpoints holds that an endpoint and its prompt agree on the caller's
// messages.
func TestHistoryAndEndpoints(t *testing.T) {
	dir := workspace(t, map[string]string{
		"prompts/p.yaml":   "default: a\nvariants:\n  a: { provider: x, model: m, messages: [ { history: true } ] }\n  b: { extends: a, messages: [ { role: user, content: hi } ] }\n  c: { extends: a }\n",
		"endpoints/e.yaml": "prompt: p\naccept: { history: true }\n",
		"endpoints/f.yaml": "prompt: p\n",
	})
	_, err := Load(dir)
	wantErrors(t, dir, err,
		"endpoints/e.yaml:2:20: the variant b of the prompt p (prompts/p.yaml:4:6) has no place for the caller's messages: add - { history: true } to its messages",
		"endpoints/f.yaml:1:9: the variant a of the prompt p (prompts/p.yaml:3:6) has no messages but the caller's, which this endpoint does not accept: add accept: { history: true }",
		"endpoints/f.yaml:1:9: the variant c of the prompt p (prompts/p.yaml:5:6) has no messages but the caller's, which this endpoint does not accept: add accept: { history: true }",
	)
}

// TestNoMessages holds that a model is never called without a message.
func TestNoMessages(t *testing.T) {
	s := mustLoad(t, workspace(t, map[string]string{"prompts/p.yaml": "messages: [ { history: true, roles: [user] } ]\n"}))
	v := s.Prompts["p"].fallback
	var values prompt.Values
	must(t, s.Prompts["p"].Bind(v, nil, bind(t, s, "{}"), &values))
	for _, turns := range []string{"", "a"} {
		if messages, err := v.Messages(&values, turnsOf(turns)); messages != nil || fmt.Sprint(err) != "there is none to send: send one at least" {
			t.Errorf("%v, %v", messages, err)
		}
	}
	if out, err := v.AppendJSON(nil, &values); err != nil || string(out) != `{"name":"p","messages":[]}` || !v.takesHistory {
		t.Errorf("%s, %v", out, err)
	}
}

// TestHistoryComesBack holds that a place is part of the version, and comes back from
// the store.
func TestHistoryComesBack(t *testing.T) {
	versions := map[string]string{}
	for _, place := range []string{
		"{ history: true }", "{ history: true, roles: [user] }", "{ history: true, roles: [user, assistant] }",
		"{ history: true, max_messages: 3 }", "{ history: true, max_bytes: 64KiB }",
	} {
		dir := workspace(t, map[string]string{"prompts/p.yaml": "messages: [ " + place + ", { role: user, content: hi } ]\n"})
		comesBack(t, dir)
		v := mustLoad(t, dir).Prompts["p"].Version
		if other, twice := versions[v]; twice {
			t.Errorf("%s has the version of %s", place, other)
		}
		versions[v] = place
	}
	version := func(place string) string {
		return mustLoad(t, workspace(t, map[string]string{"prompts/p.yaml": "messages: [ " + place + " ]\n"})).Prompts["p"].Version
	}
	if version("{ history: true, roles: [assistant, user], max_bytes: 64KiB }") != version("{ max_bytes: 65536, roles: [user, assistant, user], history: true }") {
		t.Error("the same place has two versions")
	}
}

// TestHistoryAllocates holds that rendering allocates one list for the caller's
// messages, whether it trims them or not.
func TestHistoryAllocates(t *testing.T) {
	turns := turnsOf(strings.Repeat("u c t t a ", 200))
	for _, members := range []string{"", ", max_messages: 20", ", max_bytes: 1kB", ", roles: [user, assistant], max_bytes: 5kB"} {
		v, values := withHistory(t, members)
		if n := testing.AllocsPerRun(100, func() {
			if _, err := v.Messages(values, turns); err != nil {
				t.Fatal(err)
			}
		}); n > 1 {
			t.Errorf("%s: %v allocations", members, n)
		}
	}
}

func BenchmarkHistory(b *testing.B) {
	v, values := withHistory(b, ", max_messages: 500, max_bytes: 1MiB")
	turns := turnsOf(strings.Repeat("u5000 c t t a5000 ", 200))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Messages(values, turns); err != nil {
			b.Fatal(err)
		}
	}
}
