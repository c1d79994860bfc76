package postgres

import (
	"testing"

	"github.com/cadenza-gateway/cadenza/trace"
)

// TestEveryFieldHasAValue: none is of a type that no column is known for, and
// nothing is left in a row of the row before.
func TestEveryFieldHasAValue(t *testing.T) {
	everyField(t, trace.RecordFields, &trace.Record{})
	everyField(t, trace.RecordFields, &trace.Record{HasUsage: true})
	everyField(t, trace.MetricsFields, &trace.Metrics{})
}

func everyField[T any](t *testing.T, fields []trace.Field[T], of *T) {
	values := make([]any, len(fields))
	for i := range values {
		values[i] = "of the row before"
	}
	fillRow(values, fields, of)
	for i, value := range values {
		if value == "of the row before" {
			t.Errorf("%s has the value of another row", fields[i].Name)
		}
	}
}
