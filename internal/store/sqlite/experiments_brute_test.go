package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/rollout"
	"github.com/cadenza-gateway/cadenza/internal/sequential"
)

// A rawTrace and a rawReport are rows as they are stored.
type rawTrace struct {
	seq, at                int64
	id, decision           string
	failed, fellBack, call bool
	latency                int64
	cost, tokens           float64
	version                string
	splits                 []rawSplit
}

type rawSplit struct {
	Experiment struct{ Definition, Rule string }
	Arm, Unit  string
	Share      float64
	Arms       map[string]float64
	Consulted  *bool
	Compared   *bool
}

type rawReport struct {
	on, unit string
	at       int64
	score    *float64
	values   map[string]float64
}

func readRaw(t testing.TB, s *Store) (traces []rawTrace, reports []rawReport) {
	t.Helper()
	traces, err := collect(t.Context(), s.Reader.db, func(scan func(...any) error) (r rawTrace, err error) {
		var splits string
		var version, read sql.NullString
		if err := scan(&r.seq, &r.at, &r.id, &r.decision, &r.failed, &r.fellBack, &r.call, &r.latency, &r.cost, &r.tokens, &splits, &version, &read); err != nil {
			return r, err
		}
		r.version = version.String
		if read.Valid {
			r.version = read.String
		}
		return r, json.Unmarshal([]byte(splits), &r.splits)
	}, `SELECT seq, time_ms, hex(id), coalesce(hex(decision_id), ''), code IS NOT NULL, coalesce(json_array_length(attempts) > 1 AND code IS NULL, 0), kind = 'endpoint',
		coalesce(latency_us, 0), coalesce(cost, 0), coalesce(total_tokens, 0), splits, version, read_versions ->> '$."remoteconfigs/button"'
	FROM traces WHERE splits IS NOT NULL AND coalesce(api_key, '') NOT LIKE 'console:%' AND state = 'ended' ORDER BY seq`)
	if err != nil {
		t.Fatal(err)
	}
	reports, err = collect(t.Context(), s.Reader.db, func(scan func(...any) error) (r rawReport, err error) {
		var values sql.NullString
		if err := scan(&r.on, &r.unit, &r.at, &r.score, &values); err != nil || !values.Valid {
			return r, err
		}
		return r, json.Unmarshal([]byte(values.String), &r.values)
	}, "SELECT hex(trace_id), CASE WHEN unit_field = 'customer_id' THEN unit ELSE '' END, coalesce(happened_ms, 0), score, named_values FROM metrics ORDER BY seq")
	if err != nil {
		t.Fatal(err)
	}
	return traces, reports
}

// bruteUnit is all that a unit did.
type bruteUnit struct {
	exposures       []rawTrace
	shares          []rawSplit
	numbers, past   map[int][]float64
	fellBack, moved bool
	first, until    int64
	at              int // the index of the first exposure
}

