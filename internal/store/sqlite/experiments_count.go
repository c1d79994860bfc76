package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"math"
	"slices"
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

// A step counts some rows after the cursors of an experiment: traces, and then metrics. It reads
// them, and the units that they name, without a lock. It writes the units a few at a time, each
// transaction with what it adds to the sums, so the sums are always those of the units. The last
// transaction moves the cursors.
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
	shared *shared
	db     *sql.DB // of two connections
	rows   *native // reads rows of traces and metrics
	units  *native // reads and writes units, beside it
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
	k := &experimentKeeper{which: of, shared: sharedOf(path), db: db, arms: map[string]string{}, wrote: func() {}, stepEvents: stepEvents, stepUnits: stepUnits, events: eventReader{
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
	return transactInTurn(ctx, k.db, &k.shared.turn, work)
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
		if x.behind(x.to) {
			return true, k.count(ctx, []*tracked{x}, x.to, true)
		}
	}
	group, until := nextGroup(counting, cursors{greatest.Traces, greatest.Metrics})
	if len(group) == 0 {
		return false, nil
	}
	return true, k.count(ctx, group, until, false)
}

// cursors are the greatest seq of the traces and of the metrics that are counted.
type cursors struct{ traces, metrics int64 }

// behind reports whether other has rows that c has not.
func (c cursors) behind(other cursors) bool {
	return c.traces < other.traces || c.metrics < other.metrics
}

// nextGroup returns the experiments whose cursors are furthest behind, and until where one
// pass over the rows counts for them: from the cursors of the next ones on it does for all.
func nextGroup(all []*tracked, greatest cursors) (group []*tracked, until cursors) {
	all = slices.DeleteFunc(slices.Clone(all), func(x *tracked) bool { return !x.behind(greatest) })
	slices.SortStableFunc(all, func(a, b *tracked) int {
		return cmp.Or(cmp.Compare(a.traces, b.traces), cmp.Compare(a.metrics, b.metrics))
	})
	for i, x := range all {
		if x.cursors != all[0].cursors {
			return all[:i], cursors{x.traces, max(x.metrics, all[0].metrics)}
		}
	}
	return all, greatest
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
	from, to cursors
	renewed  *renewed
	before   bool // the split answered before the start
}

