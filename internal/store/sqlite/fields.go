package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/cadenza-gateway/cadenza/trace"
)

// The columns of traces and metrics, and their values, come from the fields of
// package trace, which names each member once.

// sharedField says what a record shows of what it shares.
var sharedField = trace.Field[trace.Record]{Column: "shared", At: shownOf}

// Binding is a quarter of an insert's cost, so a record is inserted by the
// shortest of three lists that has all of its members: those of a configuration's
// evaluation, with its decision; these and those of a prompt's, of a request with
// several keys, or of content; all, as for an upstream call. A new member is in the
// last.
var (
	answerMembers = []string{
		"trace_id", "time", "workspace", "kind", "key", "state", "api_key", "version", "revision", "row", "variant",
		"status", "latency_ms", "notes", "metadata", "decision_id", "reason", "arm", "splits", "inputs", "seal",
	}
	evaluationMembers = []string{"provider", "model", "read", "context", "variables", "messages", "response"}

	answerFields     = recordFields(answerMembers)
	evaluationFields = append(slices.Concat(answerFields, recordFields(evaluationMembers)), sharedField)
	traceFields      = slices.Concat(evaluationFields, slices.DeleteFunc(slices.Clone(trace.RecordFields), func(f trace.Field[trace.Record]) bool {
		return slices.Contains(answerMembers, f.Name) || slices.Contains(evaluationMembers, f.Name)
	}))
)

// metricsFields are those of metrics as they are inserted. A report of which it is
// not known what it is on has an id all the same.
var metricsFields = func() []trace.Field[trace.Metrics] {
	fields := slices.Clone(trace.MetricsFields)
	for i := range fields {
		fields[i].Required = fields[i].Required || fields[i].Name == "trace_id"
	}
	return fields
}()

// A list of traces shows what is not content. Content can be megabytes, and is read
// only for one trace, exports and sinks.
var (
	shortFields = slices.DeleteFunc(slices.Clone(trace.RecordFields), isContent)
	wholeFields = slices.Concat(shortFields, slices.DeleteFunc(slices.Clone(trace.RecordFields), isShort))

	shortList   = shownColumns(shortFields)
	wholeList   = shownColumns(wholeFields)
	metricsList = strings.Join(columnsOf(trace.MetricsFields), ", ")
)

func isContent(f trace.Field[trace.Record]) bool { return f.Content }
func isShort(f trace.Field[trace.Record]) bool   { return !f.Content }

func recordFields(names []string) (fields []trace.Field[trace.Record]) {
	for _, name := range names {
		i := slices.IndexFunc(trace.RecordFields, func(f trace.Field[trace.Record]) bool { return f.Name == name })
		f := trace.RecordFields[i]
		if name == "splits" {
			f.At = splitsOf
		}
		fields = append(fields, f)
	}
	return fields
}

func columnsOf[T any](fields []trace.Field[T]) (columns []string) {
	for i := range fields {
		f := &fields[i]
		column := f.Column
		if column == "" {
			column = f.Name
		}
		switch f.At(new(T)).(type) {
		case *time.Time:
			column += "_ms"
		case *time.Duration:
			column += "_us"
		}
		columns = append(columns, column)
	}
	return columns
}

// shownColumns is the list of a query of fields of records as they are shown,
// ended by the notes of the decision.
func shownColumns(fields []trace.Field[trace.Record]) string {
	columns := columnsOf(fields)
	for i, column := range columns {
		if from, ok := sharedMembers[column]; ok {
			columns[i] = shownMember(column, from)
		}
	}
	return strings.Join(append(columns, notesOfDecision), ", ")
}

// textBytes returns the expression for the bytes of the unbounded texts in a row.
func textBytes[T any](fields []trace.Field[T]) string {
	var terms []string
	for i, column := range columnsOf(fields) {
		switch fields[i].At(new(T)).(type) {
		case *[]byte, *[]string:
			terms = append(terms, "coalesce(octet_length("+column+"), 0)")
		}
	}
	return strings.Join(terms, " + ")
}

// valueOf returns the value of the column of a field: NULL for an absent member. It
// shares its bytes with the member.
func valueOf[T any](f *trace.Field[T], of *T) (value, error) {
	at := f.At(of)
	if at, ok := at.(*string); ok { // as most are
		if *at == "" && !f.Required {
			return value{}, nil
		}
		return textValue(*at), nil
	}
	if f.Known != nil && !*f.Known(of) {
		return value{}, nil
	}
	switch at := at.(type) {
	case *[]byte:
		return content(*at), nil
	case *trace.ID:
		if f.Required {
			return blobValue(at[:]), nil
		}
		return idValue(at), nil
	case *time.Time:
		return integerValue(at.UnixMilli()), nil
	case *trace.Kind:
		return textValue(at.String()), nil
	case *trace.State:
		return textValue(at.String()), nil
	case *time.Duration:
		return unlessZero(at.Microseconds()), nil
	case *int:
		return unlessZero(int64(*at)), nil
	case *int64:
		if f.Known != nil {
			return integerValue(*at), nil
		}
		return unlessZero(*at), nil
	case *float64:
		if *at == 0 {
			return value{}, nil
		}
		return realValue(*at), nil
	case *bool:
		if !*at {
			return value{}, nil
		}
		return integerValue(1), nil
	case *[]string:
		return jsonArray(*at)
	case *[]trace.Attempt:
		return jsonArray(*at)
	case **string:
		return optional(*at, textValue), nil
	case **int64:
		return optional(*at, integerValue), nil
	case **float64:
		return optional(*at, realValue), nil
	case storedSplits:
		return content(at.text()), nil
	case shown:
		return integerValue(int64(at)), nil
	case nil:
		return value{}, nil
	default:
		return value{}, fmt.Errorf("column %s: a %T can't be stored", f.Name, at)
	}
}