// brute computes what is known of an experiment from the raw rows, in another way than the
// store does: unit by unit, in as many passes as it takes.
func brute(t testing.TB, s *Store, p *experiment.Plan, thresholds map[int]time.Duration) experiment.Data {
	t.Helper()
	traces, reports := readRaw(t, s)
	versions := map[string]string{}
	if _, err := collect(t.Context(), s.Reader.db, func(scan func(...any) error) (_ struct{}, err error) {
		var version string
		var content []byte
		err = scan(&version, &content)
		versions[version], _ = experiment.Answers(content, p.Rule, p.Control)
		return struct{}{}, err
	}, "SELECT version, content FROM versions"); err != nil {
		t.Fatal(err)
	}
	ms := func(t time.Time) int64 { return t.UnixMilli() }
	pastFrom := ms(p.Start.Add(-experiment.Past))
	splitOf := func(r *rawTrace) *rawSplit {
		for i := range r.splits {
			if r.splits[i].Experiment.Definition == p.On && r.splits[i].Experiment.Rule == p.Rule {
				return &r.splits[i]
			}
		}
		return nil
	}
	isAnswer := func(r *rawTrace) bool {
		split := splitOf(r)
		return split != nil && r.at >= ms(p.Start) && split.Consulted == nil && split.Compared == nil && (split.Arm != "" || p.Control == experiment.PassedOn)
	}
	answeredBefore := slices.ContainsFunc(traces, func(r rawTrace) bool {
		split := splitOf(&r)
		return split != nil && split.Consulted == nil && split.Compared == nil && r.at >= pastFrom && r.at < ms(p.Start)
	}) || p.Rollout
	// The last readout, and its answers.
	data := experiment.Data{Anew: []time.Time{p.Start}}
	var answers string
	var counting []rawTrace
	since := ms(p.Start)
	for _, r := range traces {
		if !isAnswer(&r) {
			continue
		}
		if r.at < ms(p.End) {
			name := versions[r.version]
			if answers == "" {
				answers = name
			}
			if name != answers && r.at > since {
				answers, since, counting, data.Unitless = name, r.at, nil, 0
				data.Anew = append(data.Anew, time.UnixMilli(since))
			}
			if name != answers || r.at < since {
				continue
			}
			if splitOf(&r).Unit == "" {
				data.Unitless++
				continue
			}
		}
		counting = append(counting, r)
	}
	units := map[string]*bruteUnit{}
	for _, r := range counting { // exposures
		if r.at >= ms(p.End) {
			continue
		}
		split := splitOf(&r)
		u := units[split.Unit]
		if u == nil {
			u = &bruteUnit{numbers: map[int][]float64{}, past: map[int][]float64{}, until: ms(p.End), first: r.at}
			if p.Attribution > 0 {
				u.until = r.at + p.Attribution.Milliseconds()
			}
			units[split.Unit] = u
		}
		u.exposures, u.shares = append(u.exposures, r), append(u.shares, *split)
		u.moved = u.moved || split.Arm != u.shares[0].Arm && r.at < u.until
		if r.at < u.first {
			u.first, u.at = r.at, len(u.shares)-1
		}
	}
	measure := func(to map[int][]float64, past bool, of func(m *experiment.Metric, add func(float64))) {
		for i := range p.Metrics {
			if m := &p.Metrics[i]; !past || m.As == experiment.Mean || m.As == experiment.Total {
				of(m, func(x float64) { to[i] = append(to[i], x) })
			}
		}
	}
	report := func(to map[int][]float64, past bool, m rawReport) {
		measure(to, past, func(of *experiment.Metric, add func(float64)) {
			if x, ok := m.values[of.Value]; ok {
				add(x)
			}
			if of.Measure == experiment.Score && m.score != nil {
				add(*m.score)
			}
		})
	}
	numbers := func(r *rawTrace, to map[int][]float64) {
		measure(to, false, func(m *experiment.Metric, add func(float64)) {
			over := m.Over
			for i := range p.Metrics {
				if m == &p.Metrics[i] && over == 0 {
					over = thresholds[i]
				}
			}
			switch {
			case m.Measure == experiment.Error && r.call:
				add(map[bool]float64{true: 1}[r.failed])
			case m.Measure == experiment.Fallback && r.call:
				add(map[bool]float64{true: 1}[r.fellBack])
			case m.Measure == experiment.Cost && r.call:
				add(r.cost)
			case m.Measure == experiment.Tokens && r.call:
				add(r.tokens)
			case m.Measure == experiment.Latency && r.call && r.latency > 0 && over > 0:
				add(map[bool]float64{true: 1}[r.latency > over.Microseconds()])
			}
		})
		seen := map[string]bool{}
		for _, m := range reports {
			if m.on == r.id {
				report(to, false, m)
			}
			if m.on == r.decision && !seen[m.on] {
				// It counts with the first trace of the decision.
				first := slices.IndexFunc(traces, func(o rawTrace) bool {
					return o.decision == r.decision && isAnswer(&o)
				})
				if traces[first].seq == r.seq {
					report(to, false, m)
				}
			}
		}
	}
	for _, r := range counting {
		u := units[splitOf(&r).Unit]
		if u != nil && r.at >= u.first && r.at < u.until && u.exposures[0].seq <= r.seq {
			u.fellBack = u.fellBack || r.fellBack
			numbers(&r, u.numbers)
		}
	}
	for _, m := range reports {
		switch u := units[m.unit]; {
		case u == nil || m.unit == "":
		case m.at >= u.first && m.at < u.until:
			report(u.numbers, false, m)
		case m.at >= pastFrom && m.at < ms(p.Start) && !answeredBefore:
			report(u.past, true, m)
		}
	}
	strata := map[string]*experiment.Stratum{}
	for _, u := range units {
		split := u.shares[u.at]
		arm := split.Arm
		shares := maps.Clone(split.Arms)
		if shares == nil {
			shares = map[string]float64{p.Arms[0]: split.Share}
		}
		if arm == "" {
			arm = experiment.PassedOn
		}
		key := fmt.Sprint(shares) // without what passes on, which the order of a sum makes 0 or 1e-17
		if p.Control == experiment.PassedOn {
			shares[experiment.PassedOn] = 1
			for name, share := range shares {
				if name != experiment.PassedOn {
					shares[experiment.PassedOn] -= share
				}
			}
		}
		if strata[key] == nil {
			strata[key] = &experiment.Stratum{Shares: shares, Arms: map[string]*experiment.Arm{}}
		}
		a := strata[key].Arms[arm]
		if a == nil {
			a = &experiment.Arm{Decided: make([]experiment.Sums, len(p.Metrics)), Served: make([]experiment.Sums, len(p.Metrics))}
			strata[key].Arms[arm] = a
		}
		if u.moved {
			a.Moved++
			continue
		}
		a.Units++
		if u.fellBack {
			a.FellBack++
		}
		for i, m := range p.Metrics {
			bruteSums(&a.Decided[i], &m, u.numbers[i], u.past[i])
			if !u.fellBack {
				bruteSums(&a.Served[i], &m, u.numbers[i], u.past[i])
			}
		}
	}
	for _, stratum := range strata {
		data.Strata = append(data.Strata, *stratum)
	}
	return data
}

