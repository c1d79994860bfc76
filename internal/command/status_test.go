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

const (
	soundStatus = `{"status":"ok","version":"1.2.3","caddy":"v2.11.9","started":"2026-11-01T00:00:00Z","workspaces":{"default":{` +
		`"definitions":{"directory":"/srv/definitions","revision":"d3561ebfbd34","loaded":"2026-11-22T03:13:05Z","prompts":1,"errors":[]},` +
		`"degraded":[],"targets":[],"store":{"path":"/srv/cadenza.db","state":"available","since":"2026-11-01T00:00:00Z","bytes":1048576},"sinks":[],"keys":[{"name":"app","state":"valid"}]}}}`

	degradedStatus = `{"status":"degraded","version":"1.2.3","caddy":"v2.11.9","started":"2026-11-01T00:00:00Z","workspaces":{` +
		`"partner":{"definitions":{"directory":"/srv/partner","revision":"aaaaaaaaaaaa","loaded":"2026-11-22T05:14:00Z","errors":[]},"degraded":[],"targets":[],"store":{"path":"/srv/partner.db","state":"opening"},"sinks":[],"keys":[]},` +
		`"default":{"definitions":{"directory":"/srv/a/long/way/to/the/definitions/of/a/workspace/whose/path/is/wider/than/a/terminal","revision":"d3561ebfbd34","loaded":"2026-11-22T03:13:05Z","prompts":12,"endpoints":3,"remoteconfigs":1,"warnings":2,` +
		`"errors":[{"file":"/srv/definitions","message":"the directory is gone"},{"file":"b.yaml","line":3,"column":7,"message":"must be one of\n\u001b[31m these"},{"file":"c.yaml","line":1,"column":1,"message":"x"},{"file":"d.yaml","line":1,"column":1,"message":"x"},{"file":"e.yaml","line":1,"column":1,"message":"x"},{"file":"f.yaml","line":1,"column":1,"message":"x"},{"file":"g.yaml","line":1,"column":1,"message":"x"}]},` +
		`"degraded":[{"code":"definitions_invalid","subject":"definitions","since":"2026-11-22T05:13:35Z","message":"the directory is gone (and 6 more)"},{"code":"target_down","subject":"openai/gpt-4o-mini","since":"2026-11-22T03:14:05Z","message":"credential: the provider does not accept the key, or the account has no credit left"}],` +
		`"targets":[{"target":"canned","state":"ok","endpoints":["chat"]},{"target":"openai/o3","state":"ok","shutdown":"2026-12-11","successor":"gpt-5.6-sol","endpoints":["chat","team/talk"]},{"target":"openai/gpt-5.1","state":"ok","shutdown":"2027-04-01","endpoints":["chat"]},{"target":"openai/o1","state":"failing","shutdown":"2026-10-23","endpoints":["chat"]},{"target":"openai/gpt-4o-mini","state":"cooling","down":true,"since":"2026-11-22T03:14:05Z","until":"2026-11-22T05:15:05Z","reason":"credential: the provider does not accept the key","endpoints":["chat"]}],` +
		`"store":{"path":"/srv/cadenza.db","state":"failing","since":"2026-11-22T05:14:00Z","error":"database or disk is full","bytes":5368709120,"queued":53,"dropped":7},` +
		`"sinks":[{"name":"fleet","state":"failing","since":"2026-11-22T04:14:05Z","error":"connection refused","pending":4711,"lag_seconds":3601.5},{"name":"file","state":"up","pending":1},{"name":"new","state":"trying"}],` +
		`"keys_file":"/srv/keys.json","keys":[{"name":"app","state":"valid"},{"name":"ci","state":"expiring","not_after":"2026-12-01T00:00:00Z","role":"admin"},{"name":"old","role":"admin","state":"expired","not_after":"2026-11-20T00:00:00Z"},{"name":"stolen","state":"revoked"}],` +
		`"limits":[{"name":"fair","by":"api_key","percent":83,"fullest":[{"subject":"app","measure":"requests","ceiling":"100/1m","percent":83,"used":80,"reserved":3,"resets":"2026-11-22T05:15:00Z"},{"subject":"ci","measure":"in_flight","ceiling":"20","percent":5,"used":1,"reserved":0}]},` +
		`{"name":"customers","by":"metadata.customer","percent":100,"fullest":[{"subject":"","measure":"money","ceiling":"5usd/1mo","percent":100,"used":5,"reserved":0,"resets":"2026-12-01T00:00:00Z"}]},` +
		`{"name":"all","by":"workspace","percent":1,"fullest":[{"subject":"","measure":"tokens","ceiling":"1000/1d","percent":1,"used":10,"reserved":0,"resets":"2026-11-23T00:00:00Z"}]},{"name":"endpoints","by":"endpoint","percent":40,"fullest":[{"subject":"","measure":"requests","ceiling":"5/1d","percent":40,"used":2,"reserved":0,"resets":"2026-11-23T00:00:00Z"}]},{"name":"idle","by":"endpoint","percent":0,"fullest":[]}]}}}`

	bundleStatus = `{"status":"degraded","version":"1.2.3","caddy":"v2.11.9","started":"2026-11-01T00:00:00Z","workspaces":{` +
		`"blank":{"definitions":{"directory":"https://one.example/b.tar.gz","revision":"","loaded":"2026-11-22T05:14:03Z","errors":[],"source":{"url":"https://one.example/b.tar.gz","error":"https://one.example/b.tar.gz: the source answers 503 Service Unavailable"}},` +
		`"degraded":[{"code":"definitions_awaited","subject":"definitions","since":"2026-11-22T05:14:03Z","message":"https://one.example/b.tar.gz: the source answers 503 Service Unavailable"}],"targets":[],"store":{"path":"/srv/cadenza.db","state":"available","since":"2026-11-01T00:00:00Z","bytes":1048576},"sinks":[],"keys":[]},` +
		`"edge":{"definitions":{"directory":"https://one.example/b.tar.gz","revision":"d3561ebfbd34","loaded":"2026-11-22T03:13:05Z","prompts":1,"errors":[],"source":{"url":"https://one.example/b.tar.gz","mirror":"https://two.example/b.tar.gz","bundle":"v4\u001b","serial":4,"confirmed":"2026-11-22T05:13:35Z","age_seconds":30,"error":"https://one.example/b.tar.gz: refused; https://two.example/b.tar.gz: refused"}},"degraded":[],"targets":[],"store":{"path":"/srv/cadenza.db","state":"available","since":"2026-11-01T00:00:00Z","bytes":1048576},"sinks":[],"keys":[]}}}`
)

