package sqlite

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/cadenza-gateway/cadenza/trace"
)

// FilterField is a member of [trace.Filter]: a parameter of the admin API, a flag of
// commands, and a condition of queries. Select applies the conditions to records that are
// not stored, too. A new one is a member of the filter and a row of [FilterFields]. Times
// and metadata have none.
type FilterField struct {
	Name  string // of the parameter; the flag has hyphens
	Usage string // of the flag; empty: a command has it for more than filters
	Bool  bool   // the flag takes no value

	// Parse sets the member from a parameter's text, which is not empty. It is nil if the
	// admin API parses the text: Caddy's durations, and ids by their beginning.
	Parse func(f *trace.Filter, text string) error

	// asked reports whether the filter sets the member.
	asked func(f *trace.Filter) bool
	// where adds the condition on a row of traces.
	where func(c *clauses, f *trace.Filter)
	// reported: reports without a trace have it, too.
	reported bool
}

// FilterFields are the members of filters, in the order of the conditions of queries.
var FilterFields = []FilterField{
	{
		Name: "kind", Usage: "prompt, endpoint or remoteconfig", reported: true,
		Parse: func(f *trace.Filter, text string) error {
			var known bool
			f.Kind, known = trace.ParseKind(text)
			return parsed(known, "there is no kind %q: prompt, endpoint, remoteconfig or metrics", text)
		},
		asked: func(f *trace.Filter) bool { return kindOf(f) != 0 },
		where: func(c *clauses, f *trace.Filter) {
			// The id has the kind, and so has every index.
			low, high := kindOf(f).IDBytes()
			c.add("substr(id, 7, 1) IN (?, ?) AND kind = ?", []byte{low}, []byte{high}, kindOf(f).String())
		},
	},
	textField("workspace", "", true, func(f *trace.Filter) *string { return &f.Workspace }),
	textField("key", "Of the definition with this key", false, func(f *trace.Filter) *string { return &f.Key }),
	textField("api_key", "Asked for with the API key of this name", true, func(f *trace.Filter) *string { return &f.APIKey }),
	textField("provider", "Answered by this provider", false, func(f *trace.Filter) *string { return &f.Provider }),
	textField("model", "Answered by this model", false, func(f *trace.Filter) *string { return &f.Model }),
	textField("code", "Failed with this error code", false, func(f *trace.Filter) *string { return &f.Code }),
	textField("finish_reason", "stop, tool_calls, length or content_filter", false, func(f *trace.Filter) *string { return &f.FinishReason }),
	{
		Name: "version", Usage: "Answered by this version of a definition or of an endpoint's prompt",
		Parse: func(f *trace.Filter, text string) error { f.Version = text; return nil },
		asked: func(f *trace.Filter) bool { return f.Version != "" },
		where: func(c *clauses, f *trace.Filter) { c.add("(version = ? OR prompt_version = ?)", f.Version, f.Version) },
	},
	textField("revision", "Answered by this revision of the workspace", false, func(f *trace.Filter) *string { return &f.Revision }),
	textField("variant", "Answered by this variant of a prompt", false, func(f *trace.Filter) *string { return &f.Variant }),
	{
		Name: "slower", Usage: "That took at least as long, such as 2s",
		asked: func(f *trace.Filter) bool { return f.Slower > 0 },
		where: func(c *clauses, f *trace.Filter) { c.add("latency_us >= ?", f.Slower.Microseconds()) },
	},
	{
		Name: "attempts", Usage: "With at least as many attempts at providers",
		Parse: func(f *trace.Filter, text string) (err error) {
			f.Attempts, err = strconv.Atoi(text)
			return parsed(err == nil && f.Attempts > 0, "attempts must be the number of attempts at least, such as 2, this is %q", text)
		},
		asked: func(f *trace.Filter) bool { return f.Attempts > 0 },
		where: func(c *clauses, f *trace.Filter) { c.add("json_array_length(attempts) >= ?", f.Attempts) },
	},
	{
		Name: "fallback", Usage: "That went beyond their first target: it failed or was left out", Bool: true,
		Parse: func(f *trace.Filter, text string) error {
			f.Fallback = text == "true"
			return parsed(f.Fallback, "fallback must be true or left out, this is %q", text)
		},
		asked: func(f *trace.Filter) bool { return f.Fallback },
		where: func(c *clauses, _ *trace.Filter) { c.add(fellBack) },
	},
	{
		Name: "state", Usage: "started, ended or interrupted",
		Parse: func(f *trace.Filter, text string) error {
			state, known := trace.ParseState(text)
			f.State = &state
			return parsed(known, "there is no state %q: started, ended or interrupted", text)
		},
		asked: func(f *trace.Filter) bool { return f.State != nil },
		where: func(c *clauses, f *trace.Filter) { c.add("state = ?", f.State.String()) },
	},
	{
		Name: "status", Usage: "ok, error, or an HTTP status",
		Parse: func(f *trace.Filter, text string) (err error) {
			var known bool
			if f.Outcome, known = trace.ParseOutcome(text); known {
				return nil
			}
			f.Status, err = strconv.Atoi(text)
			return parsed(err == nil && f.Status >= 100 && f.Status <= 599, "status must be ok, error or the number of an HTTP status, this is %q", text)
		},
		asked: func(f *trace.Filter) bool { return f.Status != 0 || f.Outcome != trace.AnyOutcome },
		where: func(c *clauses, f *trace.Filter) {
			if f.Status != 0 {
				c.add("status = ?", f.Status)
			}
			switch f.Outcome {
			case trace.OK:
				c.add("code IS NULL AND state = 'ended'")
			case trace.Failed:
				c.add("(code IS NOT NULL OR state = 'interrupted')")
			}
		},
	},
	textField("arm", "Answered by this arm: a prompt's variant, or a part of a configuration's split", false, func(f *trace.Filter) *string { return &f.Arm }),
	{
		Name: "decision", Usage: "Of this decision: its id, or the beginning of it", reported: true,
		asked: func(f *trace.Filter) bool { return !f.Decision.IsZero() },
		where: func(c *clauses, f *trace.Filter) { c.add("decision_id = ?", f.Decision[:]) },
	},
	{
		Name: "row", Usage: "Decided by this row, or default",
		Parse: func(f *trace.Filter, text string) error { f.Row = text; return nil },
		asked: func(f *trace.Filter) bool { return f.Row != "" },
		where: func(c *clauses, f *trace.Filter) { c.add("coalesce(matched_row, 'default') = ?", f.Row) },
	},
	{
		Name: "label", Usage: "That a visitor of the console gave this label",
		Parse: func(f *trace.Filter, text string) error { f.Label = text; return nil },
		asked: func(f *trace.Filter) bool { return f.Label != "" },
		where: func(c *clauses, f *trace.Filter) {
			c.add("EXISTS (SELECT 1 FROM metrics AS m INDEXED BY metrics_trace_id WHERE m.trace_id = traces.id AND m.workspace = traces.workspace AND "+labelled+")", f.Label)
		},
	},
	textField("conversation_id", "With metrics of this conversation", true, func(f *trace.Filter) *string { return &f.ConversationID }),
	textField("chain_id", "With metrics of this chain", true, func(f *trace.Filter) *string { return &f.ChainID }),
	{
		Name: "score", Usage: "Of which the score reported last is in this range, such as ..20, 80.. or 20..40",
		Parse: func(f *trace.Filter, text string) error {
			scores, err := trace.ParseScoreRange(text)
			f.Score = &scores
			return err
		},
		asked: func(f *trace.Filter) bool { return f.Score != nil },
		where: func(c *clauses, f *trace.Filter) {
			c.add(lastReport("score")+" BETWEEN ? AND ?", f.Score.Least, f.Score.Most)
		},
	},
}

