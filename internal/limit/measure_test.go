package limit

import (
	"testing"
	"time"
)

// TestCeilingString checks that messages have ceilings in the configuration's syntax.
func TestCeilingString(t *testing.T) {
	for _, test := range []struct {
		ceiling Ceiling
		want    string
	}{
		{Ceiling{Most: 100, Window: Window{Length: time.Minute}}, "100/1m"},
		{Ceiling{Measure: Tokens, Most: 5, Window: Window{Length: 90 * time.Second}}, "5/90s"},
		{Ceiling{Measure: Tokens, Most: 5, Window: Window{Length: 36 * time.Hour}}, "5/36h"},
		{Ceiling{Measure: Money, Most: 5 * Dollar, Window: Window{Length: 48 * time.Hour}}, "5usd/2d"},
		{Ceiling{Measure: Money, Most: Dollar/4 + 10*Dollar}, "10.25usd/1mo"},
		{Ceiling{Measure: Money, Most: 1}, "0.000000001usd/1mo"},
		{Ceiling{Measure: InFlight, Most: 20}, "20"},
	} {
		if got := test.ceiling.String(); got != test.want {
			t.Errorf("%+v: %s, want %s", test.ceiling, got, test.want)
		}
	}
}

// TestMeasures checks the table: each measure has its own row, and parses the amounts that
// it writes.
func TestMeasures(t *testing.T) {
	names := make(map[string]bool)
	for i := range Measures {
		m, row := Measure(i), &Measures[i]
		if row.Name == "" || names[row.Name] || row.Scale < 1 || row.Metered != (row.Noun != "") ||
			(row.Parse == nil) != (m == InFlight) || (row.Example == "") != (m == InFlight) {
			t.Errorf("measure %d: %+v", i, row)
		}
		names[row.Name] = true
		if row.Parse == nil {
			continue
		}
		for _, amount := range []int64{1, 7, 10, 1_500_000_000, 1e18} {
			if got, err := row.Parse(m.Text(amount) + row.Unit); got != amount {
				t.Errorf("%s: %d is written %s%s, and reads as %d: %v", m, amount, m.Text(amount), row.Unit, got, err)
			}
		}
		for _, text := range []string{"", "0" + row.Unit, "-1" + row.Unit, "x" + row.Unit, "1eur", "1,000" + row.Unit, "NaN" + row.Unit, "1000000001usd"} {
			if got, err := row.Parse(text); err == nil {
				t.Errorf("%s: %q reads as %d", m, text, got)
			}
		}
	}
	if len(Measures) != int(InFlight)+1 {
		t.Errorf("the table has %d measures", len(Measures))
	}
}
