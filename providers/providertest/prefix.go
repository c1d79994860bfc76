package providertest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
)

// CheckPrefix checks that the requests of a conversation begin alike, byte for byte, so
// that the service finds the ones before in its cache: the list of messages, which is the
// member with the name, grows at its end, and all else stays. Marks for the cache may
// move. reply is any answer; tools reports that the service takes them.
func (s *Subject) CheckPrefix(t *testing.T, reply Reply, member string, tools bool) {
	t.Helper()
	for _, marked := range []bool{false, true} {
		list, rest := "", ""
		for turns, messages := range conversations(tools) {
			req := s.request(false)
			req.Messages = messages
			if tools {
				req.Parameters.Tools = Tools()
			}
			if marked {
				req.Parameters.Caller = &providers.Caller{Marks: true}
				markLast(req.Messages)
			}
			got, _ := Sent(t, reply, req, func(base string) providers.Provider { return s.Connect(t, base) })
			body, marks := got.Body, 0
			for _, text := range []string{`,"cache_control":{"type":"ephemeral"}`, `,{"cachePoint":{"type":"default"}}`} {
				marks += strings.Count(body, text)
				body = strings.ReplaceAll(body, text, "")
			}
			if marks != 0 && marks != 2 {
				t.Errorf("marked %v: turn %d has %d marks of 2\n%s", marked, turns, marks, got.Body)
			}
			var members map[string]json.RawMessage
			if err := json.Unmarshal([]byte(body), &members); err != nil {
				t.Fatal(err)
			}
			now := string(members[member])
			before, after, _ := strings.Cut(body, now)
			if turns > 0 && !strings.HasPrefix(now, strings.TrimSuffix(list, "]")+",") {
				t.Errorf("marked %v: turn %d has\n%s\nand the one before\n%s", marked, turns, now, list)
			}
			if turns > 0 && before+after != rest {
				t.Errorf("marked %v: beside the messages turn %d has\n%s\nand the one before\n%s", marked, turns, before+after, rest)
			}
			list, rest = now, before+after
		}
	}
}

// conversations returns the messages of each request of a conversation.
func conversations(tools bool) (list [][]providers.Message) {
	messages := []providers.Message{{Role: "system", Content: "Be brief."}, {Role: "system", Content: "And kind."}, {Role: "user", Content: "Where am I?"}}
	list = append(list, slices.Clone(messages))
	for turn := range 3 {
		if tools {
			id := fmt.Sprintf("call_%d", turn)
			messages = append(messages,
				Message("assistant", Thinking("Hm.", ""), Text("Let me see."), Call(id, toolCalls[0].Name, `{"city":"Bern"}`)), Message("tool", Result(id, Text("12"))))
			list = append(list, slices.Clone(messages))
		}
		messages = append(messages, providers.Message{Role: "assistant", Content: "Here."}, providers.Message{Role: "user", Content: "And now?"})
		list = append(list, slices.Clone(messages))
	}
	return list
}

// markLast marks the last part of a request, and its system message, for the cache.
func markLast(messages []providers.Message) {
	for _, i := range []int{1, len(messages) - 1} {
		m := &messages[i]
		if m.Parts = slices.Clone(m.Parts); m.Parts == nil {
			m.Content, m.Parts = "", []providers.Part{{Kind: providers.PartText, Text: m.Content}}
		}
		m.Parts[len(m.Parts)-1].Cache = providers.CacheShort
	}
}
