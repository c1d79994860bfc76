package gateway

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cadenza-gateway/cadenza/internal/definition"
)

// A load that does not end is logged with its start and shown by the metric. It is no
// change of the definitions.
func TestSlowLoadIsShown(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	m := newMetrics()
	w := &Workspace{WorkspaceConfig: WorkspaceConfig{Name: "slow", Logger: zap.New(core)}, gateway: &Gateway{metrics: m}}
	since := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	m.valid.WithLabelValues("slow").Set(1)
	w.definitionsChanged(&definition.Snapshot{Revision: "r"}, &definition.SlowLoadError{Since: since})
	// Other tests use the metrics of the process, too.
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.valid, m.reloads)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, family := range families {
		for _, metric := range family.Metric {
			for _, label := range metric.Label {
				if label.GetName() == "workspace" && label.GetValue() == w.Name {
					shown = append(shown, fmt.Sprint(family.GetName(), " ", metric.GetGauge().GetValue()))
				}
			}
		}
	}
	if want := []string{"cadenza_definitions_valid 0"}; !slices.Equal(shown, want) {
		t.Errorf("shown: %v, want %v", shown, want)
	}
	entries := logs.FilterField(zap.String("loading_since", since.UTC().Format(time.RFC3339))).All()
	if len(entries) != 1 || entries[0].Level != zap.ErrorLevel {
		t.Errorf("logged: %v", logs.All())
	}
}
