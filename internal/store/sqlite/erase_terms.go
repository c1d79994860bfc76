package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/cadenza-gateway/cadenza/trace"
)

// The term of a value is personal data if the value is. So an erasure deletes the terms of
// its traces from the index, except those that another trace of the millisecond has. FTS5
// notes a deletion in a new segment, and drops both the note and the term only when it
// merges the segments. So the erasure then merges all of them.

// eachIndexed calls f with the milliseconds of traces whose metadata may match, eraseScan
// at a time.
func (e *erasure) eachIndexed(ctx context.Context, match trace.MetadataMatch, f func(milliseconds []int64) error) error {
	terms, err := matchTerms(fnvBasis.add(e.selector.Workspace), match)
	if err != nil {
		return err
	}
	periods, err := readPeriods(ctx, e.conn)
	if err != nil {
		return err
	}
	for _, period := range periods {
		for last := int64(-1); ; {
			found, err := collect(ctx, e.conn, func(scan func(...any) error) (n int64, err error) { return n, scan(&n) },
				fmt.Sprintf("SELECT rowid FROM %[1]s WHERE %[1]s MATCH ? AND rowid > ? ORDER BY rowid LIMIT ?", termsTable(period)), anyOf(terms), last, eraseScan)
			if err != nil {
				return err
			}
			if len(found) == 0 {
				break
			}
			if err := f(found); err != nil {
				return err
			}
			last = found[len(found)-1]
		}
	}
	return nil
}

// readTerms reads the terms of the traces that meet a condition.
func readTerms(ctx context.Context, db querier, condition string, args ...any) (all []indexed, err error) {
	records, err := collect(ctx, db, func(scan func(...any) error) (*trace.Record, error) { return scanRecord(scan, false) },
		"SELECT "+shortList+" FROM traces WHERE "+condition, args...)
	for m := range new(indexer).milliseconds(records) {
		all = append(all, indexed{m.millis, slices.Clone(m.terms)})
	}
	return all, err
}

// deleteTerms deletes the terms of deleted traces from the index.
func deleteTerms(ctx context.Context, tx *sql.Tx, deleted []indexed) error {
	for _, m := range deleted {
		first, next := firstOf(m.millis), firstOf(m.millis+1)
		others, err := readTerms(ctx, tx, "id >= ? AND id < ?", first[:], next[:])
		if err != nil {
			return err
		}
		if len(others) > 0 {
			m.terms = slices.DeleteFunc(m.terms, func(t term) bool { return slices.Contains(others[0].terms, t) })
		}
		// FTS5 counts its documents, fewer than the deletions if traces share a
		// millisecond. So each deletion follows the insertion of an empty document.
		// https://www.sqlite.org/fts5.html#the_delete_command
		if _, err := tx.ExecContext(ctx, fmt.Sprintf(`
INSERT INTO %[1]s (rowid, term) VALUES (?1, '');
INSERT INTO %[1]s (%[1]s, rowid, term) VALUES ('delete', ?1, ?2)`, termsTable(periodOf(m.millis))), m.millis, string(appendWords(nil, m.terms))); err != nil {
			return err
		}
	}
	return nil
}

// mergePages is how many pages of the index one transaction merges.
const mergePages = 64

// mergeTerms merges the segments of each period into one, a little at a time. It includes
// periods that this erasure did not touch: an interrupted one may have.
// https://www.sqlite.org/fts5.html#the_merge_command
func (e *erasure) mergeTerms(ctx context.Context) error {
	periods, err := readPeriods(ctx, e.conn)
	if err != nil {
		return err
	}
	for _, period := range periods {
		pages := -mergePages // all segments, also those that FTS5 would not merge yet
		for merged := true; merged; pages = mergePages {
			if err := e.transact(ctx, func(tx *sql.Tx) error {
				before, err := queryInt(ctx, tx, "SELECT total_changes()")
				if err != nil {
					return err
				}
				if _, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO %[1]s (%[1]s, rank) VALUES ('merge', ?)", termsTable(period)), pages); err != nil {
					return err
				}
				after, err := queryInt(ctx, tx, "SELECT total_changes()")
				merged = after-before >= 2
				return err
			}); err != nil {
				return err
			}
			if err := e.copyLog(ctx, []doomedRow{{size: 2 * mergePages * pageBytes}}); err != nil {
				return err
			}
		}
	}
	return nil
}
