package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/internal/postgrestest"
	"github.com/cadenza-gateway/cadenza/internal/rollout"
	"github.com/cadenza-gateway/cadenza/internal/sequential"
	"github.com/cadenza-gateway/cadenza/sinks/postgres"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestRollouts runs the tests that do no harm to their server on the same one, each in its
// own database.
func TestRollouts(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	for _, test := range []struct {
		name string
		run  func(t *testing.T, dsn string)
	}{
		{"Rows", testRolloutRows},
		{"OneAddsANumber", testOneAddsARolloutsNumber},
		{"Notifications", testRolloutNotifications},
		{"Sums", testRolloutSums},
		{"MadNumbers", testRolloutMadNumbers},
		{"OneReadsSums", testOneReadsRolloutSums},
		{"Forget", testRolloutForget},
		{"Erasure", testRolloutErasure},
		{"Schemas", testRolloutSchemas},
		{"Rights", testRolloutRights},
		{"Modes", testRolloutModes},
	} {
		dsn := server.NewDatabase("Rollouts" + test.name)
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, dsn)
		})
	}
}

func openFleet(t testing.TB, dsn, schema, workspace string) rollout.Fleet {
	t.Helper()
	sink, err := postgres.New(postgres.Config{DSN: func() (string, error) { return dsn, nil }, Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	fleet := sink.Rollouts(workspace)
	t.Cleanup(func() {
		if err := fleet.Close(); err != nil {
			t.Error(err)
		}
	})
	return fleet
}

var rolloutSince = time.Date(2027, 3, 28, 1, 30, 0, 123e6, time.UTC)

func rowOf(name string, number int64) *rollout.Row {
	return &rollout.Row{Rollout: name, Number: number, Time: rolloutSince.Add(time.Duration(number) * time.Hour), Kind: rollout.Step, Share: 1000, Edition: "3f2a9c1b"}
}

func addRow(t testing.TB, fleet rollout.Fleet, row *rollout.Row) (added bool) {
	t.Helper()
	added, err := fleet.Add(t.Context(), row)
	if err != nil {
		t.Fatal(err)
	}
	return added
}

func rowsOf(t testing.TB, fleet rollout.Fleet, known map[string]int64) []rollout.Row {
	t.Helper()
	rows, err := fleet.Rows(t.Context(), known)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// testRolloutRows reads rows as they were added, and those of the workspace alone.
func testRolloutRows(t *testing.T, dsn string) {
	first, second, other := openFleet(t, dsn, "", "w"), openFleet(t, dsn, "", "w"), openFleet(t, dsn, "", "other")
	if rows := rowsOf(t, first, nil); len(rows) != 0 {
		t.Errorf("a new database has %+v", rows)
	}
	full := *rowOf("remoteconfigs/button/colours", 1)
	full.Kind, full.By, full.Why = rollout.Hold, "Zoë\u2028", "error: 0.2 of 0.1 'is' more"
	full.Evidence = &rollout.Evidence{
		Since: rolloutSince, Through: rolloutSince.Add(time.Minute), Units: 1 << 53, Control: 7, Mismatch: true,
		Guards: []rollout.Guard{{Name: "error", Ratio: 1.2, New: new(0.1 + 0.2), Control: new(5e-324), Harm: true, Strength: math.MaxFloat64, Says: "more \"errors\""}, {Name: "cost"}},
	}
	hostile := *rowOf("remoteconfigs/button/colours", 2)
	hostile.By, hostile.Why, hostile.Edition = "a\x00b", "\xff\xfe", strings.Repeat("x", 9000)
	hostile.Evidence = &rollout.Evidence{Guards: []rollout.Guard{{Name: "n\x00", Says: "\xff"}}}
	earliest, latest := *rowOf("prompts/a/b", 1), *rowOf("prompts/a/b", 2)
	earliest.Time, latest.Time = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for _, row := range []rollout.Row{full, hostile, latest, earliest} {
		if !addRow(t, first, &row) {
			t.Errorf("row %d of %s is not added", row.Number, row.Rollout)
		}
		if addRow(t, second, &row) || !addRow(t, other, &row) {
			t.Errorf("row %d of %s is added twice, or not in another workspace", row.Number, row.Rollout)
		}
	}
	hostile.By, hostile.Why = "a\uFFFDb", "\uFFFD"
	hostile.Evidence.Guards[0] = rollout.Guard{Name: "n\uFFFD", Says: "\uFFFD"}
	for _, test := range []struct {
		known map[string]int64
		want  []rollout.Row
	}{
		{nil, []rollout.Row{earliest, latest, full, hostile}},
		{map[string]int64{"remoteconfigs/button/colours": 1}, []rollout.Row{earliest, latest, hostile}},
		{map[string]int64{"remoteconfigs/button/colours": 2, "prompts/a/b": 0, "gone\x00": 9}, []rollout.Row{earliest, latest}},
		{map[string]int64{"remoteconfigs/button/colours": 2, "prompts/a/b": 3}, nil},
	} {
		if diff := gocmp.Diff(test.want, rowsOf(t, second, test.known), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("of what is not in %v (-want +got):\n%s", test.known, diff)
		}
	}
}

// testOneAddsARolloutsNumber has gateways, that begin with a database without tables, add the
// same numbers at once: one of them does, and all see its row.
func testOneAddsARolloutsNumber(t *testing.T, dsn string) {
	const gateways, numbers = 4, 20
	var fleets []rollout.Fleet
	for range gateways {
		fleets = append(fleets, openFleet(t, dsn, "", "w"))
	}
	for number := int64(1); number <= numbers; number++ {
		var winner atomic.Value
		var won atomic.Int64
		var work sync.WaitGroup
		for i, fleet := range fleets {
			work.Go(func() {
				row := rowOf("prompts/a/b", number)
				row.By = fmt.Sprint("gateway ", i)
				added, err := fleet.Add(t.Context(), row)
				if err != nil {
					t.Error(err)
				}
				if added {
					won.Add(1)
					winner.Store(row.By)
				}
			})
		}
		work.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d gateways have added row %d", won.Load(), number)
		}
		for _, fleet := range fleets {
			if rows := rowsOf(t, fleet, map[string]int64{"prompts/a/b": number - 1}); len(rows) != 1 || rows[0].By != winner.Load() {
				t.Fatalf("%+v is read, want row %d by %s", rows, number, winner.Load())
			}
		}
	}
}

// await returns when Await has, and how long that took.
func await(t testing.TB, fleet rollout.Fleet) time.Duration {
	t.Helper()
	began := time.Now()
	if err := fleet.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// testRolloutNotifications awaits a row of another gateway, which comes by a notification,
// and one whose notification is lost, as by a pooler.
func testRolloutNotifications(t *testing.T, dsn string) {
	fleet, other := openFleet(t, dsn, "", "w"), openFleet(t, dsn, "", "w")
	await(t, fleet) // before it listens it may have missed one
	awaited := make(chan time.Duration)
	go func() { awaited <- await(t, fleet) }()
	gatewaytest.Eventually(t, "a connection waits", func() bool {
		return count(t, dsn, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'") == 1
	})
	began := time.Now()
	addRow(t, other, rowOf("prompts/a/b", 1))
	<-awaited
	t.Logf("the notification took %s", time.Since(began))
	if took := time.Since(began); took > time.Second {
		t.Errorf("the notification took %s", took)
	}
	if addRow(t, other, rowOf("prompts/a/b", 1)) {
		t.Error("a row is added twice")
	}
	addRow(t, openFleet(t, dsn, "", "elsewhere"), rowOf("prompts/a/b", 2))
	addRow(t, openFleet(t, dsn, "another", "w"), rowOf("prompts/a/b", 2))
	if took := await(t, fleet); took < 2*time.Second || took > 30*time.Second {
		t.Errorf("without a notification it took %s", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if err := fleet.Await(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("when its context ends: %v", err)
	}
	await(t, fleet)
}

// guarded is a plan with metrics of all sorts.
func guarded(metrics ...experiment.As) *experiment.Plan {
	p := &experiment.Plan{Name: "rollout prompts/a/b", Arms: []string{"new", "control"}, Control: "control", Rollout: true}
	for i, as := range metrics {
		p.Metrics = append(p.Metrics, experiment.Metric{Name: fmt.Sprint("metric ", i), As: as})
	}
	return p
}

func put(t testing.TB, fleet rollout.Fleet, node string, units ...rollout.CountedUnit) {
	t.Helper()
	if err := fleet.Put(t.Context(), node, "prompts/a/b", rolloutSince, units); err != nil {
		t.Fatal(err)
	}
}

func sumsOf(t testing.TB, fleet rollout.Fleet, p *experiment.Plan) *experiment.Data {
	t.Helper()
	d, ok, err := fleet.Sums(t.Context(), p, "prompts/a/b", rolloutSince)
	if err != nil || !ok {
		t.Fatalf("ok is %t: %v", ok, err)
	}
	return d
}

// wantSums wants the numbers of a rollout to be those that the units of all nodes, by node,
// come to.
func wantSums(t testing.TB, fleet rollout.Fleet, p *experiment.Plan, nodes map[string]map[string]rollout.CountedUnit) {
	t.Helper()
	merged := map[string]rollout.CountedUnit{}
	for _, units := range nodes {
		for unit, u := range units {
			m, known := merged[unit]
			if !known {
				u.Numbers = slices.Clone(u.Numbers)
				merged[unit] = u
				continue
			}
			m.Moved = m.Moved || u.Moved || m.Arm != u.Arm
			if u.First.Before(m.First) || u.First.Equal(m.First) && u.Arm == p.Control {
				m.Arm, m.First = u.Arm, u.First
			}
			for i, x := range u.Numbers {
				m.Numbers[i] += x
			}
			merged[unit] = m
		}
	}
	arms := map[string]*experiment.Arm{}
	for _, name := range p.Arms {
		sums := make([]experiment.Sums, len(p.Metrics))
		arms[name] = &experiment.Arm{Decided: sums, Served: sums}
	}
	for _, u := range merged {
		arm := arms[u.Arm]
		if u.Moved {
			arm.Moved++
			continue
		}
		arm.Units++
		for i, m := range p.Metrics {
			n, to := u.Numbers[3*i:], &arm.Decided[i]
			if n[0] > 0 {
				to.Reported++
			}
			switch one := (sequential.Unit{}); m.As {
			case experiment.Rate:
				if n[2] > 0 {
					one.Y = 1
				}
				to.Add(one)
			case experiment.Mean:
				if one.Y = n[1] / n[0]; n[0] > 0 {
					to.Add(one)
				}
			case experiment.Total:
				one.Y = n[1]
				to.Add(one)
			case experiment.Ratio:
				one.Y, one.D = n[1], n[0]
				to.Add(one)
			}
		}
	}
	want := &experiment.Data{
		Plans: []experiment.DatedPlan{{Since: rolloutSince, Plan: *p}}, Anew: []time.Time{rolloutSince},
		Strata: []experiment.Stratum{{Begin: rolloutSince, Shares: map[string]float64{"new": 0.5, "control": 0.5}, Arms: arms}},
	}
	if diff := gocmp.Diff(want, sumsOf(t, fleet, p), cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// testRolloutSums holds the sums to what Go makes of the units that three gateways have seen
// and put again as they changed.
func testRolloutSums(t *testing.T, dsn string) {
	random := gatewaytest.Random(t)
	p := guarded(experiment.Ratio, experiment.Rate, experiment.Mean, experiment.Total, experiment.Ratio)
	fleet, other := openFleet(t, dsn, "", "w"), openFleet(t, dsn, "", "w")
	wantSums(t, fleet, p, nil)
	draw := func(unit string) rollout.CountedUnit {
		u := rollout.CountedUnit{Unit: unit, Arm: p.Arms[random.IntN(2)], First: rolloutSince.Add(time.Duration(random.IntN(20)) * time.Millisecond), Moved: random.IntN(20) == 0}
		if random.IntN(10) > 0 {
			u.Arm = p.Arms[unit[len(unit)-1]%2] // as most units' gateways agree
		}
		for range p.Metrics {
			n := float64(random.IntN(4))
			u.Numbers = append(u.Numbers, n, n*(random.NormFloat64()-0.2), float64(random.IntN(int(n)+1)))
		}
		return u
	}
	nodes := map[string]map[string]rollout.CountedUnit{"a": {}, "b": {}, "c": {}}
	for range 2 {
		for node, counted := range nodes {
			var units []rollout.CountedUnit
			for i := range 6_000 { // more than are put at once
				if random.IntN(3) > 0 {
					u := draw(fmt.Sprint("unit-", i))
					units, counted[u.Unit] = append(units, u), u
				}
			}
			random.Shuffle(len(units), func(i, j int) { units[i], units[j] = units[j], units[i] })
			put(t, fleet, node, units...)
			put(t, other, node, units...)
		}
		wantSums(t, other, p, nodes)
	}
	none := guarded()
	wantSums(t, fleet, none, nodes)

	// Others have numbers of their own.
	elsewhere := openFleet(t, dsn, "", "elsewhere")
	put(t, elsewhere, "a", draw("unit-1"))
	if err := fleet.Put(t.Context(), "a", "prompts/a/c", rolloutSince, []rollout.CountedUnit{draw("unit-1")}); err != nil {
		t.Error(err)
	}
	if err := fleet.Put(t.Context(), "a", "prompts/a/b", rolloutSince.Add(time.Millisecond), []rollout.CountedUnit{draw("unit-1")}); err != nil {
		t.Error(err)
	}
	wantSums(t, fleet, p, nodes)
	put(t, fleet, "none")
	if err := fleet.Put(t.Context(), "a", "prompts/a/b", rolloutSince, []rollout.CountedUnit{{Unit: "x", Numbers: []float64{1}}, {Unit: "y"}}); err == nil {
		t.Error("units whose numbers are of different plans are put")
	}
}

// testRolloutMadNumbers: numbers that PostgreSQL's arithmetic refuses don't hide others.
func testRolloutMadNumbers(t *testing.T, dsn string) {
	fleet := openFleet(t, dsn, "", "w\x00")
	p := guarded(experiment.Total, experiment.Mean, experiment.Ratio)
	for i, x := range []float64{math.MaxFloat64, -math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN(), math.SmallestNonzeroFloat64, -1e-200, 1e-100, 1e200, 1} {
		for node := range 3 {
			put(t, fleet, fmt.Sprint("node\xff", node), rollout.CountedUnit{Unit: fmt.Sprint("unit\x00\xff", i), Arm: "new", First: rolloutSince, Numbers: []float64{3, x, 1, 3, x, 1, 3, x, 1}})
		}
	}
	put(t, fleet, "node", rollout.CountedUnit{Unit: "u", Arm: "control", First: time.Time{}, Numbers: []float64{2, 1, 1, 2, 1, 1, 2, 1, 1}})
	arms := sumsOf(t, fleet, p).Strata[0].Arms
	if arms["new"].Units != 10 || arms["new"].Decided[0].N != 10 {
		t.Errorf("%+v", arms["new"])
	}
	if s := arms["control"].Decided[2]; s.Y != 1 || s.D != 2 || s.YD != 2 || s.Partial != 1 {
		t.Errorf("%+v", s)
	}
}

// testOneReadsRolloutSums: while a gateway reads the sums of a rollout, others get none of it.
func testOneReadsRolloutSums(t *testing.T, dsn string) {
	first, second := openFleet(t, dsn, "", "w"), openFleet(t, dsn, "", "w")
	p := guarded(experiment.Rate)
	sumsOf(t, first, p)
	sumsOf(t, second, p)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "BEGIN; LOCK TABLE cadenza.rollout_units IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, ok, err := first.Sums(context.Background(), p, "prompts/a/b", rolloutSince)
		if err == nil && !ok {
			err = errors.New("another one reads them")
		}
		done <- err
	}()
	gatewaytest.Eventually(t, "the first gateway reads", func() bool {
		return count(t, dsn, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > 0
	})
	if d, ok, err := second.Sums(t.Context(), p, "prompts/a/b", rolloutSince); d != nil || ok || err != nil {
		t.Errorf("another gateway gets %v, %t, %v", d, ok, err)
	}
	// Another call of the first gateway waits for as long as its context does.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := first.Rows(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if _, err := conn.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	sumsOf(t, second, p)
}

func unitsOf(t testing.TB, dsn string) (units string) {
	t.Helper()
	queryRow(t, dsn, "SELECT coalesce(string_agg(workspace || ' ' || rollout || ' ' || unit || ' ' || node, ', ' ORDER BY workspace, rollout, unit, node), '') FROM cadenza.rollout_units", &units)
	return units
}

// testRolloutForget deletes the units of earlier counts of a rollout, however many.
func testRolloutForget(t *testing.T, dsn string) {
	fleet := openFleet(t, dsn, "", "w")
	u := rollout.CountedUnit{Unit: "u", Arm: "new", First: rolloutSince}
	for _, name := range []string{"prompts/a/b", "prompts/a/c"} {
		for _, after := range []time.Duration{-time.Millisecond, 0, time.Millisecond} {
			if err := fleet.Put(t.Context(), fmt.Sprint(after), name, rolloutSince.Add(after), []rollout.CountedUnit{u}); err != nil {
				t.Fatal(err)
			}
		}
	}
	exec(t, dsn, `INSERT INTO cadenza.rollout_units SELECT workspace, rollout, since, 'unit ' || n, node, arm, first, moved, numbers
		FROM cadenza.rollout_units, generate_series(1, 12000) n WHERE rollout = 'prompts/a/b' AND node = '-1ms'`)
	if err := fleet.Forget(t.Context(), "prompts/a/b", rolloutSince); err != nil {
		t.Fatal(err)
	}
	if got, want := unitsOf(t, dsn), "w prompts/a/b u 0s, w prompts/a/b u 1ms, w prompts/a/c u -1ms, w prompts/a/c u 0s, w prompts/a/c u 1ms"; got != want {
		t.Errorf("%s are left, want %s", got, want)
	}
}

// testRolloutErasure: the erasure of a unit takes it out of the rollouts of its workspace, all
// gateways' alike, unless they saw it for the first time later.
func testRolloutErasure(t *testing.T, dsn string) {
	erased := time.Now()
	workspace, other := openFleet(t, dsn, "", "default"), openFleet(t, dsn, "", "other")
	for _, node := range []string{"a", "b"} {
		for _, name := range []string{"prompts/a/b", "prompts/a/c"} {
			for unit, first := range map[string]time.Time{"gone": erased.Add(-time.Hour), "stays": erased.Add(-time.Hour), "later": erased.Add(time.Hour)} {
				u := []rollout.CountedUnit{{Unit: unit, Arm: "new", First: first}}
				if err := errors.Join(workspace.Put(t.Context(), node, name, rolloutSince, u), other.Put(t.Context(), node, name, rolloutSince, u)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	before := unitsOf(t, dsn)
	sink := newSink(t, dsn)
	defer sink.Close()
	resume(t, sink, trace.Position{})
	for i, unit := range []string{"gone", "later"} {
		deliver(t, sink, &trace.Delivery{Position: trace.Position{Erasures: int64(i + 1)}, Erasures: []trace.Erasure{
			{Selector: trace.Selector{Workspace: "default", UnitField: "customer_id", Unit: unit, UnitValue: `"c"`}, Time: erased},
		}})
	}
	want := slices.DeleteFunc(strings.Split(before, ", "), func(row string) bool {
		return strings.HasPrefix(row, "default") && strings.Contains(row, " gone ")
	})
	if got := unitsOf(t, dsn); len(want) != 20 || got != strings.Join(want, ", ") {
		t.Errorf("of %s there are left %s", before, got)
	}
}

// testRolloutSchemas uses schemas with odd names, and adds the tables to those that builds
// without them made; gateways do so at once.
func testRolloutSchemas(t *testing.T, dsn string) {
	for _, schema := range []string{"", `Odd "schema" cadenza. %s $1 '; --`, strings.Repeat("ä", 31)} {
		if rows := rowsOf(t, openFleet(t, dsn, schema, "w"), nil); len(rows) != 0 {
			t.Errorf("%+v", rows)
		}
		quoted := pgx.Identifier{schema}.Sanitize()
		if schema == "" {
			quoted = "cadenza"
		}
		exec(t, dsn, fmt.Sprintf("DROP TABLE %[1]s.rollout_rows, %[1]s.rollout_units", quoted))
		var fleets []rollout.Fleet
		var work sync.WaitGroup
		var added atomic.Int64
		for range 4 {
			fleet := openFleet(t, dsn, schema, "w")
			fleets = append(fleets, fleet)
			work.Go(func() {
				ok, err := fleet.Add(t.Context(), rowOf("prompts/a/b", 1))
				if err != nil {
					t.Error(err)
				}
				if ok {
					added.Add(1)
				}
			})
		}
		work.Wait()
		if added.Load() != 1 {
			t.Errorf("%s: %d have added the row", quoted, added.Load())
		}
		p := guarded(experiment.Rate)
		u := rollout.CountedUnit{Unit: "u", Arm: "new", First: rolloutSince, Numbers: []float64{1, 1, 1}}
		put(t, fleets[0], "node", u)
		wantSums(t, fleets[1], p, map[string]map[string]rollout.CountedUnit{"node": {"u": u}})
		if err := fleets[2].Forget(t.Context(), "prompts/a/b", rolloutSince.Add(1)); err != nil {
			t.Error(err)
		}
		await(t, fleets[3])
	}
}

// testRolloutRights opens the tables of a build without rollouts as a role that may make
// none: the error must name the statements for an administrator, which must suffice.
func testRolloutRights(t *testing.T, dsn string) {
	rowsOf(t, openFleet(t, dsn, "", "w"), nil)
	exec(t, dsn, `CREATE ROLE "the fleet" LOGIN; DROP TABLE cadenza.rollout_rows, cadenza.rollout_units;
		GRANT USAGE ON SCHEMA cadenza TO "the fleet"; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA cadenza TO "the fleet"`)
	fleet := openFleet(t, withDSN(t, dsn, "the fleet", ""), "", "w")
	for name, call := range map[string]func() error{
		"Rows":  func() error { _, err := fleet.Rows(t.Context(), nil); return err },
		"Await": func() error { return fleet.Await(t.Context()) },
	} {
		err := call()
		if err == nil || !strings.Contains(err.Error(), `adding what the tables of schema "cadenza" lack: `) {
			t.Fatalf("%s: %v", name, err)
		}
		_, grants, _ := strings.Cut(err.Error(), "grants by: ")
		if name == "Rows" {
			defer func() {
				for statement := range strings.SplitSeq(grants, "; ") {
					exec(t, dsn, statement)
				}
				addRow(t, fleet, rowOf("prompts/a/b", 1))
				await(t, fleet)
			}()
		}
	}
}

// testRolloutModes uses the modes of the driver that a pooler may need.
func testRolloutModes(t *testing.T, dsn string) {
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			fleet := openFleet(t, dsn+"&default_query_exec_mode="+mode, "", mode)
			p := guarded(experiment.Rate, experiment.Ratio)
			counted := map[string]rollout.CountedUnit{}
			for i := range 3 {
				row := rowOf("prompts/a/b", int64(i+1))
				row.Evidence = &rollout.Evidence{Since: rolloutSince, Units: 3}
				if !addRow(t, fleet, row) || addRow(t, fleet, row) {
					t.Error("a row is not added once")
				}
				if rows := rowsOf(t, fleet, map[string]int64{"prompts/a/b": int64(i)}); !gocmp.Equal(rows, []rollout.Row{*row}) {
					t.Errorf("%+v", rows)
				}
				u := rollout.CountedUnit{Unit: fmt.Sprint(i), Arm: p.Arms[i%2], First: rolloutSince, Numbers: []float64{3, 2, 2, 4, 0.1, 1}}
				put(t, fleet, "node", u)
				counted[u.Unit] = u
				wantSums(t, fleet, p, map[string]map[string]rollout.CountedUnit{"node": counted})
				await(t, fleet)
			}
			if err := fleet.Forget(t.Context(), "prompts/a/b", rolloutSince.Add(time.Second)); err != nil {
				t.Error(err)
			}
			wantSums(t, fleet, p, nil)
		})
	}
}

// TestRolloutsOutliveTheirDatabase stops, freezes and kills the server: calls fail, no later
// than their context ends, and work again without any ado when it is back. What was added is
// still there. Nothing is left of a fleet that is closed.
func TestRolloutsOutliveTheirDatabase(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	fleet := openFleet(t, server.DSN()+"&connect_timeout=1", "", "w")
	p := guarded(experiment.Rate)
	u := rollout.CountedUnit{Unit: "u", Arm: "new", First: rolloutSince, Numbers: []float64{1, 1, 1}}
	calls := map[string]func(ctx context.Context) error{
		"Rows":  func(ctx context.Context) error { _, err := fleet.Rows(ctx, nil); return err },
		"Add":   func(ctx context.Context) error { _, err := fleet.Add(ctx, rowOf("prompts/a/b", 9)); return err },
		"Await": fleet.Await,
		"Put": func(ctx context.Context) error {
			return fleet.Put(ctx, "n", "prompts/a/b", rolloutSince, []rollout.CountedUnit{u})
		},
		"Sums": func(ctx context.Context) error {
			_, _, err := fleet.Sums(ctx, p, "prompts/a/b", rolloutSince)
			return err
		},
		"Forget": func(ctx context.Context) error { return fleet.Forget(ctx, "prompts/a/b", rolloutSince) },
	}
	addRow(t, fleet, rowOf("prompts/a/b", 1))
	await(t, fleet)
	number := int64(1)
	for _, way := range []struct {
		name       string
		away, back func()
	}{
		{"stopped", server.Stop, server.Restart},
		{"frozen", server.Pause, server.Resume},
		{"killed", server.Kill, server.Restart},
	} {
		way.away()
		for name, call := range calls {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			began := time.Now()
			if err := call(ctx); err == nil {
				t.Errorf("%s: %s works", way.name, name)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("%s: %s took %s", way.name, name, took)
			}
			cancel()
		}
		way.back()
		if rows := rowsOf(t, fleet, nil); len(rows) == 0 || rows[0].Number != 1 {
			t.Errorf("%s: %+v are left", way.name, rows)
		}
		number++
		if !addRow(t, fleet, rowOf("prompts/a/b", number)) {
			t.Errorf("%s: no row is added", way.name)
		}
		put(t, fleet, "n", u)
		wantSums(t, fleet, p, map[string]map[string]rollout.CountedUnit{"n": {"u": u}})
		await(t, fleet)
	}
	const connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'cadenza'"
	if n := count(t, server.DSN(), connections); n != 2 {
		t.Errorf("a fleet has %d connections", n)
	}
	if err := fleet.Close(); err != nil {
		t.Error(err)
	}
	gatewaytest.Eventually(t, "the connections end", func() bool { return count(t, server.DSN(), connections) == 0 })
}

// TestRolloutsThatHang loses all that goes to the server, whose connections stay: a call ends
// with its context, and Await by itself, though its own has no end.
func TestRolloutsThatHang(t *testing.T) {
	t.Parallel()
	network := newProxy(t, postgrestest.Start(t).Address())
	fleet := openFleet(t, network.dsn(), "", "w")
	addRow(t, fleet, rowOf("prompts/a/b", 1))
	await(t, fleet)
	network.silent.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := fleet.Rows(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if err := fleet.Await(t.Context()); err == nil {
		t.Error("it works without an answer")
	}
	network.silent.Store(false)
	network.cut()
	gatewaytest.Eventually(t, "it works again", func() bool {
		rows, err := fleet.Rows(t.Context(), nil)
		return err == nil && len(rows) == 1 && fleet.Await(t.Context()) == nil
	})
}

// BenchmarkRolloutSums reads the sums of so many units with four metrics.
func BenchmarkRolloutSums(b *testing.B) {
	for _, units := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprint(units), func(b *testing.B) {
			fleet := openFleet(b, postgrestest.Start(b).DSN(), "", "w")
			p := guarded(experiment.Ratio, experiment.Rate, experiment.Mean, experiment.Ratio)
			began := time.Now()
			for node := range 2 {
				var all []rollout.CountedUnit
				for i := range units {
					if i%10 > 0 && i%2 != node {
						continue
					}
					all = append(all, rollout.CountedUnit{
						Unit: fmt.Sprintf("%016x", rand.New(rand.NewPCG(1, uint64(i))).Uint64()), Arm: p.Arms[i/2%2], First: rolloutSince,
						Numbers: []float64{9, 1, 1, 9, 1, 1, 9, 0.125, 9, 9, 3, 3},
					})
				}
				put(b, fleet, fmt.Sprint("node ", node), all...)
			}
			took := time.Since(began)
			for b.Loop() {
				sumsOf(b, fleet, p)
			}
			b.ReportMetric(took.Seconds(), "s/put")
		})
	}
}
