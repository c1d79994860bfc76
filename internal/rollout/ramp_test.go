package rollout

import (
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/sequential"
)

// runs returns how many of the runs a test plays: all of them with CADENZA_FULL=1.
func runs(full, short int) int {
	if os.Getenv("CADENZA_FULL") != "" {
		return full
	}
	return short
}

// play returns what f returns for each run, each of which has random numbers of its own.
func play[T any](n int, seed uint64, f func(*rand.Rand) T) []T {
	results := make([]T, n)
	var group sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		group.Go(func() {
			for i := w; i < n; i += workers {
				results[i] = f(rand.New(rand.NewPCG(seed, uint64(i))))
			}
		})
	}
	group.Wait()
	return results
}

var began = time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)

// ramp is a rollout of four steps of ten minutes, of which no harm is tolerated but a fifth more.
func ramp(stops ...Stop) *Plan {
	for i := range stops {
		stops[i].Ratio = 1.2
	}
	return &Plan{
		On: "remoteconfigs/button", Rule: "colours", Unit: "customer_id", New: New, Control: Control, Edition: "one",
		Steps: []int{1_000, 5_000, 25_000, 50_000}, Every: 10 * time.Minute, Stops: stops, Then: ThenBack,
	}
}

// numbers are those of a rollout, as a store counts them.
type numbers struct {
	experiment.Data
	metrics int
}

// of returns an arm's sums while New has a share.
func (n *numbers) of(share int, name string) *experiment.Arm {
	part := float64(share) / Whole
	i := slices.IndexFunc(n.Strata, func(s experiment.Stratum) bool { return s.Shares[New] == part })
	if i < 0 {
		i = len(n.Strata)
		n.Strata = append(n.Strata, experiment.Stratum{Shares: map[string]float64{New: part, Control: part}, Arms: map[string]*experiment.Arm{}})
	}
	if n.Strata[i].Arms[name] == nil {
		n.Strata[i].Arms[name] = &experiment.Arm{Decided: make([]experiment.Sums, n.metrics)}
	}
	return n.Strata[i].Arms[name]
}

// add adds a unit, of which each metric has a number.
func (n *numbers) add(share int, name string, units ...sequential.Unit) {
	arm := n.of(share, name)
	arm.Units++
	for i, u := range units {
		arm.Decided[i].Add(u)
		arm.Decided[i].Reported++
	}
}

// stopped plays a rollout for 40 minutes with 1,000 units a minute, of which requests fail at a
// rate that drifts from 2 to 8 %, those of New times as often. It returns the minute in which
// the rollout went back, above 40 if it did not.
func stopped(r *rand.Rand, p *Plan, times float64, requests int) float64 {
	const every = 12 * time.Second
	now, rows, n := began, []Row(nil), numbers{}
	for {
		e := p.Weigh(&n.Data)
		row, _ := p.Next(rows, e, nil, now)
		if row != nil {
			rows = append(rows, *row)
			switch row.Kind {
			case Start:
				x := p.Experiment(row.Time)
				n.Plans, n.metrics = []experiment.DatedPlan{{Since: row.Time, Plan: x}}, len(x.Metrics)
			case Back:
				return row.Time.Sub(began).Minutes()
			}
		}
		if now.Sub(began) >= 40*time.Minute {
			return 41
		}
		now = now.Add(every)
		share := rows[len(rows)-1].Share
		base := 0.02 + 0.06*now.Sub(began).Minutes()/40
		for range 200 {
			bucket, name, rate := r.IntN(Whole), New, base*times
			if bucket >= share {
				name, rate = Control, base
				if bucket < Half || bucket >= Half+share {
					continue
				}
			}
			u, one := sequential.Unit{D: float64(requests)}, sequential.Unit{}
			for range requests {
				if r.Float64() < rate {
					u.Y++
					one.Y = 1
				}
			}
			if p.Stops[0].As == experiment.Rate {
				n.add(share, name, one)
			} else {
				n.add(share, name, u, one)
			}
		}
	}
}

// TestRamp: a rollout that does no more harm than is tolerated is stopped in at most 5 %, and
// others in time: those with twice the errors by minute 25 at the median, and those with five
// times by minute 12. In the first step, 10 units a minute have the new answer and 10 are
// compared with them. Of five times the errors a test that knew the ratio would need 16 events
// on average (ln 20 by the divergence of 5/6 from 1.2/2.2), which are there in minute 10.
func TestRamp(t *testing.T) {
	rate, ratio := Stop{Measure: experiment.Error, As: experiment.Rate}, Stop{Measure: experiment.Error, As: experiment.Ratio}
	for i, c := range []struct {
		name     string
		stop     Stop
		requests int
	}{{"units", rate, 1}, {"requests, one of a unit", ratio, 1}, {"requests, five of a unit", ratio, 5}} {
		for j, of := range []struct {
			times  float64
			atMost float64 // part of the runs that may be stopped
			atLeast,
			median float64 // minutes
		}{{1, 0.05, 0, 41}, {1.2, 0.05, 0, 41}, {1.5, 1, 0.5, 41}, {2, 1, 1, 25}, {5, 1, 1, 12}} {
			n := runs(2_000, 40)
			if of.atMost == 1 {
				n = runs(500, 20)
			}
			most := of.atMost * float64(n)
			if n < 2_000 { // in few runs, chance adds to the 5 %
				most += 3 * math.Sqrt(of.atMost*(1-of.atMost)*float64(n))
			}
			minutes := play(n, uint64(100+10*i+j), func(r *rand.Rand) float64 { return stopped(r, ramp(c.stop), of.times, c.requests) })
			slices.Sort(minutes)
			found, _ := slices.BinarySearch(minutes, 40.5)
			part := float64(found) / float64(n)
			t.Logf("%s, %v times: %.2f %% stopped, median minute %.1f, last %.1f", c.name, of.times, 100*part, minutes[n/2], minutes[max(found-1, 0)])
			if float64(found) > most || part < of.atLeast || minutes[n/2] > of.median {
				t.Errorf("%s, %v times: %d of %d are stopped, half of them by minute %.1f", c.name, of.times, found, n, minutes[n/2])
			}
		}
	}
}
