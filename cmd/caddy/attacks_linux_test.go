package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// An attack is an action of one caller, one upstream or one author of definitions
// against the process that all share.
type attack struct {
	name string
	run  func(*testing.T, *siege)
	// Requirements of the attack. If one of them is set, the attack gets its own gateway.
	definitions func() map[string]string // instead of the usual ones
	store       string
	descriptors int
	restarts    bool // it restarts the gateway, so that it can have no witness
}

var attacks = []attack{
	{name: "prompts that make a large answer", run: largeAnswers},
	{name: "metadata and context for a hundred keys", run: largeRecords},
	{name: "replies that fill the store", run: manyReplies, definitions: keeping, store: "max_size 2MiB", restarts: true},
	{name: "calls that hang", run: hangingCalls, descriptors: 4096},
	{name: "an upstream that switches protocols", run: switchedProtocols},
	{name: "upstreams without an end", run: endlessUpstreams},
	{name: "an upstream with a name of megabytes", run: largeModel},
	{name: "definitions that explode", run: explodingDefinitions},
	{name: "a pipe for a definition", run: pipedDefinition},
	{name: "ten thousand stray files", run: strayFiles},
	{name: "texts that patterns are slow on", run: slowPatterns},
	{name: "bodies that are announced and not sent", run: announcedBodies},
}

// alone reports whether an attack needs its own gateway.
func (a attack) alone() bool {
	return a.restarts || a.store != "" || a.descriptors > 0
}

// TestAttacks attacks a gateway that is built like a user's. During each attack other
// callers must be answered as usual, the memory must stay below a ceiling, and the
// attacker must get an error. Attacks that need no options run one after the other on
// one gateway, which is replaced if it fails in an attack.
func TestAttacks(t *testing.T) {
	if raceEnabled {
		t.Skip("what is attacked is built without the race detector: once is enough")
	}
	var shared *siege
	for _, a := range attacks {
		s := shared
		switch {
		case a.alone():
			s = besiege(t, a)
		case s == nil:
			s = besiege(t, attack{})
			shared = s
		}
		if !a.on(t, s) && s == shared {
			shared.kill()
			shared = nil // the next attack must not depend on this one
		}
	}
}

// TestSlowAttacks makes the attacks that mostly wait, as TestAttacks does the others.
func TestSlowAttacks(t *testing.T) {
	t.Parallel()
	if raceEnabled {
		t.Skip("what is attacked is built without the race detector: once is enough")
	}
	var wait sync.WaitGroup
	defer wait.Wait()
	for _, a := range []attack{
		{name: "readers that stall", run: stalledReaders},
		{name: "bodies that drip", run: drippingBodies},
	} {
		s := besiege(t, a)
		wait.Go(func() { a.on(t, s) })
	}
}

// on makes the attack on a gateway, and reports whether the gateway stands it.
func (a attack) on(t *testing.T, s *siege) bool {
	return t.Run(a.name, func(t *testing.T) {
		s.resetPeak()
		if a.restarts {
			a.run(t, s)
		} else {
			w := s.watch(t)
			defer w.stop()
			a.run(t, s)
			w.served(t)
		}
		s.holds(t)
	})
}

const hundred = 100

// keysOf returns a list of keys in JSON: prefix00, prefix01 and so on.
func keysOf(prefix string, n int) string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s%02d", prefix, i)
	}
	text, _ := json.Marshal(keys)
	return string(text)
}

