package sequential

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// oracleUnits are those of testdata/oracle.py.
func oracleUnits(stratum, arm, n int, what string) (s Sums) {
	x := uint64(2*stratum + arm + 1)
	for range n {
		var u [4]uint64
		for i := range u {
			x = x*6364136223846793005 + 1442695040888963407
			u[i] = x >> 33
		}
		unit := Unit{Y: float64(u[0]*u[0]>>52 + uint64(arm)*40)}
		switch what {
		case "rate":
			unit.Y = 0
			if u[2]%100 < uint64(7+5*arm) {
				unit.Y = 1
			}
		case "ratio":
			d := 1 + u[1]%9
			unit = Unit{Y: float64(u[0] % (d + 1)), D: float64(d)}
		case "past":
			if u[3]%10 < 6 {
				unit.Past, unit.HasPast = float64(u[0]>>22+u[2]%300), true
			}
		}
		s.Add(unit)
	}
	return s
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-9*math.Max(1, math.Abs(want))) {
		t.Errorf("%s: %.12g, want %.12g", what, got, want)
	}
}

func nearInterval(t *testing.T, what string, got *Interval, want [3]float64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s: nothing said", what)
		return
	}
	near(t, what+", difference", got.Difference, want[0])
	near(t, what+", low", got.Low, want[1])
	near(t, what+", high", got.High, want[2])
}

// The figures of testdata/oracle.json were computed from the same units by other routes,
// which testdata/oracle.py says.
func TestOracle(t *testing.T) {
	text, err := os.ReadFile("testdata/oracle.json")
	if err != nil {
		t.Fatal(err)
	}
	var oracle struct {
		Boundary []struct{ Units, Planned, Alpha, Value float64 }
		Compare  []struct {
			What               string
			Planned, Alpha     float64
			Absolute, Relative [3]float64
		}
		Counts []struct {
			Control, Arm int64
			Share, Value float64
		}
		Divided []struct {
			Segments []Segment
			Value    float64
		}
	}
	if err := json.Unmarshal(text, &oracle); err != nil {
		t.Fatal(err)
	}
	if len(oracle.Boundary) != 4 || len(oracle.Compare) != 6 || len(oracle.Counts) != 6 || len(oracle.Divided) != 4 {
		t.Fatalf("%+v", oracle)
	}
	for _, c := range oracle.Boundary {
		near(t, "boundary", boundary(c.Units, c.Planned, c.Alpha), c.Value)
	}
	for _, c := range oracle.Compare {
		var strata []Pair
		for i, n := range [][2]int{{700, 350}, {400, 900}, {3, 1}, {0, 5}} {
			strata = append(strata, Pair{oracleUnits(i, 0, n[0], c.What), oracleUnits(i, 1, n[1], c.What)})
		}
		compare := Means
		if c.What == "ratio" {
			compare = Ratios
		}
		absolute, relative := compare(strata, c.Planned, c.Alpha)
		nearInterval(t, c.What, absolute, c.Absolute)
		nearInterval(t, c.What+", relative", relative, c.Relative)
	}
	for _, c := range oracle.Counts {
		if got := Counts(c.Control, c.Arm, c.Share); math.Abs(got/c.Value-1) > 1e-9 {
			t.Errorf("counts of %d and %d at %v: %.12g, want %.12g", c.Control, c.Arm, c.Share, got, c.Value)
		}
	}
	for _, c := range oracle.Divided {
		if got := Divided(c.Segments); math.Abs(got/c.Value-1) > 1e-8 {
			t.Errorf("divided %v: %.12g, want %.12g", c.Segments, got, c.Value)
		}
	}
}

// GrowthBook's gbstats computes these from the same sums, rounded to 5 digits; the figures
// are those of its tests. It has the number of units where Means has 4·a·c/(a+c): with
// one stratum that is another planned size. Its relative intervals are those of the delta
// method, so only their reach in standard errors is compared.
func TestGrowthBook(t *testing.T) {
	const a, b = 3000, 3461
	strata := []Pair{{
		Control: Sums{N: a, Positive: a, Y: 1396.87, YY: 52377.9767},
		Arm:     Sums{N: b, Positive: b, Y: 2422.7, YY: 134698.29},
	}}
	for _, c := range []struct{ planned, low, high, mean, se float64 }{
		{1000, -0.55844, 1.56516, 0.50336, 0.33341},
		{5000, -0.50969, 1.51646, 0.50338, 0.33341},
	} {
		if reach := boundary(a+b, c.planned, 0.05) * c.se; math.Abs(c.mean+reach-c.high) > 5e-5 || math.Abs(c.mean-reach-c.low) > 5e-5 {
			t.Errorf("%v ± %v, want %v to %v", c.mean, reach, c.low, c.high)
		}
		const difference, se = 0.23437666666666668, 0.12983081254184736
		_, va := strata[0].Control.Mean()
		_, vb := strata[0].Arm.Mean()
		if math.Abs(math.Sqrt(va/a+vb/b)-se) > 1e-9 {
			t.Errorf("a standard error of %v, want %v", math.Sqrt(va/a+vb/b), se)
		}
		// Means takes the variance of both arms for the control's, which is less.
		va = ((a-1)*va + (b-1)*vb) / (a + b - 2)
		want := math.Sqrt(va/a+vb/b) * (c.high - c.low) / 2 / c.se
		absolute, _ := Means(strata, c.planned*4*a*b/(a+b)/(a+b), 0.05)
		if math.Abs(absolute.Difference-difference) > 1e-9 || math.Abs(absolute.High-absolute.Difference-want) > 1e-5 || math.Abs(absolute.Difference-absolute.Low-want) > 1e-5 {
			t.Errorf("%+v, want %v ± %v", absolute, difference, want)
		}
	}
	if reach := boundary(a+b, 5000, 0.05) * 0.03386; math.Abs(0.50386+reach-0.60675) > 5e-5 {
		t.Errorf("± %v, want 0.60675", reach)
	}
}
