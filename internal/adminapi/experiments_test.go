package adminapi

import (
	"maps"
	"math"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/sinks"
)

// moduleSink is a sink that is the module of an id.
type moduleSink struct {
	sinks.Sink
	id caddy.ModuleID
}

func (m moduleSink) CaddyModule() caddy.ModuleInfo { return caddy.ModuleInfo{ID: m.id} }

// TestSharingSinks holds of which sinks a readout says that they have numbers of others.
func TestSharingSinks(t *testing.T) {
	t.Parallel()
	for id, want := range map[caddy.ModuleID]bool{"cadenza.sinks.postgres": true, "cadenza.sinks.file": false} {
		if got := shares(gateway.Sink{Sink: moduleSink{id: id}}); got != want {
			t.Errorf("%s: %t", id, got)
		}
	}
}

// TestTraffic holds what statistics by arm say of an experiment.
func TestTraffic(t *testing.T) {
	t.Parallel()
	rows := []sqlite.StatsRow{
		{Arm: "green", Units: 20, Traces: 50, Errors: 9, Values: map[string]sqlite.Values{"minutes": {Count: 7, Mean: 1, Deviation: new(1.0)}}},
		{Units: 30, Traces: 60, Errors: 3, Values: map[string]sqlite.Values{"minutes": {Count: 12, Mean: 4, Deviation: new(2.0)}, "alone": {Count: 1, Mean: 4}}},
	}
	got := Traffic(&experiment.Plan{Control: experiment.PassedOn}, rows, time.Time{})
	if !maps.Equal(got.Units, map[string]int64{"green": 20, experiment.PassedOn: 30}) || got.Days != 14 || got.Answers != 60 || got.Errors != 3 || len(got.Values) != 1 || got.Values["minutes"] != (experiment.Reported{Units: 12, Mean: 4, Deviation: 2}) {
		t.Errorf("%+v", got)
	}
	if got := Traffic(&experiment.Plan{Control: "green"}, rows, time.Now().AddDate(0, 0, -3)); math.Round(got.Days) != 3 || got.Answers != 50 || got.Errors != 9 || got.Values["minutes"].Mean != 1 {
		t.Errorf("%+v", got)
	}
}
