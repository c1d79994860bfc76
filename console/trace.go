package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/trace"
)

// tracePage is one trace, or all traces of a decision. There may be only reports on either.
type tracePage struct {
	adminapi.TraceStory
	ID   string
	Role gateway.Role
	// Messages are what the model was asked, if the content was recorded and the visitor
	// may see it.
	Messages     []said
	Table        *adminapi.TracedTable
	Attempts     []waterfall
	Conversation string // that the trace belongs to; empty: none is known
	Playable     bool   // the playground can ask the same
	Labels       bool   // a label can be given
}

// labelTrace gives a trace the label, the score and the note of the page's form.
func (v *visit) labelTrace() (any, error) {
	body := map[string]any{"label": v.form.Get("label"), "note": v.form.Get("note")}
	if text := strings.TrimSpace(v.form.Get("score")); text != "" {
		score, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, &adminapi.AskError{Status: http.StatusBadRequest, Message: fmt.Sprintf("score must be a number from 0 to 100, this is %q", text)}
		}
		body["score"] = score
	}
	v.to = prefix + "traces/" + url.PathEscape(v.id)
	return nil, v.send(http.MethodPost, "traces/"+url.PathEscape(v.id)+"/label", nil, body, new(struct{}))
}

// said is a message of the conversation.
type said struct {
	Role string `json:"role"`
	Text string `json:"content"`
}

// waterfall is an attempt with its place in time, in thousandths of the whole call.
type waterfall struct {
	trace.Attempt
	Waited, Start, First, End int
	Target                    string
	Tokens                    int64
}

func buildTrace(v *visit) (any, error) {
	if v.form != nil {
		return v.labelTrace()
	}
	p := &tracePage{ID: v.id, Role: v.Visitor.Role}
	query, command := url.Values{}, "traces"
	if v.query.Has("prove") {
		query.Set("prove", "true")
		command = "prove"
	}
	if err := v.ask("traces/"+v.id, query, &p.TraceStory); err != nil {
		return nil, err
	}
	v.Command = "caddy cadenza " + command + " " + shellWord(v.id)
	if !p.Decision.IsZero() {
		p.ID, v.Title = p.Decision.String(), "Decision"
	}
	r := p.Trace
	if r == nil {
		return p, nil
	}
	p.ID, v.Title = r.ID.String(), r.Key
	p.Labels = r.State != trace.StateStarted
	p.Messages = messagesOf(r.Messages)
	p.Conversation = conversationOf(adminapi.MembersOf(r.Metadata), p.Metrics)
	// The row of an endpoint's record is that of its prompt.
	if d := cmp.Or(p.Prompt, p.Definition); d != nil {
		p.Table = d.Table(r.Row)
	}
	p.Attempts = waterfalls(r)
	p.Playable = v.Visitor.Role.Covers(gateway.RoleEditor) && (r.Kind == trace.KindEndpoint || r.Kind == trace.KindPrompt) && !makesVectors(p.Definition) && len(r.Messages)+len(r.Context)+len(r.Variables) > 0
	return p, nil
}

// Splits returns the splits that the trace's unit came to.
func (p *tracePage) Splits() []inspect.TracedSplit {
	var all []inspect.TracedSplit
	_ = json.Unmarshal(p.Trace.Splits, &all) // a trace may have none
	return slices.DeleteFunc(all, func(s inspect.TracedSplit) bool { return !s.WasConsulted() })
}

// makesVectors reports whether a definition is an endpoint that makes vectors, which the
// playground does not ask.
func makesVectors(d *adminapi.TracedVersion) bool {
	var endpoint struct{ Task string }
	return d != nil && json.Unmarshal(d.Content, &endpoint) == nil && endpoint.Task == "embedding"
}

// waterfalls places the attempts of a call in time.
func waterfalls(r *trace.Record) []waterfall {
	whole := r.Latency
	for i := range r.Attempts {
		whole = max(whole, r.Attempts[i].Started+r.Attempts[i].Latency)
	}
	place := func(d time.Duration) int {
		if whole == 0 {
			return 0
		}
		return int(1000 * d / whole)
	}
	var list []waterfall
	for _, a := range r.Attempts {
		w := waterfall{Attempt: a, Target: (&invoke.Target{Name: a.Provider, Model: a.Model}).String(), Tokens: a.PromptTokens + a.CompletionTokens}
		w.Waited = place(a.Started - a.Wait)
		w.Start, w.End = place(a.Started), max(place(a.Started+a.Latency), place(a.Started)+2)
		w.First = w.End
		if a.FirstToken > 0 {
			w.First = place(a.Started + a.FirstToken)
		}
		list = append(list, w)
	}
	return list
}

// Width returns the difference of two places.
func (*waterfall) Width(from, to int) int { return max(to-from, 0) }

// plain returns a text without quotes, what stands for a hashed value, and any other value
// as JSON.
func plain(value json.RawMessage) string {
	var hashed struct {
		Hash string `json:"hash"`
	}
	if bytes.HasPrefix(value, []byte("{")) && json.Unmarshal(value, &hashed) == nil && hashed.Hash != "" {
		return "hash " + hashed.Hash
	}
	return adminapi.PlainText(value)
}

// indented returns JSON with line breaks.
func indented(text []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, text, "", "  ") != nil {
		return string(text)
	}
	return b.String()
}

// messagesOf returns recorded messages, or those of a variant: their texts, and what other
// parts they have as JSON. What is no message, such as the place of the caller's in a
// variant, is shown as it is.
func messagesOf(text []byte) (list []said) {
	var messages []json.RawMessage
	if len(text) > 0 && json.Unmarshal(text, &messages) != nil {
		return []said{{"", indented(text)}}
	}
	for _, message := range messages {
		var m struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		}
		var parts []json.RawMessage
		switch {
		case json.Unmarshal(message, &m) != nil || m.Role == "":
			list = append(list, said{"", contentText(message)})
		case json.Unmarshal(m.Content, &parts) != nil:
			list = append(list, said{m.Role, plain(m.Content)})
		}
		for _, part := range parts {
			var read struct {
				Type string  `json:"type"`
				Text *string `json:"text"`
			}
			if json.Unmarshal(part, &read) == nil && read.Type == "text" && read.Text != nil {
				list = append(list, said{m.Role, *read.Text})
			} else {
				list = append(list, said{m.Role, indented(part)})
			}
		}
	}
	return list
}
