package postgres

import (
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/trace"
)

// The temporary tables of a session.
var (
	traceStage   = pgx.Identifier{"pg_temp", "cadenza_traces"}
	metricsStage = pgx.Identifier{"pg_temp", "cadenza_metrics"}
)

var (
	traceNames = []string{
		"id", "time", "workspace", "kind", "key", "state", "api_key", "version", "revision", "matched_row", "variant",
		"provider", "model", "status", "code", "latency_ms", "first_token_ms", "prompt_tokens", "completion_tokens",
		"total_tokens", "cost", "cached", "attempts", "notes", "metadata", "context", "variables", "messages", "response",
		"tool_calls", "finish_reason", "prompt", "prompt_version",
	}
	metricsNames = []string{
		"id", "trace_id", "time", "workspace", "api_key", "score", "latency_ms", "roundtrip_time_ms", "llm_response",
		"chain_id", "conversation_id", "prompt_tokens", "completion_tokens", "total_tokens", "metadata",
	}
)

// appendTrace appends the values of traceNames.
func appendTrace(values []any, r *trace.Record) []any {
	return append(values,
		[16]byte(r.ID), clampTime(r.Time), cleanText(r.Workspace), r.Kind.String(), cleanText(r.Key), r.State.String(),
		text(r.APIKey), text(r.Version), text(r.Revision), text(r.Row), text(r.Variant),
		text(r.Provider), text(r.Model), status(r.Status), text(r.Code), millis(r.Latency), millis(r.FirstToken),
		usage(r, r.PromptTokens), usage(r, r.CompletionTokens), usage(r, r.TotalTokens),
		cost(r.Cost), flag(r.Cached), attempts(r.Attempts), notes(r.Notes), document(r.Metadata), document(r.Context),
		document(r.Variables), document(r.Messages), content(r.Response), document(r.ToolCalls),
		text(r.FinishReason), text(r.Prompt), text(r.PromptVersion))
}

// appendMetrics appends the values of metricsNames.
func appendMetrics(values []any, m *trace.Metrics) []any {
	return append(values,
		m.UUID, [16]byte(m.TraceID), clampTime(m.Time), cleanText(m.Workspace), text(m.APIKey),
		m.Score, m.Latency, m.RoundtripTime, optional(m.LLMResponse), optional(m.ChainID), optional(m.ConversationID),
		m.PromptTokens, m.CompletionTokens, m.TotalTokens, document(m.Metadata))
}

// copySQL takes rows from their stage to their table, in an order in which no two
// transactions that store the same ones wait for each other.
func copySQL(table string, stage pgx.Identifier, names []string) string {
	list := strings.Join(names, ", ")
	return fmt.Sprintf("INSERT INTO %s AS t (%s) SELECT %s FROM %s ORDER BY id", table, list, list, stage.Sanitize())
}

// upsertTraces replaces a trace by one that is further. The same one may come
// again, also after the one that replaced it.
var upsertTraces = fmt.Sprintf(` ON CONFLICT (id) DO UPDATE SET (%s) = (excluded.%s) WHERE %s > %s`,
	strings.Join(traceNames, ", "), strings.Join(traceNames, ", excluded."), rankSQL("excluded.state"), rankSQL("t.state"))

func rankSQL(state string) string {
	return fmt.Sprintf("CASE %s WHEN 'started' THEN 0 WHEN 'interrupted' THEN 1 ELSE 2 END", state)
}

// What is absent becomes null.

func text(s string) any {
	if s == "" {
		return nil
	}
	return cleanText(s)
}

func optional(s *string) any {
	if s == nil {
		return nil
	}
	return cleanText(*s)
}

func content(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return cleanText(string(b))
}

// document is JSON.
func document(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return cleanJSON(b)
}

func status(n int) any {
	if n == 0 {
		return nil
	}
	return int32(min(max(n, -1<<31), 1<<31-1))
}

func millis(d time.Duration) any {
	if d == 0 {
		return nil
	}
	return float64(d.Microseconds()) / 1000
}

func usage(r *trace.Record, tokens int64) any {
	if !r.HasUsage {
		return nil
	}
	return tokens
}

func cost(dollars float64) any {
	if dollars == 0 {
		return nil
	}
	return dollars
}

func flag(set bool) any {
	if !set {
		return nil
	}
	return true
}

// attempts is the list in the form in which a record shows it; that in which the
// store keeps it counts in nanoseconds.
func attempts(list []trace.Attempt) any {
	if len(list) == 0 {
		return nil
	}
	return cleanJSON(trace.AppendAttempts(nil, list))
}

func notes(list []string) any {
	if len(list) == 0 {
		return nil
	}
	shown := []byte{'['}
	for i, note := range list {
		if i > 0 {
			shown = append(shown, ',')
		}
		shown = jsontext.AppendString(shown, note)
	}
	return cleanJSON(append(shown, ']'))
}

// clampTime keeps a clock that is off within what everyone can read: the years 1
// to 9999.
func clampTime(t time.Time) time.Time {
	const first, last = -62135596800, 253402300799
	return time.Unix(min(max(t.Unix(), first), last), int64(t.Nanosecond())).UTC()
}
