package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

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
		"status", "latency_ms", "notes", "metadata", "decision_id", "reason", "arm", "splits", "inputs",
	}
	evaluationMembers = []string{"provider", "model", "read", "context", "variables", "messages", "response"}

	answerFields     = recordFields(answerMembers)
	evaluationFields = append(slices.Concat(answerFields, recordFields(evaluationMembers)), sharedField)
	traceFields      = slices.Concat(evaluationFields, slices.DeleteFunc(slices.Clone(trace.RecordFields), func(f trace.Field[trace.Record]) bool {
		return slices.Contains(answerMembers, f.Name) || slices.Contains(evaluationMembers, f.Name)
	}))
	traceColumns = columnsOf(traceFields)
)

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

// bindAll appends the values of fields. If values ends with the row before, a text
// that is the same in it is not allocated again.
func bindAll[T any](values []any, fields []trace.Field[T], of *T) ([]any, error) {
	before := len(values) - len(fields)
	for i := range fields {
		f := &fields[i]
		at := f.At(of)
		if at, ok := at.(*string); ok { // as most are
			if *at == "" && !f.Required {
				values = append(values, nil)
				continue
			}
			if before >= 0 {
				if same, ok := values[before+i].(string); ok && same == *at {
					values = append(values, values[before+i])
					continue
				}
			}
			values = append(values, *at)
			continue
		}
		value, err := bind(f, at, of)
		if err != nil {
			return values, err
		}
		values = append(values, value)
	}
	return values, nil
}

// bind returns the value of the column of a field that is no *string: NULL for an
// absent member. The values have types that the driver does not convert.
func bind[T any](f *trace.Field[T], at any, of *T) (any, error) {
	if f.Known != nil && !*f.Known(of) {
		return nil, nil
	}
	switch at := at.(type) {
	case *[]byte:
		return content(*at), nil
	case *trace.ID:
		if !f.Required && at.IsZero() {
			return nil, nil
		}
		return at[:], nil
	case *time.Time:
		return at.UnixMilli(), nil
	case *trace.Kind:
		return kindNames[min(int(*at), len(kindNames)-1)], nil
	case *trace.State:
		return stateNames[min(int(*at), len(stateNames)-1)], nil
	case *time.Duration:
		return integer(at.Microseconds(), false), nil
	case *int:
		return integer(int64(*at), false), nil
	case *int64:
		return integer(*at, f.Known != nil), nil
	case *float64:
		if *at == 0 {
			return nil, nil
		}
		return *at, nil
	case *bool:
		if !*at {
			return nil, nil
		}
		return int64(1), nil
	case *[]string:
		return jsonArray(*at)
	case *[]trace.Attempt:
		return jsonArray(*at)
	case **string:
		return optional(*at), nil
	case **int64:
		return optional(*at), nil
	case **float64:
		return optional(*at), nil
	case storedSplits:
		return at.value(), nil
	case shown:
		return int64(at), nil
	case nil:
		return nil, nil
	default:
		return nil, fmt.Errorf("column %s: a %T can't be stored", f.Name, at)
	}
}

// The names as values, which are allocated once.
var (
	kindNames  = valuesOf[trace.Kind]()
	stateNames = valuesOf[trace.State]()
)

func valuesOf[T interface {
	~uint8
	String() string
}]() (names [8]any) {
	for i := range names {
		names[i] = T(i).String()
	}
	return names
}

func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// content is text that came as bytes; as bytes it would be stored as a BLOB,
// which SQLite's JSON functions refuse.
func content(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return string(b)
}

func integer(n int64, known bool) any {
	if n == 0 && !known {
		return nil
	}
	return n
}

func optional[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// jsonArray is the JSON of a list, nil for an empty one.
func jsonArray[T any](list []T) (any, error) {
	if len(list) == 0 {
		return nil, nil
	}
	encoded, err := json.Marshal(list)
	return string(encoded), err
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
