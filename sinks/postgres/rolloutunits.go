package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/rollout"
)

// One statement puts or deletes at most unitsAtOnce units: other calls come in between, and
// what is done stays so where the caller's time ends.
const unitsAtOnce = 5_000

// Put implements [rollout.Fleet].
func (f *fleet) Put(ctx context.Context, node, name string, since time.Time, units []rollout.CountedUnit) error {
	for part := range slices.Chunk(units, unitsAtOnce) {
		if err := f.put(ctx, node, name, since, part); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) put(ctx context.Context, node, name string, since time.Time, units []rollout.CountedUnit) error {
	width := len(units[0].Numbers)
	hashes, arms := make([]string, len(units)), make([]string, len(units))
	firsts, moved := make([]time.Time, len(units)), make([]bool, len(units))
	numbers := make([]float64, 0, len(units)*width)
	for i := range units {
		u := &units[i]
		if len(u.Numbers) != width {
			return fmt.Errorf("a unit has %d numbers, and another %d", len(u.Numbers), width)
		}
		hashes[i], arms[i], firsts[i], moved[i] = cleanText(u.Unit), cleanText(u.Arm), clampTime(u.First), u.Moved
		for _, x := range u.Numbers {
			numbers = append(numbers, clampNumber(x))
		}
	}
	return f.call(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, f.sql.put, f.workspace, cleanText(name), clampTime(since), cleanText(node), hashes, arms, firsts, moved, numbers, width)
		return err
	})
}

// clampNumber bounds a number, so that the products and sums of a unit's numbers are none
// that PostgreSQL refuses because they are too large or too small: one unit's mad reports
// would hide those of all others.
func clampNumber(x float64) float64 {
	switch {
	case math.Abs(x) >= 1e-100:
		return min(max(x, -1e100), 1e100)
	default: // also no number
		return 0
	}
}

// Forget implements [rollout.Fleet].
func (f *fleet) Forget(ctx context.Context, name string, since time.Time) error {
	for {
		var deleted int64
		err := f.call(ctx, func(conn *pgx.Conn) error {
			tag, err := conn.Exec(ctx, f.sql.forget, f.workspace, cleanText(name), clampTime(since), unitsAtOnce)
			deleted = tag.RowsAffected()
			return err
		})
		if err != nil || deleted < unitsAtOnce {
			return err
		}
	}
}

// beginSums begins a transaction that reads very many units, as the table has them: their
// hashes are an order in which it has nothing. They need more memory than most queries.
const beginSums = begin + "; SET LOCAL enable_indexscan = off; SET LOCAL enable_sort = off; SET LOCAL jit = off; SET LOCAL work_mem = '64MB'"

// sumUnits returns a row of each arm's units, and one of those that were moved: whether they
// are the control, which $4 is, whether they were moved, how many they are, and sums of each
// metric. A unit that several gateways have seen has the sums of their numbers, and the arm
// that answered it first. The places are for the numbers of a unit, the schema, and the sums.
const sumUnits = `
WITH merged AS (
	SELECT coalesce(min(first) FILTER (WHERE arm = $4) = min(first), false) AS control,
		bool_or(moved) OR bool_or(arm = $4) <> bool_and(arm = $4) AS moved%s
	FROM %s.rollout_units WHERE workspace = $1 AND rollout = $2 AND since = $3
	GROUP BY unit
)
SELECT control, moved, count(*)%s FROM merged GROUP BY control, moved`

