package command

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/experiment"
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
