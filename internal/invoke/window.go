package invoke

import (
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/providers"
)

// overflows match what providers say of an input that is too long, in lower case: the
// number of its tokens, in one or two parts, and the size of the model's window.
var overflows = []*regexp.Regexp{
	// Anthropic: "prompt is too long: 210000 tokens > 200000 maximum", and "input length
	// and `max_tokens` exceed context limit: 190000 + 20000 > 200000"
	regexp.MustCompile(`(?:too long|context limit): (?<tokens>\d{1,12})(?: tokens| \+ (?<more>\d{1,12})) > (?<window>\d{1,12})`),
	// OpenAI and most that are like it: "maximum context length is 8192 tokens. However,
	// your messages resulted in 9000 tokens"; the second number may be missing.
	regexp.MustCompile(`maximum context length (?:is|of) (?<window>\d{1,12})(?: tokens.*?(?:resulted in|requested|request has|contains)(?: about)? (?<tokens>\d{1,12}))?`),
	// Gemini: "The input token count (1048600) exceeds the maximum number of tokens
	// allowed (1048576)"; the first number may be missing.
	regexp.MustCompile(`token count (?:\(?(?<tokens>\d{1,12})\)? )?exceeds the maximum number of tokens allowed \(?(?<window>\d{1,12})`),
	// xAI: "maximum prompt length is 131072 but the request contains 150000 tokens"
	regexp.MustCompile(`maximum prompt length is (?<window>\d{1,12}) but the request contains (?<tokens>\d{1,12})`),
	// Mistral: "Prompt contains 40000 tokens and 0 draft tokens, too large for model with
	// 32768 maximum context length"
	regexp.MustCompile(`contains (?<tokens>\d{1,12}) tokens.*? too large for model with (?<window>\d{1,12})`),
	// llama.cpp: "request (5000 tokens) exceeds the available context size (4096 tokens)";
	// Together: "The input (9000 tokens) is longer than the model's context length (8192 tokens)"
	regexp.MustCompile(`\((?<tokens>\d{1,12}) tokens\) (?:exceeds|is longer).*?\((?<window>\d{1,12}) tokens\)`),
	// Cohere: "cannot exceed 4081 - received 5003"
	regexp.MustCompile(`cannot exceed (?<window>\d{1,12}) - received (?<tokens>\d{1,12})`),
}

// overflowOf returns how many tokens the input has, and how many the model takes, by the
// words of its provider. What these do not say is 0.
func overflowOf(err error) (tokens, window int64) {
	e, ok := errors.AsType[*providers.Error](err)
	if !ok {
		return 0, 0
	}
	text := strings.ToLower(e.Message)
	for _, re := range overflows {
		found := re.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		number := func(name string) int64 {
			i := re.SubexpIndex(name)
			if i < 0 {
				return 0
			}
			n, _ := strconv.ParseInt(found[i], 10, 64) // 0 for a group that matched nothing
			return n
		}
		return number("tokens") + number("more"), number("window")
	}
	return 0, 0
}

// tooLong returns by how much the input exceeds the largest of the windows that it does,
// if their providers say both numbers; else 0.
func (k *call) tooLong() (tokens, window int64) {
	for _, f := range k.failures {
		if f.class != ContextLength {
			continue
		}
		// The prompt alone may be smaller than the window, which it shares with the answer.
		if n, most := overflowOf(f.err); n > most && most > window {
			tokens, window = n, most
		}
	}
	return tokens, window
}

// windowOf returns the window that the input exceeds, by a failure of class ContextLength;
// 0: unknown. The provider's number counts before the list's, which is that of the model
// at its best. A failure that is about bytes says nothing about windows.
func (k *call) windowOf(f failed) int64 {
	if _, window := overflowOf(f.err); window > 0 {
		return window
	}
	if e, ok := errors.AsType[*providers.Error](f.err); ok && (f.status == http.StatusRequestEntityTooLarge || matchesWord([]string{"string_above_max_length", "request_too_large"}, e.Code, e.Type)) {
		return 0
	}
	return k.Targets[k.usable[f.place].index].Window
}

// following returns the place of the target to try next, or -1. After an input was too
// long for a window, the targets with a larger one come first, then those whose windows
// are not known. Those with the same or a smaller one are skipped: they would refuse it,
// too. Places stay as they are, because attempts refer to them. It holds k.mu.
func (k *call) following() int {
	unknown := -1
	for i := range k.usable {
		u := &k.usable[i]
		window := k.Targets[u.index].Window
		switch {
		case u.taken:
		case k.tooSmall == 0 || window > k.tooSmall:
			return i
		case window > 0:
			u.taken = true
			k.result.Skipped = append(k.result.Skipped, Skip{u.index, errWindow})
		case unknown < 0:
			unknown = i
		}
	}
	return unknown
}
