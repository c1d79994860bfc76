package limit

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// configurations are successive configurations of one limit.
var configurations = [][]Ceiling{
	{{Requests, 5, Window{time.Minute}}, {Tokens, 1000, Window{time.Minute}}},
	{{Requests, 3, Window{time.Minute}}, {Tokens, 3000, Window{time.Hour}}, {InFlight, 4, Window{}}},
	{{Tokens, 500, Window{time.Minute}}, {Tokens, 2500, Window{time.Hour}}, {Tokens, 4000, Month}},
	{{Money, 100, Window{time.Hour}}, {Money, 300, Month}, {InFlight, 2, Window{}}},
	{{Money, 200, Month}, {Requests, 9, Window{90 * time.Second}}},
}

// model is the reference implementation: maps of every counter of every window.
type model struct {
	now      time.Time
	counters map[counter]*count
	latest   map[counter]counter // the last window, by the counter without its start
}

type counter struct {
	limit, subject string
	measure        Measure
	window         Window
	start          int64
}

type count struct{ used, reserved int64 }

// modelCall is a call of the model, with its amounts set aside by counter.
type modelCall struct {
	r     *Reservation
	asks  []Ask
	parts []modelPart
	total Amounts
}

type modelPart struct {
	counter
	amount, before int64
}

func (m *model) at(limit *Limit, subject string, ceiling Ceiling) (counter, *count) {
	start, end := ceiling.Window.span(m.now.UnixNano())
	key := counter{limit.Name, subject, ceiling.Measure, ceiling.Window, start}
	if c := m.counters[key]; c != nil {
		return key, c
	}
	c := new(count)
	for other, last := range m.latest {
		if other.limit != key.limit || other.subject != key.subject || other.measure != key.measure || other.window == key.window {
			continue
		}
		if _, ends := last.window.span(last.start); last.start >= start && ends <= end && ends > m.now.UnixNano() {
			c.used = max(c.used, m.counters[last].used+m.counters[last].reserved)
		}
	}
	m.counters[key] = c
	general := key
	general.start = 0
	m.latest[general] = key
	return key, c
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Open(Options{})
		defer l.Close()
		m := &model{now: time.Date(2026, 11, 30, 23, 0, 0, 0, time.UTC), counters: make(map[counter]*count), latest: make(map[counter]counter)}
		flights := make(map[string]int64)
		var open []*modelCall
		limits := make([]*Limit, 3)
		configure := func(i int) {
			limits[i] = &Limit{Name: fmt.Sprint("limit", i), Ceilings: rapid.SampledFrom(configurations).Draw(t, "ceilings")}
		}
		for i := range limits {
			configure(i)
		}
		amounts := func() Amounts {
			return Amounts{1, rapid.Int64Range(0, 600).Draw(t, "tokens"), rapid.Int64Range(0, 60).Draw(t, "money")}
		}
		fits := func(asks []Ask, want Amounts, beginning bool) bool {
			fits := true
			for _, ask := range asks {
				for _, ceiling := range ask.Limit.Ceilings {
					amount := want.Of(ceiling.Measure)
					switch {
					case ceiling.Measure == InFlight:
						fits = fits && (!beginning || flights[ask.Limit.Name+"/"+ask.Subject] < ceiling.Most)
					case beginning || amount > 0:
						_, c := m.at(ask.Limit, ask.Subject, ceiling)
						fits = fits && (amount == 0 || c.used+c.reserved+amount <= ceiling.Most)
					}
				}
			}
			return fits
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				for i, limit := range limits {
					for s := range 3 {
						ask := Ask{limits[i], fmt.Sprint("s", s)}
						for _, got := range l.AppendStandings(nil, "w", m.now, ask) {
							var used, reserved int64
							if got.Ceiling.Measure == InFlight {
								used = flights[limit.Name+"/"+ask.Subject]
							} else {
								start, _ := got.Ceiling.Window.span(m.now.UnixNano())
								if c := m.counters[counter{limit.Name, ask.Subject, got.Ceiling.Measure, got.Ceiling.Window, start}]; c != nil {
									used, reserved = c.used, c.reserved
								}
							}
							if got.Used != used || got.Reserved != reserved {
								t.Fatalf("%s %s %+v: used %d, reserved %d; want %d, %d", limit.Name, ask.Subject, got.Ceiling, got.Used, got.Reserved, used, reserved)
							}
						}
					}
				}
			},
			"reserve": func(t *rapid.T) {
				call := &modelCall{total: amounts()}
				for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, 2), 1, 3, rapid.ID).Draw(t, "limits") {
					call.asks = append(call.asks, Ask{limits[i], fmt.Sprint("s", rapid.IntRange(0, 2).Draw(t, "subject"))})
				}
				want := fits(call.asks, call.total, true)
				r, refusal := l.Reserve("w", m.now, call.asks, call.total)
				if (refusal == nil) != want || (r != nil) != want {
					t.Fatalf("%v, want room: %v", refusal, want)
				}
				if !want {
					return
				}
				call.r = r
				for _, ask := range call.asks {
					flights[ask.Limit.Name+"/"+ask.Subject]++
					for _, ceiling := range ask.Limit.Ceilings {
						if ceiling.Measure != InFlight {
							key, c := m.at(ask.Limit, ask.Subject, ceiling)
							amount := call.total.Of(ceiling.Measure)
							c.reserved += amount
							call.parts = append(call.parts, modelPart{key, amount, 0})
						}
					}
				}
				open = append(open, call)
			},
			"more": func(t *rapid.T) {
				if len(open) == 0 {
					t.Skip("no call is open: another step is drawn")
				}
				call := rapid.SampledFrom(open).Draw(t, "call")
				more := amounts()
				more[Requests] = 0
				want := fits(call.asks, more, false)
				if got := call.r.More(m.now, more); got != want {
					t.Fatalf("more: %v, want %v", got, want)
				}
				if !want {
					return
				}
				for i := range call.parts {
					p := &call.parts[i]
					amount := more.Of(p.measure)
					if amount == 0 {
						continue
					}
					ceiling := Ceiling{Measure: p.measure, Window: p.window}
					key, c := m.at(&Limit{Name: p.limit}, p.subject, ceiling)
					if key != p.counter {
						*p = modelPart{key, 0, call.total.Of(p.measure)}
					}
					p.amount += amount
					c.reserved += amount
				}
				call.total = call.total.Plus(more)
			},
			"settle": func(t *rapid.T) {
				if len(open) == 0 {
					t.Skip("no call is open: another step is drawn")
				}
				i := rapid.IntRange(0, len(open)-1).Draw(t, "call")
				call := open[i]
				open = slices.Delete(open, i, i+1)
				used := amounts()
				call.r.Settle(m.now, used)
				call.r.Settle(m.now, used)
				if call.r.More(m.now, Amounts{}) {
					t.Fatal("a call that has ended has room")
				}
				for _, p := range call.parts {
					c := m.counters[p.counter]
					c.reserved -= p.amount
					c.used += max(used.Of(p.measure)-p.before, min(used.Of(p.measure), p.amount))
				}
				for _, ask := range call.asks {
					flights[ask.Limit.Name+"/"+ask.Subject]--
				}
			},
			"wait": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.SampledFrom([]int{1, 20, 65, 600, 4000}).Draw(t, "seconds")) * time.Second)
			},
			"configure": func(t *rapid.T) { configure(rapid.IntRange(0, 2).Draw(t, "limit")) },
		})
		for _, call := range open {
			call.r.Settle(m.now, Amounts{})
		}
		for shard := range l.locks {
			for _, b := range *l.books.Load() {
				for _, a := range maps.Clone(b.accounts[shard]) {
					for c := a.cells; c != nil; c = c.next {
						if c.reserved != 0 || a.calls != 0 {
							t.Fatalf("%s: %d reserved, %d in flight", a.subject, c.reserved, a.calls)
						}
					}
				}
			}
		}
	})
}
