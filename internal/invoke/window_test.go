package invoke

import (
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// overflow is the failure of an input that is too long, in a provider's words.
func overflow(text string) error {
	return &providers.Error{Provider: "fake", Kind: providers.Status, Status: 400, Type: "invalid_request_error", Code: "context_length_exceeded", Message: text}
}

// TestOverflows reads the words of providers as their documentation and users quote them.
func TestOverflows(t *testing.T) {
	for text, want := range map[string][2]int64{
		"prompt is too long: 210000 tokens > 200000 maximum":                                                                                               {210000, 200000},
		"The model returned the following errors: prompt is too long: 208310 tokens > 200000 maximum":                                                      {208310, 200000},
		"input length and `max_tokens` exceed context limit: 190000 + 20000 > 204698, decrease input length or `max_tokens` and try again":                 {210000, 204698},
		"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens. Please reduce the length of the messages.":    {9000, 8192},
		"This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8000 in the messages, 1000 in the completion).":           {9000, 8192},
		"This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens.":                                                 {5000, 4096},
		"This endpoint's maximum context length is 131072 tokens. However, you requested about 150000 tokens (140000 of text input, 10000 in the output).": {150000, 131072},
		"'max_tokens' is too large: 1000. This model's maximum context length is 4096 tokens and your request has 3500 input tokens (1000 > 4096 - 3500).": {3500, 4096},
		"This model's maximum context length is 8192 tokens.":                                                                                              {0, 8192},
		"The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).":                                                          {1200293, 1048576},
		"The input token count exceeds the maximum number of tokens allowed 1048576.":                                                                      {0, 1048576},
		"This model's maximum prompt length is 131072 but the request contains 150000 tokens.":                                                             {150000, 131072},
		"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length":                                           {40000, 32768},
		"request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it":                                                        {5000, 4096},
		"The input (9000 tokens) is longer than the model's context length (8192 tokens).":                                                                 {9000, 8192},
		"too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5003. Try using a shorter prompt":                             {5003, 4081},
		"Your input exceeds the context window of this model. Please adjust your input and try again.":                                                     {},
		"Input is too long for requested model.":                                                                                                           {},
		"prompt is too long: 99999999999999999999 tokens > 9 maximum":                                                                                      {},
	} {
		e := overflow(text)
		e.(*providers.Error).Code = ""
		tokens, window := overflowOf(e)
		if got := [2]int64{tokens, window}; got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
		if class := Classify(e); class != ContextLength {
			t.Errorf("%s: class %s", text, class)
		}
	}
}

// TestLongInputs: the caller can mend an input that is too long, and hears by how much of
// the largest window it exceeds. The same target is not asked again.
func TestLongInputs(t *testing.T) {
	const plain = "The input exceeds the context window of the endpoint's models. Please reduce the length of the messages."
	const numbered = "The input exceeds the context window of the endpoint's models: it has 9000 tokens, and the maximum context length is 8192 tokens. Please reduce the length of the messages."
	small, large := overflow("maximum context length is 4096 tokens, you requested 8800"), overflow("maximum context length is 8192 tokens, you requested 9000")
	for _, test := range []struct {
		name    string
		targets []Target
		code    wire.Code
		message string
		classes []string
	}{
		{"no numbers", []Target{target("a", scripted(fails(overflow(""))))}, wire.ContextLengthExceeded, plain, []string{"context_length"}},
		{"a number alone", []Target{target("a", scripted(fails(overflow("maximum context length is 8192 tokens"))))}, wire.ContextLengthExceeded, plain, []string{"context_length"}},
		{"an answer that is too long", []Target{target("a", scripted(fails(overflow("maximum context length is 8192 tokens and your request has 8000 input tokens"))))}, wire.ContextLengthExceeded, plain, []string{"context_length"}},
		{"two", []Target{target("a", scripted(fails(small))), target("b", scripted(fails(large)))}, wire.ContextLengthExceeded, numbered, []string{"context_length", "context_length"}},
		{"the other limits", []Target{target("a", scripted(fails(large))), target("b", scripted(fails(status(429))))}, wire.UpstreamRateLimited, messages[wire.UpstreamRateLimited], []string{"context_length", "rate_limit"}},
		{"the other fails", []Target{target("a", scripted(fails(large))), target("b", scripted(fails(status(500))))}, wire.ContextLengthExceeded, numbered, []string{"context_length", "transient"}},
	} {
		r, err, _ := run(t, &Call{Targets: test.targets, Policy: Policy{Retries: retries(0)}})
		if err == nil || err.Code != test.code || err.Message() != test.message {
			t.Errorf("%s: %v, %q", test.name, err, err.Message())
		}
		if got := classesOf(r); !slices.Equal(got, test.classes) {
			t.Errorf("%s: attempts %q", test.name, got)
		}
	}
	a := scripted(fails(large), says("no"))
	if _, err, _ := run(t, &Call{Targets: []Target{target("a", a)}, Policy: Policy{Retries: retries(3)}}); err == nil || a.calls() != 1 {
		t.Errorf("%v after %d calls", err, a.calls())
	}
}

// TestTargetsWithLargerWindows: after an input was too long for a target, those that may
// have room for it are asked, the ones that surely have more before the others.
func TestTargetsWithLargerWindows(t *testing.T) {
	const k = 1000
	numbered := overflow("prompt is too long: 210000 tokens > 150000 maximum")
	for _, test := range []struct {
		name    string
		windows []int64 // of the targets a, b, and so on
		first   error   // of a
		fail    string  // further targets that are too small
		asked   string
		skipped string
	}{
		{"a larger one", []int64{200 * k, 128 * k, 200 * k, 400 * k}, overflow(""), "", "ad", "bc"},
		{"the nearest larger one", []int64{200 * k, 400 * k, 1000 * k}, overflow(""), "", "ab", ""},
		{"none is larger", []int64{200 * k, 128 * k}, overflow(""), "", "a", "b"},
		{"unknown ones come last", []int64{200 * k, 0, 400 * k, 0}, overflow(""), "c", "acb", ""},
		{"an unknown one comes before none", []int64{200 * k, 100 * k, 0}, overflow(""), "", "ac", "b"},
		{"the first is unknown", []int64{0, 8 * k, 200 * k}, overflow(""), "", "ab", ""},
		{"a second one that is too small counts", []int64{0, 200 * k, 128 * k, 400 * k}, overflow(""), "b", "abd", "c"},
		{"the provider's number counts", []int64{1000 * k, 200 * k, 128 * k}, numbered, "", "ab", ""},
		{"bytes are no tokens", []int64{200 * k, 128 * k}, status(413), "", "ab", ""},
		{"a text that is too long is none of many tokens", []int64{200 * k, 128 * k}, &providers.Error{Status: 400, Code: "string_above_max_length"}, "", "ab", ""},
		{"another failure changes nothing", []int64{200 * k, 128 * k}, status(500), "", "ab", ""},
	} {
		c := &Call{Policy: Policy{Retries: retries(0)}}
		for i, window := range test.windows {
			name, s := string(rune('a'+i)), says("fine")
			switch {
			case i == 0:
				s = fails(test.first)
			case strings.Contains(test.fail, name):
				s = fails(overflow(""))
			}
			next := target(name, scripted(s))
			next.Window = window
			c.Targets = append(c.Targets, next)
		}
		r, _, _ := run(t, c)
		asked, skipped := "", ""
		for _, a := range r.Attempts {
			asked += a.Provider
		}
		for _, s := range r.Skipped {
			if skipped += c.Targets[s.Target].Name; s.Kind() != SkipWindow || s.passes() {
				t.Errorf("%s: skipped as %s: %v", test.name, s.Kind(), s.Reason)
			}
		}
		if asked != test.asked || skipped != test.skipped {
			t.Errorf("%s: asked %q, skipped %q; want %q, %q", test.name, asked, skipped, test.asked, test.skipped)
		}
	}
}
