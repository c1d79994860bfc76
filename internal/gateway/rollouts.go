package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/rollout"
)

const (
	// rolloutPace is the time between two looks at a workspace's rollouts; longer where a
	// look takes longer.
	rolloutPace = time.Second
	// rowsTimeout bounds a read or a write of rows, and evidenceTimeout that of numbers.
	rowsTimeout     = 5 * time.Second
	evidenceTimeout = 30 * time.Second
)

// rolloutStore is where a workspace's rollouts have their rows and numbers.
type rolloutStore struct {
	disk  rolloutDisk   // the gateway's own store
	fleet rollout.Fleet // nil: no gateways share the rows
	// stored returns the rows of the own store, none before its file is made.
	stored func(context.Context) ([]rollout.Row, error)
	// numbers returns what the own store has counted for a rollout, nil if nothing.
	numbers func(ctx context.Context, name string) (*experiment.Data, error)
	// ship calls put with the units of the own store that have changed since its last call.
	// node names the store.
	ship func(ctx context.Context, name string, since time.Time, put func(node string, units []rollout.CountedUnit) error) error
}

// rolloutDisk has rows in a gateway's own store. Replace makes them those of a fleet, which
// come from the first that may differ on.
type rolloutDisk interface {
	rollout.Log
	Replace(ctx context.Context, rows []rollout.Row) error
	Close() error
}

// log returns the rows that count.
func (s *rolloutStore) log() rollout.Log {
	if s.fleet != nil {
		return s.fleet
	}
	return s.disk
}

// rollouts answers by the rows of a workspace's rollouts, and adds those that are due. Rows
// are unique by their numbers, so that several of it, in a fleet or during a reload, do no
// harm: the first one's row counts, and the others follow it.
type rollouts struct {
	rolloutStore
	logger *zap.Logger
	rows   *rolloutRows
	name   string // of this gateway in rows
	alone  bool   // rows would not be those of other gateways: all are answered as the control
	// changed is called when what is answered or counted has changed, and moved with each row
	// that is new to the process.
	changed func()
	moved   func(*rollout.Row)

	answers atomic.Pointer[rolloutAnswers]
	wake    chan struct{}

	// asks is done when the configuration ends. The others hold asking while they ask.
	asks       context.Context
	cancelAsks context.CancelFunc
	asking     sync.RWMutex
	closed     bool

	read     atomic.Bool // the rows of the disk are among rows
	fetching sync.Mutex
	joined   bool             // rows are those of the log
	saved    map[string]int64 // the last number of each rollout that the disk has as well

	mu        sync.Mutex
	since     time.Time // of the first set that was followed; zero: none yet
	snapshot  *definition.Snapshot
	editions  map[string]string // the last of each rollout
	again     map[string]bool   // rollouts whose edition is to start, though it has rows
	looks     map[string]rolloutLook
	awaySince time.Time // since when the rows are out of reach
	away      error
	told      bool // that they are
}

// rolloutLook is what was found when a rollout was looked at last.
type rolloutLook struct {
	rows     int // that there were
	evidence *rollout.Evidence
	says     string
}

// rolloutAnswers are the shares by which a set of definitions is answered.
type rolloutAnswers struct {
	revision string
	by       map[string]rolloutAnswer
	flags    string // which rows are those of remote configurations
}

type rolloutAnswer struct {
	share int
	row   int64
}

func newRollouts(store rolloutStore, rows *rolloutRows, logger *zap.Logger) *rollouts {
	r := &rollouts{
		rolloutStore: store, logger: logger, rows: rows, wake: make(chan struct{}, 1),
		snapshot: new(definition.Snapshot), editions: make(map[string]string), again: make(map[string]bool), looks: make(map[string]rolloutLook), saved: make(map[string]int64),
	}
	r.answers.Store(new(rolloutAnswers))
	r.asks, r.cancelAsks = context.WithCancel(context.Background())
	return r
}

