package invoke

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Bounds are what a definition says of how much an attempt at its target may use at
// most. Parameters of the provider's own, in extra, win over those that all have.
type Bounds struct {
	// Beside are the tokens of all that the model reads beside the messages, as
	// MostTokens has them; 0: nothing, or not known.
	Beside int64
	// Answer is the most tokens of an answer by extra, and HasAnswer whether it says
	// any. It is 0, too, for 0 and below, which some servers take for no bound.
	Answer    int64
	HasAnswer bool
	// Answers is how many answers extra asks for at once, each of which is paid for; 0:
	// it does not say.
	Answers int64
	// Tier is the class of service that extra asks for, by its provider's word; empty:
	// none.
	Tier string
}

// MaxBound bounds each number of Bounds, so that no sum of a call's overflows.
const MaxBound = math.MaxInt64 >> 10

// BoundsOf reads the bounds of a target.
func BoundsOf(t *Target) Bounds {
	b := Bounds{Beside: t.Beside(MostTokens), Tier: tierOf(t.Extra)}
	b.Answer, b.HasAnswer = largest(t.Extra, answerBounds)
	b.Answers, _ = largest(t.Extra, answerNumbers)
	return b
}

// Beside counts, by MostTokens or TightTokens, all that the model reads beside the
// messages. Parameters of the provider's own may have parts of the prompt, such as tools
// that it runs.
func (t *Target) Beside(tokens func([]providers.Message, []providers.Tool, ...json.RawMessage) int64) int64 {
	beside := slices.AppendSeq(t.Parameters.Beside(), maps.Values(t.Extra))
	if tools := t.Parameters.Tools; len(tools)+len(beside) > 0 {
		return tokens(nil, tools, beside...)
	}
	return 0
}

// Where the APIs have the most tokens of an answer, and how many answers they give at
// once.
var (
	answerBounds  = [][]string{{"max_tokens"}, {"max_completion_tokens"}, {"max_output_tokens"}, {"generationConfig", "maxOutputTokens"}, {"inferenceConfig", "maxTokens"}}
	answerNumbers = [][]string{{"n"}, {"best_of"}, {"generationConfig", "candidateCount"}}
)

// largest returns the largest number that a target's extra has at one of the paths, at
// most MaxBound. It is false where there is none.
func largest(extra map[string]json.RawMessage, paths [][]string) (n int64, found bool) {
	for _, path := range paths {
		if v := extraOf(extra, path); v != nil && v.Type() == fastjson.TypeNumber {
			n, found = max(n, int64(min(math.Ceil(v.GetFloat64()), MaxBound))), true
		}
	}
	return n, found
}

// extraOf returns what a target's extra has at a path; nil: nothing.
func extraOf(extra map[string]json.RawMessage, path []string) *fastjson.Value {
	text := extra[path[0]]
	if text == nil {
		return nil
	}
	v, err := fastjson.ParseBytes(text)
	if err != nil {
		return nil
	}
	return v.Get(path[1:]...)
}

func tierOf(extra map[string]json.RawMessage) string {
	for _, path := range [...][]string{{"service_tier"}, {"serviceTier"}, {"serviceTier", "type"}} {
		if word := extraOf(extra, path).GetStringBytes(); word != nil {
			return strings.ToLower(string(word))
		}
	}
	return ""
}
