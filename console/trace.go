package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/trace"
)

// tracePage is one trace, or all traces of a decision.
type tracePage struct {
	ID      string
	Trace   *trace.Record // nil: there are only reports, or it is a decision
	Role    gateway.Role
	Outcome string
	Trouble string
	// Messages are what the model was asked, and Answer what it said. Both are empty
	// unless the content was recorded and the visitor may see it.
	Messages   []said
	Answer     string
	Calls      string // the answer's calls of tools
	Table      *decided
	Attempts   []waterfall
	Metrics    []trace.Metrics
	Others     []*trace.Record
	Inputs     []member
	Read       []member
	Metadata   []member
	Content    []member // context and variables
	Verdict    *trace.Verification
	Definition *adminapi.TracedVersion // with Table
	Decision   bool
	Playable   bool // the playground can ask the same
	Labels     bool // a label can be given
	Proof      *inspect.Proof
	// Conversation is the one that the trace belongs to; empty: none is known.
	Conversation string
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
type said struct{ Role, Text string }

// decided is the table of the definition that answered.
type decided struct {
	Columns []string
	Rows    []decidedRow
}

type decidedRow struct {
	Name  string
	Cells []string
	Chose bool
}

// waterfall is an attempt with its place in time, in thousandths of the whole call.
type waterfall struct {
	trace.Attempt
	Number                     int
	Waited, Start, First, End  int
	Failed                     bool
	Target                     string
	Tokens                     int64
	AfterWait, AfterFirstToken time.Duration
}

// story is the answer of the API for a trace or a decision.
type story struct {
	Trace        *trace.Record           `json:"trace"`
	Verification *trace.Verification     `json:"verification"`
	Proof        *inspect.Proof          `json:"proof"`
	Metrics      []trace.Metrics         `json:"metrics"`
	Definition   *adminapi.TracedVersion `json:"definition"`
	Prompt       *adminapi.TracedVersion `json:"prompt"`
	Others       []*trace.Record         `json:"others"`
	Decision     string                  `json:"decision_id"`
	Traces       []*trace.Record         `json:"traces"`
}

func buildTrace(v *visit) (any, error) {
	if v.form != nil {
		return v.labelTrace()
	}
	var s story
	query, command := url.Values{}, "traces"
	if v.query.Has("prove") {
		query.Set("prove", "true")
		command = "prove"
	}
	if err := v.ask("traces/"+v.id, query, &s); err != nil {
		return nil, err
	}
	v.command = "caddy cadenza " + command + " " + shellWord(v.id)
	p := &tracePage{ID: v.id, Trace: s.Trace, Role: v.visitor.Role, Metrics: s.Metrics, Others: s.Others, Verdict: s.Verification}
	if s.Decision != "" {
		p.ID, p.Decision, p.Others = s.Decision, true, s.Traces
		v.title = "Decision"
	}
	r := s.Trace
	if r == nil {
		return p, nil
	}
	v.title = r.Key
	p.ID, p.Outcome, p.Trouble = r.ID.String(), outcome(r), trouble(r)
	p.Labels = r.State != trace.StateStarted
	p.Messages, p.Answer, p.Calls = messagesOf(r.Messages), string(r.Response), indented(r.ToolCalls)
	p.Inputs, p.Read, p.Metadata = membersOf(r.Inputs), membersOf(r.Read), membersOf(r.Metadata)
	p.Conversation = conversationOf(p.Metadata, s.Metrics)
	p.Content = append(membersOf(r.Context), membersOf(r.Variables)...)
	// The row of an endpoint's record is that of its prompt.
	if p.Definition = cmp.Or(s.Prompt, s.Definition); p.Definition != nil {
		p.Table = tableOf(p.Definition.Content, r.Row)
	}
	p.Attempts = waterfalls(r)
	p.Playable = v.visitor.Role.Covers(gateway.RoleEditor) && (r.Kind == trace.KindEndpoint || r.Kind == trace.KindPrompt) && len(p.Messages)+len(p.Content) > 0
	p.Proof = s.Proof
	return p, nil
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
	for i, a := range r.Attempts {
		w := waterfall{Attempt: a, Number: i + 1, Failed: a.Code != "", Target: a.Provider, Tokens: a.PromptTokens + a.CompletionTokens}
		if a.Model != "" {
			w.Target += "/" + a.Model
		}
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

// member is a member of an object that was recorded.
type member struct{ Name, Value string }

// membersOf returns the members of an object as texts.
func membersOf(text []byte) (all []member) {
	for _, m := range adminapi.MembersOf(text) {
		all = append(all, member{m.Name, plain(m.Value)})
	}
	return all
}

// plain returns a text without quotes, what stands for a hashed value, and any other value
// as JSON.
func plain(value json.RawMessage) string {
	var text string
	var hashed struct {
		Hash string `json:"hash"`
	}
	switch {
	case json.Unmarshal(value, &text) == nil:
		return text
	case json.Unmarshal(value, &hashed) == nil && hashed.Hash != "":
		return "hash " + hashed.Hash
	}
	return string(value)
}

// indented returns JSON with line breaks.
func indented(text []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, text, "", "  ") != nil {
		return string(text)
	}
	return b.String()
}

// messagesOf returns recorded messages: their texts, and what other parts they have as
// JSON.
func messagesOf(text []byte) []said {
	if len(text) == 0 {
		return nil
	}
	var messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(text, &messages) != nil {
		return []said{{"", indented(text)}}
	}
	var list []said
	for _, m := range messages {
		var parts []json.RawMessage
		if json.Unmarshal(m.Content, &parts) != nil {
			list = append(list, said{m.Role, plain(m.Content)})
			continue
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

// tableOf reads the table of a definition's content, or returns nil if it has none.
func tableOf(content json.RawMessage, chosen string) *decided {
	var table struct {
		Columns []string            `json:"columns"`
		Matrix  [][]json.RawMessage `json:"matrix"`
		Rules   []json.RawMessage   `json:"rules"`
	}
	if json.Unmarshal(content, &table) != nil || len(table.Matrix)+len(table.Rules) == 0 {
		return nil
	}
	t := &decided{Columns: table.Columns}
	for i, cells := range table.Matrix {
		row := decidedRow{Name: rowName(i)}
		for at, cell := range cells {
			text := plain(cell)
			row.Cells = append(row.Cells, text)
			if at < len(table.Columns) && table.Columns[at] == "id" && text != "" {
				row.Name = text
			}
		}
		t.add(row, chosen)
	}
	for i, rule := range table.Rules {
		var named struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal(rule, &named) // the definition was served: it can be read
		row := decidedRow{Name: rowName(i), Cells: []string{string(rule)}}
		if named.ID != "" {
			row.Name = named.ID
		}
		t.add(row, chosen)
	}
	t.add(decidedRow{Name: "default"}, chosen)
	return t
}

func (t *decided) add(row decidedRow, chosen string) {
	row.Chose = row.Name == chosen || chosen == "" && row.Name == "default"
	t.Rows = append(t.Rows, row)
}

// rowName returns the name of a row without an id of its own.
func rowName(i int) string { return "row " + strconv.Itoa(i+1) }
