package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/cadenza-gateway/cadenza/trace"
)

var (
	errNotConnected = errors.New("there is no connection")

	// errElsewhere says that another process wrote the position, or that the
	// database went back in time. Resume must look.
	errElsewhere = errors.New("the database's position of this store is not where it was left: was it restored, or another server promoted?")
)

// Deliver implements [sinks.Sink]. After an error the connection is closed, and
// Resume finds out whether a commit that was under way succeeded.
func (s *Sink) Deliver(ctx context.Context, delivery *trace.Delivery) error {
	if s.conn == nil {
		return fmt.Errorf("PostgreSQL: %w", errNotConnected)
	}
	err := s.store(ctx, delivery, s.put)
	if isRefusal(err) && !s.conn.IsClosed() {
		err = s.store(ctx, delivery, s.putCarefully)
	}
	if err != nil {
		err = s.explain(err)
		s.disconnect()
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	s.at = delivery.Position
	return nil
}

// store makes the delivery and its position one transaction.
func (s *Sink) store(ctx context.Context, d *trace.Delivery, put func(context.Context, pgx.Tx, *trace.Delivery) error) error {
	tx, err := s.begin(ctx, s.sql.begin)
	if err != nil {
		return err
	}
	defer rollback(tx)
	if err := put(ctx, tx, d); err != nil {
		return err
	}
	to := d.Position
	tag, err := tx.Exec(ctx, s.sql.move, uuid(s.source.StoreID), s.source.Workspace, s.source.Sink, to.Traces, to.Metrics, to.Versions, to.Erasures, to.Exposures,
		s.at.Traces, s.at.Metrics, s.at.Versions, s.at.Erasures, s.at.Exposures)
	if err != nil {
		return err
	}
	if tag.RowsAffected() != 1 {
		return errElsewhere
	}
	return tx.Commit(ctx)
}

// put stores the rows of a delivery.
func (s *Sink) put(ctx context.Context, tx pgx.Tx, d *trace.Delivery) error {
	if err := s.putTraces(ctx, tx, d.Records); err != nil {
		return err
	}
	if err := s.putMetrics(ctx, tx, d.Metrics); err != nil {
		return err
	}
	if err := s.putVersions(ctx, tx, d.Versions); err != nil {
		return err
	}
	if err := s.putExposures(ctx, tx, d.Exposures); err != nil {
		return err
	}
	for _, e := range d.Erasures {
		if err := s.erase(ctx, tx, e); err != nil {
			return err
		}
	}
	return nil
}

// putExposures updates the answers of traces. It never lowers a number, which may come
// again.
func (s *Sink) putExposures(ctx context.Context, tx pgx.Tx, exposures []trace.Exposure) error {
	if len(exposures) == 0 {
		return nil
	}
	ids, answers := make([]pgtype.UUID, len(exposures)), make([]int32, len(exposures))
	for i, e := range exposures {
		ids[i], answers[i] = uuid(e.TraceID), int32(min(e.Answers, math.MaxInt32))
	}
	_, err := tx.Exec(ctx, s.sql.exposures, s.source.Workspace, ids, answers)
	return err
}

// Copying to a stage and inserting from there costs PostgreSQL half of what as
// many single inserts do, in one pipeline or from arrays, and us a third.

func (s *Sink) putTraces(ctx context.Context, tx pgx.Tx, records []*trace.Record) error {
	return stage(ctx, tx, traceStage, traceNames, trace.RecordFields, latest(records), s.sql.traces)
}

func (s *Sink) putMetrics(ctx context.Context, tx pgx.Tx, metrics []*trace.Metrics) error {
	return stage(ctx, tx, metricsStage, metricsNames, trace.MetricsFields, metrics, s.sql.metrics)
}

// stage copies rows to a stage and inserts them from there.
func stage[T any](ctx context.Context, tx pgx.Tx, stage pgx.Identifier, names []string, fields []trace.Field[T], rows []*T, insert string) error {
	if len(rows) == 0 {
		return nil
	}
	values := make([]any, len(names))
	next := 0
	_, err := tx.CopyFrom(ctx, stage, names, pgx.CopyFromFunc(func() ([]any, error) {
		if next == len(rows) {
			return nil, nil
		}
		fillRow(values, fields, rows[next])
		next++
		return values, nil
	}))
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, insert); err != nil {
		return err
	}
	return nil
}

// latest returns the last record of each trace: one statement must not replace a
// row twice.
func latest(records []*trace.Record) []*trace.Record {
	last := make(map[trace.ID]int, len(records))
	for i, r := range records {
		last[r.ID] = i
	}
	if len(last) == len(records) {
		return records
	}
	kept := make([]*trace.Record, 0, len(last))
	for i, r := range records {
		if last[r.ID] == i {
			kept = append(kept, r)
		}
	}
	return kept
}

func (s *Sink) putVersions(ctx context.Context, tx pgx.Tx, versions []trace.Version) error {
	if len(versions) == 0 {
		return nil
	}
	var batch pgx.Batch
	for i := range versions {
		v := &versions[i]
		content := v.Content
		if content == nil {
			content = []byte{}
		}
		batch.Queue(s.sql.versions, cleanText(v.Workspace), v.Kind.String(), cleanText(v.Key), cleanText(v.Version), clampTime(v.Time), content)
	}
	return tx.SendBatch(ctx, &batch).Close()
}
