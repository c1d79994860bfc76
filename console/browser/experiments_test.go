package browser

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// experimentOn is an experiment on a split of two.
const experimentOn = `
on: remoteconfigs/%s
rule: colours
control: blue
hypothesis: A green button is clicked more often.
owner: growth@example.com
start: %s
end: 2035-01-01T00:00:00Z
primary: { value: clicked, as: rate, goal: up, smallest: 20%% }
guardrails: [ { value: complained, as: rate, goal: down, smallest: 20%% } ]
`

const splitOfTwo = `
type: string
default: grey
rules: [ { id: colours, split: { by: seats, of: [ { value: green, share: 50%, name: green }, { value: blue, share: 50%, name: blue } ] } } ]
`

// TestExperimentPages opens the pages of experiments as TestPages opens the others: of one
// whose arms differ, and of one whose units are not divided as its split says.
func TestExperimentPages(t *testing.T) {
	needBrowser(t)
	files := maps.Clone(definitions)
	start := time.Now().Add(-24 * time.Hour).UTC().Format(time.RFC3339)
	for experiment, on := range map[string]string{"colours": "button", "mismatch": "link"} {
		files["definitions/experiments/"+experiment+".yaml"] = fmt.Sprintf(experimentOn, on, start)
		files["definitions/remoteconfigs/"+on+".yaml"] = splitOfTwo
	}
	g := startGateway(t, files, shop)
	b := g.signedIn("vic")
	ask := func(key string, seats int, log string) (colour string) {
		a := g.send(200, "/v1/remoteconfigs", object{"keys": []string{key}, "context": object{"seats": seats}}, http.Header{"Authorization": {"Bearer " + keyOf("app")}, "Cadenza-Log": {log}})
		for _, colour := range []string{"green", "blue"} {
			if strings.Contains(string(a.Body), `"`+colour+`"`) {
				return colour
			}
		}
		t.Fatalf("%s", a.Body)
		return ""
	}
	var reports []object
	lost := 0
	for seats := range 1000 {
		// In ten, seven click on green, and four on blue.
		clicked := 0
		if seats%10 < map[string]int{"green": 7, "blue": 4}[ask("button", seats, "metadata")] {
			clicked = 1
		}
		reports = append(reports, object{"unit": object{"seats": seats}, "values": object{"clicked": clicked}})
		// Of those who come to the link's blue, every second one is lost.
		if ask("link", seats, "none") == "blue" {
			if lost++; lost%2 == 0 {
				continue
			}
		}
		ask("link", seats, "metadata")
	}
	g.post(200, "/v1/metrics", reports)
	for name, says := range map[string]string{"colours": "green is better than blue", "mismatch": "not divided as the split says"} {
		gatewaytest.Eventually(t, name+" is read", func() bool {
			b.visit("experiments/" + name)
			return strings.Contains(value[string](b, `document.querySelector("main").textContent`), says)
		})
	}
	for _, page := range [][2]string{{"experiments", "experiments"}, {"experiment-mismatch", "experiments/mismatch"}, {"experiment", "experiments/colours"}} {
		t.Run(page[0], func(t *testing.T) {
			b.t = t
			defer func() { b.t = g.t }()
			b.hold(page[0], page[1])
		})
	}
	if pictures := value[int](b, `document.querySelectorAll(".intervals rect").length`); pictures == 0 {
		t.Error("no interval is drawn")
	}
}
