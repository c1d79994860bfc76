// Package script is what the members of extra tell the provider canned to do:
// what to answer, at which pace and how to fail. It is apart from the provider
// so that definitions can be checked without Caddy.
package script

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/providers"
)

// Provider is the provider's name: in errors, and as the name of its module.
const Provider = "canned"

// MaxWait bounds the pace and retry_after.
const MaxWait = time.Minute

// Members are the members that extra may have.
var Members = []string{"answer", "tool_calls", "pace", "finish_reason", "usage", "fail", "echo"}

// Script is what the members of extra say.
type Script struct {
	Answer []string // nil where there is none
	Tools  []providers.ToolCall
	Echo   bool // the last message is the answer
	Pace   *time.Duration
	Fail   *Failure               // nil for none
	Finish providers.FinishReason // empty where the answer says it
	Usage  Usage
}

// Usage is the member usage. What is not given is counted.
type Usage struct {
	PromptTokens     *int64 `json:"prompt_tokens"`
	CompletionTokens *int64 `json:"completion_tokens"`
}

// Error is a member of extra that is wrong.
type Error struct {
	Member string
	Reason string // what is wrong and how to mend it, to go behind the member
}

// Error names the member and says what is wrong with it.
func (e *Error) Error() string { return "extra." + e.Member + " " + e.Reason }

// Silent is the message for a request that canned has nothing to answer with.
const Silent = "there is nothing to answer with: give extra an answer, tool_calls, fail or, to send the last message back, echo: true"

// Parse reads the members of extra. A member that is null counts as absent. The
// error is an *Error, for the first wrong member by name.
func Parse(extra map[string]json.RawMessage) (Script, error) {
	var s Script
	var first *Error
	for name, raw := range extra {
		if string(raw) == "null" && slices.Contains(Members, name) {
			continue
		}
		var err error
		switch name {
		case "answer":
			s.Answer, err = parseAnswer(raw)
		case "tool_calls":
			s.Tools, err = parseToolCalls(raw)
		case "pace":
			s.Pace = new(time.Duration)
			*s.Pace, err = parseDuration(raw)
		case "fail":
			s.Fail, err = parseFailure(raw)
		case "finish_reason":
			s.Finish, err = parseFinishReason(raw)
		case "usage":
			s.Usage, err = parseUsage(raw)
		case "echo":
			s.Echo, err = parseEcho(raw)
		default:
			err = errors.New("is not known" + document.DidYouMean(name, Members))
		}
		if err != nil && (first == nil || name < first.Member) {
			first = &Error{Member: name, Reason: err.Error()}
		}
	}
	if first != nil {
		return Script{}, first
	}
	if s.Finish != "" && (s.Finish == providers.FinishToolCalls) != (len(s.Tools) > 0) && s.Finish.Whole() {
		return Script{}, &Error{Member: "finish_reason", Reason: fmt.Sprintf("is %s, but there are %d tool_calls", s.Finish, len(s.Tools))}
	}
	if s.Echo && s.Answer != nil {
		return Script{}, &Error{Member: "echo", Reason: "is true, but there is an answer: give one of them"}
	}
	return s, nil
}

// Speaks reports whether the script has something for each try of a call: an
// answer, tool calls, an echo or a failure. A failure of some tries alone leaves
// the others with nothing.
func (s *Script) Speaks() bool {
	return s.Answer != nil || len(s.Tools) > 0 || s.Echo || s.Fail != nil && s.Fail.always()
}

// decode reads a member that is an object, or a list of objects, with the known
// members. The error has words that say what is wrong in it.
func decode(raw json.RawMessage, into any, known ...string) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		return nil
	}
	// The decoder has no type for an unknown member.
	if quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if name, err := strconv.Unquote(quoted); err == nil {
			return fmt.Errorf("has the unknown member %q%s", name, document.DidYouMean(name, known))
		}
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if e.Field == "" {
			return fmt.Errorf("is not understood: it must have the members %s, this is a JSON %s", strings.Join(known, ", "), e.Value)
		}
		return fmt.Errorf("is not understood: %s has the wrong type, this is a JSON %s", e.Field, e.Value)
	}
	return fmt.Errorf("is not understood: %w", err)
}

// parseFinishReason reads one of the reasons why a model stops.
func parseFinishReason(raw json.RawMessage) (providers.FinishReason, error) {
	var reason providers.FinishReason
	if json.Unmarshal(raw, &reason) == nil {
		switch reason {
		case providers.FinishStop, providers.FinishToolCalls, providers.FinishLength, providers.FinishContentFilter:
			return reason, nil
		}
	}
	return "", errors.New("must be stop, tool_calls, length or content_filter")
}

// maxTokens bounds a count of tokens.
const maxTokens = 1_000_000_000

// parseUsage reads counts of tokens.
func parseUsage(raw json.RawMessage) (Usage, error) {
	var u Usage
	if err := decode(raw, &u, "prompt_tokens", "completion_tokens"); err != nil {
		return Usage{}, err
	}
	for _, n := range []*int64{u.PromptTokens, u.CompletionTokens} {
		if n != nil && (*n < 0 || *n > maxTokens) {
			return Usage{}, fmt.Errorf("has counts from 0 to %d", maxTokens)
		}
	}
	return u, nil
}

// parseAnswer reads a text, which is said word by word, or a list of pieces.
func parseAnswer(raw json.RawMessage) ([]string, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return append([]string{}, Split(text)...), nil
	}
	var pieces []string
	if json.Unmarshal(raw, &pieces) == nil && pieces != nil {
		return pieces, nil
	}
	return nil, errors.New("must be a string or a list of strings")
}

func parseEcho(raw json.RawMessage) (echo bool, err error) {
	if json.Unmarshal(raw, &echo) != nil {
		return false, errors.New("must be true or false")
	}
	return echo, nil
}

// parseToolCalls reads a list of {name, arguments, id}. Arguments are a text as
// models write it, JSON or not, or any other JSON value.
func parseToolCalls(raw json.RawMessage) ([]providers.ToolCall, error) {
	var list []struct {
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := decode(raw, &list, "id", "name", "arguments"); err != nil {
		return nil, err
	}
	calls := make([]providers.ToolCall, len(list))
	for i, c := range list {
		if c.Name == "" {
			return nil, fmt.Errorf("needs a name for call %d", i+1)
		}
		if c.ID == "" {
			c.ID = "call_" + strconv.Itoa(i+1)
		}
		text := "{}"
		if c.Arguments != nil && json.Unmarshal(c.Arguments, &text) != nil {
			var b bytes.Buffer
			if err := json.Compact(&b, c.Arguments); err != nil {
				return nil, fmt.Errorf("has arguments that are not JSON: %w", err)
			}
			text = b.String()
		}
		calls[i] = providers.ToolCall{ID: c.ID, Name: c.Name, Arguments: text}
	}
	return calls, nil
}

func parseDuration(raw json.RawMessage) (time.Duration, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if d, err := time.ParseDuration(text); err == nil && d >= 0 && d <= MaxWait {
			return d, nil
		}
	}
	return 0, fmt.Errorf("must be a duration such as \"20ms\", at most %s", MaxWait)
}

// Split cuts a text into words, each with the white space that follows it.
func Split(text string) []string {
	var words []string
	start, space := 0, false
	for i, r := range text {
		if s := unicode.IsSpace(r); s != space {
			if space && strings.TrimSpace(text[start:i]) != "" {
				words = append(words, text[start:i])
				start = i
			}
			space = s
		}
	}
	if start < len(text) {
		words = append(words, text[start:])
	}
	return words
}
