package trace

import "cmp"

// Field describes a member of a T, which is a [Record] or [Metrics]. Code that
// writes, reads, measures, copies or strips them iterates over the fields and names
// no member. A new member is written in these places:
//
//  1. the member of Record or Metrics, with the code that fills it;
//  2. its line in [RecordFields] or [MetricsFields];
//  3. its column, in schema.sql of SQLite and of PostgreSQL, with another format number
//     if a release has the current one.
//
// The table then covers JSON output and input, both databases' inserts, queries and
// erasures, the sizes that bound queues and answers, and copies. A member of a new
// type also needs a case in each switch over the types of At. Tests fail until all
// places have the member: TestEveryMemberIsAField here, and the tests of both
// databases that read stored records back.
type Field[T any] struct {
	// Name is the member's name in JSON. Group is the name of the JSON object that
	// contains it; empty: the outermost object.
	Name, Group string

	// Column is the member's column in a database, by default Name. For a time or a
	// duration, a database appends its unit, such as _us.
	Column string

	Required bool // the zero value is written, and does not mean absent
	Content  bool // recorded only if the log policy says so
	Text     bool // a []byte member is text; otherwise it is JSON

	// At returns a pointer to the member. It is one of *string, *[]byte, *int,
	// *int64, *float64, *bool, *[]string, *time.Time, *time.Duration, *ID, *Kind,
	// *State, *[]Attempt, **string, **int64 and **float64. A member that is zero
	// or nil is absent unless it is Required or Known.
	At func(*T) any

	// Known returns a pointer to the flag that says whether the member is known.
	// It is nil for a member without a flag: its zero value means absent.
	Known func(*T) *bool

	names names
}

// names are a field's member and group names as written in JSON: quoted, with a colon.
type names struct{ member, group string }

func named[T any](fields []Field[T]) []Field[T] {
	for i := range fields {
		f := &fields[i]
		f.Column = cmp.Or(f.Column, f.Name)
		f.names.member = `"` + f.Name + `":`
		if f.Group != "" {
			f.names.group = `"` + f.Group + `":`
		}
	}
	return fields
}

