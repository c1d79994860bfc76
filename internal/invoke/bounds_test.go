package invoke

import (
	"encoding/json"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
)

// TestBoundsOf reads the bounds of a target from every place at which an API
// takes them.
func TestBoundsOf(t *testing.T) {
	for extra, want := range map[string]Bounds{
		`{}`:               {},
		`{"max_tokens":5}`: {Answer: 5, HasAnswer: true},
		`{"max_tokens":5,"max_completion_tokens":6}`:                    {Answer: 6, HasAnswer: true},
		`{"max_output_tokens":4.5}`:                                     {Answer: 5, HasAnswer: true},
		`{"max_tokens":-1}`:                                             {HasAnswer: true},
		`{"max_tokens":"5"}`:                                            {},
		`{"inferenceConfig":{"maxTokens":7}}`:                           {Answer: 7, HasAnswer: true},
		`{"generationConfig":{"maxOutputTokens":7,"candidateCount":3}}`: {Answer: 7, HasAnswer: true, Answers: 3},
		`{"n":2,"best_of":4}`:                                           {Answers: 4},
		`{"max_tokens":1e300}`:                                          {Answer: MaxBound, HasAnswer: true},
		`{"service_tier":"Flex"}`:                                       {Tier: "flex"},
		`{"serviceTier":{"type":"flex"}}`:                               {Tier: "flex"},
		`{"serviceTier":"PRIORITY","n":0}`:                              {Tier: "priority"},
	} {
		target := &Target{}
		if err := json.Unmarshal([]byte(extra), &target.Extra); err != nil {
			t.Fatal(err)
		}
		got := BoundsOf(target)
		if (got.Beside > 0) != (len(target.Extra) > 0) {
			t.Errorf("%s: %d tokens in addition to the messages", extra, got.Beside)
		}
		if got.Beside = 0; got != want {
			t.Errorf("%s: %+v, want %+v", extra, got, want)
		}
	}
	tools := &Target{Parameters: providers.Parameters{Tools: []providers.Tool{{Name: "look"}}}}
	if got, want := BoundsOf(tools).Beside, MostTokens(nil, tools.Parameters.Tools); got != want {
		t.Errorf("a tool has %d tokens, want %d", got, want)
	}
}
