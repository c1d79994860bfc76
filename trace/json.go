package trace

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// timeForm is RFC 3339 with milliseconds, which is what the store keeps.
const timeForm = "2006-01-02T15:04:05.000Z"

// AppendJSON appends the record as one JSON object on one line: the form in
// which traces leave Cadenza, by the admin API, exports and sinks alike. Its
// members stand in this order, and those that are absent are left out:
//
//	trace_id, time (RFC 3339, UTC, with milliseconds), workspace, kind, key,
//	state, api_key, version, revision, prompt, prompt_version, row, variant,
//	provider, model, status, code, finish_reason, latency_ms, first_token_ms,
//	usage {prompt_tokens, completion_tokens, total_tokens},
//	cost_usd, cached, notes [text],
//	attempts [{provider, model, status, code, latency_ms, started_ms, wait_ms,
//	  first_token_ms, prompt_tokens, completion_tokens, estimated, hedge}],
//	metadata, context, variables, messages, response (text), tool_calls
//
// Durations are numbers of milliseconds with microseconds as their fraction.
// What was stored as JSON and is not, as the file of another program may hold,
// becomes a string: the output is valid JSON whatever the record holds.
func (r *Record) AppendJSON(dst []byte) []byte {
	o := object{append(dst, '{')}
	o.id("trace_id", r.ID)
	o.time("time", r.Time)
	o.must("workspace", r.Workspace)
	o.must("kind", r.Kind.String())
	o.must("key", r.Key)
	o.must("state", r.State.String())
	o.text("api_key", r.APIKey)
	o.text("version", r.Version)
	o.text("revision", r.Revision)
	o.text("prompt", r.Prompt)
	o.text("prompt_version", r.PromptVersion)
	o.text("row", r.Row)
	o.text("variant", r.Variant)
	o.text("provider", r.Provider)
	o.text("model", r.Model)
	o.integer("status", int64(r.Status))
	o.text("code", r.Code)
	o.text("finish_reason", r.FinishReason)
	o.duration("latency_ms", r.Latency)
	o.duration("first_token_ms", r.FirstToken)
	if r.HasUsage {
		o.usage(&r.PromptTokens, &r.CompletionTokens, &r.TotalTokens)
	}
	if r.Cost != 0 {
		o.float("cost_usd", &r.Cost)
	}
	o.flag("cached", r.Cached)
	if len(r.Notes) > 0 {
		o.name("notes")
		o.dst = append(o.dst, '[')
		for _, note := range r.Notes {
			o.separate()
			o.dst = jsontext.AppendString(o.dst, note)
		}
		o.dst = append(o.dst, ']')
	}
	if len(r.Attempts) > 0 {
		o.name("attempts")
		o.dst = AppendAttempts(o.dst, r.Attempts)
	}
	o.raw("metadata", r.Metadata)
	o.raw("context", r.Context)
	o.raw("variables", r.Variables)
	o.raw("messages", r.Messages)
	if len(r.Response) > 0 {
		o.name("response")
		o.dst = jsontext.AppendString(o.dst, r.Response)
	}
	o.raw("tool_calls", r.ToolCalls)
	return append(o.dst, '}')
}

// MarshalJSON implements [json.Marshaler] by AppendJSON. It never fails.
func (r *Record) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// AppendAttempts appends attempts as they stand in a record, as a JSON array.
// The form in which a store keeps them has nanoseconds.
func AppendAttempts(dst []byte, attempts []Attempt) []byte {
	o := object{append(dst, '[')}
	for i := range attempts {
		o.separate()
		o.dst = attempts[i].appendJSON(o.dst)
	}
	return append(o.dst, ']')
}

// appendJSON appends the form in which an attempt is shown.
func (a *Attempt) appendJSON(dst []byte) []byte {
	o := object{append(dst, '{')}
	o.must("provider", a.Provider)
	o.text("model", a.Model)
	o.integer("status", int64(a.Status))
	o.text("code", a.Code)
	o.name("latency_ms")
	o.dst = appendMillis(o.dst, a.Latency)
	o.duration("started_ms", a.Started)
	o.duration("wait_ms", a.Wait)
	o.duration("first_token_ms", a.FirstToken)
	o.integer("prompt_tokens", a.PromptTokens)
	o.integer("completion_tokens", a.CompletionTokens)
	o.flag("estimated", a.Estimated)
	o.flag("hedge", a.Hedge)
	return append(o.dst, '}')
}