func bruteSums(s *experiment.Sums, m *experiment.Metric, numbers, past []float64) {
	total := func(all []float64) (sum float64) {
		for _, x := range all {
			sum += x
		}
		return sum
	}
	if len(numbers) > 0 {
		s.Reported++
	}
	u := sequential.Unit{Y: total(numbers), Past: total(past), HasPast: len(past) > 0}
	switch m.As {
	case experiment.Rate:
		u.Y = map[bool]float64{true: 1}[len(numbers) > 0 && slices.Max(numbers) > 0]
	case experiment.Ratio:
		u.D = float64(len(numbers))
	case experiment.Mean:
		if len(numbers) == 0 {
			return
		}
		u.Y /= float64(len(numbers))
		if u.HasPast {
			u.Past /= float64(len(past))
		}
	}
	s.Add(u)
}

// wantBrute compares what the store says with what its raw rows say.
func wantBrute(t testing.TB, s *Store, workspace, name string) experiment.Data {
	t.Helper()
	all, err := s.Experiments(t.Context(), workspace, name)
	if err != nil || len(all) != 1 {
		t.Fatal(len(all), err)
	}
	got := all[0]
	p := got.Plans[len(got.Plans)-1].Plan
	if p.Rollout { // it ends with the row that gives the answer to none, or to all
		rows, err := StoredRollouts(t.Context(), s.path, workspace)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if row.Rollout == p.On+"/"+p.Rule && row.Time.After(p.Start) && row.Time.Before(p.End) && row.Share%rollout.Whole == 0 {
				p.End = row.Time
			}
		}
	}
	want := brute(t, s, &p, got.Thresholds)
	if diff := diffOfData(want, got); diff != "" {
		t.Errorf("the store says otherwise than its rows: %s", diff)
	}
	return got
}

func diffOfData(want, got experiment.Data) string {
	got.Strata = slices.DeleteFunc(slices.Clone(got.Strata), func(s experiment.Stratum) bool { return len(s.Arms) == 0 })
	return cmp.Diff(want, got, cmpopts.EquateApprox(1e-9, 1e-9), cmpopts.EquateEmpty(),
		cmpopts.IgnoreFields(experiment.Data{}, "Plans", "Thresholds", "Through", "Pending", "Verdicts", "Days"),
		cmpopts.IgnoreFields(experiment.Stratum{}, "Begin"),
		cmpopts.SortSlices(func(a, b experiment.Stratum) bool { return fmt.Sprint(a.Shares) < fmt.Sprint(b.Shares) }))
}
