package caddymodule_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestAdminImportsReports imports reports of any age, once each.
func TestAdminImportsReports(t *testing.T) {
	g, address, _ := startRecorded(t)
	line := func(field, event string, age time.Duration) string {
		return fmt.Sprintf(`{"unit":{%q:"nl"},"values":{"paid":1},"time":%q,"event_id":%q}`, field, time.Now().Add(-age).Format(time.RFC3339), event)
	}
	const year = 365 * 24 * time.Hour
	body := strings.Join([]string{
		line("locale", "e-1", 2*year), line("none", "e-2", 2*year), line("locale", "e-3", -time.Hour), `{"score":1}`, `{`, line("locale", "e-4", 0),
	}, "\n")
	for _, stored := range []string{"map[ok:true]", "map[ok:true repeated:true]"} {
		status, answer := callAdmin(t, "POST", address, "/cadenza/reports", body)
		results, _ := answer["results"].([]any)
		if status != http.StatusOK || len(results) != 6 || answer["failed"] != 4.0 || fmt.Sprint(results[0]) != stored || fmt.Sprint(results[5]) != stored {
			t.Fatalf("%d %v", status, answer)
		}
		for i, want := range map[int]string{1: "unit.none", 2: "in the future", 3: "only reports on units", 4: "not valid JSON"} {
			if !strings.Contains(fmt.Sprint(results[i]), want) {
				t.Errorf("%v, want %s", results[i], want)
			}
		}
	}
	var rows, old int
	if err := g.database().QueryRow("SELECT count(*), sum(time_ms < received_ms - 60000000000 AND api_key IS NULL) FROM unit_reports").Scan(&rows, &old); err != nil || rows != 2 || old != 1 {
		t.Errorf("%d reports are stored, %d of them are two years old: %v", rows, old, err)
	}
	status, answer := callAdmin(t, "POST", address, "/cadenza/reports", "{}\n"+line("none", "e-5", 0))
	if results, _ := answer["results"].([]any); status != http.StatusOK || len(results) != 2 || answer["failed"] != 2.0 || answer["error"] != nil {
		t.Errorf("without a valid report: %d %v", status, answer)
	}
	for _, bad := range []string{"/cadenza/reports?x=1", "/cadenza/reports?workspace=none"} {
		if status, answer := callAdmin(t, "POST", address, bad, body); status != http.StatusBadRequest && status != http.StatusNotFound {
			t.Errorf("%s: %d %v", bad, status, answer)
		}
	}
	if status, answer := callAdmin(t, "POST", address, "/cadenza/reports", ""); status != http.StatusBadRequest || !strings.Contains(fmt.Sprint(answer), "no report") {
		t.Errorf("without reports: %d %v", status, answer)
	}
}