// besieged returns the definitions of the attacked workspace.
func besieged() map[string]string {
	files := map[string]string{
		"context.yaml":            "fields: { s: { type: string } }\n",
		"prompts/calm.yaml":       "provider: canned\nmodel: m\nvariables: { text: { default: x } }\nmessages: [ { role: user, content: 'Say {{text}}.' } ]\n",
		"remoteconfigs/calm.yaml": "type: string\ndefault: a\ncolumns: [ s, value ]\nmatrix:\n  - [ x, b ]\n",
		"remoteconfigs/slow.yaml": "type: string\ndefault: a\nrules:\n" +
			"  - { when: { s: { matches: '(a|b|ab)*c{1,500}$' } }, value: b }\n" +
			"  - { when: { s: { matches: '[A-Za-z0-9._%+-]{1,64}@(acme|example)\\.com$' } }, value: c }\n",
	}
	for i := range hundred {
		once := "provider: canned\nmodel: m\nvariables: { text: { default: x } }\nmessages: [ { role: user, content: '%s' } ]\n"
		files[fmt.Sprintf("prompts/once%02d.yaml", i)] = fmt.Sprintf(once, "{{text}}")
		files[fmt.Sprintf("prompts/often%02d.yaml", i)] = fmt.Sprintf(once, strings.Repeat("{{text}}", 12))
		files[fmt.Sprintf("remoteconfigs/small%02d.yaml", i)] = "type: string\ndefault: a\n"
	}
	for i := range 20 {
		files[fmt.Sprintf("remoteconfigs/large%02d.yaml", i)] = "type: string\ndefault: " + strings.Repeat("v", 512<<10) + "\n"
	}
	endpoint := func(name, model, more string) {
		files["prompts/p_"+name+".yaml"] = "provider: hostile\nmodel: " + model + "\nmessages: [ { role: user, content: hello } ]\n"
		files["endpoints/"+name+".yaml"] = "prompt: p_" + name + "\nmax_attempts: 2\ntimeout: { total: 8s, first_token: 4s, idle: 4s }\n" + more
	}
	for _, model := range []string{"switching", "endless_header", "endless_error", "endless_line", "endless_event", "endless_events", "endless_body", "drip", "large_model", "fine"} {
		endpoint(model, model, "retry: { count: 0 }\n")
	}
	endpoint("switching_fallback", "switching", "fallback: [ { provider: canned, extra: { answer: Later. } } ]\n")
	endpoint("hang", "hang", "")
	files["endpoints/hang.yaml"] = "prompt: p_hang\nmax_attempts: 1\ntimeout: { total: 120s, first_token: 120s }\n"
	return files
}

// largeAnswers asks for a hundred prompts that all repeat one text: an answer of
// 1.2 GB in the worst case.
func largeAnswers(t *testing.T, s *siege) {
	control := `\u0001`
	tests := []struct {
		name, path, body string
		param            string // in the refusal; empty: the answer fits
	}{
		{"a text a hundred times", "/v1/prompts", `{"keys":` + keysOf("once", hundred) + `,"variables":{"text":"` + strings.Repeat("a", 1<<20-4000) + `"}}`, "keys"},
		{"a text 1,200 times", "/v1/prompts", `{"keys":` + keysOf("often", hundred) + `,"variables":{"text":"` + strings.Repeat("a", 170_000) + `"}}`, "keys"},
		{"a text 1,200 times, of what JSON writes with six bytes", "/v1/prompts", `{"keys":` + keysOf("often", hundred) + `,"variables":{"text":"` + strings.Repeat(control, 170_000) + `"}}`, "keys or variables"},
		{"one prompt too large as it is sent", "/v1/prompts", `{"keys":["often00"],"variables":{"text":"` + strings.Repeat(control, 170_000) + `"}}`, "keys or variables"},
		{"large values", "/v1/remoteconfigs", `{"keys":` + keysOf("large", 20) + `}`, "keys"},
		{"prompts below the ceiling", "/v1/prompts", `{"keys":` + keysOf("once", 7) + `,"variables":{"text":"` + strings.Repeat("a", 1<<20-4000) + `"}}`, ""},
		{"one prompt below the ceiling", "/v1/prompts", `{"keys":["often00"],"variables":{"text":"` + strings.Repeat(control, 25_000) + `"}}`, ""},
		{"values below the ceiling", "/v1/remoteconfigs", `{"keys":` + keysOf("large", 15) + `}`, ""},
	}
	for _, test := range tests {
		r := s.ask(t, attackerKey, test.path, test.body)
		switch {
		case test.param == "" && r.status != http.StatusOK:
			t.Errorf("%s: %s", test.name, r)
		case test.param != "" && (r.status != http.StatusBadRequest || r.code != "invalid_request" || r.param == "" || !strings.Contains(test.param, r.param)):
			t.Errorf("%s: want 400 invalid_request of %s, have %s", test.name, test.param, r)
		}
	}
	if t.Failed() {
		return // many of them would overload the machine
	}
	// The sum of large answers has a ceiling, too.
	var wait sync.WaitGroup
	for range 4 {
		for _, test := range tests {
			wait.Go(func() {
				r, err := s.send(t.Context(), attackerKey, test.path, strings.NewReader(test.body))
				if err != nil || r.status != http.StatusOK && r.code != "overloaded" && r.code != "invalid_request" {
					t.Errorf("%s, one of many: %v %s", test.name, err, r)
				}
			})
		}
	}
	wait.Wait()
}