// AppendJSON appends the metrics as one JSON object on one line, as
// [Record.AppendJSON] does a record. Its members, in order, are:
//
//	id, trace_id, time, workspace, api_key, score, latency_ms,
//	roundtrip_time_ms, llm_response, chain_id, conversation_id,
//	usage {prompt_tokens, completion_tokens, total_tokens}, metadata
//
// The id is that of the metrics themselves, by which copies of them are told. A
// member that was reported as empty or zero is not absent.
func (m *Metrics) AppendJSON(dst []byte) []byte {
	o := object{append(dst, '{')}
	if m.UUID != [16]byte{} {
		o.id("id", ID(m.UUID))
	}
	o.id("trace_id", m.TraceID)
	o.time("time", m.Time)
	o.must("workspace", m.Workspace)
	o.text("api_key", m.APIKey)
	o.float("score", m.Score)
	o.float("latency_ms", m.Latency)
	o.float("roundtrip_time_ms", m.RoundtripTime)
	o.optional("llm_response", m.LLMResponse)
	o.optional("chain_id", m.ChainID)
	o.optional("conversation_id", m.ConversationID)
	o.usage(m.PromptTokens, m.CompletionTokens, m.TotalTokens)
	o.raw("metadata", m.Metadata)
	return append(o.dst, '}')
}

// MarshalJSON implements [json.Marshaler] by AppendJSON. It never fails.
func (m *Metrics) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// object is a JSON object that is being written. Names need no escapes.
type object struct{ dst []byte }

// separate writes a comma unless nothing stands before it.
func (o *object) separate() {
	if last := o.dst[len(o.dst)-1]; last != '{' && last != '[' {
		o.dst = append(o.dst, ',')
	}
}

func (o *object) name(name string) {
	o.separate()
	o.dst = append(append(append(o.dst, '"'), name...), '"', ':')
}

func (o *object) must(name, value string) {
	o.name(name)
	o.dst = jsontext.AppendString(o.dst, value)
}

func (o *object) text(name, value string) {
	if value != "" {
		o.must(name, value)
	}
}

func (o *object) optional(name string, value *string) {
	if value != nil {
		o.must(name, *value)
	}
}

func (o *object) id(name string, id ID) {
	o.name(name)
	o.dst = append(id.AppendTo(append(o.dst, '"')), '"')
}

func (o *object) time(name string, t time.Time) {
	if !t.IsZero() {
		o.name(name)
		o.dst = append(t.UTC().AppendFormat(append(o.dst, '"'), timeForm), '"')
	}
}

func (o *object) integer(name string, n int64) {
	if n != 0 {
		o.name(name)
		o.dst = strconv.AppendInt(o.dst, n, 10)
	}
}

// float leaves out what JSON has no number for.
func (o *object) float(name string, value *float64) {
	if value == nil || math.IsNaN(*value) || math.IsInf(*value, 0) {
		return
	}
	o.name(name)
	form := byte('f')
	if size := math.Abs(*value); size != 0 && (size < 1e-6 || size >= 1e21) {
		form = 'e'
	}
	o.dst = strconv.AppendFloat(o.dst, *value, form, -1, 64)
}

func (o *object) flag(name string, set bool) {
	if set {
		o.name(name)
		o.dst = append(o.dst, "true"...)
	}
}

func (o *object) duration(name string, d time.Duration) {
	if d != 0 {
		o.name(name)
		o.dst = appendMillis(o.dst, d)
	}
}

func (o *object) usage(prompt, completion, total *int64) {
	if prompt == nil && completion == nil && total == nil {
		return
	}
	o.name("usage")
	o.dst = append(o.dst, '{')
	for _, tokens := range []struct {
		name  string
		count *int64
	}{{"prompt_tokens", prompt}, {"completion_tokens", completion}, {"total_tokens", total}} {
		if tokens.count != nil {
			o.name(tokens.name)
			o.dst = strconv.AppendInt(o.dst, *tokens.count, 10)
		}
	}
	o.dst = append(o.dst, '}')
}

// raw writes what is JSON already, on one line, and anything else as a string.
func (o *object) raw(name string, value []byte) {
	if len(value) == 0 {
		return
	}
	o.name(name)
	switch {
	case !utf8.Valid(value) || !json.Valid(value):
		o.dst = jsontext.AppendString(o.dst, value)
	case bytes.ContainsAny(value, "\n\r"): // only between tokens, as it is valid
		line := bytes.NewBuffer(o.dst)
		if err := json.Compact(line, value); err == nil {
			o.dst = line.Bytes()
		}
	default:
		o.dst = append(o.dst, value...)
	}
}

// appendMillis appends d in milliseconds, with microseconds as their fraction.
func appendMillis(dst []byte, d time.Duration) []byte {
	micros := d.Microseconds()
	if micros < 0 {
		dst, micros = append(dst, '-'), -micros
	}
	dst = strconv.AppendInt(dst, micros/1000, 10)
	rest := micros % 1000
	if rest == 0 {
		return dst
	}
	fraction := [4]byte{'.', byte('0' + rest/100), byte('0' + rest/10%10), byte('0' + rest%10)}
	return append(dst, bytes.TrimRight(fraction[:], "0")...)
}
