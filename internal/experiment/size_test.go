package experiment_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/sequential"
)

// TestSizes holds what traffic says of how many units each metric needs.
func TestSizes(t *testing.T) {
	t.Parallel()
	answers := failed
	answers.Name, answers.As = "answers", experiment.Ratio
	minutes := experiment.Metric{Name: "minutes", Role: experiment.Other, Value: "minutes", As: experiment.Mean, Smallest: 2}
	cost := experiment.Metric{Name: "cost", Role: experiment.Other, Measure: experiment.Cost, As: experiment.Ratio, Smallest: 0.1, Relative: true}
	p := plan(resolved, minutes, cost, failed, answers)
	traffic := &experiment.Traffic{
		Days: 14, Units: map[string]int64{"blue": 3000, "green": 1000, "red": 5}, Answers: 9000, Errors: 90,
		Values: map[string]experiment.Reported{"resolved": {Units: 1500, Mean: 0.8, Deviation: 0.4}, "minutes": {Units: 100, Mean: 30, Deviation: 12}},
	}
	primary, other := sequential.Levels(1, 3)
	early := 1 - sequential.Early
	failing := 1 - math.Pow(0.99, 3)
	got, says := p.Sizes(traffic)
	if want := []int64{
		sequential.Needed(0.4, 0.24, 0.02, 0.25, primary*early), sequential.Needed(30, 144, 2, 0.25, other), 0,
		sequential.Needed(failing, failing*(1-failing), 0.2*failing, 0.25, 0.025*early), sequential.Needed(0.01, 0.0099/3, 0.002, 0.25, 0.025*early),
	}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for i, want := range map[int]string{
		1: "minutes needs about 3271 units for a difference of 2: 12 days of the 30 that it has, at 286 units a day",
		2: "how many units cost needs is not known: the last 14 days have not enough of its numbers of blue",
	} {
		if says[i] != want {
			t.Errorf("%s, want %s", says[i], want)
		}
	}
	// An arm that is not served yet will get as many units as the control.
	traffic.Units = map[string]int64{"blue": 3000}
	if got, _ := p.Sizes(traffic); got[1] != sequential.Needed(30, 144, 2, 0.5, other) {
		t.Errorf("%v without the arm", got)
	}
	if got, says := p.Sizes(&experiment.Traffic{Days: 14}); slices.Max(got) != 0 || len(says) != 5 {
		t.Errorf("%v of nothing", got)
	}
	p.End = p.Start.Add(36 * time.Hour)
	if _, says := p.Sizes(traffic); says[1] != "minutes needs about 2454 units for a difference of 2: 6 days of the 1.5 that it has, at 429 units a day" {
		t.Error(says[1])
	}
}
