package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/experiment"
)

// buttons is a readout of three arms, and an answer of the admin API.
func buttons() *experiment.Readout {
	begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	since := begin.Add(9*24*time.Hour + 14*time.Hour)
	rate := func(arm string, units, reported int64, value float64) experiment.ArmReadout {
		return experiment.ArmReadout{Arm: arm, Units: units, Reported: reported, Value: &value}
	}
	interval := func(difference, low, high float64) *experiment.Interval {
		return &experiment.Interval{Difference: difference, Low: low, High: high}
	}
	var days []experiment.Day
	for i, wide := range []float64{0.09, 0.06, 0.04} {
		for arm, middle := range map[string]float64{"green": 0.052, "red\x1b": 0.001} {
			low, high := middle-wide, middle+wide
			days = append(days, experiment.Day{Day: begin.AddDate(0, 0, 7+i), Metric: "resolved", Arm: arm, Units: 4000, Difference: &middle, Low: &low, High: &high})
		}
	}
	for i := range days { // of a map
		if i%2 == 0 && days[i].Arm != "green" {
			days[i], days[i+1] = days[i+1], days[i]
		}
	}
	days = append(days, experiment.Day{Day: begin, Metric: "resolved", Arm: "green"}, experiment.Day{Day: begin, Metric: "cost", Arm: "green", Difference: new(7.0), Low: new(-99.0), High: new(99.0)})
	return &experiment.Readout{
		Name: "buttons", On: "remoteconfigs/button", Rule: "colours", Unit: "customer_id", Control: "blue", Hypothesis: "A green button is clicked more often.", Owner: "growth@example.com",
		Start: begin, End: begin.AddDate(0, 0, 30), Begun: begin.Add(36 * time.Hour), Through: since, State: experiment.Better,
		Says:  "green is better than blue in resolved: +0.052 (+0.012 to +0.092), since 2026-11-10T14:00:00Z. But the guardrail error is worse in green: +60 % (+35 % to +88 %), since 2026-11-09T08:00:00Z.",
		Split: experiment.Split{Factor: 0.2},
		Arms:  []experiment.Seen{{Arm: "blue", Expected: 0.4, Units: 2010}, {Arm: "green", Expected: 0.4, Units: 1990, FellBack: 12}, {Arm: "red\x1b", Expected: 0.2, Units: 1002}},
		Metrics: []experiment.MetricReadout{
			{
				Metric: experiment.Metric{Name: "resolved", Role: experiment.Primary, Value: "resolved", As: experiment.Rate, Up: true, Smallest: 0.02}, Needed: 7400,
				Arms: []experiment.ArmReadout{rate("blue", 2010, 1200, 0.511), rate("green", 1990, 1180, 0.563), rate("red\x1b", 1002, 590, 0.512)},
				Comparisons: []experiment.Comparison{
					{Arm: "green", State: experiment.Better, Since: since, Level: 0.97, Absolute: interval(0.052, 0.012, 0.092), Relative: interval(0.102, 0.0222, 0.182), Served: interval(0.054, 0.013, 0.095)},
					{Arm: "red\x1b", State: experiment.Collecting, Why: "about 7400 units are needed, 3012 are there", Level: 0.97, Absolute: interval(0.001, -0.039, 0.041), Relative: interval(0.00196, -0.0763, 0.0802), Served: interval(0.001, -0.039, 0.041)},
				},
			},
			{
				Metric:      experiment.Metric{Name: "error", Role: experiment.Guardrail, Measure: experiment.Error, As: experiment.Ratio, Smallest: 0.2, Relative: true},
				Arms:        []experiment.ArmReadout{rate("blue", 2010, 2010, 0.01), rate("green", 1990, 1990, 0.016), rate("red\x1b", 1002, 1002, 0.0101)},
				Comparisons: []experiment.Comparison{{Arm: "green", State: experiment.Worse, Since: since.AddDate(0, 0, -1), Why: "the interval now leaves it open", Absolute: interval(0.006, 0.0035, 0.0088), Relative: interval(0.6, 0.35, 0.88)}, {Arm: "red\x1b", State: experiment.NoEffect, Since: since, Absolute: interval(0.0001, -0.001, 0.0012), Relative: interval(0.01, -0.1, 0.12)}},
			},
			{
				Metric:      experiment.Metric{Name: "slow", Role: experiment.Other, Measure: experiment.Latency, Over: 1800 * time.Millisecond, As: experiment.Ratio, Smallest: 0.01},
				Arms:        []experiment.ArmReadout{{Arm: "blue"}, {Arm: "green"}, {Arm: "red\x1b"}},
				Comparisons: []experiment.Comparison{{Arm: "green", State: experiment.NoData, Why: "no unit of blue and green has a number for slow"}, {Arm: "red\x1b", State: experiment.NoData, Why: "no unit of blue and red\x1b has a number for slow"}},
			},
		},
		Changes:  []experiment.Change{{Time: begin.Add(48 * time.Hour), What: "end: 2026-11-20T00:00:00Z -> 2026-12-01T00:00:00Z"}},
		Excluded: []experiment.Excluded{{Why: "units first seen in blue, and later in another arm", Count: 3}, {Why: "answers without a unit: the traces have no customer_id", Count: 17}},
		Days:     days,
		Warnings: []string{"about 12 traces and reports are not counted yet"},
	}
}

