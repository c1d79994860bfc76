package caddymodule_test

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/caddymodule"
	"github.com/cadenza-gateway/cadenza/internal/definition"
	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/internal/redact"
)

// TestOptionsReachTheGateway gives every option a value of its own and finds it
// in what the gateway's workspace is made from. The gateway's tests begin there.
func TestOptionsReachTheGateway(t *testing.T) {
	t.Setenv("CADENZA_TRACE_KEY", "1f0c9b62d8a74e35b1e2c3d4f5a69788")
	t.Setenv("CADENZA_TEST_PRICES", "prices.json")
	g := startGateway(t, map[string]string{
		"definitions/context.yaml": "fields: {}\n", "keys.json": keyList(keyOf("listed", otherKey, "")),
		"prices.json": `{"small": {"prompt": 9, "completion": 9}, "large": {"prompt": 3, "completion": 4, "max_output": 5}}`,
	}, `
		definitions {dir}/definitions
		store sqlite {dir}/data/cadenza.db {
			retention 2h
			max_size 3MiB
		}
		sink file {dir}/out.jsonl
		trace_key {env.CADENZA_TRACE_KEY}
		api_key test {env.CADENZA_TEST_KEY}
		keys {dir}/keys.json
		log content
		redact email card
		price small 2 10
		prices {dir}/{env.CADENZA_TEST_PRICES}
		prices none
		max_body_size 4KiB
		body_timeout 5s
		max_answer_size 6KiB
		max_metadata_size 7KiB
		in_flight {
			process 99
			workspace 8
			key 9
			host 10 adaptive
		}
		limit fair {
			by metadata.customer
			requests 100/1m 1000/1d
			tokens 200000/90s
			money 0.5usd/1h
			money 20usd/1mo
			in_flight 20
			routes endpoints chat prompts
		}
		limit all {
			by workspace
			requests 5/1s
		}
		provider canned
`)
	app, err := caddy.ActiveContext().AppIfConfigured("cadenza")
	if err != nil {
		t.Fatal(err)
	}
	c := caddymodule.ConfigOf(app.(*caddymodule.App), "default")
	for v, i := reflect.ValueOf(c), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("%s has no value: give it one here", v.Type().Field(i).Name)
		}
	}
	for name, pair := range map[string][2]any{
		"Name":            {c.Name, "default"},
		"Source":          {c.Source.Dir(), filepath.Join(g.dir, "definitions")},
		"Store":           {c.Store.Path, filepath.Join(g.dir, "data/cadenza.db")},
		"Limits":          {c.Limits, gw.StoreLimits{Retention: 2 * time.Hour, MaxSize: 3 << 20}},
		"TraceKey":        {string(c.TraceKey), "{env.CADENZA_TRACE_KEY}"},
		"APIKeys":         {c.APIKeys, []gw.APIKey{{Name: "test", Key: "{env.CADENZA_TEST_KEY}"}}},
		"KeysFile":        {c.KeysFile, filepath.Join(g.dir, "keys.json")},
		"Prices":          {c.Prices, map[string]*price.Price{"small": {Prompt: 2, Completion: 10}, "large": {Prompt: 3, Completion: 4, MaxOutput: 5}}},
		"NoShippedPrices": {c.NoShippedPrices, true},
		"Log":             {c.Log, definition.LogContent},
		"Redact":          {c.Redact, redact.Email | redact.Card},
		"MaxBodySize":     {c.MaxBodySize, int64(4 << 10)},
		"BodyTimeout":     {c.BodyTimeout, 5 * time.Second},
		"MaxAnswerSize":   {c.MaxAnswerSize, int64(6 << 10)},
		"MaxMetadataSize": {c.MaxMetadataSize, int64(7 << 10)},
		"Process":         {c.InFlight.Process, 99},
		"Workspace":       {c.InFlight.Workspace, 8},
		"Key":             {c.InFlight.Key, 9},
		"Host":            {c.InFlight.Host, 10},
		"Adaptive":        {c.InFlight.Adaptive, true},
		"CallLimits": {c.CallLimits, []*limit.Limit{
			{Name: "fair", By: limit.ByMetadata, Member: "customer", Routes: []string{"endpoints", "chat", "prompts"}, Ceilings: []limit.Ceiling{
				{Measure: limit.Requests, Most: 100, Window: limit.Window{Length: time.Minute}},
				{Measure: limit.Requests, Most: 1000, Window: limit.Window{Length: 24 * time.Hour}},
				{Measure: limit.Tokens, Most: 200000, Window: limit.Window{Length: 90 * time.Second}},
				{Measure: limit.Money, Most: limit.Dollar / 2, Window: limit.Window{Length: time.Hour}},
				{Measure: limit.Money, Most: 20 * limit.Dollar},
				{Measure: limit.InFlight, Most: 20},
			}},
			{Name: "all", By: limit.ByWorkspace, Ceilings: []limit.Ceiling{{Measure: limit.Requests, Most: 5, Window: limit.Window{Length: time.Second}}}},
		}},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: %v, want %v", name, pair[0], pair[1])
		}
	}
	if c.Providers["canned"] == nil || len(c.Sinks) != 1 || c.Sinks[0].Name != "file" {
		t.Errorf("providers %v, sinks %v", c.Providers, c.Sinks)
	}
}

