package sqlite

import (
	"context"
	"database/sql"

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

// forgetUnit deletes the unit from experiments, and takes it out of their sums. Its traces are
// deleted: a step that has read them finds that the experiment was written to, and reads again.
func (e *erasure) forgetUnit(ctx context.Context) error {
	if e.selector.Unit == "" {
		return nil
	}
	return e.transact(ctx, func(tx *sql.Tx) error {
		all, err := readTracked(ctx, tx, e.selector.Workspace, "", ofBoth)
		if err != nil {
			return err
		}
		for _, x := range all {
			if err := x.own(inTx(ctx, tx), ""); err != nil {
				return err
			}
			found, err := collect(ctx, tx, func(scan func(...any) error) (u unit, err error) {
				var name string
				return u, u.scan(scan, &name, map[string]string{})
			}, "SELECT "+unitColumns+" FROM experiment_units AS u WHERE u.experiment = ? AND u.unit = ?", x.id, e.selector.Unit)
			if err != nil {
				return err
			}
			removed := newSums()
			for i := range found {
				removed.add(x, &found[i], -1)
			}
			if err := removed.write(inTx(ctx, tx), x); err != nil {
				return err
			}
		}
		for _, table := range []string{"experiment_units", "experiment_outbox"} {
			if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE unit = ? AND experiment IN (SELECT id FROM experiments WHERE workspace = ?)",
				e.selector.Unit, e.selector.Workspace); err != nil {
				return err
			}
		}
		return nil
	})
}
