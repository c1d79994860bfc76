package command

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/visible"
	"github.com/cadenza-gateway/cadenza/trace"
)

// listedArm returns the arm for a list. On a terminal it is empty if the arm has the name
// of its key, as the only variant of a prompt has.
func (t *shownTrace) listedArm(st styles) string {
	if st.width == 0 || t.Arm != t.Key {
		return t.Arm
	}
	return ""
}

// outcome returns the state, the error or the status of the answer.
func (t *shownTrace) outcome() string {
	switch {
	case t.State != trace.StateEnded:
		return t.State.String()
	case t.Code != "":
		return strings.TrimSpace(visible.Line(statusText(t.Status) + " " + t.Code))
	}
	text := statusText(t.Status)
	if t.Cached {
		text += " cached"
	}
	if t.wasCut() {
		text += " " + t.FinishReason
	}
	if t.Answers > 0 {
		text += " ×" + strconv.Itoa(t.Answers)
	}
	return strings.TrimSpace(visible.Line(text))
}

// wasCut reports whether a limit or a policy cut the answer.
func (t *shownTrace) wasCut() bool {
	return t.FinishReason == "length" || t.FinishReason == "content_filter"
}

func statusText(status int) string {
	if status == 0 {
		return ""
	}
	return strconv.Itoa(status)
}

func target(provider, model string) string {
	if provider == "" || model == "" {
		return provider + model
	}
	return provider + "/" + model
}

// tokensText returns text such as "12 prompt, 34 completion, 46 in all", without counts
// that are nil.
func tokensText(prompt, completion, total *int64) string {
	var parts []string
	for _, tokens := range [...]struct {
		count *int64
		name  string
	}{{prompt, "prompt"}, {completion, "completion"}, {total, "in all"}} {
		if tokens.count != nil {
			parts = append(parts, fmt.Sprintf("%d %s", *tokens.count, tokens.name))
		}
	}
	return strings.Join(parts, ", ")
}

// shownStory is a trace with its metrics and its definition, or the traces of a
// decision with the metrics on it.
type shownStory struct {
	Trace      *shownTrace             `json:"trace"`
	Others     []*shownTrace           `json:"others"`
	Decision   trace.ID                `json:"decision_id"`
	Traces     []*shownTrace           `json:"traces"`
	Metrics    []trace.Metrics         `json:"metrics"`
	Definition *adminapi.TracedVersion `json:"definition"`
	Prompt     *adminapi.TracedVersion `json:"prompt"`
	// whole asks for the contents of the definitions.
	whole bool
}

// story asks for one trace and writes everything that the gateway has on it.
func (l *traceList) story(id string) error {
	var text json.RawMessage
	if err := l.client.get("/cadenza/traces/"+url.PathEscape(id), nil, &text); err != nil {
		return err
	}
	out := l.cmd.OutOrStdout()
	if l.asJSON {
		var b bytes.Buffer
		if err := json.Compact(&b, text); err != nil {
			return err
		}
		_, err := out.Write(append(visible.JSON(b.Bytes()), '\n'))
		return err
	}
	story := shownStory{whole: l.definition}
	if err := decode(text, &story); err != nil {
		return err
	}
	var b bytes.Buffer
	story.write(&b, stylesFor(out), id)
	_, err := out.Write(b.Bytes())
	return err
}

// write writes the story for people: the decision and the attempts, then the
// metrics, then the content.
func (s *shownStory) write(b *bytes.Buffer, st styles, id string) {
	t := s.Trace
	switch {
	case !s.Decision.IsZero():
		s.writeDecision(b, st)
	case t == nil:
		fmt.Fprintf(b, "%s has metrics and no trace: they were reported without one, or it was not recorded, is past the retention, or is another gateway's\n", visible.Line(id))
	default:
		t.write(b, st, s)
	}
	s.writeMetrics(b, st)
	if s.whole {
		s.writeDefinitions(b, st)
	}
	if t == nil {
		return
	}
	writeBlock(b, st, "metadata", layoutContent(t.Metadata))
	writeBlock(b, st, "context", layoutContent(t.Context))
	writeBlock(b, st, "variables", layoutContent(t.Variables))
	writeMessages(b, st, t.Messages)
	writeBlock(b, st, "response", layoutContent(t.Response))
	writeBlock(b, st, "tool calls", layoutContent(t.ToolCalls))
}

