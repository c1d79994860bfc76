package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/sequential"
)

// The numbers of a unit by their place: perNumber of each metric.
const (
	atCount = iota
	atSum
	atPositive
	atPastCount
	atPastSum
	perNumber
)

// unit is a row of experiment_units.
type unit struct {
	readout         int64
	arm             string
	stratum         int64
	first, until    int64
	moved, fellBack bool
	numbers         []float64
	step            int64
}

const unitColumns = "u.unit, u.readout, u.arm, u.stratum, u.first_ms, u.until_ms, u.moved, u.fell_back, u.numbers, u.step"

var unitColumnNames = append([]string{"experiment"}, strings.Split(strings.ReplaceAll(unitColumns, "u.", ""), ", ")...)

func (u *unit) scan(scan func(...any) error, name *string, arms map[string]string) error {
	var arm, numbers sql.RawBytes
	if err := scan(name, &u.readout, &arm, &u.stratum, &u.first, &u.until, &u.moved, &u.fellBack, &numbers, &u.step); err != nil {
		return err
	}
	return u.parse(arm, numbers, arms)
}

// read reads a row of unitColumns of the unit.
func (u *unit) read(row *statement, arms map[string]string) error {
	u.readout, u.stratum, u.first, u.until = row.integer(1), row.integer(3), row.integer(4), row.integer(5)
	u.moved, u.fellBack, u.step = row.integer(6) > 0, row.integer(7) > 0, row.integer(9)
	return u.parse(row.view(2), row.view(8), arms)
}

// parse sets the arm, with one string for all units of it, and the numbers.
func (u *unit) parse(arm, numbers []byte, arms map[string]string) error {
	known := false
	if u.arm, known = arms[string(arm)]; !known {
		u.arm = string(arm)
		arms[u.arm] = u.arm
	}
	u.numbers = make([]float64, 0, 1+bytes.Count(numbers, []byte(",")))
	for part := range bytes.SplitSeq(bytes.Trim(numbers, "[]"), []byte(",")) {
		x, err := strconv.ParseFloat(string(part), 64)
		if err != nil {
			return err
		}
		u.numbers = append(u.numbers, x)
	}
	return nil
}

// text returns the numbers as they are stored.
func (u *unit) text() value {
	text := []byte{'['}
	for i, x := range u.numbers {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendFloat(text, x, 'g', -1, 64)
	}
	return content(append(text, ']'))
}

// ends returns when what the unit does counts no more.
func (u *unit) ends(x *tracked) int64 {
	if u.until == 0 {
		return x.end
	}
	return u.until
}

// sum is a row of experiment_sums, or what is to be added to it.
type sum struct {
	sequential.Sums
	reported int64
}

type armKey struct {
	stratum int64
	arm     string
}

type sumKey struct {
	armKey
	metric   int
	fellBack bool
}

// sums are those of units, or what is to be added to them.
type sums struct {
	arms map[armKey]*[3]int64 // units, those that fell back, those that moved
	sums map[sumKey]*sum
}

func newSums() *sums { return &sums{map[armKey]*[3]int64{}, map[sumKey]*sum{}} }

// add adds a unit of the current readout, or takes it away where times is -1.
func (s *sums) add(x *tracked, u *unit, times int64) {
	if u.readout != x.readout || u.first == 0 {
		return
	}
	of := armKey{u.stratum, u.arm}
	counts := s.arms[of]
	if counts == nil {
		counts = new([3]int64)
		s.arms[of] = counts
	}
	if u.moved {
		counts[2] += times
		return
	}
	counts[0] += times
	if u.fellBack {
		counts[1] += times
	}
	for i := range x.numbers {
		n := u.numbers[i*perNumber:]
		at := sumKey{of, i, u.fellBack}
		to := s.sums[at]
		if to == nil {
			to = new(sum)
			s.sums[at] = to
		}
		if n[atCount] > 0 {
			to.reported += times
		}
		if x.numbers[i].As == experiment.Mean && n[atCount] == 0 {
			continue
		}
		if one := sequentialUnit(&x.numbers[i], n); times > 0 {
			to.Add(one)
		} else {
			to.Remove(one)
		}
	}
}

// sequentialUnit returns what a metric makes of the numbers of a unit.
func sequentialUnit(of *metric, n []float64) (u sequential.Unit) {
	switch of.As {
	case experiment.Rate:
		if n[atPositive] > 0 {
			u.Y = 1
		}
	case experiment.Mean:
		u.Y = n[atSum] / n[atCount]
	case experiment.Total:
		u.Y = n[atSum]
	case experiment.Ratio:
		u.Y, u.D = n[atSum], n[atCount]
	}
	if n[atPastCount] > 0 && of.hasPast() {
		u.HasPast, u.Past = true, n[atPastSum]
		if of.As == experiment.Mean {
			u.Past /= n[atPastCount]
		}
	}
	return u
}

