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

// Bounds are a definition's limits on what an attempt at its target may use. The
// provider's own parameters, in extra, win over the common ones.
type Bounds struct {
	// Beside is the number of tokens, by MostTokens, that the model reads in
	// addition to the messages; 0 if there are none or the number is unknown.
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

// Beside counts, by MostTokens or TightTokens, the tokens that the model reads in
// addition to the messages. The provider's own parameters may hold parts of the prompt,
// such as tools that the provider runs.
func (t *Target) Beside(tokens func([]providers.Message, []providers.Tool, ...json.RawMessage) int64) int64 {
	beside := slices.AppendSeq(t.Parameters.Beside(), maps.Values(t.Extra))
	if tools := t.Parameters.Tools; len(tools)+len(beside) > 0 {
		return tokens(nil, tools, beside...)
	}
	return 0
}

// The paths at which the APIs take the limit of an answer's tokens, and the number of
// answers to one request.
var (
	answerBounds  = [][]string{{"max_tokens"}, {"max_completion_tokens"}, {"max_output_tokens"}, {"generationConfig", "maxOutputTokens"}, {"inferenceConfig", "maxTokens"}}
	answerNumbers = [][]string{{"n"}, {"best_of"}, {"generationConfig", "candidateCount"}}
)

// largest returns the largest number in a target's extra at one of the paths, at most
// MaxBound, and reports whether it found one.
func largest(extra map[string]json.RawMessage, paths [][]string) (n int64, found bool) {
	for _, path := range paths {
		if v := extraOf(extra, path); v != nil && v.Type() == fastjson.TypeNumber {
			n, found = max(n, int64(min(math.Ceil(v.GetFloat64()), MaxBound))), true
		}
	}
	return n, found
}

// extraOf returns the value in a target's extra at a path, or nil.
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
