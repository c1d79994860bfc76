package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/cadenza-gateway/cadenza/trace"
)

// followWindow bounds the traces that one call of Follow looks at.
const followWindow = 5000

// LastSeq returns the number of the latest write of a trace, from which Follow goes on, 0
// if there is none.
func (r *Reader) LastSeq(ctx context.Context) (int64, error) {
	return queryInt(ctx, r.db, "SELECT coalesce(max(seq), 0) FROM traces")
}

// Follow returns traces in the order in which they were written after the write with the
// number after, without their content, and the number to go on from. A call's start and its
// end are two writes, and so both are seen. Follow looks at a bounded number of traces: if
// last changed, there may be more, even if it returned no record.
//
// Numbers may fall when the latest traces are deleted. Follow then goes on from the latest
// remaining trace.
func (r *Reader) Follow(ctx context.Context, f trace.Filter, after int64, limit int) (records []*trace.Record, last int64, err error) {
	if err := f.Validate(); err != nil {
		return nil, after, err
	}
	where, err := conditions(&f)
	if err != nil {
		return nil, after, err
	}
	cursor, floor := bounds(&f, trace.ID{})
	where.add("id >= ? AND id < ?", floor[:], cursor[:])
	limit = min(max(limit, 1), MaxPage)

	// One transaction: a trace that is written between two queries would be passed over.
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, after, err
	}
	defer func() { err = errors.Join(err, endRead(tx)) }()
	greatest, err := queryInt(ctx, tx, "SELECT coalesce(max(seq), 0) FROM traces")
	if err != nil || greatest <= after {
		return nil, greatest, err
	}
	end, err := queryInt(ctx, tx, "SELECT coalesce((SELECT seq FROM traces WHERE seq > ? ORDER BY seq LIMIT 1 OFFSET ?), ?)", after, followWindow-1, greatest)
	if err != nil {
		return nil, after, err
	}
	query := fmt.Sprintf("SELECT seq, %s FROM traces NOT INDEXED WHERE seq > ? AND seq <= ? AND %s ORDER BY seq LIMIT ?", shortList, where.and())
	remaining := answerBytes
	short := shortWithin(&remaining)
	records, err = collect(ctx, tx, func(scan func(...any) error) (*trace.Record, error) {
		return short(scan, &last)
	}, query, slices.Concat([]any{after, end}, where.args, []any{limit})...)
	if err != nil && !errors.Is(err, errEnough) {
		return nil, after, err
	}
	if len(records) < limit && remaining > 0 {
		last = end
	}
	return records, last, nil
}

// beginRead begins a transaction in which the store reads in the background. Only endRead
// ends it. Were it to end with ctx, database/sql would end it in a goroutine of its own,
// perhaps after the writer is closed. The last connection of a database copies the log into
// the file and deletes it, which one that only reads can't.
// https://www.sqlite.org/wal.html#avoiding_excessively_large_wal_files
func beginRead(ctx context.Context, db *sql.DB) (*sql.Tx, error) {
	return db.BeginTx(context.WithoutCancel(ctx), &sql.TxOptions{ReadOnly: true})
}

// endRead ends a transaction that only read.
func endRead(tx *sql.Tx) error {
	if err := tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}
