package postgres

import (
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/trace"
)

// The temporary tables of a session. Their names end with the format of the schema
// whose columns they have: a pooler may hand on a session in which a gateway of
// another format has left its own.
var (
	traceStage   = pgx.Identifier{"pg_temp", fmt.Sprintf("cadenza_traces_%d", format)}
	metricsStage = pgx.Identifier{"pg_temp", fmt.Sprintf("cadenza_metrics_%d", format)}
)

var (
	traceNames   = columnsOf(trace.RecordFields)
	metricsNames = columnsOf(trace.MetricsFields)
)

func columnsOf[T any](fields []trace.Field[T]) (columns []string) {
	for i := range fields {
		f := &fields[i]
		column := f.Column
		if _, ok := f.At(new(T)).(*time.Duration); ok {
			column += "_ms"
		}
		columns = append(columns, column)
	}
	return columns
}

// fillRow replaces the values of the previous row. A text that is the same in both
// is neither cleaned nor allocated again.
func fillRow[T any](values []any, fields []trace.Field[T], row *T) {
	for i := range fields {
		f := &fields[i]
		switch at := f.At(row).(type) {
		case *string: // as most are
			if same, ok := values[i].(string); ok && same == *at {
				continue
			}
			if values[i] = nil; *at != "" || f.Required {
				values[i] = cleanText(*at)
			}
		default:
			values[i] = nil
			if f.Known == nil || *f.Known(row) {
				values[i] = value(f, at)
			}
		}
	}
}

// value returns the value of the column of a field that is no *string: nil for an
// absent member.
func value[T any](f *trace.Field[T], at any) any {
	switch at := at.(type) {
	case *[]byte:
		switch {
		case len(*at) == 0:
			return nil
		case f.Text:
			return cleanText(string(*at))
		}
		return cleanJSON(*at)
	case *trace.ID:
		if at.IsZero() && !f.Required {
			return nil
		}
		return [16]byte(*at)
	case *time.Time:
		if at.IsZero() && f.Name == "happened" {
			return nil
		}
		return clampTime(*at)
	case *trace.Kind:
		return at.String()
	case *trace.State:
		return at.String()
	case *time.Duration:
		if *at == 0 {
			return nil
		}
		return float64(at.Microseconds()) / 1000
	case *int:
		if *at == 0 {
			return nil
		}
		return int32(min(max(*at, -1<<31), 1<<31-1))
	case *int64:
		return *at // it is known
	case *float64:
		if *at == 0 {
			return nil
		}
		return *at
	case *bool:
		if !*at {
			return nil
		}
		return true
	case *[]string:
		return notes(*at)
	case *[]trace.Attempt:
		return attempts(*at)
	case **string:
		if *at == nil {
			return nil
		}
		return cleanText(**at)
	case **int64:
		return *at
	case **float64:
		return *at
	default:
		panic(fmt.Sprintf("column %s: a %T can't be stored", f.Name, at)) // a test holds that there is none
	}
}

// copySQL returns the statement that moves rows from their stage to their table, in
// the order of their ids: two transactions that store the same rows can't deadlock.
func copySQL(table string, stage pgx.Identifier, names []string) string {
	list := strings.Join(names, ", ")
	return fmt.Sprintf("INSERT INTO %s AS t (%s) SELECT %s FROM %s ORDER BY id", table, list, list, stage.Sanitize())
}

// upsertTraces replaces a trace by one of a later state. A trace may come again,
// also after the one that replaced it.
var upsertTraces = fmt.Sprintf(` ON CONFLICT (id) DO UPDATE SET (%s) = (excluded.%s) WHERE %s > %s`,
	strings.Join(traceNames, ", "), strings.Join(traceNames, ", excluded."), rankSQL("excluded.state"), rankSQL("t.state"))

func rankSQL(state string) string {
	return fmt.Sprintf("CASE %s WHEN 'started' THEN 0 WHEN 'interrupted' THEN 1 ELSE 2 END", state)
}

// attempts returns the list as a record shows it. The form in which the store keeps
// it has nanoseconds.
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

// clampTime bounds the time of a wrong clock to the years that every reader takes:
// 1 to 9999.
func clampTime(t time.Time) time.Time {
	const first, last = -62135596800, 253402300799
	return time.Unix(min(max(t.Unix(), first), last), int64(t.Nanosecond())).UTC()
}
