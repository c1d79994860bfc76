package caddymodule_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestMistakesInLimitsOfJSON tests mistakes that are possible only in JSON.
func TestMistakesInLimitsOfJSON(t *testing.T) {
	for limits, want := range map[string]string{
		`[null]`:                        "workspace w: limits: number 1 is null",
		`[{}]`:                          "workspace w: limit : the name must be 1 to 64 of a-z 0-9 _ -",
		`[{"name":"x","in_flight":-1}]`: "workspace w: limit x: in_flight -1: must be a whole number of requests, at least 1",
		`[{"name":"x","in_flight":1},{"name":"x","in_flight":1}]`:                 "workspace w: limit x is configured twice",
		`[{"name":"x","requests":["1/1m"],"routes":["prompt"]}]`:                  `workspace w: limit x: unrecognized route "prompt", did you mean "prompts"?`,
		`[{"name":"x","by":"metadata","requests":["1/1m"]}]`:                      "workspace w: limit x: by metadata needs a member",
		`[{"name":"x","money":["5/1d"]}]`:                                         "workspace w: limit x: money 5/1d: the amount must be in US dollars",
		`[` + strings.Repeat(`{"name":"x"},`, 64) + `{"name":"x"}]`:               "workspace w: limits: 65 are more than the 64 that a workspace may have",
		`[{"name":"x","requests":[` + strings.Repeat(`"1/1m",`, 16) + `"1/1m"]}]`: "workspace w: limit x: has 17 ceilings, more than 16: make two limits of it",
	} {
		err := caddy.Validate(&caddy.Config{AppsRaw: caddy.ModuleMap{"cadenza": []byte(`{"workspaces":{"w":{"definitions":"testdata","limits":` + limits + `}}}`)}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", limits, err, want)
		}
	}
}

// TestLimitsAtTheirBounds configures the maximum of each limit.
func TestLimitsAtTheirBounds(t *testing.T) {
	t.Setenv("CADENZA_API_KEY", testKey)
	var inFlight, ceilings []string
	for n := range 64 {
		inFlight = append(inFlight, fmt.Sprintf(`{"name":"l%d","in_flight":1}`, n))
	}
	for n := range 15 {
		ceilings = append(ceilings, fmt.Sprintf(`"1/%dh"`, n+1))
	}
	for _, limits := range []string{
		strings.Join(inFlight, ","),
		`{"name":"x","in_flight":1,"requests":[` + strings.Join(ceilings, ",") + `]}`,
		`{"name":"x","requests":["1/366d","1/1s"],"money":["1000000000usd/1mo","0.000000001usd/1h"]}`,
	} {
		definitions, err := json.Marshal(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		config := `{"workspaces":{"w":{"definitions":` + string(definitions) + `,"api_keys":[{"name":"app","key":"{env.CADENZA_API_KEY}"}],"limits":[` + limits + `]}}}`
		if err := caddy.Validate(&caddy.Config{AppsRaw: caddy.ModuleMap{"cadenza": []byte(config)}}); err != nil {
			t.Errorf("%.200s: %v", limits, err)
		}
	}
}
