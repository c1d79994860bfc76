package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestSubject checks the subject of a request.
func TestSubject(t *testing.T) {
	in := incoming{key: &principal{name: "app"}, metadata: fastjson.MustParse(`{"customer": "acme", "n": 7, "s": "7", "none": null, "list": ["a", 1], "yes": true}`)}
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
		if got := in.subject(&test.limit, "talk"); got != test.want {
			t.Errorf("%+v: %q, want %q", test.limit, got, test.want)
		}
	}
	in.metadata = nil
	if got := in.subject(&limit.Limit{By: limit.ByMetadata, Member: "customer"}, ""); got != "" {
		t.Errorf("without metadata: %q", got)
	}
}

// TestMostAnswer checks the tokens set aside for an answer.
func TestMostAnswer(t *testing.T) {
	for _, test := range []struct {
		extra     string
		maxTokens int64 // the definition's max_tokens; 0: none
		price     *price.Price
		want      int64
		known     bool
	}{
		{`{}`, 0, nil, 4096, false},
		{`{}`, 0, &price.Price{}, 4096, false},
		{`{}`, 0, &price.Price{MaxOutput: 99}, 99, true},
		{`{}`, 7, &price.Price{MaxOutput: 99}, 7, true},
		{`{"max_tokens":5}`, 7, nil, 5, true},
		{`{"max_completion_tokens":50}`, 7, nil, 50, true},
		{`{"max_output_tokens":50,"max_tokens":5}`, 7, nil, 50, true},
		{`{"max_tokens":5e3}`, 7, nil, 5000, true},
		{`{"max_tokens":-1}`, 7, nil, 4096, false}, // llama.cpp treats it as unbounded
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
		if test.maxTokens > 0 {
			target.Parameters.MaxTokens = &test.maxTokens
		}
		target.Bounds = invoke.BoundsOf(target)
		got, known := mostAnswer(target, test.price)
		if strings.Contains(test.extra, "9e18") && got <= invoke.MaxBound && got > invoke.MaxBound/2 {
			got = test.want
		}
		if got != test.want || known != test.known {
			t.Errorf("%s, max_tokens %d, %+v: %d %t, want %d %t", test.extra, test.maxTokens, test.price, got, known, test.want, test.known)
		}
	}
}

// TestMostOf checks the amounts set aside for an attempt.
func TestMostOf(t *testing.T) {
	factor := 2.0
	w := &Workspace{prices: price.NewTable(map[string]*price.Price{
		"m":      {Completion: 10, Priority: &price.Class{Change: price.Change{Factor: &factor}}},
		"absurd": {Completion: 1e9},
	})}
	maxTokens := int64(100)
	for _, test := range []struct{ model, extra, want string }{
		{"m", `{}`, "[0 110 1000000]"},
		{"m", `{"service_tier":"priority"}`, "[0 110 2000000]"},
		{"m", `{"service_tier":"flex"}`, "[0 110 1000000]"},
		{"m", `{"serviceTier":"PRIORITY"}`, "[0 110 2000000]"},
		{"m", `{"serviceTier":{"type":"priority"}}`, "[0 110 2000000]"},
		{"m", `{"service_tier":7}`, "[0 110 1000000]"},
		{"none", `{}`, "[0 110 0]"},
		{"absurd", `{"max_tokens":9223372036854775807}`, fmt.Sprintf("[0 %d %d]", invoke.MaxBound+10, invoke.MaxBound)},
	} {
		target := &invoke.Target{Model: test.model, Parameters: providers.Parameters{MaxTokens: &maxTokens}}
		if err := json.Unmarshal([]byte(test.extra), &target.Extra); err != nil {
			t.Fatal(err)
		}
		target.Bounds = invoke.BoundsOf(target)
		if got := fmt.Sprint(w.mostOf(target, 10)); got != test.want {
			t.Errorf("%s %s: %s, want %s", test.model, test.extra, got, test.want)
		}
	}
}

// TestWhatAPromptIsMeasuredBy adds the members of a target other than messages.
func TestWhatAPromptIsMeasuredBy(t *testing.T) {
	w := &Workspace{prices: price.NewTable(nil)}
	text := `"` + strings.Repeat("x1", 50) + `"`
	maxTokens := int64(1)
	targets := make([]invoke.Target, 4)
	for i := range targets {
		targets[i] = invoke.Target{Model: "m", Parameters: providers.Parameters{MaxTokens: &maxTokens}}
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
			if more := m.most[i][limit.Tokens] - m.most[0][limit.Tokens]; more < 100 {
				t.Errorf("tight %t: target %d has %d more tokens, not 100", tight, i, more)
			}
		}
	}
}

// TestWhatACallerAddsIsMeasured merges a caller's members into a target whose bounds were
// read when its definition was loaded.
func TestWhatACallerAddsIsMeasured(t *testing.T) {
	m := &meter{workspace: &Workspace{prices: price.NewTable(nil)}}
	long := json.RawMessage(`"` + strings.Repeat("x1", 50) + `"`)
	own := []invoke.Target{{Parameters: providers.Parameters{
		Tools: []providers.Tool{{Name: "own"}}, ResponseFormat: &providers.ResponseFormat{Schema: json.RawMessage(`{}`)},
	}}}
	own[0].Bounds = invoke.BoundsOf(&own[0])
	few := int64(7)
	for _, test := range []struct {
		name      string
		set       providers.Parameters
		low, high int64 // the bounds of the additional tokens
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
		before := m.most[0][limit.Tokens]
		m.measure(targets, nil, false)
		if more := m.most[0][limit.Tokens] - before; more < test.low || more > test.high {
			t.Errorf("%s: %d tokens more, not %d to %d", test.name, more, test.low, test.high)
		}
	}
}

// TestMeasuringReadsNoDefinition checks that extra is parsed when a definition is loaded,
// and not for each call.
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

// TestACostBeyondAllIsCounted has a provider that reports an absurd cost.
func TestACostBeyondAllIsCounted(t *testing.T) {
	m := &meter{}
	attempt := invoke.Attempt{Attempt: trace.Attempt{Cost: 1e15}}
	m.spend(&invoke.Result{Attempts: []invoke.Attempt{attempt, attempt, attempt}})
	if m.used[limit.Money] != 3*invoke.MaxBound {
		t.Errorf("%d nanodollars are used", m.used[limit.Money])
	}
}
