package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// costsText returns the output of caddy cadenza costs --json from a golden test.
func costsText(t *testing.T) string {
	t.Helper()
	golden, err := os.ReadFile("../../internal/command/testdata/costs_days_json.golden")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(golden), "\nout:\n")
	text, _, _ = strings.Cut(text, "errors:\n")
	return text
}

// TestGolden compares the command's output with testdata/NAME.golden.
// UPDATE_GOLDEN=1 writes these files.
func TestGolden(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	costs := costsText(t)
	for name, test := range map[string]struct {
		arguments string
		costs     string
		fails     bool
	}{
		"differs":       {arguments: "--costs - testdata/usage.json testdata/costs.csv", fails: true},
		"all":           {arguments: "--costs - --tolerance 100 --all testdata/usage.json"},
		"json":          {arguments: "--costs - --json --provider openai --tolerance 20% testdata/costs.csv", fails: true},
		"nowhere":       {arguments: "--costs - testdata/none.json", fails: true},
		"twice":         {arguments: "--costs - testdata/usage.json testdata/usage.json", fails: true},
		"quiet":         {arguments: "--costs - testdata/quiet.json", fails: true},
		"refused":       {arguments: "--costs - testdata/refused.json", fails: true},
		"percent":       {arguments: "--costs - --tolerance little testdata/costs.csv", fails: true},
		"help":          {arguments: "--help"},
		"no_costs":      {arguments: "testdata/costs.csv", fails: true},
		"costs_by_key":  {arguments: "--costs - testdata/costs.csv", costs: `{"by":["key"],"rows":[]}`, fails: true},
		"costs_cut":     {arguments: "--costs - testdata/costs.csv", costs: `{"by":["provider","model","day"],"rows":[],"others":{}}`, fails: true},
		"costs_late":    {arguments: "--costs - testdata/costs.csv", costs: `{"by":["provider","model","day"],"since":"2026-11-01T00:00:01Z"}`, fails: true},
		"costs_early":   {arguments: "--costs - testdata/costs.csv", costs: `{"by":["provider","model","day"],"until":"2026-11-01T23:00:00Z"}`, fails: true},
		"costs_refused": {arguments: "--costs - testdata/costs.csv", costs: "Error: no gateway", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.costs == "" {
				test.costs = costs
			}
			var out strings.Builder
			err := run(strings.Fields(test.arguments), strings.NewReader(test.costs), &out, now)
			if (err != nil) != test.fails {
				t.Errorf("error %v, want one: %t", err, test.fails)
			}
			if err != nil {
				out.WriteString("Error: " + err.Error() + "\n")
			}
			if i := strings.IndexFunc(out.String(), func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }); i >= 0 {
				t.Errorf("%q reached the terminal", out.String()[i])
			}
			path := filepath.Join("testdata", name+".golden")
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(path); err != nil || string(want) != out.String() {
				t.Errorf("%v, got:\n%s", err, out.String())
			}
		})
	}
}

// TestUnwritten checks that the command fails if it can't write its report.
func TestUnwritten(t *testing.T) {
	t.Parallel()
	closed, err := os.Open(os.DevNull) // for reading only
	if err != nil {
		t.Fatal(err)
	}
	defer closed.Close()
	err = run([]string{"--costs", "-", "--tolerance", "100", "testdata/usage.json"}, strings.NewReader(costsText(t)), closed, time.Now())
	if err == nil || errors.Is(err, errBill) {
		t.Error(err)
	}
}