// write writes the decision, the outcome and the attempts.
func (t *shownTrace) write(b *bytes.Buffer, st styles, s *shownStory) {
	var rows [][]cell
	add := func(label, text string) {
		if text != "" {
			rows = append(rows, []cell{{label, st.dim}, plainCell(text)})
		}
	}
	add("trace", t.ID.String())
	if !t.Decision.IsZero() {
		add("decision", t.Decision.String())
	}
	add("time", timeText(t.Time))
	add("key", visible.Line(fmt.Sprintf("%s (%s)", t.Key, t.Kind)))
	add("asked by", visible.Line(fmt.Sprintf("%s (workspace %s)", cmp.Or(t.APIKey, "no key"), t.Workspace)))
	version := ""
	if t.Version != "" {
		version = t.Version
		if d := s.Definition; d != nil {
			version += fmt.Sprintf(", number %d of this key, first seen %s", d.Ordinal, d.FirstSeen.UTC().Format(time.RFC3339))
		}
		if t.Revision != "" {
			version += " (revision " + t.Revision + ")"
		}
	}
	add("version", visible.Line(version))
	if t.Prompt != "" {
		add("prompt", visible.Line(fmt.Sprintf("%s (version %s)", t.Prompt, t.PromptVersion)))
	}
	decided := s.Definition
	if t.Prompt != "" {
		decided = s.Prompt // an endpoint may have a table of its own
	}
	row := cmp.Or(t.Row, "default")
	if text := rowOf(decided, t.Row); text != "" {
		row += " (" + visible.Clip(text, shownRow) + ")"
	}
	add("row", visible.Line(row))
	add("reason", visible.Line(t.reason()))
	add("variant", visible.Line(t.Variant))
	if t.Arm != t.Variant {
		add("arm", visible.Line(t.Arm))
	}
	if t.EndpointVariant != "" {
		row := cmp.Or(t.EndpointRow, "default")
		if text := rowOf(s.Definition, t.EndpointRow); text != "" {
			row += ": " + visible.Clip(text, shownRow)
		}
		add("endpoint", visible.Line(fmt.Sprintf("variant %s (%s)", t.EndpointVariant, row)))
	}
	add("model", visible.Line(target(t.Provider, t.Model)))
	color := ""
	if t.Code != "" || t.State == trace.StateInterrupted {
		color = st.red
	}
	rows = append(rows, []cell{{"status", st.dim}, {t.outcome(), color}})
	add("finish", visible.Line(t.FinishReason))
	took := elapsed(t.Latency)
	if t.FirstToken != 0 {
		took += ", the first content after " + elapsed(t.FirstToken)
	}
	add("took", took)
	if t.HasUsage {
		add("tokens", tokensText(&t.PromptTokens, &t.CompletionTokens, &t.TotalTokens))
	}
	add("cost", t.costText())
	for _, note := range t.Notes {
		add("note", visible.Line(note))
	}
	new(columns).write(b, st, rows...)
	t.writeAttempts(b, st)
	writeBasis(b, st, []*shownTrace{t})
	if len(s.Others) > 0 {
		fmt.Fprintf(b, "\n%sother answers of the decision%s\n", st.bold, st.reset)
		writeAnswers(b, st, s.Others)
	}
}

// writeAttempts writes the attempts at providers.
func (t *shownTrace) writeAttempts(b *bytes.Buffer, st styles) {
	if len(t.Attempts) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%sattempts%s\n", st.bold, st.reset)
	table := columns{right: []bool{false, true, false, false, true}}
	var rows [][]cell
	for i, a := range t.Attempts {
		result := cell{strings.TrimSpace(statusText(a.Status) + " " + visible.Line(a.Code)), st.green}
		if a.Code != "" {
			result.color = st.red
		}
		at := "at " + cmp.Or(elapsed(a.Started), "0 ms")
		rows = append(rows, []cell{
			plainCell(" "), plainCell(strconv.Itoa(i + 1)), plainCell(visible.Line(target(a.Provider, a.Model))), result,
			plainCell(at), plainCell(attemptText(&a)),
		})
	}
	var lines bytes.Buffer
	table.write(&lines, st, rows...)
	for i := range t.Attempts {
		line, _ := lines.ReadBytes('\n')
		b.Write(line)
		if text := t.Attempts[i].Error; text != "" {
			fmt.Fprintf(b, "       %s\n", visible.Line(text))
		}
	}
}

// attemptText returns the times, the tokens and the cost of an attempt.
func attemptText(a *trace.Attempt) string {
	parts := []string{"took " + cmp.Or(elapsed(a.Latency), "0.00 ms")}
	if a.FirstToken != 0 {
		parts = append(parts, "first content after "+elapsed(a.FirstToken))
	}
	if a.Wait != 0 {
		parts = append(parts, "waited "+elapsed(a.Wait))
	}
	if a.PromptTokens+a.CompletionTokens > 0 {
		parts = append(parts, fmt.Sprintf("%d + %d tokens", a.PromptTokens, a.CompletionTokens)+tokenDetails(a))
	}
	switch {
	case a.ListCost != 0:
		parts = append(parts, fmt.Sprintf("cost %s, as the provider says (%s by the price list)", cmp.Or(dollars(a.Cost), "$0"), dollars(a.ListCost)))
	case a.Cost != 0:
		parts = append(parts, "cost "+dollars(a.Cost))
	case a.Free:
		parts = append(parts, "free")
	case unpriced(a):
		parts = append(parts, "no price")
	}
	if a.Hedge {
		parts = append(parts, "a hedge")
	}
	return strings.Join(parts, ", ")
}

