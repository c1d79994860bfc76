package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// scoreWindow is how many scores of reports are read at once.
	scoreWindow = 256

	// fewScores bounds the scores that are read at once to list the newest traces with one.
	// If more are in the range, a scan of the reports soon finds some.
	fewScores = 4096
)

// Place is a place in a list that is sorted by a value: after the trace ID, which has this
// value. A score was reported On the trace or its decision; for other values On is zero.
type Place struct {
	Value  float64
	On, ID trace.ID
}

// scored is a score, the trace or decision that it was reported on, and the seq of the last
// report of it.
type scored struct {
	score float64
	on    trace.ID
	seq   int64
}

// scoresFrom reads the next scores of a filter from a place on, the lowest first. Later
// reports may have replaced some.
func scoresFrom(ctx context.Context, db querier, f *trace.Filter, place Place, limit int) ([]scored, error) {
	scores := *cmp.Or(f.Score, &trace.AllScores)
	before, floor := bounds(f, trace.ID{})
	return collect(ctx, db, func(scan func(...any) error) (s scored, err error) {
		return s, scan(&s.score, into{&s.on}, &s.seq)
	}, `
SELECT score, trace_id, max(seq) FROM metrics INDEXED BY metrics_score
WHERE workspace = ?1 AND score IS NOT NULL AND score >= ?2 AND score <= ?3 AND (score > ?2 OR trace_id <= ?4) AND trace_id >= ?5 AND trace_id < ?6
GROUP BY score, trace_id ORDER BY score, trace_id DESC LIMIT ?7`,
		f.Workspace, place.Value, scores.Most, place.On[:], floor[:], before[:], limit)
}

// firstScore is before every trace of a list of the worst.
func firstScore(f *trace.Filter) Place {
	return Place{cmp.Or(f.Score, &trace.AllScores).Least, lastID, lastID}
}

// scoredTraces returns the traces that a score was reported on, newest first.
func scoredTraces(ctx context.Context, db querier, s scored) ([]trace.ID, error) {
	if !isDecision(s.on) {
		return []trace.ID{s.on}, nil
	}
	ids, err := readTracesOf(ctx, db, s.on)
	return newestFirst.sort(ids), err
}

// scoredSource returns the source of the traces with a score in the filter's range, nil if
// the filter has none.
func scoredSource(ctx context.Context, db querier, f *trace.Filter) (*idSource, error) {
	if f.Score == nil {
		return nil, nil
	}
	p := idSource{kind: f.Kind}
	found, err := scoresFrom(ctx, db, f, firstScore(f), fewScores+1)
	if err != nil {
		return nil, err
	}
	if len(found) > fewScores {
		p.reports = &source{table: "metrics", id: "trace_id", index: "metrics_trace_id"}
		p.reports.add("score BETWEEN ? AND ?", f.Score.Least, f.Score.Most)
		return &p, nil
	}
	for _, s := range found {
		ids, err := scoredTraces(ctx, db, s)
		if err != nil {
			return nil, err
		}
		p.ids = append(p.ids, ids...)
	}
	return &p, nil
}

// Worst lists the traces with a score after a place, the lowest first and of one score the
// newest; nil is the beginning. The score is the last reported one. The page is bounded as
// that of [Reader.Traces]. next is the place where the next page begins; nil: there is
// none.
func (r *Reader) Worst(ctx context.Context, f trace.Filter, after *Place, limit int, budget time.Duration) (page Page, next *Place, err error) {
	if err := f.Validate(); err != nil {
		return Page{}, nil, err
	}
	where, err := conditions(&f)
	if err != nil {
		return Page{}, nil, err
	}
	before, floor := bounds(&f, trace.ID{})
	where.add("id >= ? AND id < ?", floor[:], before[:])
	limit = min(max(limit, 1), MaxPage)
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return Page{}, nil, err
	}
	defer func() { err = errors.Join(err, endRead(tx)) }()
	stmt, err := tx.PrepareContext(ctx, fmt.Sprintf("SELECT %s, %s FROM traces INDEXED BY sqlite_autoindex_traces_1 WHERE id = ? AND %s",
		lastReport("metrics.seq"), shortList, where.and()))
	if err != nil {
		return Page{}, nil, err
	}
	defer func() { err = errors.Join(err, stmt.Close()) }()

	began, remaining := time.Now(), answerBytes
	page.Scores = make(map[trace.ID]float64)
	place := *cmp.Or(after, new(firstScore(&f)))
	for looked := 0; ; {
		found, err := scoresFrom(ctx, tx, &f, place, scoreWindow)
		if err != nil {
			return Page{}, nil, err
		}
		for _, s := range found {
			ids, err := scoredTraces(ctx, tx, s)
			if err != nil {
				return Page{}, nil, err
			}
			for _, id := range ids {
				if s.score == place.Value && s.on == place.On && compareIDs(id, place.ID) >= 0 {
					continue // passed already
				}
				page.Complete = len(page.Records) == limit || remaining <= 0
				if page.Complete || looked >= minWindow && time.Since(began) >= budget {
					return page, &place, nil
				}
				looked++
				place = Place{s.score, s.on, id}
				record, last, err := readScored(ctx, stmt, id, where)
				if err != nil {
					return Page{}, nil, err
				}
				if record != nil && last == s.seq {
					page.Records = append(page.Records, record)
					page.Scores[id] = s.score
					remaining -= record.Size()
				}
			}
			place = Place{s.score, s.on, trace.ID{}}
		}
		if len(found) < scoreWindow {
			page.Complete = true
			return page, nil, nil
		}
	}
}

// readScored reads a trace, and the seq of the last report with a score on it. The trace is
// nil if it does not meet the conditions.
func readScored(ctx context.Context, stmt *sql.Stmt, id trace.ID, where clauses) (record *trace.Record, last int64, err error) {
	row := stmt.QueryRowContext(ctx, slices.Concat([]any{id[:]}, where.args)...)
	var found sql.NullInt64
	record, err = scanRecord(row.Scan, false, &found)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, 0, nil
	}
	return record, found.Int64, err
}
