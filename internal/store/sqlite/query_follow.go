package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/cadenza-gateway/cadenza/trace"
)

// followWindow is how many traces one call of Follow looks at.
const followWindow = 5000

// LastSeq is the number of the latest write of a trace, from which Follow goes
// on; 0: there is none.
func (r *Reader) LastSeq(ctx context.Context) (int64, error) {
	return queryInt(ctx, r.db, "SELECT coalesce(max(seq), 0) FROM traces")
}

// Follow returns traces in the order in which they were written after the write
// of the number after, without their content, and the number to go on from. A
// call's start and its end are two writes, and so both are seen. It looks at a
// bounded number of traces: when last is not what it was, there may be more,
// even if no record came.
//
// Numbers may fall when the latest traces are deleted. Following then goes on
// from the latest that is left.
func (r *Reader) Follow(ctx context.Context, f trace.Filter, after int64, limit int) (records []*trace.Record, last int64, err error) {
	if err := f.Validate(); err != nil {
		return nil, after, err
	}
	where, err := conditions(&f)
	if err != nil {
		return nil, after, err
	}
	from, floor := bounds(&f, trace.ID{})
	where.add("id >= ? AND id < ?", floor[:], from[:])
	limit = min(max(limit, 1), MaxPage)

	// One transaction, or what is written in between were passed over.
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
	room := answerBytes
	short := shortWithin(&room)
	records, err = collect(ctx, tx, func(scan func(...any) error) (*trace.Record, error) {
		return short(scan, &last)
	}, query, slices.Concat([]any{after, end}, where.args, []any{limit})...)
	if err != nil && !errors.Is(err, errEnough) {
		return nil, after, err
	}
	if len(records) < limit && room > 0 {
		last = end
	}
	return records, last, nil
}

// endRead ends a transaction that only read.
func endRead(tx *sql.Tx) error {
	if err := tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}
