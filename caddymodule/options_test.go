package caddymodule_test

import (
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/caddymodule"
	"github.com/cadenza-gateway/cadenza/internal/definition"
	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/redact"
)

// TestOptionsReachTheGateway gives every option a value of its own and finds it
// in what the gateway's workspace is made from. The gateway's tests begin there.
func TestOptionsReachTheGateway(t *testing.T) {
	t.Setenv("CADENZA_TRACE_KEY", "1f0c9b62d8a74e35b1e2c3d4f5a69788")
	g := startGateway(t, map[string]string{
		"definitions/context.yaml": "fields: {}\n", "keys.json": keyList(keyOf("listed", otherKey, "")),
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
		max_body_size 4KiB
		body_timeout 5s
		max_answer_size 6KiB
		max_metadata_size 7KiB
		in_flight {
			process 99
			workspace 8
			key 9
			host 10
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
		"Prices":          {c.Prices, map[string]gw.Price{"small": {Prompt: 2, Completion: 10}}},
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
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: %v, want %v", name, pair[0], pair[1])
		}
	}
	if c.Providers["canned"] == nil || len(c.Sinks) != 1 || c.Sinks[0].Name != "file" {
		t.Errorf("providers %v, sinks %v", c.Providers, c.Sinks)
	}
}
