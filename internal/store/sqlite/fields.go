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

// sharedField is the column that says which members of its decision a trace shows.
var sharedField = trace.Field[trace.Record]{Column: "shared", At: shownOf}

// traceFields are the fields of a record as it is inserted.
var traceFields = func() []trace.Field[trace.Record] {
	fields := append(slices.DeleteFunc(slices.Clone(trace.RecordFields), isCounted), sharedField)
	for i := range fields {
		if fields[i].Name == "messages" {
			fields[i].At = ownMessages
		}
	}
	return fields
}()

// metricsFields are the fields of metrics as they are inserted. A report is stored with a
// zero id if its trace is not known.
var metricsFields = func() []trace.Field[trace.Metrics] {
	fields := slices.Clone(trace.MetricsFields)
	for i := range fields {
		fields[i].Required = fields[i].Required || fields[i].Name == "trace_id"
	}
	return fields
}()

// A list of traces has no content, which can be megabytes. Only single traces, exports and
// sinks have it.
var (
	shortFields = slices.DeleteFunc(slices.Clone(trace.RecordFields), isContent)
	wholeFields = slices.Concat(shortFields, slices.DeleteFunc(slices.Clone(trace.RecordFields), isShort))

	shortList   = shownColumns(shortFields)
	wholeList   = shownColumns(wholeFields)
	metricsList = strings.Join(columnsOf(trace.MetricsFields), ", ")
)

func isCounted(f trace.Field[trace.Record]) bool { return f.IsCounted() }
func isContent(f trace.Field[trace.Record]) bool { return f.Content }
func isShort(f trace.Field[trace.Record]) bool   { return !f.Content }

