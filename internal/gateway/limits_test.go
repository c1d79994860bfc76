package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestSubject is about whose use a request counts for.
func TestSubject(t *testing.T) {
	c := &call{key: &principal{name: "app"}, metadata: fastjson.MustParse(`{"customer": "acme", "n": 7, "s": "7", "none": null, "list": ["a", 1], "yes": true}`)}
	for _, test := range []struct {
		limit limit.Limit
		want  string
	}{
		{limit.Limit{}, "app"},
		{limit.Limit{By: limit.ByEndpoint}, "talk"},
		{limit.Limit{By: limit.ByWorkspace}, ""},
		{limit.Limit{By: limit.ByMetadata, Member: "customer"}, "acme"},
		{limit.Limit{By: limit.ByMetadata, Member: "n"}, "7"},
		{limit.Limit{By: limit.ByMetadata, Member: "s"}, "7"},
		{limit.Limit{By: limit.ByMetadata, Member: "yes"}, "true"},
		{limit.Limit{By: limit.ByMetadata, Member: "list"}, `["a",1]`},
		{limit.Limit{By: limit.ByMetadata, Member: "none"}, ""},
		{limit.Limit{By: limit.ByMetadata, Member: "absent"}, ""},
	} {
		if got := c.subject(&test.limit, "talk"); got != test.want {
			t.Errorf("%+v: %q, want %q", test.limit, got, test.want)
		}
	}
	c.metadata = nil
	if got := c.subject(&limit.Limit{By: limit.ByMetadata, Member: "customer"}, ""); got != "" {
		t.Errorf("without metadata: %q", got)
	}
}

// TestMostAnswer is about the tokens that are set aside for an answer.
func TestMostAnswer(t *testing.T) {
	for _, test := range []struct {
		extra string
		most  int64 // the definition's max_tokens; 0: none
		price *price.Price
		want  int64
		known bool
	}{
		{`{}`, 0, nil, 4096, false},
		{`{}`, 0, &price.Price{}, 4096, false},
		{`{}`, 0, &price.Price{MaxOutput: 99}, 99, true},
		{`{}`, 7, &price.Price{MaxOutput: 99}, 7, true},
		{`{"max_tokens":5}`, 7, nil, 5, true},
		{`{"max_completion_tokens":50}`, 7, nil, 50, true},
		{`{"max_output_tokens":50,"max_tokens":5}`, 7, nil, 50, true},
		{`{"max_tokens":5e3}`, 7, nil, 5000, true},
		{`{"max_tokens":-1}`, 7, nil, 4096, false}, // llama.cpp takes it for no bound
		{`{"max_tokens":-1}`, 7, &price.Price{MaxOutput: 99}, 99, true},
		{`{"max_tokens":-1,"max_completion_tokens":50}`, 7, nil, 50, true},
		{`{"max_tokens":null}`, 7, nil, 7, true},
		{`{"max_tokens":9223372036854775807}`, 7, nil, invoke.MaxBound, true},
		{`{}`, 1<<63 - 1, nil, invoke.MaxBound, true},
		{`{"generationConfig":{"maxOutputTokens":50}}`, 7, nil, 50, true},
		{`{"inferenceConfig":{"maxTokens":50}}`, 0, nil, 50, true},
		{`{"generationConfig":[]}`, 7, nil, 7, true},
		{`{"n":3}`, 7, nil, 21, true},
		{`{"n":0}`, 7, nil, 7, true},
		{`{"generationConfig":{"candidateCount":2}}`, 0, nil, 8192, false},
		{`{"n":9e18}`, 7, nil, 7 * (invoke.MaxBound / 7), true},
	} {
		target := &invoke.Target{}
		if err := json.Unmarshal([]byte(test.extra), &target.Extra); err != nil {
			t.Fatal(err)
		}
		if test.most > 0 {
			target.Parameters.MaxTokens = &test.most
		}
		target.Bounds = invoke.BoundsOf(target)
		got, known := mostAnswer(target, test.price)
		if strings.Contains(test.extra, "9e18") && got <= invoke.MaxBound && got > invoke.MaxBound/2 {
			got = test.want
		}
		if got != test.want || known != test.known {
			t.Errorf("%s, max_tokens %d, %+v: %d %t, want %d %t", test.extra, test.most, test.price, got, known, test.want, test.known)
		}
	}
}