// RecordFields are the members of a record in the order of their JSON. They exclude
// Shared and SharesContent, which tell a store what several records have in common,
// and Sealer, which is not stored.
//
// A seal covers the members but answers in this order, by these names and in the form of
// appendSealed. A new member may have any place, because older records do not have
// it. If a member is moved, renamed or written differently, the seals of all records
// that have it become invalid.
var RecordFields = named([]Field[Record]{
	{Name: "trace_id", Column: "id", Required: true, At: func(r *Record) any { return &r.ID }},
	{Name: "decision_id", At: func(r *Record) any { return &r.Decision }},
	{Name: "time", At: func(r *Record) any { return &r.Time }},
	{Name: "workspace", Required: true, At: func(r *Record) any { return &r.Workspace }},
	{Name: "kind", At: func(r *Record) any { return &r.Kind }},
	{Name: "key", Required: true, At: func(r *Record) any { return &r.Key }},
	{Name: "state", At: func(r *Record) any { return &r.State }},
	{Name: "api_key", At: func(r *Record) any { return &r.APIKey }},
	{Name: "version", At: func(r *Record) any { return &r.Version }},
	{Name: "revision", At: func(r *Record) any { return &r.Revision }},
	{Name: "prompt", At: func(r *Record) any { return &r.Prompt }},
	{Name: "prompt_version", At: func(r *Record) any { return &r.PromptVersion }},
	{Name: "endpoint_variant", At: func(r *Record) any { return &r.EndpointVariant }},
	{Name: "endpoint_row", At: func(r *Record) any { return &r.EndpointRow }},
	{Name: "reason", At: func(r *Record) any { return &r.Reason }},
	{Name: "row", Column: "matched_row", At: func(r *Record) any { return &r.Row }},
	{Name: "variant", At: func(r *Record) any { return &r.Variant }},
	{Name: "arm", At: func(r *Record) any { return &r.Arm }},
	{Name: "provider", At: func(r *Record) any { return &r.Provider }},
	{Name: "model", At: func(r *Record) any { return &r.Model }},
	{Name: "status", At: func(r *Record) any { return &r.Status }},
	{Name: "code", At: func(r *Record) any { return &r.Code }},
	{Name: "finish_reason", At: func(r *Record) any { return &r.FinishReason }},
	{Name: "latency_ms", Column: "latency", At: func(r *Record) any { return &r.Latency }},
	{Name: "first_token_ms", Column: "first_token", At: func(r *Record) any { return &r.FirstToken }},
	{Name: "prompt_tokens", Group: "usage", Known: hasUsage, At: func(r *Record) any { return &r.PromptTokens }},
	{Name: "completion_tokens", Group: "usage", Known: hasUsage, At: func(r *Record) any { return &r.CompletionTokens }},
	{Name: "total_tokens", Group: "usage", Known: hasUsage, At: func(r *Record) any { return &r.TotalTokens }},
	{Name: "cost_usd", Column: "cost", At: func(r *Record) any { return &r.Cost }},
	{Name: "cached", At: func(r *Record) any { return &r.Cached }},
	{Name: answersName, At: func(r *Record) any { return &r.Answers }},
	{Name: "notes", At: func(r *Record) any { return &r.Notes }},
	{Name: "attempts", At: func(r *Record) any { return &r.Attempts }},
	{Name: "splits", At: func(r *Record) any { return &r.Splits }},
	{Name: "read", Column: "read_versions", At: func(r *Record) any { return &r.Read }},
	{Name: "inputs", At: func(r *Record) any { return &r.Inputs }},
	{Name: "metadata", At: func(r *Record) any { return &r.Metadata }},
	{Name: "seal", At: func(r *Record) any { return &r.Seal }},
	{Name: "context", Content: true, At: func(r *Record) any { return &r.Context }},
	{Name: "variables", Content: true, At: func(r *Record) any { return &r.Variables }},
	{Name: "messages", Content: true, At: func(r *Record) any { return &r.Messages }},
	{Name: "response", Content: true, Text: true, At: func(r *Record) any { return &r.Response }},
	{Name: "tool_calls", Content: true, At: func(r *Record) any { return &r.ToolCalls }},
})

// answersName is the member that a store keeps apart from the record, and that no seal
// covers: it grows after the record.
const answersName = "answers"

// IsCounted reports whether a field of a record is kept apart from it, since it grows.
func (f *Field[T]) IsCounted() bool { return f.Name == answersName }

func hasUsage(r *Record) *bool { return &r.HasUsage }

// MetricsFields are the members of metrics in the order of their JSON. They exclude
// Reply, which has its own table, and Repeated.
var MetricsFields = named([]Field[Metrics]{
	{Name: "id", At: func(m *Metrics) any { return (*ID)(&m.UUID) }},
	{Name: "trace_id", At: func(m *Metrics) any { return &m.TraceID }},
	{Name: "decision_id", At: func(m *Metrics) any { return &m.Decision }},
	{Name: "time", At: func(m *Metrics) any { return &m.Time }},
	{Name: "workspace", Required: true, At: func(m *Metrics) any { return &m.Workspace }},
	{Name: "api_key", At: func(m *Metrics) any { return &m.APIKey }},
	{Name: "score", At: func(m *Metrics) any { return &m.Score }},
	{Name: "latency_ms", At: func(m *Metrics) any { return &m.Latency }},
	{Name: "roundtrip_time_ms", At: func(m *Metrics) any { return &m.RoundtripTime }},
	{Name: "llm_response", At: func(m *Metrics) any { return &m.LLMResponse }},
	{Name: "chain_id", At: func(m *Metrics) any { return &m.ChainID }},
	{Name: "conversation_id", At: func(m *Metrics) any { return &m.ConversationID }},
	{Name: "prompt_tokens", Group: "usage", At: func(m *Metrics) any { return &m.PromptTokens }},
	{Name: "completion_tokens", Group: "usage", At: func(m *Metrics) any { return &m.CompletionTokens }},
	{Name: "total_tokens", Group: "usage", At: func(m *Metrics) any { return &m.TotalTokens }},
	{Name: "values", Column: "named_values", At: func(m *Metrics) any { return &m.Values }},
	{Name: "metadata", At: func(m *Metrics) any { return &m.Metadata }},
	{Name: "unit_field", At: func(m *Metrics) any { return &m.UnitField }},
	{Name: "unit", At: func(m *Metrics) any { return &m.Unit }},
	{Name: "happened", At: func(m *Metrics) any { return &m.Happened }},
	{Name: "event_id", At: func(m *Metrics) any { return &m.EventID }},
})

