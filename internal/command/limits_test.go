package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
)

const limitsOfAcme = `{"workspaces":{"partner":{"limits":[]},"default":{"limits":[` +
	`{"name":"customers","by":"metadata.customer","shared":true,"percent":83,"ceilings":[` +
	`{"subject":"acme","measure":"tokens","ceiling":"200000/1m","percent":83,"used":160000,"reserved":6000,"left":34000,"resets":"2026-11-22T05:15:00Z","lease":{"used":12000,"others":148000,"left":400}},` +
	`{"subject":"acme","measure":"money","ceiling":"50usd/1mo","percent":9,"used":4.815162342,"reserved":0,"left":45.184837658,"resets":"2026-12-01T00:00:00Z","lease":{"used":0,"left":0}},` +
	`{"subject":"acme","measure":"in_flight","ceiling":"20","percent":5,"used":1,"reserved":0,"left":19}]},` +
	`{"name":"fair","by":"api_key","shared":false,"percent":0,"ceilings":[{"subject":"","measure":"requests","ceiling":"100/1m","percent":0,"used":0,"reserved":0,"left":100,"resets":"2026-11-22T05:15:00Z"}]},` +
	`{"name":"all","by":"workspace","shared":true,"away_since":"2026-11-22T05:13:00Z","percent":1,"ceilings":[{"subject":"","measure":"requests","ceiling":"1000000000000000/1d","percent":1,"used":100000000000000,"reserved":0,"left":900000000000000,"resets":"2026-11-23T00:00:00Z","lease":{"used":1,"others":0,"left":2}}]}]}}}`

func TestLimitsReport(t *testing.T) {
	var answer adminapi.Limits
	must(t, json.Unmarshal([]byte(limitsOfAcme), &answer))
	var b bytes.Buffer
	(&report{b: &b, now: time.Date(2026, 11, 22, 5, 14, 5, 0, time.UTC)}).subject(&answer)
	holdGolden(t, "limits", b.String())
	for line := range strings.Lines(b.String()) {
		holdWidth(t, line, reportWidth)
	}
}

func TestLimitsCommand(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	asked := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		if r.URL.Query().Get("limit") == "x" {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":"there is no limit \"x\": the limits are fair"}`)
			return
		}
		fmt.Fprint(w, limitsOfAcme)
	}))
	defer server.Close()
	run := func(arguments ...string) (string, error) {
		cmd := limitsCommand()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs(append(arguments, "--address", server.Listener.Addr().String()))
		err := cmd.Execute()
		return out.String(), err
	}
	if out, err := run("a&b c"); err != nil || !strings.Contains(out, "34000 left") || asked != "/cadenza/limits?subject=a%26b+c" {
		t.Errorf("%v, asked %s:\n%s", err, asked, out)
	}
	out, err := run("", "--limit", "fair", "-w", "default", "--json")
	var same adminapi.Limits
	if err != nil || json.Unmarshal([]byte(out), &same) != nil || len(same.Workspaces) != 2 || asked != "/cadenza/limits?limit=fair&subject=&workspace=default" {
		t.Errorf("%v, asked %s:\n%s", err, asked, out)
	}
	if _, err := run("acme", "--limit", "x"); err == nil || !strings.Contains(err.Error(), "the limits are fair") {
		t.Error(err)
	}
}