// TestMostOf is about what is set aside for an attempt.
func TestMostOf(t *testing.T) {
	factor := 2.0
	w := &Workspace{prices: price.NewTable(map[string]*price.Price{
		"m":      {Completion: 10, Priority: &price.Class{Change: price.Change{Factor: &factor}}},
		"absurd": {Completion: 1e9},
	})}
	most := int64(100)
	for _, test := range []struct{ model, extra, want string }{
		{"m", `{}`, "{0 110 1000000}"},
		{"m", `{"service_tier":"priority"}`, "{0 110 2000000}"},
		{"m", `{"service_tier":"flex"}`, "{0 110 1000000}"},
		{"m", `{"serviceTier":"PRIORITY"}`, "{0 110 2000000}"},
		{"m", `{"serviceTier":{"type":"priority"}}`, "{0 110 2000000}"},
		{"m", `{"service_tier":7}`, "{0 110 1000000}"},
		{"none", `{}`, "{0 110 0}"},
		{"absurd", `{"max_tokens":9223372036854775807}`, fmt.Sprintf("{0 %d %d}", invoke.MaxBound+10, invoke.MaxBound)},
	} {
		target := &invoke.Target{Model: test.model, Parameters: providers.Parameters{MaxTokens: &most}}
		if err := json.Unmarshal([]byte(test.extra), &target.Extra); err != nil {
			t.Fatal(err)
		}
		target.Bounds = invoke.BoundsOf(target)
		if got := fmt.Sprint(w.mostOf(target, 10)); got != test.want {
			t.Errorf("%s %s: %s, want %s", test.model, test.extra, got, test.want)
		}
	}
}

// TestWhatAPromptIsMeasuredBy adds what a target has beside messages.
func TestWhatAPromptIsMeasuredBy(t *testing.T) {
	w := &Workspace{prices: price.NewTable(nil)}
	text := `"` + strings.Repeat("x1", 50) + `"`
	most := int64(1)
	targets := make([]invoke.Target, 4)
	for i := range targets {
		targets[i] = invoke.Target{Model: "m", Parameters: providers.Parameters{MaxTokens: &most}}
	}
	targets[1].Parameters.Tools = []providers.Tool{{Description: text}}
	targets[2].Parameters.ResponseFormat = &providers.ResponseFormat{Schema: json.RawMessage(text)}
	targets[3].Extra = map[string]json.RawMessage{"system": json.RawMessage(text)}
	for i := range targets {
		targets[i].Bounds = invoke.BoundsOf(&targets[i])
	}
	for _, tight := range []bool{false, true} {
		m := &meter{workspace: w}
		m.measure(targets, []providers.Message{{Content: "hi"}}, tight)
		for i := 1; i < 4; i++ {
			if more := m.most[i].Tokens - m.most[0].Tokens; more < 100 {
				t.Errorf("tight %t: target %d has %d more tokens, not 100", tight, i, more)
			}
		}
	}
}

