package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// stepEvents bounds the events of a step, of which each four numbers count as one more,
	// and with them its memory: some 60 MB, while the step before it is written. More of them
	// in one step are written faster: each step goes over all pages of the units.
	stepEvents = 524288

	// stepUnits is how many units one transaction writes, which bounds how long the
	// recorder's writer waits for it: some 10 ms. The writer has its turn while the next ones
	// are read, and during stepPause.
	stepUnits = 1024
	stepPause = 2 * time.Millisecond

	// scannedRows is how many rows one query reads.
	scannedRows = 16384

	// readoutsEvery is how often verdicts and days are kept, and old rows of rollouts deleted.
	readoutsEvery = time.Minute
)

// A step counts some rows after the cursors of an experiment: of traces, or, once all of
// these are counted, of metrics. It reads them, and the units that they name, without a lock.
// It writes the units a few at a time, each transaction with what it adds to the sums, so the
// sums are always those of the units. The last transaction moves the cursor.
//
// A unit's row has the number of the step that wrote it. A step that was broken off is done
// again with the same rows, and leaves alone the units that it has written. So each row counts
// once, wherever a crash comes. With each transaction the experiment's writes grow: of several
// processes on the file only one goes on.
//
// A pair of a trace and a report on it counts with the later of the two steps, as
// stats_decided.go says. A report on a unit that was not exposed yet needs no memory either:
// the unit's exposure finds it by the index.

// rolloutsLook is how often rollouts are counted: harm takes them back within 5 s.
const rolloutsLook = time.Second

// keepExperiments counts in the background, on connections of its own, for experiments or for
// rollouts: the first count of an experiment may take minutes, for which no rollout waits.
func (s *Store) keepExperiments(ctx context.Context, every time.Duration, of which, failing string) {
	s.keep(ctx, every, failing, func() (func() error, func(), error) {
		exist, err := queryInt(ctx, s.Reader.db, "SELECT EXISTS (SELECT 1 FROM experiments WHERE "+string(of)+") OR ? AND EXISTS (SELECT 1 FROM rollout_rows)", of == ofRollouts)
		if err != nil || exist == 0 {
			return nil, func() {}, err
		}
		k, err := openExperimentKeeper(s.path, of)
		return func() error { return k.look(ctx, time.Now(), func() { s.written.Store(true) }) }, k.close, err
	})
}

// experimentKeeper counts for experiments.
type experimentKeeper struct {
	which  which
	path   string
	db     *sql.DB // of two connections
	rows   *native // reads rows of traces and metrics
	units  *native // reads and writes units, beside it
	turn   *sync.Mutex
	events eventReader

	arms    map[string]string // for what writes: see overlap
	pending fastjson.Parser

	readAt time.Time // when verdicts are kept next
	wrote  func()

	stepEvents, stepUnits int // less in tests
}

func openExperimentKeeper(path string, of which) (*experimentKeeper, error) {
	at := secondWriterDSN(path, "busy_timeout(250)", "secure_delete(FAST)")
	db, err := openDatabase(at, 2)
	if err != nil {
		return nil, err
	}
	k := &experimentKeeper{which: of, path: path, db: db, turn: turnOf(path), arms: map[string]string{}, wrote: func() {}, stepEvents: stepEvents, stepUnits: stepUnits, events: eventReader{
		db: db, shares: map[string]*shares{}, arms: map[string]string{}, answers: map[[6]string]string{},
	}}
	for _, to := range []**native{&k.rows, &k.units} {
		if *to, err = openNative(at); err != nil {
			k.close()
			return nil, err
		}
	}
	return k, nil
}

func (k *experimentKeeper) close() {
	if k == nil {
		return
	}
	_ = errors.Join(k.rows.close(), k.units.close(), k.db.Close()) // a step that was broken off is done again
}

// look counts all rows, deletes what is kept no longer and keeps verdicts, if it is time for
// them.
func (k *experimentKeeper) look(ctx context.Context, now time.Time, wrote func()) error {
	k.wrote = wrote
	for {
		more, err := k.step(ctx, now)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := k.pause(ctx); err != nil {
			return err
		}
	}
	if now.Before(k.readAt) {
		return nil
	}
	k.readAt = now.Add(readoutsEvery)
	if k.which == ofRollouts {
		return k.deleteRollouts(ctx, now)
	}
	return k.keepReadouts(ctx, now)
}

