package caddymodule_test

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/caddymodule"
	"github.com/cadenza-gateway/cadenza/internal/definition"
	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/internal/redact"
)

// TestOptionsReachTheGateway sets every option to two values in two configurations, and
// finds them in the configuration of the gateway's workspace, where the gateway's tests
// begin. By reflection it finds missing options: a new one, one that is not wired, and one
// that is wired to the wrong member.
func TestOptionsReachTheGateway(t *testing.T) {
	t.Setenv("CADENZA_TRACE_KEY", "1f0c9b62d8a74e35b1e2c3d4f5a69788")
	t.Setenv("CADENZA_OTHER_TRACE_KEY", "2f0c9b62d8a74e35b1e2c3d4f5a69788")
	t.Setenv("CADENZA_TEST_PRICES", "prices.json")
	g := startGateway(t, map[string]string{
		"definitions/context.yaml": "fields: {}\n", "keys.json": keyList(keyOf("listed", otherKey, "")),
		"others/context.yaml": "fields: {}\n", "keys2.json": keyList(keyOf("another", otherKey, "")),
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
		legacy
		max_body_size 4KiB
		body_timeout 5s
		max_answer_size 6KiB
		max_metadata_size 7KiB
		max_flag_streams 8
		max_large_requests 64MiB
		max_limit_memory 32MiB
		cors https://app.example.com
		cors capacitor://localhost
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
	one := caddymodule.ConfigOf(activeApp(t), "default")
	for v, i := reflect.ValueOf(one), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() && v.Type().Field(i).Name != "Bundle" { // it excludes a directory: see TestBundle
			t.Errorf("%s has no value: give it one here", v.Type().Field(i).Name)
		}
	}
	first := *activeApp(t)
	if err := g.load(`
		definitions {dir}/others {
			strict
		}
		store sqlite {dir}/data/other.db {
			retention 4h
			max_size 6MiB
		}
		sink file {dir}/out.jsonl
		sink copy file {dir}/copy.jsonl
		trace_key {env.CADENZA_OTHER_TRACE_KEY}
		api_key other {env.CADENZA_TEST_KEY}
		keys {dir}/keys2.json
		log none
		redact card
		price small 3 11
		max_body_size 14KiB
		body_timeout 15s
		max_answer_size 16KiB
		max_metadata_size 17KiB
		max_flag_streams 18
		max_large_requests 65MiB
		max_limit_memory 33MiB
		cors *
		in_flight {
			process 98
			workspace 18
			key 19
			host 20
		}
		limit all {
			by workspace
			requests 6/1h
		}
		provider other canned
`); err != nil {
		t.Fatal(err)
	}
	second := *activeApp(t)
	two := caddymodule.ConfigOf(&second, "default")
	for name, test := range map[string]struct {
		member func(c *gw.WorkspaceConfig) any
		want   [2]any
	}{
		"Name":            {func(c *gw.WorkspaceConfig) any { return c.Name }, [2]any{"default", "default"}},
		"Source":          {func(c *gw.WorkspaceConfig) any { return c.Source.Dir() }, [2]any{filepath.Join(g.dir, "definitions"), filepath.Join(g.dir, "others")}},
		"Store":           {func(c *gw.WorkspaceConfig) any { return c.Store.Path }, [2]any{filepath.Join(g.dir, "data/cadenza.db"), filepath.Join(g.dir, "data/other.db")}},
		"Limits":          {func(c *gw.WorkspaceConfig) any { return c.Limits }, [2]any{gw.StoreLimits{Retention: 2 * time.Hour, MaxSize: 3 << 20}, gw.StoreLimits{Retention: 4 * time.Hour, MaxSize: 6 << 20}}},
		"TraceKey":        {func(c *gw.WorkspaceConfig) any { return string(c.TraceKey) }, [2]any{"{env.CADENZA_TRACE_KEY}", "{env.CADENZA_OTHER_TRACE_KEY}"}},
		"APIKeys":         {func(c *gw.WorkspaceConfig) any { return c.APIKeys }, [2]any{[]gw.APIKey{{Name: "test", Key: "{env.CADENZA_TEST_KEY}"}}, []gw.APIKey{{Name: "other", Key: "{env.CADENZA_TEST_KEY}"}}}},
		"KeysFile":        {func(c *gw.WorkspaceConfig) any { return c.KeysFile }, [2]any{filepath.Join(g.dir, "keys.json"), filepath.Join(g.dir, "keys2.json")}},
		"NoShippedPrices": {func(c *gw.WorkspaceConfig) any { return c.NoShippedPrices }, [2]any{true, false}},
		"Legacy":          {func(c *gw.WorkspaceConfig) any { return c.Legacy }, [2]any{true, false}},
		"Log":             {func(c *gw.WorkspaceConfig) any { return c.Log }, [2]any{definition.LogContent, definition.LogNone}},
		"Redact":          {func(c *gw.WorkspaceConfig) any { return c.Redact }, [2]any{redact.Email | redact.Card, redact.Card}},
		"MaxBodySize":     {func(c *gw.WorkspaceConfig) any { return c.MaxBodySize }, [2]any{int64(4 << 10), int64(14 << 10)}},
		"BodyTimeout":     {func(c *gw.WorkspaceConfig) any { return c.BodyTimeout }, [2]any{5 * time.Second, 15 * time.Second}},
		"MaxAnswerSize":   {func(c *gw.WorkspaceConfig) any { return c.MaxAnswerSize }, [2]any{int64(6 << 10), int64(16 << 10)}},
		"MaxFlagStreams":  {func(c *gw.WorkspaceConfig) any { return c.MaxFlagStreams }, [2]any{8, 18}},
		"MaxMetadataSize": {func(c *gw.WorkspaceConfig) any { return c.MaxMetadataSize }, [2]any{int64(7 << 10), int64(17 << 10)}},
		"InFlight": {func(c *gw.WorkspaceConfig) any { return c.InFlight }, [2]any{
			inflight.Limits{Process: 99, Workspace: 8, Key: 9, Host: 10, Adaptive: true}, inflight.Limits{Process: 98, Workspace: 18, Key: 19, Host: 20},
		}},
		"Prices": {func(c *gw.WorkspaceConfig) any { return c.Prices }, [2]any{
			map[string]*price.Price{"small": {Prompt: 2, Completion: 10}, "large": {Prompt: 3, Completion: 4, MaxOutput: 5}},
			map[string]*price.Price{"small": {Prompt: 3, Completion: 11}},
		}},
		"Providers": {func(c *gw.WorkspaceConfig) any { return slices.Collect(maps.Keys(c.Providers)) }, [2]any{[]string{"canned"}, []string{"other"}}},
		"Sinks": {func(c *gw.WorkspaceConfig) any {
			var names []string
			for _, sink := range c.Sinks {
				names = append(names, sink.Name)
			}
			return names
		}, [2]any{[]string{"file"}, []string{"copy", "file"}}},
		"CallLimits": {func(c *gw.WorkspaceConfig) any { return c.CallLimits }, [2]any{
			[]*limit.Limit{
				{Name: "fair", By: limit.ByMetadata, Member: "customer", Routes: []string{"endpoints", "chat", "prompts"}, Ceilings: []limit.Ceiling{
					{Measure: limit.Requests, Most: 100, Window: limit.Window{Length: time.Minute}},
					{Measure: limit.Requests, Most: 1000, Window: limit.Window{Length: 24 * time.Hour}},
					{Measure: limit.Tokens, Most: 200000, Window: limit.Window{Length: 90 * time.Second}},
					{Measure: limit.Money, Most: limit.Dollar / 2, Window: limit.Window{Length: time.Hour}},
					{Measure: limit.Money, Most: 20 * limit.Dollar},
					{Measure: limit.InFlight, Most: 20},
				}},
				{Name: "all", By: limit.ByWorkspace, Ceilings: []limit.Ceiling{{Measure: limit.Requests, Most: 5, Window: limit.Window{Length: time.Second}}}},
			},
			[]*limit.Limit{{Name: "all", By: limit.ByWorkspace, Ceilings: []limit.Ceiling{{Measure: limit.Requests, Most: 6, Window: limit.Window{Length: time.Hour}}}}},
		}},
	} {
		for i, c := range [...]*gw.WorkspaceConfig{&one, &two} {
			if got := test.member(c); !reflect.DeepEqual(got, test.want[i]) {
				t.Errorf("%s of configuration %d: %v, want %v", name, i+1, got, test.want[i])
			}
		}
	}
	// An equal value in both could be of another option, or a constant. Running objects
	// are excluded: the table above checks them.
	mustDiffer(t, reflect.ValueOf(one), reflect.ValueOf(two), "Name", "Strict", "Memory", "Source", "Bundle", "Store", "Providers", "Sinks")
	mustDiffer(t, reflect.ValueOf(one.InFlight), reflect.ValueOf(two.InFlight))
	mustDiffer(t, reflect.ValueOf(first), reflect.ValueOf(second), "Workspaces")
	w, other := first.Workspaces["default"], second.Workspaces["default"]
	mustDiffer(t, reflect.ValueOf(*w), reflect.ValueOf(*other), "DefinitionsBundle", "SinksRaw", "ProvidersRaw") // Caddy empties these two
	mustDiffer(t, reflect.ValueOf(*w.Store), reflect.ValueOf(*other.Store), "Module")
	mustDiffer(t, reflect.ValueOf(*w.InFlight), reflect.ValueOf(*other.InFlight))
	mustDiffer(t, reflect.ValueOf(*w.CallLimits[0]), reflect.ValueOf(*other.CallLimits[0]))
}

// activeApp returns the app of the active configuration.
func activeApp(t *testing.T) *caddymodule.App {
	t.Helper()
	app, err := caddy.ActiveContext().AppIfConfigured("cadenza")
	if err != nil {
		t.Fatal(err)
	}
	return app.(*caddymodule.App)
}

// mustDiffer reports the equal exported fields of two structs, except some.
func mustDiffer(t *testing.T, a, b reflect.Value, except ...string) {
	t.Helper()
	for i := range a.NumField() {
		field := a.Type().Field(i)
		if field.IsExported() && !slices.Contains(except, field.Name) && reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			t.Errorf("%s.%s is the same in both configurations: give it two values", a.Type(), field.Name)
		}
	}
}

