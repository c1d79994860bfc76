package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/trace"
)

// Select reports which of the records a filter selects. The store need not have them: they
// may be of running calls. It applies the conditions of a list to a row with the record's
// values.
func (r *Reader) Select(ctx context.Context, f *trace.Filter, records ...*trace.Record) (selected []bool, err error) {
	where, err := conditions(f)
	if err != nil || len(records) == 0 {
		return nil, err
	}
	cursor, floor := bounds(f, trace.ID{})
	where.add("id >= ? AND id < ?", floor[:], cursor[:])
	var fields []trace.Field[trace.Record] // those that the conditions name, and perhaps others
	for i, column := range columnsOf(shortFields) {
		if strings.Contains(where.and(), column) {
			fields = append(fields, shortFields[i])
		}
	}
	stmt, err := r.db.PrepareContext(ctx, fmt.Sprintf("SELECT EXISTS (SELECT 1 FROM (SELECT NULL AS shared, ? AS %s) AS traces WHERE %s)",
		strings.Join(columnsOf(fields), ", ? AS "), where.and()))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stmt.Close()) }()
	for _, record := range records {
		var values []any
		for i := range fields {
			v, err := valueOf(&fields[i], record)
			if err != nil {
				return nil, err
			}
			values = append(values, v.argument())
		}
		var matches bool
		if err := stmt.QueryRowContext(ctx, slices.Concat(values, where.args)...).Scan(&matches); err != nil {
			return nil, err
		}
		selected = append(selected, matches)
	}
	return selected, nil
}

// Around returns a record, which the store need not have, with its stored details, as Get
// does.
func (r *Reader) Around(ctx context.Context, record *trace.Record) (*Details, error) {
	d := Details{Record: record}
	var err error
	if d.Metrics, d.MetricsTotal, err = r.firstMetrics(ctx, record.Workspace, record.ID, record); err != nil {
		return nil, err
	}
	if record.Version != "" {
		if d.Version, err = r.keptVersion(ctx, record.Workspace, record.Kind, record.Key, record.Version); err != nil {
			return nil, err
		}
	}
	if record.PromptVersion != "" {
		d.Prompt, err = r.keptVersion(ctx, record.Workspace, trace.KindPrompt, record.Prompt, record.PromptVersion)
	}
	return &d, err
}