// attemptFields are the members of an attempt in output. The JSON in a store has
// other names, with nanoseconds.
var attemptFields = named([]Field[Attempt]{
	{Name: "provider", Required: true, At: func(a *Attempt) any { return &a.Provider }},
	{Name: "model", At: func(a *Attempt) any { return &a.Model }},
	{Name: "status", At: func(a *Attempt) any { return &a.Status }},
	{Name: "code", At: func(a *Attempt) any { return &a.Code }},
	{Name: "error", At: func(a *Attempt) any { return &a.Error }},
	{Name: "latency_ms", Required: true, At: func(a *Attempt) any { return &a.Latency }},
	{Name: "started_ms", At: func(a *Attempt) any { return &a.Started }},
	{Name: "wait_ms", At: func(a *Attempt) any { return &a.Wait }},
	{Name: "first_token_ms", At: func(a *Attempt) any { return &a.FirstToken }},
	{Name: "prompt_tokens", At: func(a *Attempt) any { return &a.PromptTokens }},
	{Name: "completion_tokens", At: func(a *Attempt) any { return &a.CompletionTokens }},
	{Name: "estimated", At: func(a *Attempt) any { return &a.Estimated }},
	{Name: "cached_tokens", At: func(a *Attempt) any { return &a.CachedTokens }},
	{Name: "cache_write_tokens", At: func(a *Attempt) any { return &a.CacheWriteTokens }},
	{Name: "cache_write_hour_tokens", At: func(a *Attempt) any { return &a.CacheWriteHourTokens }},
	{Name: "prompt_audio_tokens", At: func(a *Attempt) any { return &a.PromptAudioTokens }},
	{Name: "prompt_image_tokens", At: func(a *Attempt) any { return &a.PromptImageTokens }},
	{Name: "reasoning_tokens", At: func(a *Attempt) any { return &a.ReasoningTokens }},
	{Name: "completion_audio_tokens", At: func(a *Attempt) any { return &a.CompletionAudioTokens }},
	{Name: "completion_image_tokens", At: func(a *Attempt) any { return &a.CompletionImageTokens }},
	{Name: "web_searches", At: func(a *Attempt) any { return &a.WebSearches }},
	{Name: "file_searches", At: func(a *Attempt) any { return &a.FileSearches }},
	{Name: "code_executions", At: func(a *Attempt) any { return &a.CodeExecutions }},
	{Name: "tier", At: func(a *Attempt) any { return &a.Tier }},
	{Name: "cost_usd", At: func(a *Attempt) any { return &a.Cost }},
	{Name: "list_cost_usd", At: func(a *Attempt) any { return &a.ListCost }},
	{Name: "free", At: func(a *Attempt) any { return &a.Free }},
	{Name: "hedge", At: func(a *Attempt) any { return &a.Hedge }},
})

// buffers are the members of a record that are bytes.
var buffers = func() (all []Field[Record]) {
	for _, f := range RecordFields {
		if _, ok := f.At(new(Record)).(*[]byte); ok {
			all = append(all, f)
		}
	}
	return all
}()

func (f *Field[T]) bytes(t *T) *[]byte { return f.At(t).(*[]byte) }