// answer returns by how many buckets a set of definitions is answered, and by which row.
func (r *rollouts) answer(s *definition.Snapshot, name string) (share int, row int64, ok bool) {
	all := r.answers.Load()
	if all.revision == s.Revision {
		a, ok := all.by[name]
		return a.share, a.row, ok
	}
	// A request of the set before, or of one that follow has yet to see: its new answer must
	// not get the share of another.
	if p := planOf(s.Rollouts, name); p != nil && !r.alone {
		if standing, ok := rollout.Stand(r.rows.of(name), p.Edition); ok {
			return standing.Row.Share, standing.Row.Number, true
		}
	}
	return 0, 0, false
}

// planOf returns the plan of a name, or nil.
func planOf(plans []rollout.Plan, name string) *rollout.Plan {
	if i := slices.IndexFunc(plans, func(p rollout.Plan) bool { return p.Name() == name }); i >= 0 {
		return &plans[i]
	}
	return nil
}

// follow begins to answer another set of definitions. Before the first one with rollouts it
// reads the rows of the disk.
func (r *rollouts) follow(s *definition.Snapshot) {
	if len(s.Rollouts) > 0 && !r.alone && !r.read.Load() {
		r.fetching.Lock()
		ctx, cancel := context.WithTimeout(context.Background(), lastGoodTimeout)
		if err := r.readDisk(ctx); err != nil {
			r.logger.Warn("the rows of rollouts can't be read from the store", zap.Error(err))
		}
		cancel()
		r.fetching.Unlock()
	}
	r.mu.Lock()
	for i := range s.Rollouts {
		p := &s.Rollouts[i]
		before := r.editions[p.Name()]
		// Without a fleet no other gateway has added rows of another edition: the definitions
		// were edited while this one was down.
		if before != p.Edition && (before != "" || r.since.IsZero() && r.fleet == nil) {
			r.again[p.Name()] = true
		}
		r.editions[p.Name()] = p.Edition
	}
	if r.snapshot = s; r.since.IsZero() {
		r.since = time.Now()
	}
	r.mu.Unlock()
	r.serve()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// plans returns the plans of the set that is answered.
func (r *rollouts) plans() []rollout.Plan {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.snapshot.Rollouts
}

// serve answers by the rows that are known.
func (r *rollouts) serve() {
	r.mu.Lock()
	next := &rolloutAnswers{revision: r.snapshot.Revision, by: make(map[string]rolloutAnswer)}
	for i := range r.snapshot.Rollouts {
		p := &r.snapshot.Rollouts[i]
		if standing, ok := rollout.Stand(r.rows.of(p.Name()), p.Edition); ok && !r.alone {
			next.by[p.Name()] = rolloutAnswer{standing.Row.Share, standing.Row.Number}
			if strings.HasPrefix(p.On, kind.RemoteConfig.Folder+"/") {
				next.flags += fmt.Sprintf("\x00%s=%d", p.Name(), standing.Row.Number)
			}
		}
	}
	last := r.answers.Swap(next)
	r.mu.Unlock()
	if !maps.Equal(last.by, next.by) {
		r.changed()
	}
}

// counted returns the experiments by which the store counts for guards.
func (r *rollouts) counted() (plans []experiment.Plan, since time.Time) {
	all := r.plans()
	for i := range all {
		standing, ok := rollout.Stand(r.rows.of(all[i].Name()), all[i].Edition)
		if ok && measured(&standing) {
			e := all[i].Experiment(standing.Since)
			e.Shared = r.fleet != nil
			plans = append(plans, e)
			if standing.Since.After(since) {
				since = standing.Since
			}
		}
	}
	return plans, since
}

// measured reports whether a rollout compares units.
func measured(s *rollout.Standing) bool {
	return (s.State == rollout.Running || s.State == rollout.Held) && s.Row.Share > 0 && s.Row.Share < rollout.Whole
}

// run looks at the rollouts until ctx is done.
func (r *rollouts) run(ctx context.Context) {
	defer r.close()
	if r.alone {
		return
	}
	var following sync.WaitGroup
	defer following.Wait()
	defer context.AfterFunc(ctx, r.cancelAsks)()
	awaits := false
	for ctx.Err() == nil {
		var pace <-chan time.Time
		if len(r.plans()) > 0 {
			if r.fleet != nil && !awaits {
				awaits = true
				following.Go(func() { r.await(ctx) })
			}
			began := time.Now()
			r.look(ctx)
			pace = time.After(max(rolloutPace, time.Since(began)))
		}
		select {
		case <-ctx.Done():
		case <-r.wake:
		case <-pace:
		}
	}
}

// close ends the connections to where rows are, once nobody asks any more.
func (r *rollouts) close() {
	r.cancelAsks()
	r.asking.Lock()
	defer r.asking.Unlock()
	r.closed = true
	err := r.disk.Close()
	if r.fleet != nil {
		err = errors.Join(err, r.fleet.Close())
	}
	if err != nil {
		r.logger.Warn("the rows of rollouts can't be closed", zap.Error(err))
	}
}

// await serves the rows of other gateways as soon as they are there.
func (r *rollouts) await(ctx context.Context) {
	for ctx.Err() == nil {
		err := r.fleet.Await(ctx)
		if err == nil {
			if err = r.fetch(ctx); err == nil {
				r.serve()
				continue
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(rolloutPace):
		}
	}
}

// look serves the newest rows, and adds those that are due. Where the rows are out of reach it
// adds none.
func (r *rollouts) look(ctx context.Context) {
	err := r.fetch(ctx)
	r.serve()
	if err != nil {
		return
	}
	plans := r.plans()
	for i := range plans {
		if ctx.Err() == nil {
			r.step(ctx, &plans[i])
		}
	}
}

// step adds the row that is due, if one is.
func (r *rollouts) step(ctx context.Context, p *rollout.Plan) {
	rows := r.rows.of(p.Name())
	standing, known := rollout.Stand(rows, p.Edition)
	row := r.back(p, rows, known && standing.Overtaken)
	if row == nil {
		var evidence *rollout.Evidence
		var failed error
		if known && !standing.Overtaken && measured(&standing) {
			evidence, failed = r.evidence(ctx, p, standing.Since)
		}
		if ctx.Err() != nil {
			return
		}
		var says string
		row, says = p.Next(rows, evidence, failed, time.Now())
		r.mu.Lock()
		if evidence == nil && known && measured(&standing) {
			evidence = r.looks[p.Name()].evidence // the last one, to show
		}
		r.looks[p.Name()] = rolloutLook{len(rows), evidence, says}
		r.mu.Unlock()
	}
	if row == nil {
		return
	}
	if _, err := r.add(ctx, row); err != nil && ctx.Err() == nil {
		r.mu.Lock()
		r.looks[p.Name()] = rolloutLook{len(rows), row.Evidence, "a row is due and can't be added: " + err.Error()}
		r.mu.Unlock()
	}
}

// back returns the row that starts an edition anew which the definitions came back to.
func (r *rollouts) back(p *rollout.Plan, rows []rollout.Row, overtaken bool) *rollout.Row {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.again[p.Name()] || r.editions[p.Name()] != p.Edition {
		return nil
	}
	if !overtaken {
		delete(r.again, p.Name())
		return nil
	}
	return p.Anew(rows, time.Now())
}

// errUncounted is why there is no evidence soon after a start.
var errUncounted = errors.New("the store has yet to count since the last start")

// evidence returns what the guards see since a time.
func (r *rollouts) evidence(ctx context.Context, p *rollout.Plan, since time.Time) (*rollout.Evidence, error) {
	ctx, cancel := context.WithTimeout(ctx, evidenceTimeout)
	defer cancel()
	if r.fleet == nil {
		d, err := r.numbers(ctx, p.Name())
		if err != nil {
			return nil, err
		}
		if d == nil || len(d.Plans) == 0 || !d.Plans[len(d.Plans)-1].Plan.Start.Equal(since) {
			return nil, errUncounted // the store has yet to learn of the start
		}
		return p.Weigh(d), nil
	}
	if err := r.ship(ctx, p.Name(), since, func(node string, units []rollout.CountedUnit) error {
		return r.fleet.Put(ctx, node, p.Name(), since, units)
	}); err != nil {
		return nil, err
	}
	e := p.Experiment(since)
	d, ok, err := r.fleet.Sums(ctx, &e, p.Name(), since)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, errors.New("another gateway reads the numbers")
	}
	return p.Weigh(d), nil
}

// add adds a row, and serves it, or that of the gateway that was first.
func (r *rollouts) add(ctx context.Context, row *rollout.Row) (added bool, err error) {
	row.By = cmp.Or(row.By, r.name)
	bounded, cancel := context.WithTimeout(ctx, rowsTimeout)
	added, err = r.log().Add(bounded, row)
	cancel()
	if err != nil {
		r.reached(err)
		return false, err
	}
	// The row is read like those of others, so that there is one way of following.
	err = r.fetch(ctx)
	r.serve()
	if r.fleet != nil && added && row.Kind != rollout.Hold && (row.Kind != rollout.Step || row.Share == rollout.Whole) {
		bounded, cancel := context.WithTimeout(ctx, rowsTimeout)
		defer cancel()
		if err := r.fleet.Forget(bounded, row.Rollout, row.Time); err != nil {
			r.logger.Warn("the units of a rollout can't be deleted", zap.String("rollout", row.Rollout), zap.Error(err))
		}
	}
	return added, err
}

// fetch learns the rows that the log has in addition, and keeps copies of them on the disk. An
// error means that no step may be taken.
func (r *rollouts) fetch(ctx context.Context) error {
	r.fetching.Lock()
	defer r.fetching.Unlock()
	ctx, cancel := context.WithTimeout(ctx, rowsTimeout)
	defer cancel()
	unread := r.readDisk(ctx)
	var known map[string]int64
	if r.joined {
		known = r.rows.last()
	}
	rows, err := r.log().Rows(ctx, known)
	switch {
	case err != nil:
	case r.joined:
		for i := range rows {
			if r.rows.add(&rows[i]) {
				r.moved(&rows[i])
			}
		}
	default:
		err = cmp.Or(r.join(ctx, rows, unread == nil), unread)
		r.joined = err == nil
	}
	if r.fleet != nil && unread == nil {
		r.save(ctx)
	}
	r.reached(err)
	return err
}

// readDisk learns the rows that the disk has. The caller holds r.fetching.
func (r *rollouts) readDisk(ctx context.Context) error {
	if r.read.Load() {
		return nil
	}
	rows, err := r.stored(ctx)
	if err != nil {
		return err
	}
	r.read.Store(true)
	for i := range rows {
		r.rows.add(&rows[i])
		r.saved[rows[i].Rollout] = rows[i].Number
	}
	return nil
}

// join brings the rows that the process knows and all those of the log together: the log gets
// what it lacks, such as rows that were made before there was a fleet, unless it has others.
func (r *rollouts) join(ctx context.Context, all []rollout.Row, give bool) error {
	theirs := make(map[string][]rollout.Row)
	for _, row := range all {
		theirs[row.Rollout] = append(theirs[row.Rollout], row)
	}
	for name, own := range r.rows.all() {
		if !continues(own, theirs[name]) {
			continue
		}
		missing := own[len(theirs[name]):]
		delete(theirs, name)
		if !give {
			continue
		}
		for i := range missing {
			added, err := r.log().Add(ctx, &missing[i])
			if err == nil && !added {
				err = fmt.Errorf("another gateway adds rows of %s", name) // the next look reads them
			}
			if err != nil {
				return err
			}
		}
	}
	for name, rows := range theirs {
		r.rows.replace(name, rows)
		delete(r.saved, name)
	}
	return nil
}

// save copies a fleet's rows to the disk as far as it lacks them.
func (r *rollouts) save(ctx context.Context) {
	for name, rows := range r.rows.all() {
		if r.saved[name] == int64(len(rows)) {
			continue
		}
		if err := r.disk.Replace(ctx, rows[r.saved[name]:]); err != nil {
			return // the store says that it fails, and the next look tries again
		}
		r.saved[name] = int64(len(rows))
	}
}

// reached notes whether the rows are within reach.
func (r *rollouts) reached(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = err
	switch {
	case err == nil && r.told:
		r.logger.Info("rollouts go on: their rows are within reach again")
		fallthrough
	case err == nil:
		r.awaySince, r.told = time.Time{}, false
	case r.awaySince.IsZero():
		r.awaySince = time.Now()
	case !r.told && time.Since(r.awaySince) > longAway:
		r.told = true
		r.logger.Error("rollouts take no step: their rows are out of reach", zap.Error(err))
	}
}