func (k *experimentKeeper) pause(ctx context.Context) error {
	k.wrote()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(stepPause):
		return nil
	}
}

func (k *experimentKeeper) transact(ctx context.Context, work func(*sql.Tx) error) error {
	return transactInTurn(ctx, k.db, k.turn, work)
}

// step does the next step, and reports whether there may be another.
func (k *experimentKeeper) step(ctx context.Context, now time.Time) (more bool, err error) {
	all, err := readTracked(ctx, k.db, "", "", k.which)
	if err != nil {
		return false, err
	}
	var counting []*tracked
	for _, x := range all {
		ready, more, err := k.prepare(ctx, x, now)
		if err != nil || more {
			return more, err
		}
		if ready {
			counting = append(counting, x)
		}
	}
	if len(counting) == 0 {
		return false, nil
	}
	greatest, err := readGreatest(ctx, k.db)
	if err != nil {
		return false, err
	}
	for _, x := range counting { // a step that was broken off
		switch {
		case x.toTraces > x.traces:
			return true, k.countTraces(ctx, []*tracked{x}, x.toTraces, true)
		case x.toMetrics > x.metrics:
			return true, k.countMetrics(ctx, []*tracked{x}, x.toMetrics, true)
		}
	}
	group, until := nextGroup(counting, greatest.Traces, func(x *tracked) int64 { return x.traces })
	if len(group) > 0 {
		return true, k.countTraces(ctx, group, until, false)
	}
	group, until = nextGroup(counting, greatest.Metrics, func(x *tracked) int64 { return x.metrics })
	if len(group) > 0 {
		return true, k.countMetrics(ctx, group, until, false)
	}
	return false, nil
}

// nextGroup returns the experiments whose cursor is furthest behind, and the cursor of the
// next ones: from there on one pass over the rows counts for all.
func nextGroup(all []*tracked, greatest int64, cursor func(*tracked) int64) (group []*tracked, until int64) {
	first := greatest
	for _, x := range all {
		first = min(first, cursor(x))
	}
	if first == greatest {
		return nil, 0
	}
	until = greatest
	for _, x := range all {
		if at := cursor(x); at == first {
			group = append(group, x)
		} else {
			until = min(until, at)
		}
	}
	return group, until
}

// begin prepares a pass over rows for experiments.
func (k *experimentKeeper) begin(ctx context.Context, group []*tracked) error {
	k.events.of = map[splitOf][]*tracked{}
	for _, x := range group {
		if err := x.readStrata(ctx, k.db); err != nil {
			return err
		}
		on := splitOf{x.workspace, x.plan().On, x.plan().Rule}
		k.events.of[on] = append(k.events.of[on], x)
	}
	return nil
}

// renewed says that an experiment's readout begins anew, or gets its name.
type renewed struct {
	at      int64 // seq of the trace
	time    int64
	answers string
}

// pass is what a pass over rows found for an experiment.
type pass struct {
	events   []event
	weight   int // four for each event, and one for each of its numbers
	unitless int64
	counted  int64
	traces   int64 // the cursor
	renewed  *renewed
	before   bool // the split answered before the start
}

func (p *pass) add(ev *event) {
	p.events = append(p.events, *ev)
	p.weight += 4 + len(ev.numbers)
}

// full reports whether the passes have as many events as a step may have.
func (k *experimentKeeper) full(found map[*tracked]*pass) bool {
	total := 0
	for _, p := range found {
		total += p.weight
	}
	return total >= 4*k.stepEvents
}

func newPasses(group []*tracked) map[*tracked]*pass {
	found := map[*tracked]*pass{}
	for _, x := range group {
		found[x] = &pass{counted: x.counted, traces: x.traces}
	}
	return found
}

// overlap calls read again and again while what it read before is written, one write at a
// time, until it says that there is no more.
func overlap(read func() (write func() error, more bool, err error)) error {
	written := make(chan error, 1)
	written <- nil
	for {
		write, more, err := read()
		if err := errors.Join(<-written, err); err != nil {
			return err
		}
		go func() { written <- write() }()
		if !more {
			return <-written
		}
	}
}