func (p *pass) add(ev *event) {
	p.events = append(p.events, *ev)
	p.weight += 4 + len(ev.numbers)
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

// count counts rows until the cursors get somewhere. If the step is done again, it counts all
// of them at once.
func (k *experimentKeeper) count(ctx context.Context, group []*tracked, until cursors, again bool) error {
	if err := k.begin(ctx, group); err != nil {
		return err
	}
	r := &stepReader{experimentKeeper: k, group: group, at: group[0].cursors, until: until, again: again}
	return overlap(func() (func() error, bool, error) { return r.next(ctx) })
}

// stepReader reads the rows of one step after another, for a group of experiments.
//
// Of a step the traces come first, as three eighths of its events. Then come the reports that
// were made until then, most of them on units of these traces: they are written once so.
type stepReader struct {
	*experimentKeeper
	group     []*tracked
	at, until cursors
	again     bool
	newest    int64 // time of the last trace
	late      bool  // reports that were made before are left
	found     map[*tracked]*pass
}

// next reads a step, and returns what writes it.
func (r *stepReader) next(ctx context.Context) (write func() error, more bool, err error) {
	from, found := r.at, map[*tracked]*pass{}
	for _, x := range r.group {
		found[x] = &pass{counted: x.counted, from: from}
	}
	r.found = found
	if err := r.readTraces(ctx); err != nil {
		return nil, false, err
	}
	anew := false
	for _, x := range r.group {
		p := found[x]
		p.counted, p.to = max(p.counted, r.newest), cursors{r.at.traces, from.metrics}
		if p.renewed != nil {
			p.to.traces, anew = p.renewed.at-1, true
		}
		if err := r.addEarlier(ctx, x, p); err != nil {
			return nil, false, err
		}
	}
	if !anew {
		if err := r.readReports(ctx); err != nil {
			return nil, false, err
		}
	}
	return func() error { return r.apply(ctx, r.group, found) }, !anew && r.at.behind(r.until), nil
}

// weight returns the weight of the events of the step.
func (r *stepReader) weight() (total int) {
	for _, p := range r.found {
		total += p.weight
	}
	return total
}

// readTraces reads traces until the step has enough of them, or one begins a readout anew.
func (r *stepReader) readTraces(ctx context.Context) error {
	anew := func(x *tracked) bool { return r.found[x].renewed != nil }
	for r.at.traces < r.until.traces && (r.again || !r.late && r.weight() < 3*r.stepEvents/2) && !slices.ContainsFunc(r.group, anew) {
		last, err := r.nextRows(ctx, "traces", r.at.traces, r.until.traces)
		if err != nil {
			return err
		}
		if err := r.addTraces(ctx, last); err != nil {
			return err
		}
		r.at.traces = last
	}
	return nil
}

// readReports reads the reports that were made before the next trace, until the step has enough
// of them.
func (r *stepReader) readReports(ctx context.Context) error {
	made := int64(math.MaxInt64)
	if r.at.traces < r.until.traces {
		var err error
		if made, err = queryInt(ctx, r.db, "SELECT coalesce((SELECT time_ms FROM traces WHERE seq <= ? ORDER BY seq DESC LIMIT 1), 0)", r.at.traces); err != nil {
			return err
		}
	}
	for r.late = true; r.late && r.at.metrics < r.until.metrics && (r.again || r.weight() < 4*r.stepEvents); {
		last, err := r.nextRows(ctx, "metrics", r.at.metrics, r.until.metrics)
		if err != nil {
			return err
		}
		end, err := queryInt(ctx, r.db, "SELECT coalesce((SELECT seq - 1 FROM metrics WHERE seq > ?1 AND seq <= ?2 AND time_ms > ?3 ORDER BY seq LIMIT 1), ?2)", r.at.metrics, last, made)
		if err != nil {
			return err
		}
		if err := r.addReports(ctx, end); err != nil {
			return err
		}
		r.at.metrics, r.late = end, end == last
	}
	r.late = r.late && r.at.metrics < r.until.metrics
	for _, p := range r.found {
		p.to.metrics = r.at.metrics
	}
	return nil
}

// nextRows returns the last of the next rows of a table that one query reads.
func (k *experimentKeeper) nextRows(ctx context.Context, table string, from, until int64) (int64, error) {
	last, err := endOfRows(ctx, k.db, table, from, scannedRows)
	return min(max(last, from+1), until), err
}

// apply writes what the passes found.
func (k *experimentKeeper) apply(ctx context.Context, group []*tracked, found map[*tracked]*pass) (err error) {
	for _, x := range group {
		p := found[x]
		if p.renewed != nil && p.to == p.from { // it is the first
			err = k.renew(ctx, x, p.renewed)
		} else {
			err = k.applyTo(ctx, x, p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addTraces adds the traces up to a seq.
func (r *stepReader) addTraces(ctx context.Context, last int64) error {
	return r.rows.each(traceQuery, func(row *statement) error {
		t := traceOf(row, 0)
		r.newest = max(r.newest, t.at)
		return r.events.each(ctx, &t, func(x *tracked, ev event, answers string) error {
			p := r.found[x]
			switch {
			case p.renewed != nil:
				return nil
			case ev.class == precedes:
				p.before = true
				return nil
			case ev.class == exposes && answers != "" && answers != x.answers:
				if (x.answers == "" || ev.at > x.since) && !r.again {
					p.renewed = &renewed{t.seq, ev.at, answers}
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
			t.measures(x, &ev)
			p.add(&ev)
			return nil
		})
	}, integerValue(r.at.traces), integerValue(last))
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
func (k *experimentKeeper) addEarlier(ctx context.Context, x *tracked, p *pass) error {
	if p.from.metrics <= x.fromMetrics {
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
	}, integerValue(p.from.traces), integerValue(p.to.traces), integerValue(p.from.metrics))
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

// addReports adds the reports up to a seq.
func (r *stepReader) addReports(ctx context.Context, last int64) error {
	return r.rows.each(reportQuery, func(row *statement) error {
		m := reportOf(row, 0)
		decision, workspace, field, name, happened := row.view(reportWidth), row.view(reportWidth+1), row.view(reportWidth+2), row.view(reportWidth+3), row.integer(reportWidth+4)
		on := traceOf(row, reportWidth+5)
		switch {
		case name != nil:
			for x, p := range r.found {
				if x.workspace != string(workspace) || x.plan().Unit != string(field) || happened < x.past {
					continue
				}
				ev := event{unit: string(name), class: reported, at: happened}
				if m.measures(&r.events.reports, x, &ev); len(ev.numbers) > 0 {
					p.add(&ev)
				}
			}
		case decision != nil:
			done := map[*tracked]bool{}
			return r.eachOfDecision(trace.ID(decision), 1<<62, func(t *traceRow) error {
				counted := map[*tracked]bool{}
				err := r.addReport(ctx, t, &m, func(x *tracked) *pass {
					if done[x] || t.seq > r.found[x].to.traces {
						return nil
					}
					counted[x] = true
					return r.found[x]
				})
				maps.Copy(done, counted)
				return err
			})
		case on.seq > 0:
			return r.addReport(ctx, &on, &m, func(x *tracked) *pass {
				if on.seq > r.found[x].to.traces {
					return nil // it counts with the trace
				}
				return r.found[x]
			})
		}
		return nil
	}, integerValue(r.at.metrics), integerValue(last))
}
