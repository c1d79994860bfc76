package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/cadenza-gateway/cadenza/sinks"
	"github.com/cadenza-gateway/cadenza/trace"
)

// Resume implements [sinks.Sink]. It connects, makes the tables if they are not there
// and returns the lesser of the two positions, the store's and the database's: either
// may have gone on without the other.
func (s *Sink) Resume(ctx context.Context, source sinks.Source, kept trace.Position) (trace.Position, error) {
	position, err := s.resume(ctx, source, kept)
	if err != nil {
		err = s.explain(err)
		s.disconnect()
		return trace.Position{}, fmt.Errorf("PostgreSQL: %w", err)
	}
	s.source, s.at = source, position
	return position, nil
}

func (s *Sink) resume(ctx context.Context, source sinks.Source, kept trace.Position) (trace.Position, error) {
	if err := s.connect(ctx); err != nil {
		return trace.Position{}, err
	}
	if err := s.makeSchema(ctx); err != nil {
		return trace.Position{}, err
	}
	tx, err := s.begin(ctx, begin)
	if err != nil {
		return trace.Position{}, err
	}
	defer rollback(tx)
	var stored trace.Position
	err = tx.QueryRow(ctx, s.sql.position, uuid(source.StoreID), source.Workspace, source.Sink).
		Scan(&stored.Traces, &stored.Metrics, &stored.Versions, &stored.Erasures, &stored.Exposures)
	known := err == nil
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return trace.Position{}, err
	}
	agreed := kept.Min(stored) // zero if the database does not know the store
	if known && agreed == stored {
		return agreed, tx.Commit(ctx)
	}
	if known && agreed != kept {
		s.logger.Warn("the database lacks some of what it had taken, and gets it again", "store_had", kept, "database_has", stored)
	}
	if _, err := tx.Exec(ctx, s.sql.setPosition, uuid(source.StoreID), source.Workspace, source.Sink, agreed.Traces, agreed.Metrics, agreed.Versions, agreed.Erasures, agreed.Exposures); err != nil {
		return trace.Position{}, err
	}
	return agreed, tx.Commit(ctx)
}

// uuid is an id that the driver can encode in each of its modes.
func uuid(id [16]byte) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }
