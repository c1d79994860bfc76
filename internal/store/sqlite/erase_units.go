package sqlite

import (
	"context"

	"github.com/cadenza-gateway/cadenza/trace"
)

// findByUnit finds the reports on a unit by their index, and the traces that have it by
// reading all. No index has the units of traces: an erasure reads the whole file anyway, to
// leave nothing in it.
func (e *erasure) findByUnit(ctx context.Context) error {
	s := &e.selector
	if _, err := e.conn.ExecContext(ctx, `
CREATE TEMP TABLE having_unit (trace_id BLOB PRIMARY KEY);
INSERT OR IGNORE INTO doomed (trace_id)
SELECT trace_id FROM metrics INDEXED BY metrics_unit WHERE workspace = ? AND unit_field = ? AND unit = ? AND seq <= ? ORDER BY seq`,
		s.Workspace, s.UnitField, s.Unit, e.marks.Metrics); err != nil {
		return err
	}
	var value clauses // the text is looked for first, which is quicker than to parse
	if err := value.metadata("inputs", []trace.MetadataMatch{{Name: s.UnitField, Value: s.UnitValue}}); err != nil {
		return err
	}
	if err := e.eachRows(ctx, tracesTable, func(after, last int64) error {
		_, err := e.conn.ExecContext(ctx, `
INSERT OR IGNORE INTO having_unit
SELECT id FROM traces NOT INDEXED WHERE seq > ? AND seq <= ? AND workspace = ? AND (instr(splits, ?) OR instr(inputs, ?) OR instr(inputs, ?) AND `+value.and()+`)`,
			append([]any{after, last, s.Workspace, `"unit":"` + s.Unit + `"`, `{"hash":"` + s.Unit + `"}`, s.UnitValue}, value.args...)...)
		return err
	}); err != nil {
		return err
	}
	_, err := e.conn.ExecContext(ctx, `
INSERT OR IGNORE INTO doomed (trace_id) SELECT trace_id FROM having_unit;
INSERT OR IGNORE INTO doomed (trace_id)
SELECT t.decision_id FROM having_unit CROSS JOIN traces AS t ON t.id = trace_id WHERE t.decision_id IS NOT NULL`)
	return err
}

// lastThoseOfUnit has the traces that have the unit deleted after the others of their
// decisions, so that an erasure that is tried again finds the remaining ones.
func (e *erasure) lastThoseOfUnit(ctx context.Context) error {
	if e.selector.Unit == "" {
		return nil
	}
	_, err := e.conn.ExecContext(ctx, "UPDATE doomed SET n = n + (SELECT max(n) FROM doomed) WHERE trace_id IN (SELECT trace_id FROM having_unit)")
	return err
}