// TestMaxLargeRequests checks that the option bounds the memory of large requests. While
// one is being read, another one is refused; by default it is not.
func TestMaxLargeRequests(t *testing.T) {
	files := map[string]string{"definitions/context.yaml": "fields: {}\n", "definitions/remoteconfigs/a.yaml": "type: number\ndefault: 1\n"}
	large := `{"keys":["a"],"variables":{"x":"` + strings.Repeat("x", 200_000) + `"}}`
	for option, want := range map[string]int{"max_large_requests 400KiB": http.StatusServiceUnavailable, "": http.StatusOK} {
		g := startGateway(t, files, "definitions {dir}/definitions\nstore sqlite {dir}/data/cadenza.db\napi_key test {env.CADENZA_TEST_KEY}\n"+option)
		last := 0
		// Either of two requests may be first: if the gateway refused the waiting one, another
		// one replaces it.
		for try := 0; try < 40 && last != http.StatusServiceUnavailable; try++ {
			first, err := net.Dial("unix", g.socket)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(first, "POST /v1/remoteconfigs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", testKey, len(large), large[:len(large)-1])
			for probe := 0; probe < 5 && last != http.StatusServiceUnavailable; probe++ { // until the gateway reads the first one
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

// TestMaxLimitMemory checks that the option bounds the memory of separate counters. After
// that, new customers share one counter.
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
