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
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/rollout"
)

// colours is a rollout that a guard has stopped, and an answer of the admin API.
func colours() *gateway.Rollout {
	begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	evidence := &rollout.Evidence{
		Since: begin, Through: begin.Add(2 * time.Hour), Units: 412, Control: 405,
		Guards: []rollout.Guard{
			{Name: "error", Ratio: 1.2, New: new(0.061), Control: new(0.012), Harm: true, Strength: 1.31, Says: "error is 5.1 times the control's, 1.2 times are tolerated"},
			{Name: "cost", Ratio: 1.5, Strength: 0.04, Says: "the numbers of 300 units are needed in each arm"},
		},
	}
	row := func(number int64, hours int, kind rollout.Kind, share int, by, why string) rollout.Row {
		return rollout.Row{Rollout: "remoteconfigs/button/colours", Number: number, Time: begin.Add(time.Duration(hours) * time.Hour), Kind: kind, Share: share, Edition: "a", By: by, Why: why}
	}
	return &gateway.Rollout{
		RolloutStatus: gateway.RolloutStatus{Name: "remoteconfigs/button/colours", State: rollout.Held, Share: 5000, Row: 3, Since: begin.Add(2 * time.Hour), Says: "error is harmed, a person resumes it"},
		Plan: rollout.Plan{
			On: "remoteconfigs/button", Rule: "colours", Salt: "colours", Unit: "customer_id", New: "new", Control: "control", Steps: []int{1000, 5000, 25_000, rollout.Whole}, Every: time.Hour, Need: 300, Then: rollout.ThenHold,
			Stops: []rollout.Stop{{Measure: experiment.Error, As: experiment.Ratio, Ratio: 1.2}, {Measure: experiment.Cost, As: experiment.Ratio, Ratio: 1.5}},
		},
		Evidence: evidence,
		Rows: []rollout.Row{
			row(1, 0, rollout.Start, 1000, "gateway one", ""), row(2, 1, rollout.Step, 5000, "gateway two", "310 units of new were seen, and no guard sees harm"), row(3, 2, rollout.Hold, 5000, "gateway one", "error is 5.1 times\x1b the control's"),
		},
	}
}

func TestRolloutReport(t *testing.T) {
	t.Parallel()
	for _, width := range []int{0, 80, 140} {
		var b bytes.Buffer
		writeRollout(&b, styles{width: width}, colours())
		holdGolden(t, fmt.Sprintf("rollout_width_%d", width), b.String())
		if width > 0 {
			holdWidth(t, b.String(), width)
		}
	}
	r := colours()
	r.RolloutStatus = gateway.RolloutStatus{Name: r.Name, Says: "the first step comes at once"}
	r.Evidence, r.Rows = nil, nil
	var b bytes.Buffer
	writeRollout(&b, styles{}, r)
	if text := b.String(); !strings.HasPrefix(text, "remoteconfigs/button/colours is not begun at 0 %: the first step comes at once\n") || strings.Contains(text, "rows\n") || strings.Contains(text, "[") {
		t.Error(text)
	}
	r = colours()
	r.Evidence.Mismatch = true
	b.Reset()
	if writeRollout(&b, styles{red: "RED", reset: "RESET"}, r); !strings.Contains(b.String(), "REDthe units are not divided as the split says: no step is takenRESET\n") {
		t.Error(b.String())
	}
}

func TestRolloutCommand(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	asked, answer := "", colours()
	list := adminapi.Rollouts{Rollouts: []gateway.Rollout{*answer, {RolloutStatus: gateway.RolloutStatus{Name: "prompts/hello/new", State: rollout.Finished, Share: rollout.Whole, Row: 5, Since: answer.Since, Says: "all units have it", Overtaken: true}}}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = r.Method + " " + r.URL.String() + " " + string(body)
		switch r.URL.Path {
		case "/cadenza/rollouts":
			_ = json.NewEncoder(w).Encode(list)
		case "/cadenza/experiments/buttons":
			_ = json.NewEncoder(w).Encode(buttons())
		case "/cadenza/rollouts/" + answer.Name:
			if strings.Contains(string(body), "finish") {
				w.WriteHeader(http.StatusConflict)
				fmt.Fprint(w, `{"error":"not possible: it is finished"}`)
				return
			}
			_ = json.NewEncoder(w).Encode(answer)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":"there is no rollout \"colour\""}`)
		}
	}))
	defer server.Close()
	run := func(arguments ...string) (string, error) {
		var out bytes.Buffer
		err := gatewayCommand(context.Background(), &out, io.Discard, append(arguments, "--address", server.Listener.Addr().String())...)
		return out.String(), err
	}
	out, err := run("rollout", "-w", "shop")
	if err != nil || asked != "GET /cadenza/rollouts?workspace=shop " {
		t.Errorf("%v, asked %s", err, asked)
	}
	holdGolden(t, "rollouts", out)
	const path = "/cadenza/rollouts/remoteconfigs%2Fbutton%2Fcolours "
	if out, err := run("rollout", answer.Name); err != nil || asked != "GET "+path || !strings.HasPrefix(out, answer.Name+" is held at 5 %: error is harmed") {
		t.Errorf("%v, asked %s:\n%s", err, asked, out)
	}
	if out, err := run("rollout", answer.Name, "back", "--by", "ada"); err != nil || asked != "POST "+path+`{"by":"ada","do":"back"}` || !strings.HasPrefix(out, answer.Name) {
		t.Errorf("%v, asked %s:\n%s", err, asked, out)
	}
	out, err = run("rollout", answer.Name, "resume", "--json")
	var same gateway.Rollout
	if err != nil || json.Unmarshal([]byte(out), &same) != nil || same.Name != answer.Name || len(same.Rows) != 3 {
		t.Errorf("%v:\n%s", err, out)
	}
	for _, c := range []struct{ arguments, want string }{
		{answer.Name + " finish", "not possible: it is finished"}, {"colour", "there is no rollout"}, {answer.Name + " --by ada", "--by goes with"},
	} {
		if out, err := run(append([]string{"rollout"}, strings.Fields(c.arguments)...)...); err == nil || !strings.Contains(err.Error(), c.want) || out != "" {
			t.Errorf("%s: %v %s", c.arguments, err, out)
		}
	}
	if out, err := run("experiment", "buttons"); err != nil || !strings.Contains(out, "\nrollout\n- 2026-11-01 00:00:00 UTC: 1, start, 1 %, by gateway one\n") {
		t.Errorf("%v:\n%s", err, out)
	}
	if asked != "GET "+path {
		t.Error("an experiment asks ", asked)
	}
	list.Rollouts = nil
	if out, err := run("rollout"); err != nil || out != "no rollouts\n" {
		t.Errorf("%v: %s", err, out)
	}
}