// TestMaxLargeRequests: the option bounds what large requests hold together. While one
// comes another is refused, and by default it is not.
func TestMaxLargeRequests(t *testing.T) {
	files := map[string]string{"definitions/context.yaml": "fields: {}\n", "definitions/remoteconfigs/a.yaml": "type: number\ndefault: 1\n"}
	large := `{"keys":["a"],"variables":{"x":"` + strings.Repeat("x", 200_000) + `"}}`
	for option, want := range map[string]int{"max_large_requests 400KiB": http.StatusServiceUnavailable, "": http.StatusOK} {
		g := startGateway(t, files, "definitions {dir}/definitions\nstore sqlite {dir}/data/cadenza.db\napi_key test {env.CADENZA_TEST_KEY}\n"+option)
		last := 0
		// Which of two requests comes first is for the gateway to say: where it refused the
		// one that waits, another takes its place.
		for try := 0; try < 40 && last != http.StatusServiceUnavailable; try++ {
			first, err := net.Dial("unix", g.socket)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(first, "POST /v1/remoteconfigs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", testKey, len(large), large[:len(large)-1])
			for probe := 0; probe < 5 && last != http.StatusServiceUnavailable; probe++ { // until the gateway has read of the first
				time.Sleep(5 * time.Millisecond)
				last = g.post("/v1/remoteconfigs", large).status
			}
			if status := g.post("/v1/remoteconfigs", `{"keys":["a"]}`).status; status != http.StatusOK {
				t.Errorf("%q: a small request is answered %d", option, status)
			}
			first.Close()
		}
		if last != want {
			t.Errorf("%q: %d, want %d", option, last, want)
		}
	}
}

// TestMaxLimitMemory: the option bounds what a limit counts apart. Beyond it customers share
// one counter.
func TestMaxLimitMemory(t *testing.T) {
	for option, want := range map[string]int{"max_limit_memory 1KiB": http.StatusTooManyRequests, "": http.StatusOK} {
		g := startGateway(t, single(), fakeProvider("http://localhost:1")+option+`
			limit customers {
				by metadata.customer
				routes prompts
				requests 1/366d
			}`)
		last := 0
		for customer := range 8 {
			last = g.post("/v1/prompts", fmt.Sprintf(`{"keys":["hello"],"metadata":{"customer":%d}}`, customer)).status
			if customer < 5 && last != http.StatusOK {
				t.Errorf("%q: customer %d is answered %d", option, customer, last)
			}
		}
		if last != want {
			t.Errorf("%q: the last of eight customers is answered %d, want %d", option, last, want)
		}
	}
}
