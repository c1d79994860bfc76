package browser

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// guarded is a configuration with a rollout. Its row has a long name, which a phone has to
// break.
const guarded = `
type: string
default: grey
rules:
  - id: colours-of-the-buttons-in-the-shop-of-all-countries
    split:
      by: seats
      guard:
        new: green
        control: blue
        steps: [50%, 100%]
        every: 30d
        stop: [ { value: broken, as: rate, ratio: 1.2 }, { value: minutes, as: mean, ratio: 1.2 }, { metric: latency, over: 5s, ratio: 1.5 } ]
`

// TestRolloutPages opens the pages of rollouts as TestPages opens the others: of one that a
// guard stopped, and of one that an editor moves.
func TestRolloutPages(t *testing.T) {
	needBrowser(t)
	files := maps.Clone(definitions)
	const row = "/colours-of-the-buttons-in-the-shop-of-all-countries"
	for _, key := range []string{"button", "link"} {
		files["definitions/remoteconfigs/"+key+".yaml"] = guarded
	}
	g := startGateway(t, files, shop)
	b := g.signedIn("eve")
	const stopped, moved = "rollouts/remoteconfigs/button" + row, "rollouts/remoteconfigs/link" + row
	main := func(page string) string {
		b.visit(page)
		return value[string](b, `document.querySelector("main").innerText`)
	}
	gatewaytest.Eventually(t, "they begin", func() bool { return strings.Count(main("rollouts"), "running") == 2 })
	var reports []object
	var id string
	for seats := range 400 {
		a := g.send(200, "/v1/remoteconfigs", object{"keys": []string{"button"}, "context": object{"seats": seats}}, http.Header{"Authorization": {"Bearer " + keyOf("app")}, "Cadenza-Log": {"metadata"}})
		if strings.Contains(string(a.Body), `"green"`) {
			reports = append(reports, object{"unit": object{"seats": seats}, "values": object{"broken": 1}})
			id = gatewaytest.TraceIDs(t, a.Body)["button"]
		}
	}
	g.post(200, "/v1/metrics", reports)
	gatewaytest.Eventually(t, "a guard stops one", func() bool { return strings.Contains(main(stopped), "held by a guard") })
	g.stored(id)

	b.visit(moved)
	b.submit("[value=hold] ~ button")
	b.sees("held by eve", "row 2", "Resume")
	if bad := value[int](b, `document.querySelectorAll("main .bad").length`); bad != 0 {
		t.Error("a person's hold is red")
	}
	for _, page := range [][2]string{
		{"rollouts", "rollouts"}, {"rollout", stopped}, {"rollout-moved", moved}, {"now-stopped", ""},
		{"definition-guarded", "definitions/remoteconfig/button"}, {"trace-guarded", "traces/" + id}, {"audit-rollout", "audit?action=rollout"},
	} {
		if page[0] == "audit-rollout" {
			b = g.signedIn("ops")
		}
		t.Run(page[0], func(t *testing.T) {
			b.t = t
			defer func() { b.t = g.t }()
			b.hold(page[0], page[1])
		})
	}
}