func TestExperimentReport(t *testing.T) {
	t.Parallel()
	for _, width := range []int{0, 80, 140} {
		var b bytes.Buffer
		writeExperiment(&b, styles{width: width}, buttons())
		holdGolden(t, fmt.Sprintf("experiment_width_%d", width), b.String())
		if width > 0 {
			holdWidth(t, b.String(), width)
		}
	}
	e := buttons()
	e.Split = experiment.Split{Mismatch: true, Factor: 41_000}
	e.Days, e.Begun, e.Owner, e.Hypothesis = nil, e.Start, "", ""
	var b bytes.Buffer
	writeExperiment(&b, styles{red: "RED", reset: "RESET"}, e)
	if text := b.String(); !strings.Contains(text, "REDthe units are not divided as the split says: the factor against its shares is 41000, from 1000 on nothing is saidRESET\n") || strings.Contains(text, "by day") || strings.Contains(text, "anew") || strings.Contains(text, "owner") {
		t.Error(text)
	}
}

func TestExperimentCommand(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	asked, answer := "", buttons()
	list := adminapi.Experiments{Experiments: []adminapi.ListedExperiment{
		{Name: "buttons", State: experiment.Better, Says: answer.Says, End: answer.End, Owner: answer.Owner}, {Name: "prompts", State: experiment.NoData, Says: "Nothing is known.", End: answer.End},
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/cadenza/rollouts/") { // whether the split has a guard
			asked = r.URL.String()
		}
		switch r.URL.Path {
		case "/cadenza/experiments":
			_ = json.NewEncoder(w).Encode(list)
		case "/cadenza/experiments/new/buttons":
			_ = json.NewEncoder(w).Encode(answer)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":"there is no experiment \"button\": did you mean \"buttons\"?"}`)
		}
	}))
	defer server.Close()
	run := func(arguments ...string) (string, error) {
		var out bytes.Buffer
		err := gatewayCommand(context.Background(), &out, io.Discard, append(arguments, "--address", server.Listener.Addr().String())...)
		return out.String(), err
	}
	out, err := run("experiment", "-w", "shop")
	if err != nil || asked != "/cadenza/experiments?workspace=shop" {
		t.Errorf("%v, asked %s", err, asked)
	}
	holdGolden(t, "experiments", out)
	if out, err := run("experiment", "new/buttons"); err != nil || asked != "/cadenza/experiments/new%2Fbuttons" || !strings.HasPrefix(out, "green is better") {
		t.Errorf("%v, asked %s:\n%s", err, asked, out)
	}
	out, err = run("experiment", "new/buttons", "--json")
	var same experiment.Readout
	if err != nil || json.Unmarshal([]byte(out), &same) != nil || same.Says != answer.Says || len(same.Days) != len(answer.Days) {
		t.Errorf("%v:\n%s", err, out)
	}
	if _, err := run("experiment", "button"); err == nil || !strings.Contains(err.Error(), `did you mean "buttons"?`) {
		t.Error(err)
	}
	answer.State = experiment.Mismatch
	for _, form := range [][]string{{"experiment", "new/buttons"}, {"experiment", "new/buttons", "--json"}} {
		if out, err := run(form...); err == nil || err.Error() != fmt.Sprintf("exiting with status %d", exitMismatch) || out == "" {
			t.Errorf("%v: %v", form, err)
		}
	}
	list.Experiments = nil
	if out, err := run("experiment"); err != nil || out != "no experiments\n" {
		t.Errorf("%v: %s", err, out)
	}
}
