package console

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/trace"
)

// findPage says what an id may mean, unless that is one thing.
type findPage struct {
	ID string
	adminapi.Found
}

func buildFind(v *visit) (any, error) {
	p := &findPage{ID: strings.TrimSpace(v.query.Get("id"))}
	if name, _, ok := strings.Cut(p.ID, "="); ok { // what a customer saw
		by, err := v.memberOrField(name)
		v.to = tracesAt(by, p.ID)
		return p, err
	}
	if p.ID == "" {
		return p, nil
	}
	err := v.ask("find", url.Values{"id": {p.ID}}, &p.Found)
	if len(p.Found.Found) == 1 && !p.More {
		v.to = p.PathOf(p.Found.Found[0])
	}
	return p, err
}

// memberOrField returns the filter for a name: field if the data model has it, metadata
// otherwise.
func (v *visit) memberOrField(name string) (string, error) {
	loaded, err := v.loaded()
	if slices.ContainsFunc(loaded.Fields, func(f adminapi.DataField) bool { return f.Name == strings.TrimSpace(name) }) {
		return "field", err
	}
	return "metadata", err
}

// tracesAt returns the address of the list of all traces that pass one filter.
func tracesAt(filter, value string) string {
	return prefix + "traces?" + url.Values{"since": {""}, filter: {value}}.Encode()
}

// PathOf returns the address of what an id may mean.
func (*findPage) PathOf(m adminapi.Match) string {
	switch m.What {
	case "conversation":
		return prefix + "conversations/" + url.PathEscape(m.ID)
	case "chain":
		return tracesAt("chain_id", m.ID)
	case "request":
		return tracesAt("metadata", "request_id="+m.ID)
	}
	return prefix + "traces/" + url.PathEscape(m.ID)
}

// turnsShown bounds the turns of a conversation that a page has.
const turnsShown = 50

// conversationPage has the traces of a conversation in the order of time.
type conversationPage struct {
	ID, Earlier string // Earlier is the address of the turns before these; empty: there are none
	Later       bool   // these are not the last turns
	Content     bool   // the visitor may see content
	Complete    bool   // the search found all turns that the page has room for
	Turns       []turn
	Tokens      int64
	Cost        float64
	Took        time.Duration
	Failed      int
}

// turn is a trace of a conversation, with its content and what its caller asked last.
type turn struct {
	adminapi.ListedTrace
	Content *trace.Record // nil: the visitor may not see it, or it is gone
	Asked   string
}

func buildConversation(v *visit) (any, error) {
	p := &conversationPage{ID: v.id, Content: v.Visitor.Role.Covers("editor"), Later: v.query.Has("before")}
	if v.id == "" { // the API would list all traces
		v.to = prefix + "find"
		return p, nil
	}
	v.Title = "Conversation"
	v.Command = "caddy cadenza traces --conversation-id " + shellWord(v.id)
	query := url.Values{"conversation_id": {v.id}, "limit": {strconv.Itoa(turnsShown)}}
	if p.Later {
		query.Set("before", v.query.Get("before"))
	}
	var list listAnswer
	if err := v.ask("traces", query, &list); err != nil {
		return nil, err
	}
	p.Complete = list.Complete
	if list.Next != "" {
		p.Earlier = prefix + "conversations/" + url.PathEscape(v.id) + "?" + url.Values{"before": {list.Next}}.Encode()
	}
	contents := make(map[trace.ID]*trace.Record)
	if p.Content {
		query.Set("format", "jsonl")
		var lines []adminapi.TraceStory
		if err := v.ask("traces", query, &lines); err != nil {
			return nil, err
		}
		for i := range lines {
			contents[lines[i].Trace.ID] = lines[i].Trace
		}
	}
	slices.Reverse(list.Traces)
	for _, row := range list.Traces {
		t := turn{ListedTrace: row, Content: contents[row.ID]}
		p.Tokens += row.TotalTokens
		p.Cost += row.Cost
		p.Took += row.Latency
		if trouble(&row.Record) == "bad" {
			p.Failed++
		}
		if t.Content != nil {
			t.Asked = lastAsked(t.Content)
		}
		p.Turns = append(p.Turns, t)
	}
	return p, nil
}

// lastAsked returns what the caller of a trace asked. Messages before the caller's last are
// those of turns before.
func lastAsked(record *trace.Record) (text string) {
	messages := messagesOf(record.Messages)
	for i, m := range slices.Backward(messages) {
		if m.Role == "assistant" || i < len(messages)-1 && m.Role == "system" {
			break
		}
		if text != "" {
			m.Text += "\n\n" + text
		}
		text = m.Text
	}
	return text
}

// conversationOf returns the conversation that a trace belongs to, by its metadata or by a
// report on it.
func conversationOf(metadata []adminapi.Member, reports []trace.Metrics) string {
	for _, m := range metadata {
		if m.Name == "conversation_id" {
			return plain(m.Value)
		}
	}
	for i := range reports {
		if id := reports[i].ConversationID; id != nil {
			return *id
		}
	}
	return ""
}