// TestWhatACallerAddsIsMeasured merges what a caller brings into a target whose bounds
// were read when its definition was loaded.
func TestWhatACallerAddsIsMeasured(t *testing.T) {
	m := &meter{workspace: &Workspace{prices: price.NewTable(nil)}}
	long := json.RawMessage(`"` + strings.Repeat("x1", 50) + `"`)
	own := []invoke.Target{{Parameters: providers.Parameters{
		Tools: []providers.Tool{{Name: "own"}}, ResponseFormat: &providers.ResponseFormat{Schema: json.RawMessage(`{}`)},
	}}}
	own[0].Bounds = invoke.BoundsOf(&own[0])
	few := int64(7)
	for _, test := range []struct {
		name        string
		set         providers.Parameters
		least, most int64 // how many tokens more
	}{
		{"tools", providers.Parameters{Tools: []providers.Tool{{Name: "other", Parameters: long}}}, 100, 200},
		{"response_format", providers.Parameters{ResponseFormat: &providers.ResponseFormat{Schema: long}}, 100, 200},
		{"max_tokens", providers.Parameters{MaxTokens: &few}, few - defaultAnswer, few - defaultAnswer},
	} {
		targets, err := merged(own, &dialect.Call{Parameters: test.set, Given: []dialect.Given{{Name: test.name, Param: test.name}}})
		if err != nil {
			t.Fatal(err)
		}
		m.measure(own, nil, false)
		before := m.most[0].Tokens
		m.measure(targets, nil, false)
		if more := m.most[0].Tokens - before; more < test.least || more > test.most {
			t.Errorf("%s: %d tokens more, not %d to %d", test.name, more, test.least, test.most)
		}
	}
}

// TestMeasuringReadsNoDefinition holds that extra is read when a definition is loaded, and
// not for each call.
func TestMeasuringReadsNoDefinition(t *testing.T) {
	m := &meter{workspace: &Workspace{prices: price.NewTable(nil)}}
	target := invoke.Target{Extra: map[string]json.RawMessage{
		"generationConfig": json.RawMessage(`{"maxOutputTokens":500,"candidateCount":2}`), "service_tier": json.RawMessage(`"flex"`),
	}}
	target.Bounds = invoke.BoundsOf(&target)
	targets := []invoke.Target{target}
	messages := []providers.Message{{Content: "hi"}}
	measure := func() { m.measure(targets, messages, false) }
	measure()
	if n := testing.AllocsPerRun(100, measure); n != 0 {
		t.Errorf("%.0f allocations", n)
	}
}

// TestACostBeyondAllIsCounted is about a provider that says an absurd cost.
func TestACostBeyondAllIsCounted(t *testing.T) {
	m := &meter{}
	attempt := invoke.Attempt{Attempt: trace.Attempt{Cost: 1e15}}
	(&call{meter: m}).spend(&invoke.Result{Attempts: []invoke.Attempt{attempt, attempt, attempt}})
	if m.used.Money != 3*invoke.MaxBound {
		t.Errorf("%d nanodollars are used", m.used.Money)
	}
}

// TestCeilingText is about ceilings in messages, which are those of the configuration.
func TestCeilingText(t *testing.T) {
	for _, test := range []struct {
		ceiling limit.Ceiling
		want    string
	}{
		{limit.Ceiling{Most: 100, Window: limit.Window{Length: time.Minute}}, "100/1m"},
		{limit.Ceiling{Measure: limit.Tokens, Most: 5, Window: limit.Window{Length: 90 * time.Second}}, "5/90s"},
		{limit.Ceiling{Measure: limit.Tokens, Most: 5, Window: limit.Window{Length: 36 * time.Hour}}, "5/36h"},
		{limit.Ceiling{Measure: limit.Money, Most: 5 * limit.Dollar, Window: limit.Window{Length: 48 * time.Hour}}, "5usd/2d"},
		{limit.Ceiling{Measure: limit.Money, Most: limit.Dollar/4 + 10*limit.Dollar}, "10.25usd/1mo"},
		{limit.Ceiling{Measure: limit.Money, Most: 1}, "0.000000001usd/1mo"},
		{limit.Ceiling{Measure: limit.InFlight, Most: 20}, "20"},
	} {
		if got := CeilingText(test.ceiling); got != test.want {
			t.Errorf("%+v: %s, want %s", test.ceiling, got, test.want)
		}
	}
}