func columnsOf[T any](fields []trace.Field[T]) (columns []string) {
	for i := range fields {
		f := &fields[i]
		column := f.Column
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

// shownColumns returns the columns of a query for fields of records, with the members that
// a trace takes from its decision, and the decision's notes last.
func shownColumns(fields []trace.Field[trace.Record]) string {
	columns := columnsOf(fields)
	for i, column := range columns {
		if level, ok := sharedMembers[column]; ok {
			columns[i] = shownMember(column, level)
		}
		if column == "messages" {
			columns[i] = wholeMessages
		}
		if fields[i].IsCounted() {
			columns[i] = "(SELECT 1 + e.answers FROM exposures AS e WHERE e.trace_id = traces.id)"
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
func valueOf[T any](f *trace.Field[T], row *T) (value, error) {
	member := f.At(row)
	if member, ok := member.(*string); ok { // the most frequent type
		if *member == "" && !f.Required {
			return value{}, nil
		}
		return textValue(*member), nil
	}
	if f.Known != nil && !*f.Known(row) {
		return value{}, nil
	}
	switch member := member.(type) {
	case *[]byte:
		return content(*member), nil
	case *trace.ID:
		if f.Required {
			return blobValue(member[:]), nil
		}
		return idValue(member), nil
	case *time.Time:
		if member.IsZero() && f.Name == "happened" {
			return value{}, nil
		}
		return integerValue(member.UnixMilli()), nil
	case *trace.Kind:
		return textValue(member.String()), nil
	case *trace.State:
		return textValue(member.String()), nil
	case *time.Duration:
		return unlessZero(member.Microseconds()), nil
	case *int:
		return unlessZero(int64(*member)), nil
	case *int64:
		if f.Known != nil {
			return integerValue(*member), nil
		}
		return unlessZero(*member), nil
	case *float64:
		if *member == 0 {
			return value{}, nil
		}
		return realValue(*member), nil
	case *bool:
		if !*member {
			return value{}, nil
		}
		return integerValue(1), nil
	case *[]string:
		return jsonArray(*member)
	case *[]trace.Attempt:
		return jsonArray(*member)
	case **string:
		return optional(*member, textValue), nil
	case **int64:
		return optional(*member, integerValue), nil
	case **float64:
		return optional(*member, realValue), nil
	case shown:
		return integerValue(int64(member)), nil
	case nil:
		return value{}, nil
	default:
		return value{}, fmt.Errorf("column %s: a %T can't be stored", f.Name, member)
	}
}

// argument returns the value as an argument of database/sql.
func (v value) argument() any {
	switch v.kind {
	case isInteger:
		return int64(v.bits)
	case isReal:
		return math.Float64frombits(v.bits)
	case isText:
		return string(v.bytes)
	case isBlob:
		return v.bytes
	}
	return nil
}

func textValue(s string) value {
	return value{kind: isText, bytes: unsafe.Slice(unsafe.StringData(s), len(s))}
}

func blobValue(b []byte) value { return value{kind: isBlob, bytes: b} }

func integerValue(n int64) value { return value{kind: isInteger, bits: uint64(n)} }

func boolValue(b bool) value {
	v := value{kind: isInteger}
	if b {
		v.bits = 1
	}
	return v
}

func realValue(x float64) value { return value{kind: isReal, bits: math.Float64bits(x)} }

// content returns text that came as bytes, NULL if it is empty. As bytes it would be stored
// as a BLOB, which SQLite's JSON functions refuse.
func content(b []byte) value {
	if len(b) == 0 {
		return value{}
	}
	return value{kind: isText, bytes: b}
}

func unlessZero(n int64) value {
	if n == 0 {
		return value{}
	}
	return integerValue(n)
}

// text returns s as an argument of database/sql, nil if it is empty.
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

// jsonArray returns the JSON of a list, NULL for an empty one.
func jsonArray[T any](list []T) (value, error) {
	if len(list) == 0 {
		return value{}, nil
	}
	encoded, err := json.Marshal(list)
	return content(encoded), err
}

// scanFields reads a row into first, the fields of a T, and last.
func scanFields[T any](scan func(...any) error, fields []trace.Field[T], row *T, first []any, last ...any) error {
	values := make([]any, len(fields))
	targets := slices.Grow(first, len(fields)+len(last))
	for i := range values {
		targets = append(targets, &values[i])
	}
	if err := scan(append(targets, last...)...); err != nil {
		return err
	}
	for i := range fields {
		f := &fields[i]
		if values[i] == nil {
			continue
		}
		if err := setField(f.At(row), values[i]); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if f.Known != nil {
			*f.Known(row) = true
		}
	}
	return nil
}

// into is a target of a scan: the member at a pointer, which setField sets. NULL leaves it as
// it is.
type into struct{ member any }

// Scan implements [sql.Scanner].
func (i into) Scan(value any) error {
	if value == nil {
		return nil
	}
	return setField(i.member, value)
}

// setField gives the member at a pointer the value of its column.
func setField(member, value any) (err error) {
	switch member := member.(type) {
	case *string:
		*member, err = as[string](value)
	case *[]byte:
		*member, err = asBytes(value)
	case *trace.ID:
		var id []byte
		id, err = as[[]byte](value)
		copy(member[:], id)
	case *time.Time:
		var millis int64
		millis, err = as[int64](value)
		*member = time.UnixMilli(millis)
	case *trace.Kind:
		var name string
		if name, err = as[string](value); err == nil {
			*member, err = parseKind(name)
		}
	case *trace.State:
		var name string
		name, err = as[string](value)
		*member, _ = trace.ParseState(name)
	case *time.Duration:
		var micros int64
		micros, err = as[int64](value)
		*member = time.Duration(micros) * time.Microsecond
	case *int:
		var n int64
		n, err = as[int64](value)
		*member = int(n)
	case *int64:
		*member, err = as[int64](value)
	case *float64:
		*member, err = as[float64](value)
	case *bool:
		*member, err = as[bool](value)
	case *[]string:
		return fromJSON(value, member)
	case *[]trace.Attempt:
		return fromJSON(value, member)
	case **string:
		return setOptional(member, value)
	case **int64:
		return setOptional(member, value)
	case **float64:
		return setOptional(member, value)
	default:
		err = fmt.Errorf("a %T can't be read", member)
	}
	return err
}

func setOptional[T any](member **T, value any) error {
	v, err := as[T](value)
	*member = &v
	return err
}

// as converts a value as database/sql does.
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

func fromJSON[T any](value any, list *[]T) error {
	text, err := asBytes(value)
	if err != nil || text == nil {
		return err
	}
	return json.Unmarshal(text, list)
}

// parseKind reads the kind of a trace. A later version wrote a name that is not known: its
// rows must not be shown, or delivered, as another kind.
func parseKind(name string) (trace.Kind, error) {
	k, known := trace.ParseKind(name)
	if !known {
		return 0, fmt.Errorf("the store has something of the kind %q, which this version of Cadenza does not know: use the version that wrote it", name)
	}
	return k, nil
}