// countTraces counts traces up to a seq. If the step is done again, it counts all of them
// at once.
func (k *experimentKeeper) countTraces(ctx context.Context, group []*tracked, until int64, again bool) error {
	if err := k.begin(ctx, group); err != nil {
		return err
	}
	last, newest := group[0].traces, int64(0)
	return overlap(func() (func() error, bool, error) {
		from, found, more := last, newPasses(group), true
		counts := func(x *tracked) bool { return found[x].renewed == nil }
		for last < until && (again || !k.full(found)) && slices.ContainsFunc(group, counts) {
			end, err := endOfRows(ctx, k.db, "traces", last, scannedRows)
			if err != nil {
				return nil, false, err
			}
			end = min(max(end, last+1), until)
			if err := k.readTraces(ctx, last, end, found, again, &newest); err != nil {
				return nil, false, err
			}
			last = end
		}
		to := map[*tracked]int64{}
		for _, x := range group {
			p := found[x]
			if to[x] = last; p.renewed != nil {
				to[x], more = p.renewed.at-1, false
			}
			if err := k.addEarlier(ctx, x, p, from, to[x]); err != nil {
				return nil, false, err
			}
			p.counted = max(p.counted, newest)
		}
		return func() error {
			for _, x := range group {
				if p := found[x]; p.renewed != nil && to[x] == from { // it is the first
					if err := k.renew(ctx, x, p.renewed); err != nil {
						return err
					}
				} else if err := k.apply(ctx, x, p, to[x], x.metrics); err != nil {
					return err
				}
			}
			return nil
		}, more && last < until, nil
	})
}

// readTraces adds the traces of a range.
func (k *experimentKeeper) readTraces(ctx context.Context, after, last int64, found map[*tracked]*pass, again bool, newest *int64) error {
	return k.rows.each(traceQuery, func(row *statement) error {
		r := traceOf(row, 0)
		*newest = max(*newest, r.at)
		return k.events.each(ctx, &r, func(x *tracked, ev event, answers string) error {
			p := found[x]
			switch {
			case p.renewed != nil:
				return nil
			case ev.class == precedes:
				p.before = true
				return nil
			case ev.class == exposes && answers != "" && answers != x.answers:
				if (x.answers == "" || ev.at > x.since) && !again {
					p.renewed = &renewed{r.seq, ev.at, answers}
				}
				return nil
			case ev.class == exposes && ev.at < x.since:
				return nil
			case ev.unit == "":
				if ev.class == exposes {
					p.unitless++
				}
				return nil
			}
			r.measures(x, &ev)
			p.add(&ev)
			return nil
		})
	}, integerValue(after), integerValue(last))
}

// renew begins a readout anew, with the trace whose arms answered with something else. The
// first readout gets its name.
func (k *experimentKeeper) renew(ctx context.Context, x *tracked, r *renewed) error {
	return k.transact(ctx, func(tx *sql.Tx) error {
		if x.answers == "" {
			if err := x.own(inTx(ctx, tx), ", answers = ?", r.answers); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "UPDATE experiment_readouts SET answers = ? WHERE experiment = ? AND since_ms = ?", r.answers, x.id, x.since)
			return err
		}
		if err := x.own(inTx(ctx, tx), ", answers = ?, since_ms = ?, readout = readout + 1, unitless = 0", r.answers, r.time); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `
INSERT OR REPLACE INTO experiment_readouts (experiment, since_ms, answers) VALUES (?1, ?2, ?3);
DELETE FROM experiment_outbox WHERE experiment = ?1;
DELETE FROM experiment_strata WHERE experiment = ?1;
DELETE FROM experiment_arms WHERE experiment = ?1;
DELETE FROM experiment_sums WHERE experiment = ?1`, x.id, r.time, r.answers)
		return err
	})
}

// addEarlier adds the reports on traces, and on their decisions, that were counted before the
// traces came.
func (k *experimentKeeper) addEarlier(ctx context.Context, x *tracked, p *pass, from, to int64) error {
	if x.metrics <= x.fromMetrics {
		return nil
	}
	return k.rows.each(earlierReports, func(row *statement) error {
		r, m := traceOf(row, 0), reportOf(row, traceWidth)
		if row.integer(traceWidth+reportWidth+1) > 0 { // it is on the decision
			first, err := k.firstOf(ctx, x, trace.ID(row.view(traceWidth+reportWidth)), r.seq)
			if err != nil || first != r.seq {
				return err // it counted with an earlier trace of the decision
			}
		}
		return k.addReport(ctx, &r, &m, func(of *tracked) *pass {
			if of != x {
				return nil
			}
			return p
		})
	}, integerValue(from), integerValue(to), integerValue(x.metrics))
}

