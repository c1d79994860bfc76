package caddymodule_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestAdminExperiments asks for experiments of a store. One has begun, one has not: that
// one says what it needs by what callers have reported.
func TestAdminExperiments(t *testing.T) {
	config := fakeProvider("http://localhost:1")
	g := startGateway(t, single(), config)
	address := adminOf(t, g, config)
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(g.dir, "data/cadenza.db"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	authority, err := trace.NewAuthority(make([]byte, 32), "default")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	plan := func(name string, start time.Time) experiment.Plan {
		return experiment.Plan{
			Name: name, On: "remoteconfigs/shop/button", Rule: "colours", Salt: "colours", Arms: []string{"blue", "green"}, Control: "blue", Unit: "customer", Owner: "growth",
			Start: start, End: start.AddDate(0, 0, 30), Metrics: []experiment.Metric{{Name: "minutes", Role: experiment.Primary, Value: "minutes", As: experiment.Mean, Smallest: 2}},
		}
	}
	batch := &recorder.Batch{Experiments: []*recorder.Experiments{{Workspace: "default", Time: now.Add(-time.Minute), Plans: []experiment.Plan{plan("old", now.Add(-time.Hour)), plan("new/buttons", now.Add(time.Hour))}}}}
	for i := range 20 {
		arm := []string{"blue", "green"}[i%2]
		record := &trace.Record{
			ID: authority.New(trace.KindRemoteConfig, now.Add(-48*time.Hour)), Time: now.Add(-48 * time.Hour), Workspace: "default", Kind: trace.KindRemoteConfig, Key: "shop/button", Arm: arm, Row: "colours", Reason: "split",
			Splits: fmt.Appendf(nil, `[{"experiment":{"definition":"remoteconfigs/shop/button","rule":"colours","salt":"colours"},"bucket":1,"arm":%q,"share":0.5,"unit":"unit-%d"}]`, arm, i),
		}
		batch.Records = append(batch.Records, record)
		batch.Metrics = append(batch.Metrics, &trace.Metrics{TraceID: record.ID, Workspace: "default", Time: now.Add(-47 * time.Hour), Values: fmt.Appendf(nil, `{"minutes":%d}`, 10+i)})
	}
	if err := store.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	ask := func(path string) (status int, answer map[string]any) {
		return callAdmin(t, http.MethodGet, address, "/cadenza/experiments"+path, "")
	}
	status, list := ask("")
	names := func() (names []string) {
		for _, e := range list["experiments"].([]any) {
			e := e.(map[string]any)
			names = append(names, e["name"].(string)+" "+e["state"].(string)+" "+e["owner"].(string)+" "+e["on"].(string)+" "+e["rule"].(string))
		}
		return names
	}
	if want := []string{"new/buttons no_data growth remoteconfigs/shop/button colours", "old no_data growth remoteconfigs/shop/button colours"}; status != http.StatusOK || !slices.Equal(names(), want) {
		t.Errorf("%d %v", status, list)
	}
	status, e := ask("/old?workspace=default")
	if metric := e["metrics"].([]any)[0].(map[string]any); status != http.StatusOK || e["name"] != "old" || !strings.HasPrefix(e["says"].(string), "Nothing is known: no unit of blue and green") || metric["name"] != "minutes" {
		t.Errorf("%d %v", status, e)
	}
	eventually(t, "the statistics have all", func() bool {
		status, e = ask("/new%2Fbuttons")
		return status == http.StatusOK && strings.Contains(e["says"].(string), "minutes needs")
	})
	want := "It starts at " + now.Add(time.Hour).Format(time.RFC3339) + ": minutes needs about 651 units for a difference of 2: 66 days of the 30 that it has, at 10 units a day."
	if e["says"] != want || e["metrics"].([]any)[0].(map[string]any)["needed"] != 651.0 {
		t.Errorf("%v", e)
	}
	if warnings, ok := e["warnings"].([]any); ok && strings.Contains(warnings[0].(string), "PostgreSQL") {
		t.Error("it has no sink")
	}
	for path, want := range map[string]string{
		"/odl":                `there is no experiment "odl": did you mean "old"?`,
		"/":                   `there is no experiment ""`,
		"/old?workspace=shop": `there is no workspace "shop"`,
		"/old?since=1d":       `there is no parameter "since"`,
		"?name=old":           `there is no parameter "name"`,
	} {
		if status, answer := ask(path); status != http.StatusNotFound && status != http.StatusBadRequest || !strings.HasPrefix(answer["error"].(string), want) {
			t.Errorf("%s: %d %v", path, status, answer)
		}
	}
	if status, answer := callAdmin(t, http.MethodPost, address, "/cadenza/experiments/old", ""); status != http.StatusMethodNotAllowed {
		t.Errorf("%d %v", status, answer)
	}
}