// sumsSQL returns sumUnits for metrics. Of a unit, c is how many numbers a metric has, and y
// what the metric makes of them, as in the store; but of a rate, y is how many are above 0.
func sumsSQL(schema string, metrics []experiment.Metric) string {
	var units, sums strings.Builder
	for i := range metrics {
		y := fmt.Sprintf("sum(numbers[%d])", 3*i+2)
		switch metrics[i].As {
		case experiment.Rate:
			y = fmt.Sprintf("sum(numbers[%d])", 3*i+3)
		case experiment.Mean:
			y += fmt.Sprintf(" / nullif(sum(numbers[%d]), 0)", 3*i+1)
		}
		fmt.Fprintf(&units, ", sum(numbers[%d]) AS c%d, %s AS y%[2]d", 3*i+1, i, y)
		fmt.Fprintf(&sums, ", count(*) FILTER (WHERE c%[1]d > 0), count(*) FILTER (WHERE y%[1]d <> 0)", i)
		if metrics[i].As != experiment.Rate {
			fmt.Fprintf(&sums, ", coalesce(sum(y%[1]d), 0), coalesce(sum(y%[1]d * y%[1]d), 0)", i)
		}
		if metrics[i].As == experiment.Ratio {
			fmt.Fprintf(&sums, ", count(*) FILTER (WHERE y%[1]d <> c%[1]d), sum(c%[1]d), sum(c%[1]d * c%[1]d), sum(y%[1]d * c%[1]d)", i)
		}
	}
	return fmt.Sprintf(sumUnits, units.String(), pgx.Identifier{schema}.Sanitize(), sums.String())
}

// scanSums reads a row of sumUnits.
func scanSums(row pgx.Rows, metrics []experiment.Metric) (control, moved bool, units int64, sums []experiment.Sums, err error) {
	sums = make([]experiment.Sums, len(metrics))
	into := []any{&control, &moved, &units}
	for i := range sums {
		s := &sums[i]
		into = append(into, &s.Reported, &s.Positive)
		if metrics[i].As != experiment.Rate {
			into = append(into, &s.Y, &s.YY)
		}
		if metrics[i].As == experiment.Ratio {
			into = append(into, &s.Partial, &s.D, &s.DD, &s.YD)
		}
	}
	err = row.Scan(into...)
	for i := range sums {
		s := &sums[i]
		if s.N = units; metrics[i].As == experiment.Mean {
			s.N = s.Reported
		}
		if metrics[i].As == experiment.Rate {
			s.Y, s.YY = float64(s.Positive), float64(s.Positive)
		}
		if metrics[i].As != experiment.Ratio {
			s.Partial = s.Positive
		}
	}
	return control, moved, units, sums, err
}

// Sums implements [rollout.Fleet]. All units are in one stratum, whose shares are equal: so
// many buckets as the one arm has at a time, so many has the other that is compared.
func (f *fleet) Sums(ctx context.Context, p *experiment.Plan, name string, since time.Time) (d *experiment.Data, ok bool, err error) {
	name, since = cleanText(name), clampTime(since)
	stratum := experiment.Stratum{Begin: since, Shares: map[string]float64{}, Arms: map[string]*experiment.Arm{}}
	for _, arm := range p.Arms {
		sums := make([]experiment.Sums, len(p.Metrics))
		stratum.Shares[arm] = 1 / float64(len(p.Arms))
		stratum.Arms[arm] = &experiment.Arm{Decided: sums, Served: sums}
	}
	err = f.call(ctx, func(*pgx.Conn) error {
		tx, err := f.sink.begin(ctx, beginSums)
		if err != nil {
			return err
		}
		defer rollback(tx)
		if err := tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))", f.channel+" sums "+name).Scan(&ok); err != nil || !ok {
			return err
		}
		rows, _ := tx.Query(ctx, sumsSQL(f.sink.schema, p.Metrics), f.workspace, name, since, cleanText(p.Control)) // the rows have its error
		defer rows.Close()
		for rows.Next() {
			control, moved, units, sums, err := scanSums(rows, p.Metrics)
			if err != nil {
				return err
			}
			arm := stratum.Arms[p.Control]
			if !control {
				arm = stratum.Arms[p.Treatments()[0]]
			}
			if moved {
				arm.Moved = units
			} else {
				arm.Units, arm.Decided, arm.Served = units, sums, sums
			}
		}
		return rows.Err()
	})
	if err != nil || !ok {
		return nil, false, err
	}
	return &experiment.Data{
		Plans:  []experiment.DatedPlan{{Since: since, Plan: *p}},
		Anew:   []time.Time{since},
		Strata: []experiment.Stratum{stratum},
	}, true, nil
}