func TestStatusReport(t *testing.T) {
	now := time.Date(2026, 11, 22, 5, 14, 5, 0, time.UTC)
	for name, text := range map[string]string{"status_ok": soundStatus, "status_degraded": degradedStatus, "status_bundle": bundleStatus} {
		for _, width := range []int{0, 60} {
			var answer adminapi.Status
			must(t, json.Unmarshal([]byte(text), &answer))
			var b bytes.Buffer
			(&report{b: &b, st: styles{width: width}, now: now}).status(&answer)
			if width == 0 {
				holdGolden(t, name, b.String())
				width = reportWidth
			}
			for line := range strings.Lines(b.String()) {
				if !strings.Contains(line, "/srv/a/long") { // paths stay whole
					holdWidth(t, line, width)
				}
			}
		}
	}
}

func TestManyKeys(t *testing.T) {
	var b bytes.Buffer
	var keys []string
	for i := range 13 {
		keys = append(keys, fmt.Sprintf(`{"name":"k%02d","state":"revoked"}`, i))
	}
	var answer adminapi.Status
	text := strings.Replace(soundStatus, `{"name":"app","state":"valid"}`, strings.Join(keys, ","), 1)
	must(t, json.Unmarshal([]byte(text), &answer))
	(&report{b: &b, now: time.Now()}).status(&answer)
	if !strings.Contains(b.String(), "k09 is revoked\n               and 3 more: --json lists all\n") {
		t.Error(b.String())
	}
}

func TestStatusCommand(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	answer, asked := "", ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	run := func(arguments ...string) (string, string, error) {
		cmd := statusCommand()
		var out, errors bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&errors)
		cmd.SilenceUsage = true
		cmd.SetArgs(append(arguments, "--address", server.Listener.Addr().String()))
		err := cmd.Execute()
		return out.String(), errors.String(), err
	}
	answer = soundStatus
	if out, _, err := run(); err != nil || !strings.Contains(out, "workspace default: ok\n") || asked != "/cadenza/status" {
		t.Errorf("%v, asked %s:\n%s", err, asked, out)
	}
	answer = degradedStatus
	out, errors, err := run("--json", "-w", "default")
	var same any
	if asked != "/cadenza/status?workspace=default" || json.Unmarshal([]byte(out), &same) != nil || strings.Contains(out, "\x1b") {
		t.Errorf("asked %s: %s", asked, out)
	}
	// Caddy's own error for an exit status. Nothing is said beside the report.
	if err == nil || err.Error() != fmt.Sprintf("exiting with status %d", exitDegraded) || errors != "" {
		t.Errorf("%v, %q", err, errors)
	}
	server.Close()
	if _, _, err := run(); err == nil || !strings.Contains(err.Error(), "is it running") {
		t.Error(err)
	}
}
