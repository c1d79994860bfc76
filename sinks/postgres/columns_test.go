package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cadenza-gateway/cadenza/trace"
)

// TestEveryFieldHasAValue: none is of a type that no column is known for, and
// nothing is left in a row of the row before.
func TestEveryFieldHasAValue(t *testing.T) {
	everyField(t, trace.RecordFields, &trace.Record{})
	everyField(t, trace.RecordFields, &trace.Record{HasUsage: true})
	everyField(t, trace.MetricsFields, &trace.Metrics{})
}

// TestStagesHaveTheVersion: a migration needs stages of another name.
func TestStagesHaveTheVersion(t *testing.T) {
	scripts, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	for _, stage := range []pgx.Identifier{traceStage, metricsStage} {
		if suffix := fmt.Sprintf("_%d", len(scripts)); !strings.HasSuffix(stage[1], suffix) {
			t.Errorf("the stage %s should end with %s", stage[1], suffix)
		}
	}
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