// tokenDetails returns the parts of an attempt's tokens, such as " (8 cached,
// 20 reasoning, estimated)".
func tokenDetails(a *trace.Attempt) string {
	var parts []string
	for _, part := range [...]struct {
		count int64
		name  string
	}{
		{a.CachedTokens, "cached"}, {a.CacheWriteTokens + a.CacheWriteHourTokens, "written to the cache"}, {a.ReasoningTokens, "reasoning"},
		{a.PromptAudioTokens + a.CompletionAudioTokens, "of sounds"}, {a.PromptImageTokens + a.CompletionImageTokens, "of images"},
	} {
		if part.count != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.count, part.name))
		}
	}
	if a.Tier != "" {
		parts = append(parts, "tier "+visible.Line(a.Tier))
	}
	if a.Estimated {
		parts = append(parts, "estimated")
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// unpriced reports whether the cost of an attempt is unknown, because it used tokens of a
// model without a price.
func unpriced(a *trace.Attempt) bool {
	return a.PromptTokens+a.CompletionTokens > 0 && a.Cost == 0 && !a.Free
}

// costText returns the cost of the call, with "+ ?" if the cost of an attempt is unknown.
func (t *shownTrace) costText() string {
	text := dollars(t.Cost)
	if !slices.ContainsFunc(t.Attempts, func(a trace.Attempt) bool { return unpriced(&a) }) {
		return text
	}
	if text == "" {
		return "?"
	}
	return text + " + ?"
}

func (s *shownStory) writeMetrics(b *bytes.Buffer, st styles) {
	if len(s.Metrics) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%smetrics%s\n", st.bold, st.reset)
	for _, m := range s.Metrics {
		var parts []string
		add := func(name, value string) {
			if value != "" {
				parts = append(parts, name+" "+value)
			}
		}
		if m.Score != nil {
			add("score", strconv.FormatFloat(*m.Score, 'g', -1, 64))
		}
		add("latency", millis(m.Latency))
		add("round trip", millis(m.RoundtripTime))
		add("tokens:", tokensText(m.PromptTokens, m.CompletionTokens, m.TotalTokens))
		for _, text := range [...]struct {
			name  string
			value *string
		}{{"chain", m.ChainID}, {"conversation", m.ConversationID}} {
			if text.value != nil {
				add(text.name, visible.Line(*text.value))
			}
		}
		if len(m.Metadata) > 0 {
			add("metadata", visible.Line(string(m.Metadata)))
		}
		for _, v := range adminapi.MembersOf(m.Values) {
			add(visible.Line(v.Name), visible.Line(string(v.Value)))
		}
		line := timeText(m.Time)
		if m.APIKey != "" {
			line += " by " + visible.Line(m.APIKey)
		}
		if m.TraceID.IsZero() && !m.Decision.IsZero() && s.Decision.IsZero() {
			line += ", on the whole decision"
		}
		fmt.Fprintf(b, "  %s: %s\n", line, strings.Join(parts, ", "))
		if m.LLMResponse != nil {
			writeIndented(b, "    ", *m.LLMResponse)
		}
	}
}

// writeMessages writes each message below its role.
func writeMessages(b *bytes.Buffer, st styles, text []byte) {
	var messages []struct {
		Role    string        `json:"role"`
		Content tracedContent `json:"content"`
	}
	if json.Unmarshal(text, &messages) != nil {
		writeBlock(b, st, "messages", layoutContent(text))
		return
	}
	for _, m := range messages {
		writeBlock(b, st, visible.Line(m.Role), cmp.Or(string(m.Content), " "))
	}
}

// tracedContent is the content of a message for people: a text, or its parts with a line
// or more for each.
type tracedContent string

// UnmarshalJSON reads a text, or a list of parts in the form of traces.
func (c *tracedContent) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] != '[' {
		return json.Unmarshal(data, (*string)(c))
	}
	var parts []struct {
		Type      string        `json:"type"`
		Text      string        `json:"text"`
		MediaType string        `json:"media_type"`
		Name      string        `json:"name"`
		URL       string        `json:"url"`
		Arguments string        `json:"arguments"`
		Bytes     int           `json:"bytes"`
		Content   tracedContent `json:"content"`
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	lines := make([]string, len(parts))
	for i, p := range parts {
		line := "[" + p.Type
		for _, word := range []string{p.Name, p.MediaType, p.URL, p.Arguments} {
			if word != "" {
				line += " " + word
			}
		}
		if p.Bytes > 0 {
			line += fmt.Sprintf(", %d bytes", p.Bytes)
		}
		switch line += "]"; {
		case p.Type == "text":
			line = p.Text
		case p.Text != "":
			line += " " + p.Text
		case p.Content != "":
			line += " " + string(p.Content)
		}
		lines[i] = line
	}
	*c = tracedContent(strings.Join(lines, "\n"))
	return nil
}
