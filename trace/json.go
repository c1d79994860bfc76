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

// AppendJSON appends the record as one JSON object on one line. The admin API,
// exports and sinks use this form. It has these members in this order, except absent
// ones:
//
//	trace_id, decision_id, time (RFC 3339, UTC, with milliseconds), workspace,
//	kind, key, state, api_key, version, revision, prompt, prompt_version,
//	endpoint_variant, endpoint_row, reason, row, variant, arm, provider, model,
//	status, code, finish_reason, latency_ms, first_token_ms,
//	usage {prompt_tokens, completion_tokens, total_tokens}, cost_usd, cached, answers, notes [text],
//	attempts [{provider, model, status, code, error, latency_ms, started_ms,
//	  wait_ms, first_token_ms, prompt_tokens, completion_tokens, estimated,
//	  the members of UsageDetails, cost_usd, list_cost_usd, free, hedge}],
//	splits [{experiment, bucket, consulted, arm, share, arms, rollout, compared, unit}],
//	read {definition: version},
//	inputs {field: value}, metadata, seal, context, variables, messages,
//	response (text), tool_calls
//
// Durations are in milliseconds, with microseconds as the fraction. A member that
// should be JSON but is not valid, because another program wrote it to the store's
// file, becomes a string: the output is always valid JSON.
func (r *Record) AppendJSON(dst []byte) []byte { return appendFields(dst, RecordFields, r) }

// MarshalJSON implements [json.Marshaler] by AppendJSON. It never fails.
func (r *Record) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// AppendAttempts appends attempts as a JSON array, in the form of AppendJSON. The
// form in a store has nanoseconds.
func AppendAttempts(dst []byte, attempts []Attempt) []byte {
	o := object{dst: append(dst, '[')}
	for i := range attempts {
		o.separate()
		o.dst = appendFields(o.dst, attemptFields, &attempts[i])
	}
	return append(o.dst, ']')
}

// AppendJSON appends the metrics as one JSON object on one line, like
// [Record.AppendJSON]. Its members, in order, are:
//
//	id, trace_id, decision_id, time, workspace, api_key, score, latency_ms,
//	roundtrip_time_ms, llm_response, chain_id, conversation_id,
//	usage {prompt_tokens, completion_tokens, total_tokens}, values,
//	metadata
//
// The id is Metrics.UUID, which is the same in every copy of the metrics. A member
// that was reported as empty or zero is not absent.
func (m *Metrics) AppendJSON(dst []byte) []byte { return appendFields(dst, MetricsFields, m) }

// MarshalJSON implements [json.Marshaler] by AppendJSON. It never fails.
func (m *Metrics) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

// appendFields appends an object with the members of t that are not absent.
func appendFields[T any](dst []byte, fields []Field[T], t *T) []byte {
	o := object{dst: append(dst, '{')}
	for i := range fields {
		f := &fields[i]
		switch at := f.At(t).(type) {
		case *string: // the most frequent type
			if *at != "" || f.Required {
				o.text(&f.names, *at)
			}
		default:
			if f.Known == nil {
				o.value(&f.names, at, f.Required, f.Text)
			} else if *f.Known(t) {
				o.value(&f.names, at, true, f.Text)
			}
		}
	}
	if o.group != "" {
		o.dst = append(o.dst, '}')
	}
	return append(o.dst, '}')
}

// object writes a JSON object. Names need no escapes.
type object struct {
	dst   []byte
	group string // the quoted name of the open inner object; empty: none
}

// separate writes a comma before all but the first member of an object or list.
func (o *object) separate() {
	if last := o.dst[len(o.dst)-1]; last != '{' && last != '[' {
		o.dst = append(o.dst, ',')
	}
}

// name writes the name of the next member.
func (o *object) name(n *names) {
	if o.group != "" && o.group != n.group {
		o.dst, o.group = append(o.dst, '}'), ""
	}
	if o.group == "" && n.group != "" {
		o.separate()
		o.dst, o.group = append(append(o.dst, n.group...), '{'), n.group
	}
	o.separate()
	o.dst = append(o.dst, n.member...)
}

