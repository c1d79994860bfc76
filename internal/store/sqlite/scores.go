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

	// fewScores is up to how many scores are read at once to list the newest traces that
	// have one. Where more are in the range, report after report soon has some.
	fewScores = 4096
)

// ScorePlace is a place in the list of the worst traces: after the trace ID, whose
// Score was reported on On: on it, or on its decision.
type ScorePlace struct {
	Score  float64
	On, ID trace.ID
}

// scored is what a score was reported on, and the last of the reports that say so.
type scored struct {
	score float64
	on    trace.ID
	seq   int64
}

// scoresFrom reads the next scores of a filter from a place on, the lowest first. Some
// are not the last that was reported.
func scoresFrom(ctx context.Context, on querier, f *trace.Filter, from ScorePlace, limit int) ([]scored, error) {
	most := *cmp.Or(f.Score, &trace.AllScores)
	before, floor := bounds(f, trace.ID{})
	return collect(ctx, on, func(scan func(...any) error) (s scored, err error) {
		var raw []byte
		err = scan(&s.score, &raw, &s.seq)
		copy(s.on[:], raw)
		return s, err
	}, `
SELECT score, trace_id, max(seq) FROM metrics INDEXED BY metrics_score
WHERE workspace = ?1 AND score IS NOT NULL AND score >= ?2 AND score <= ?3 AND (score > ?2 OR trace_id <= ?4) AND trace_id >= ?5 AND trace_id < ?6
GROUP BY score, trace_id ORDER BY score, trace_id DESC LIMIT ?7`,
		f.Workspace, from.Score, most.Most, from.On[:], floor[:], before[:], limit)
}

// firstScore is before every trace of a list of the worst.
func firstScore(f *trace.Filter) ScorePlace {
	return ScorePlace{cmp.Or(f.Score, &trace.AllScores).Least, lastID, lastID}
}

// scoredTraces returns the traces that a score was reported on, newest first.
func scoredTraces(ctx context.Context, on querier, s scored) ([]trace.ID, error) {
	if !isDecision(s.on) {
		return []trace.ID{s.on}, nil
	}
	ids, err := readTracesOf(ctx, on, s.on)
	return newestFirst.sort(ids), err
}

// scoredSource is the source of the traces that have a score of the filter; nil without
// one.
func scoredSource(ctx context.Context, on querier, f *trace.Filter) (*postingSource, error) {
	if f.Score == nil {
		return nil, nil
	}
	p := postingSource{kind: f.Kind, tail: true}
	found, err := scoresFrom(ctx, on, f, firstScore(f), fewScores+1)
	if err != nil {
		return nil, err
	}
	if len(found) > fewScores {
		p.reports = &source{table: "metrics", id: "trace_id", index: "metrics_trace_id"}
		p.reports.add("score BETWEEN ? AND ?", f.Score.Least, f.Score.Most)
		return &p, nil
	}
	for _, s := range found {
		ids, err := scoredTraces(ctx, on, s)
		if err != nil {
			return nil, err
		}
		p.unposted = append(p.unposted, ids...)
	}
	return &p, nil
}

// Worst lists the traces of which a score was reported, the lowest first and of one
// score the newest, after a place; nil is the beginning. The score is the one that was
// reported last. The page is bounded as that of [Reader.Traces]. next is where the next
// page begins; nil: there is none.
func (r *Reader) Worst(ctx context.Context, f trace.Filter, after *ScorePlace, limit int, budget time.Duration) (page Page, next *ScorePlace, err error) {
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
	one, err := tx.PrepareContext(ctx, fmt.Sprintf("SELECT %s, %s FROM traces INDEXED BY sqlite_autoindex_traces_1 WHERE id = ? AND %s",
		lastReport("metrics.seq"), shortList, where.and()))
	if err != nil {
		return Page{}, nil, err
	}
	defer func() { err = errors.Join(err, one.Close()) }()

	began, room := time.Now(), answerBytes
	page.Scores = make(map[trace.ID]float64)
	at := *cmp.Or(after, new(firstScore(&f)))
	for looked := 0; ; {
		found, err := scoresFrom(ctx, tx, &f, at, scoreWindow)
		if err != nil {
			return Page{}, nil, err
		}
		for _, s := range found {
			ids, err := scoredTraces(ctx, tx, s)
			if err != nil {
				return Page{}, nil, err
			}
			for _, id := range ids {
				if s.score == at.Score && s.on == at.On && compareIDs(id, at.ID) >= 0 {
					continue // passed already
				}
				page.Complete = len(page.Records) == limit || room <= 0
				if page.Complete || looked >= minWindow && time.Since(began) >= budget {
					return page, &at, nil
				}
				looked++
				at = ScorePlace{s.score, s.on, id}
				record, last, err := readScored(ctx, one, id, where)
				if err != nil {
					return Page{}, nil, err
				}
				if record != nil && last == s.seq {
					page.Records = append(page.Records, record)
					page.Scores[id] = s.score
					room -= record.Size()
				}
			}
			at = ScorePlace{s.score, s.on, trace.ID{}}
		}
		if len(found) < scoreWindow {
			page.Complete = true
			return page, nil, nil
		}
	}
}

// readScored reads a trace that meets the conditions, and the seq of the last report
// on it that has a score. The trace is nil if it does not.
func readScored(ctx context.Context, one *sql.Stmt, id trace.ID, where clauses) (record *trace.Record, last int64, err error) {
	row := one.QueryRowContext(ctx, slices.Concat([]any{id[:]}, where.args)...)
	var found sql.NullInt64
	record, err = scanRecord(row.Scan, false, &found)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, 0, nil
	}
	return record, found.Int64, err
}