const (
	addArmSQL = `
INSERT INTO experiment_arms (experiment, readout, stratum, arm, units, fell_back, moved) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET units = units + excluded.units, fell_back = fell_back + excluded.fell_back, moved = moved + excluded.moved`

	sumColumns = "reported, units, positive, partial, y, yy, d, dd, yd, h, c, cc, yc, yh"
)

var addSumSQL = func() string {
	var added []string
	for name := range strings.SplitSeq(sumColumns, ", ") {
		added = append(added, fmt.Sprintf("%[1]s = %[1]s + excluded.%[1]s", name))
	}
	return fmt.Sprintf("INSERT INTO experiment_sums (experiment, readout, stratum, arm, metric, fell_back, %s) VALUES (?, ?, ?, ?, ?, ?%s) ON CONFLICT DO UPDATE SET %s",
		sumColumns, strings.Repeat(", ?", len(added)), strings.Join(added, ", "))
}()

// columns returns pointers to the members that sumColumns has.
func (s *sum) columns() []any {
	return []any{&s.reported, &s.N, &s.Positive, &s.Partial, &s.Y, &s.YY, &s.D, &s.DD, &s.YD, &s.H, &s.C, &s.CC, &s.YC, &s.YH}
}

// write adds the sums to those that are stored.
func (s *sums) write(exec execs, x *tracked) error {
	for of, n := range s.arms {
		if *n == [3]int64{} {
			continue
		}
		if _, err := exec(addArmSQL, x.id, x.readout, of.stratum, of.arm, n[0], n[1], n[2]); err != nil {
			return err
		}
	}
	for of, n := range s.sums {
		if *n == (sum{}) {
			continue
		}
		if _, err := exec(addSumSQL, append([]any{x.id, x.readout, of.stratum, of.arm, of.metric, of.fellBack}, n.columns()...)...); err != nil {
			return err
		}
	}
	return nil
}

// errOvertaken says that another process wrote to an experiment meanwhile. What was read
// before must be read again.
var errOvertaken = errors.New("another process counts the same experiment")

// execs runs a statement of a transaction, and returns how many rows that changed.
type execs func(text string, args ...any) (int64, error)

// inTx returns what runs statements of a transaction of database/sql.
func inTx(ctx context.Context, tx *sql.Tx) execs {
	return func(text string, args ...any) (int64, error) {
		result, err := tx.ExecContext(ctx, text, args...)
		if err != nil {
			return 0, err
		}
		return result.RowsAffected()
	}
}

// own begins a transaction on an experiment, with what it sets beside.
func (x *tracked) own(exec execs, set string, args ...any) error {
	rows, err := exec("UPDATE experiments SET writes = writes + 1"+set+" WHERE id = ? AND writes = ?", append(args, x.id, x.writes)...)
	if err == nil && rows == 0 {
		err = errOvertaken
	}
	return err
}

// writeStrata stores the strata that have more units.
func (x *tracked) writeStrata(exec execs, changed map[*stratum]bool) error {
	for s := range changed {
		shares, err := json.Marshal(s.shares)
		if err != nil {
			return err
		}
		if _, err := exec("INSERT OR REPLACE INTO experiment_strata (experiment, readout, stratum, about, begin_ms, units, shares) VALUES (?, ?, ?, ?, ?, ?, ?)",
			x.id, x.readout, s.number, s.about, s.begin, s.units, string(shares)); err != nil {
			return err
		}
	}
	return nil
}

// stratumOf returns the stratum of shares, which it makes if there is none.
func (x *tracked) stratumOf(about string) *stratum {
	if i := slices.IndexFunc(x.strata, func(s *stratum) bool { return s.about == about }); i >= 0 {
		return x.strata[i]
	}
	s := &stratum{number: int64(len(x.strata)) + 1, about: about}
	x.strata = append(x.strata, s)
	return s
}

// add adds a unit with exact shares, of which the stratum has the mean: those of a ramp
// change all the time.
func (s *stratum) add(shares map[string]float64, first int64) {
	s.units++
	if s.units == 1 {
		s.shares, s.begin = maps.Clone(shares), first
		return
	}
	s.begin = min(s.begin, first)
	for arm := range shares {
		s.shares[arm] += (shares[arm] - s.shares[arm]) / float64(s.units)
	}
}