func textValue(s string) value {
	return value{of: isText, bytes: unsafe.Slice(unsafe.StringData(s), len(s))}
}

func blobValue(b []byte) value { return value{of: isBlob, bytes: b} }

func integerValue(n int64) value { return value{of: isInteger, bits: uint64(n)} }

func realValue(x float64) value { return value{of: isReal, bits: math.Float64bits(x)} }

// content is text that came as bytes, NULL where there is none. As bytes it would be
// stored as a BLOB, which SQLite's JSON functions refuse.
func content(b []byte) value {
	if len(b) == 0 {
		return value{}
	}
	return value{of: isText, bytes: b}
}

func unlessZero(n int64) value {
	if n == 0 {
		return value{}
	}
	return integerValue(n)
}

// text is s, or nil where it is empty, as the package sql takes it.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func unlessEmpty(s string) value {
	if s == "" {
		return value{}
	}
	return textValue(s)
}

func optional[T any](p *T, valueOf func(T) value) value {
	if p == nil {
		return value{}
	}
	return valueOf(*p)
}

// jsonArray is the JSON of a list, NULL for an empty one.
func jsonArray[T any](list []T) (value, error) {
	if len(list) == 0 {
		return value{}, nil
	}
	encoded, err := json.Marshal(list)
	return content(encoded), err
}

// scanFields reads a row into a T: the columns of first, of fields and of last.
func scanFields[T any](scan func(...any) error, fields []trace.Field[T], into *T, first []any, last ...any) error {
	values := make([]any, len(fields))
	to := slices.Grow(first, len(fields)+len(last))
	for i := range values {
		to = append(to, &values[i])
	}
	if err := scan(append(to, last...)...); err != nil {
		return err
	}
	for i := range fields {
		f := &fields[i]
		if values[i] == nil {
			continue
		}
		if err := setField(f.At(into), values[i]); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if f.Known != nil {
			*f.Known(into) = true
		}
	}
	return nil
}

// setField gives the member at a pointer the value of its column.
func setField(at, value any) (err error) {
	switch at := at.(type) {
	case *string:
		*at, err = as[string](value)
	case *[]byte:
		*at, err = asBytes(value)
	case *trace.ID:
		var id []byte
		id, err = as[[]byte](value)
		copy(at[:], id)
	case *time.Time:
		var millis int64
		millis, err = as[int64](value)
		*at = time.UnixMilli(millis)
	case *trace.Kind:
		var name string
		name, err = as[string](value)
		*at, _ = trace.ParseKind(name)
	case *trace.State:
		var name string
		name, err = as[string](value)
		*at, _ = trace.ParseState(name)
	case *time.Duration:
		var micros int64
		micros, err = as[int64](value)
		*at = time.Duration(micros) * time.Microsecond
	case *int:
		var n int64
		n, err = as[int64](value)
		*at = int(n)
	case *int64:
		*at, err = as[int64](value)
	case *float64:
		*at, err = as[float64](value)
	case *bool:
		*at, err = as[bool](value)
	case *[]string:
		return fromJSON(value, at)
	case *[]trace.Attempt:
		return fromJSON(value, at)
	case **string:
		return setOptional(at, value)
	case **int64:
		return setOptional(at, value)
	case **float64:
		return setOptional(at, value)
	default:
		err = fmt.Errorf("a %T can't be read", at)
	}
	return err
}

func setOptional[T any](at **T, value any) error {
	v, err := as[T](value)
	*at = &v
	return err
}

// as converts a value as the package sql does.
func as[T any](value any) (T, error) {
	if v, ok := value.(T); ok {
		return v, nil
	}
	var v sql.Null[T]
	err := v.Scan(value)
	return v.V, err
}

func asBytes(value any) ([]byte, error) {
	if s, ok := value.(string); ok {
		return []byte(s), nil
	}
	return as[[]byte](value)
}

func fromJSON[T any](value any, into *[]T) error {
	text, err := asBytes(value)
	if err != nil || text == nil {
		return err
	}
	return json.Unmarshal(text, into)
}