// firstOf returns the seq of the first trace of a decision, up to a seq, that means something
// to an experiment; 0 if none does.
func (k *experimentKeeper) firstOf(ctx context.Context, x *tracked, decision trace.ID, until int64) (seq int64, err error) {
	err = k.eachOfDecision(decision, until, func(r *traceRow) error {
		return k.events.each(ctx, r, func(of *tracked, ev event, _ string) error {
			if of == x && seq == 0 && ev.class != precedes {
				seq = r.seq
			}
			return nil
		})
	})
	return seq, err
}

func (k *experimentKeeper) eachOfDecision(decision trace.ID, until int64, f func(r *traceRow) error) error {
	var values []value
	for _, id := range rangesOf(decision) {
		values = append(values, blobValue(id.([]byte)))
	}
	return k.rows.each(decisionTraces, func(row *statement) error {
		r := traceOf(row, 0)
		return f(&r)
	}, append(values, integerValue(until))...)
}

// addReport adds a report on a trace.
func (k *experimentKeeper) addReport(ctx context.Context, r *traceRow, m *reportRow, to func(*tracked) *pass) error {
	return k.events.each(ctx, r, func(x *tracked, ev event, answers string) error {
		if ev.class == precedes {
			return nil
		}
		p := to(x)
		if p == nil || ev.unit == "" {
			return nil
		}
		if ev.class == exposes {
			if answers != "" && answers != x.answers || ev.at < x.since {
				return nil
			}
			ev.class = follows
		}
		if m.measures(&k.events.reports, x, &ev); len(ev.numbers) > 0 {
			p.add(&ev)
		}
		return nil
	})
}

// countMetrics counts metrics up to a seq.
func (k *experimentKeeper) countMetrics(ctx context.Context, group []*tracked, until int64, again bool) error {
	if err := k.begin(ctx, group); err != nil {
		return err
	}
	last := group[0].metrics
	return overlap(func() (func() error, bool, error) {
		found := newPasses(group)
		for last < until && (again || !k.full(found)) {
			end, err := endOfRows(ctx, k.db, "metrics", last, scannedRows)
			if err != nil {
				return nil, false, err
			}
			end = min(max(end, last+1), until)
			if err := k.readReports(ctx, last, end, found); err != nil {
				return nil, false, err
			}
			last = end
		}
		to := last
		return func() error {
			for _, x := range group {
				if err := k.apply(ctx, x, found[x], found[x].traces, to); err != nil {
					return err
				}
			}
			return nil
		}, last < until, nil
	})
}

// readReports adds the reports of a range.
func (k *experimentKeeper) readReports(ctx context.Context, after, last int64, found map[*tracked]*pass) error {
	return k.rows.each(reportQuery, func(row *statement) error {
		m := reportOf(row, 0)
		decision, workspace, field, name, happened := row.view(reportWidth), row.view(reportWidth+1), row.view(reportWidth+2), row.view(reportWidth+3), row.integer(reportWidth+4)
		r := traceOf(row, reportWidth+5)
		switch {
		case name != nil:
			for x, p := range found {
				if x.workspace != string(workspace) || x.plan().Unit != string(field) || happened < x.past {
					continue
				}
				ev := event{unit: string(name), class: reported, at: happened}
				if m.measures(&k.events.reports, x, &ev); len(ev.numbers) > 0 {
					p.add(&ev)
				}
			}
		case decision != nil:
			done := map[*tracked]bool{}
			return k.eachOfDecision(trace.ID(decision), 1<<62, func(r *traceRow) error {
				counted := map[*tracked]bool{}
				err := k.addReport(ctx, r, &m, func(x *tracked) *pass {
					if done[x] || r.seq > found[x].traces {
						return nil
					}
					counted[x] = true
					return found[x]
				})
				maps.Copy(done, counted)
				return err
			})
		case r.seq > 0:
			return k.addReport(ctx, &r, &m, func(x *tracked) *pass {
				if r.seq > found[x].traces {
					return nil // it counts with the trace
				}
				return found[x]
			})
		}
		return nil
	}, integerValue(after), integerValue(last))
}