// textField returns the row of a text member: it is the record's member of the same name
// or, if there is none, a name in its metadata or in a report on it.
func textField(name, usage string, reported bool, member func(*trace.Filter) *string) FilterField {
	row := FilterField{
		Name: name, Usage: usage, reported: reported,
		Parse: func(f *trace.Filter, text string) error { *member(f) = text; return nil },
		asked: func(f *trace.Filter) bool { return *member(f) != "" },
		where: func(c *clauses, f *trace.Filter) { c.named(naming{name, *member(f)}) },
	}
	if slices.ContainsFunc(trace.RecordFields, func(f trace.Field[trace.Record]) bool { return f.Name == name }) {
		row.where = func(c *clauses, f *trace.Filter) { c.equal(name, *member(f)) }
	}
	return row
}

// parsed returns nil if a text was read, or else an error with the text in it.
func parsed(ok bool, format, text string) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, text)
}

// kindOf returns the kind of all traces that a filter selects, 0 for several.
func kindOf(f *trace.Filter) trace.Kind {
	if f.Kind == 0 && (f.Attempts > 0 || f.Fallback) {
		return trace.KindEndpoint // no other makes attempts
	}
	return f.Kind
}

// conditions returns the conditions of a filter on a row of traces, except its times.
func conditions(f *trace.Filter) (c clauses, err error) {
	for i := range FilterFields {
		if field := &FilterFields[i]; field.asked(f) {
			field.where(&c, f)
		}
	}
	c.inputs(f.Inputs)
	return c, c.metadata(shownMetadata, f.Metadata)
}

// labelled is the condition on a report with a label, with the terms of the index
// metrics_label to the letter.
const labelled = "api_key >= 'console:' AND api_key < 'console;' AND CASE WHEN json_valid(metadata) THEN metadata ->> '$.label' END = ?"

// labelledSource returns the source of the traces with a label.
func labelledSource(f *trace.Filter) *idSource {
	s := &source{table: "metrics", id: "trace_id", index: "metrics_label"}
	s.add(labelled, f.Label)
	return &idSource{kind: f.Kind, reports: s}
}

// inputs adds the conditions on the fields that a decision read. A hash is found as text:
// it is of the field, too. No index has either.
func (c *clauses) inputs(matches []trace.InputMatch) {
	for _, match := range matches {
		var value clauses
		_ = value.metadata("inputs", []trace.MetadataMatch{match.MetadataMatch}) // Validate has read the value
		either, args := "("+value.and()+")", value.args
		for _, hash := range match.Hashes {
			either, args = either+" OR instr(inputs, ?)", append(args, `{"hash":"`+hash+`"}`)
		}
		c.add("inputs IS NOT NULL AND ("+either+")", args...)
	}
}

// onlyTraces reports whether the filter sets a member that metrics without a trace do not
// have.
func onlyTraces(f *trace.Filter) bool {
	return len(f.Inputs) > 0 || f.Kind != 0 && f.Kind != trace.KindMetrics ||
		slices.ContainsFunc(FilterFields, func(field FilterField) bool { return !field.reported && field.asked(f) })
}

// fellBack is the condition on calls that went beyond their first target. A
// target that is left out makes no attempt, but a note.
const fellBack = `(EXISTS (
	SELECT 1 FROM json_each(notes) WHERE substr(value, 1, 8) = 'skipped '
) OR EXISTS (
	SELECT 1 FROM json_each(attempts) AS a WHERE a.value ->> 'provider' IS NOT attempts ->> '$[0].provider' OR a.value ->> 'model' IS NOT attempts ->> '$[0].model'
))`
