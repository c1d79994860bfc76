package command

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/rollout"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestCheckExperiments holds what check remarks on experiments by a gateway's traffic. What
// is over needs nothing any more.
func TestCheckExperiments(t *testing.T) {
	asked := ""
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked += r.URL.String() + "\n"
		w.WriteHeader(status)
		fmt.Fprint(w, `{"rows":[{"arm":"blue","units":3000,"traces":9000,"values":{"minutes":{"count":100,"mean":30,"deviation":12},"one":{"count":1,"mean":3}}},{"arm":"green","units":3000},{"units":70000}]}`)
	}))
	defer server.Close()
	plan := experiment.Plan{
		Name: "new/buttons", On: "remoteconfigs/shop/button", Rule: "colours", Arms: []string{"blue", "green"}, Control: "blue", Unit: "customer_id",
		Start: time.Now().Add(time.Hour), End: time.Now().Add(time.Hour).AddDate(0, 0, 30),
		Metrics: []experiment.Metric{{Name: "minutes", Role: experiment.Primary, Value: "minutes", As: experiment.Mean, Smallest: 2}, {Name: "one", Role: experiment.Guardrail, Value: "one", As: experiment.Mean, Smallest: 2}},
	}
	over := plan
	over.End = time.Now().Add(-time.Second)
	c := &check{place: definition.Place{Dir: "defs"}, snapshot: &definition.Snapshot{Experiments: []experiment.Plan{plan, over}, Files: []trace.File{{Path: "experiments/other.yaml"}, {Path: "experiments/new/buttons.json"}}}}
	client := &gatewayClient{address: server.Listener.Addr().String(), workspace: "shop"}
	if err := c.checkExperiments(client); err != nil || asked != "/cadenza/stats?by=arm&key=shop%2Fbutton&kind=remoteconfig&since=14d&units=true&workspace=shop\n" {
		t.Errorf("%v, asked %s", err, asked)
	}
	if len(c.Remarks) != 2 || !strings.HasPrefix(c.Remarks[0].Message, "minutes needs about ") || !strings.HasSuffix(c.Remarks[0].Message, "of the 30 that it has, at 429 units a day") ||
		!strings.HasPrefix(c.Remarks[1].Message, "how many units one needs is not known") || c.Remarks[0].File != filepath.Join("defs", "experiments", "new", "buttons.json") || c.Remarks[0].Rule != "experiment-size" {
		t.Errorf("%+v", c.Remarks)
	}
	status = http.StatusNotFound
	if err := c.checkExperiments(client); err == nil {
		t.Error("no error where the gateway does not answer")
	}
	if err := c.checkExperiments(nil); err != nil || (&check{}).checkExperiments(client) != nil {
		t.Error("it asks where nobody is to be asked, or of definitions with mistakes")
	}
}

// TestCheckRollouts holds what check remarks on the harm that the steps of rollouts see.
func TestCheckRollouts(t *testing.T) {
	asked, rows := "", make(map[string]string)
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		of := q.Get("kind") + " " + q.Get("key")
		asked += of + ", " + q.Get("by") + ", " + q.Get("units") + ", " + q.Get("since") + "\n"
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"rows":[%s]}`, rows[of])
	}))
	defer server.Close()
	plan := rollout.Plan{
		On: "prompts/shop/reply", Rule: "brief", New: "brief", Control: "usual", Unit: "customer_id",
		Steps: []int{1_000, 25_000, rollout.Whole}, Every: 10 * time.Minute, Need: 200,
		Stops: []rollout.Stop{
			{Measure: experiment.Error, As: experiment.Ratio, Ratio: 1.2},
			{Measure: experiment.Cost, As: experiment.Ratio, Ratio: 1.2},
			{Value: "resolved", As: experiment.Rate, Ratio: 0.9},
		},
	}
	sends := func(prompt string) *definition.Endpoint {
		return &definition.Endpoint{Prompt: &definition.Prompt{Definition: definition.Definition{Key: prompt}}}
	}
	c := &check{place: definition.Place{Dir: "defs"}, snapshot: &definition.Snapshot{
		Rollouts: []rollout.Plan{plan}, Files: []trace.File{{Path: "prompts/reply.yaml"}, {Path: "prompts/shop/reply.json"}},
		Endpoints: map[string]*definition.Endpoint{"ask": sends("shop/reply"), "other": sends("reply"), "vectors": {}},
	}}
	client := &gatewayClient{address: server.Listener.Addr().String(), workspace: "shop"}
	const (
		// 1,000 units a minute in 14 days, of the control and of another arm.
		busy = `{"arm":"usual","units":20000000,"traces":20000000,"errors":400000,"values":{"resolved":{"count":20000000,"mean":0.6,"deviation":0.49}}},{"arm":"old","units":160000}`
		idle = `{"arm":"usual","units":10,"traces":10}`
	)
	harm := []string{
		"brief: the 1 % step sees 10 times the control's error in 7 minutes, not 5 times; the 25 % step sees 3 times the control's error in 3 minutes, not 2 times",
		"brief: which harm in cost its steps see is not known: what is recorded of usual does not say how it varies",
		"brief: the 1 % step sees 0.5 times the control's resolved in 13 minutes, not 0.667 times; the 25 % step sees 0.667 times the control's resolved in 2 minutes",
	}
	for _, test := range []struct {
		prompt, endpoint string
		want             []string
	}{
		{busy, "", harm},
		{idle, busy, harm},
		{busy, idle, harm},
		{`{"arm":"old","units":160000,"traces":160000}`, "", []string{"brief: which harm its steps see is not known, as no units with usual were recorded in the last 14 days"}},
	} {
		rows["prompt shop/reply"], rows["endpoint ask"], asked, c.Remarks = test.prompt, test.endpoint, "", nil
		if err := c.checkRollouts(client); err != nil || asked != "prompt shop/reply, arm, true, 14d\nendpoint ask, arm, true, 14d\n" {
			t.Errorf("%v, asked %s", err, asked)
		}
		var got []string
		for _, r := range c.Remarks {
			got = append(got, r.Message)
			if r.File != filepath.Join("defs", "prompts", "shop", "reply.json") || r.Rule != "rollout-harm" {
				t.Errorf("%+v", r)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
		}
	}
	status = http.StatusNotFound
	if err := c.checkRollouts(client); err == nil {
		t.Error("no error where the gateway does not answer")
	}
	if err := c.checkRollouts(nil); err != nil || (&check{}).checkRollouts(client) != nil {
		t.Error("it asks where nobody is to be asked, or of definitions with mistakes")
	}
}