// value writes the member at a pointer, unless it is absent.
func (o *object) value(n *names, at any, required, isText bool) {
	switch at := at.(type) {
	case *[]byte:
		if len(*at) > 0 {
			o.name(n)
			if isText {
				o.dst = jsontext.AppendString(o.dst, *at)
			} else {
				o.raw(*at)
			}
		}
	case *time.Duration:
		if at.Microseconds() != 0 || required { // a store has microseconds
			o.name(n)
			o.dst = appendMillis(o.dst, *at)
		}
	case *int:
		o.integer(n, int64(*at), required)
	case *int64:
		o.integer(n, *at, required)
	case *bool:
		if *at {
			o.name(n)
			o.dst = append(o.dst, "true"...)
		}
	case *float64:
		if *at != 0 {
			o.float(n, *at)
		}
	case *ID:
		if required || !at.IsZero() {
			o.name(n)
			o.dst = append(at.AppendTo(append(o.dst, '"')), '"')
		}
	case *time.Time:
		if !at.IsZero() {
			o.name(n)
			o.dst = append(appendTime(append(o.dst, '"'), *at), '"')
		}
	case *Kind:
		o.text(n, at.String())
	case *State:
		o.text(n, at.String())
	case *[]string:
		if len(*at) > 0 {
			o.name(n)
			o.dst = append(o.dst, '[')
			for _, text := range *at {
				o.separate()
				o.dst = jsontext.AppendString(o.dst, text)
			}
			o.dst = append(o.dst, ']')
		}
	case *[]Attempt:
		if len(*at) > 0 {
			o.name(n)
			o.dst = AppendAttempts(o.dst, *at)
		}
	case **string:
		if *at != nil {
			o.text(n, **at)
		}
	case **int64:
		if *at != nil {
			o.integer(n, **at, true)
		}
	case **float64:
		if *at != nil {
			o.float(n, **at)
		}
	}
}

func (o *object) text(n *names, value string) {
	o.name(n)
	o.dst = jsontext.AppendString(o.dst, value)
}

func (o *object) integer(n *names, value int64, required bool) {
	if value != 0 || required {
		o.name(n)
		o.dst = strconv.AppendInt(o.dst, value, 10)
	}
}

// float writes no infinity and no NaN, which JSON does not have.
func (o *object) float(n *names, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	o.name(n)
	form := byte('f')
	if size := math.Abs(value); size != 0 && (size < 1e-6 || size >= 1e21) {
		form = 'e'
	}
	o.dst = strconv.AppendFloat(o.dst, value, form, -1, 64)
}

// raw writes valid JSON on one line, and anything else as a string.
func (o *object) raw(value []byte) {
	switch {
	case !utf8.Valid(value) || !json.Valid(value):
		o.dst = jsontext.AppendString(o.dst, value)
	default:
		o.dst = append(o.dst, oneLine(value)...)
	}
}

// oneLine returns JSON on one line. It returns anything else unchanged.
func oneLine(value []byte) []byte {
	if bytes.IndexByte(value, '\n') < 0 && bytes.IndexByte(value, '\r') < 0 { // JSON has them only between tokens
		return value
	}
	var line bytes.Buffer
	if json.Compact(&line, value) != nil {
		return value
	}
	return line.Bytes()
}

// appendTime appends t as RFC 3339 with milliseconds, the precision of the store.
// Package time formats RFC3339 faster than a layout with milliseconds.
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	dst = t.AppendFormat(dst, time.RFC3339)
	millis := t.Nanosecond() / int(time.Millisecond)
	return append(dst[:len(dst)-1], '.', byte('0'+millis/100), byte('0'+millis/10%10), byte('0'+millis%10), 'Z')
}

// appendMillis appends d in milliseconds, with microseconds as the fraction.
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
