package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/postgrestest"
	"github.com/cadenza-gateway/cadenza/sinks/postgres"
)

func openLedger(t testing.TB, dsn string) limit.Ledger {
	t.Helper()
	sink, err := postgres.New(postgres.Config{DSN: func() (string, error) { return dsn, nil }})
	if err != nil {
		t.Fatal(err)
	}
	return sink.Ledger("w")
}

// node is a gateway as its limits see it.
type node struct {
	*limit.Limiter
	path string
}

func newNode(t testing.TB, dsn string) *node {
	t.Helper()
	n := &node{path: filepath.Join(t.TempDir(), "limits")}
	n.open(t, dsn)
	return n
}

func (n *node) open(t testing.TB, dsn string) {
	t.Helper()
	n.Limiter = limit.Open(limit.Options{Path: n.path})
	n.SetLedger("w", openLedger(t, dsn))
}

func (n *node) close(t testing.TB) {
	t.Helper()
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

// load makes calls at all nodes, from several goroutines each, until a time, and adds
// up their usage.
func load(nodes []*node, ask limit.Ask, largest int64, until time.Time, spent *atomic.Int64) {
	var work sync.WaitGroup
	for _, n := range nodes {
		for range 4 {
			work.Go(func() {
				for time.Now().Before(until) {
					most := 1 + rand.Int64N(largest)
					r, refusal := n.Reserve("w", time.Now(), []limit.Ask{ask}, limit.Amounts{limit.Tokens: most})
					if refusal == nil {
						amount := rand.Int64N(most + 1)
						time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
						r.Settle(time.Now(), limit.Amounts{limit.Tokens: amount})
						spent.Add(amount)
					}
					time.Sleep(time.Duration(rand.IntN(4)) * time.Millisecond)
				}
			})
		}
	}
	work.Wait()
}

// TestGatewaysShareLimits: three gateways use up a limit that they share. While the
// database is available they don't exceed it by more than their running calls, and
// little of it is left; without the database they exceed it by a lease each.
func TestGatewaysShareLimits(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	const most, largest = 40_000, 100
	for _, away := range []bool{false, true} {
		name := fmt.Sprintf("away=%t", away)
		dsn := server.NewDatabase(name)
		t.Run(name, func(t *testing.T) {
			nodes := []*node{newNode(t, dsn), newNode(t, dsn), newNode(t, dsn)}
			ask := limit.Ask{Limit: &limit.Limit{Name: "l", Ceilings: []limit.Ceiling{{Measure: limit.Tokens, Most: most, Window: limit.Month}}}, Subject: "ada\x00"}
			var spent atomic.Int64
			load(nodes, ask, largest, time.Now().Add(150*time.Millisecond), &spent)
			if away {
				server.Stop()
				load(nodes, ask, largest, time.Now().Add(500*time.Millisecond), &spent)
				there := func(n *node) bool { _, since, _ := n.Shared("w"); return since.IsZero() }
				for end := time.Now().Add(time.Minute); slices.ContainsFunc(nodes, there) && time.Now().Before(end); {
					load(nodes, ask, largest, time.Now().Add(100*time.Millisecond), &spent)
				}
				for i, n := range nodes {
					if shared, since, err := n.Shared("w"); !shared || since.IsZero() || err == nil {
						t.Errorf("node %d: shared %t, away since %v: %v", i, shared, since, err)
					}
				}
				server.Restart()
			}
			// How long it takes to use up nearly all is the machine's matter. A second more
			// would exceed it.
			for end := time.Now().Add(time.Minute); spent.Load() < most*98/100 && time.Now().Before(end); {
				load(nodes, ask, largest, time.Now().Add(100*time.Millisecond), &spent)
			}
			load(nodes, ask, largest, time.Now().Add(time.Second), &spent)
			used := spent.Load()
			t.Logf("%d of %d were used", used, most)
			if used > most+int64(len(nodes))*most/20 {
				t.Errorf("%d of %d were used, more than a lease each above it", used, most)
			}
			if used < most*98/100 {
				t.Errorf("only %d of %d were used", used, most)
			}
			for _, n := range nodes {
				n.close(t)
			}
			if n := count(t, dsn, "SELECT used FROM cadenza.limit_windows"); n != used {
				t.Errorf("the database has %d as used, want %d", n, used)
			}
			if taken := count(t, dsn, "SELECT taken FROM cadenza.limit_windows"); taken < used || !away && taken != used {
				t.Errorf("%d are taken of %d that were used", taken, used)
			}
		})
	}
}

// TestWindowsOfAMonthAndOfItsDays books a month of 30 days and the window of 30 days
// that begins and ends with it.
func TestWindowsOfAMonthAndOfItsDays(t *testing.T) {
	t.Parallel()
	ledger := openLedger(t, postgrestest.Start(t).NewDatabase("months"))
	start := time.Date(2027, 6, 1, 0, 0, 0, 0, time.UTC)
	claim := limit.Claim{Limit: "l", Measure: limit.Money, Start: start, End: start.AddDate(0, 1, 0), Most: 1000, Owed: 7}
	days := claim
	days.Window.Length, days.Owed = 30*24*time.Hour, 11
	answers, err := ledger.Exchange(t.Context(), nextID(), []limit.Claim{claim, days})
	if err != nil || len(answers) != 2 || answers[0].Taken != 7 || answers[1].Taken != 11 {
		t.Errorf("%+v, %v", answers, err)
	}
	if err := ledger.Close(); err != nil {
		t.Error(err)
	}
}
