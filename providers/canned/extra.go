package canned

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
)

// kind is a way to fail.
type kind string

// The ways to fail.
const (
	kindStatus   kind = "status"   // an HTTP status
	kindConnect  kind = "connect"  // no answer
	kindRefuse   kind = "refuse"   // the content policy
	kindHang     kind = "hang"     // silence until the call is cancelled
	kindTruncate kind = "truncate" // the answer stops without its end
	kindError    kind = "error"    // an error inside the answer
)

// maxWait bounds pace and retry_after.
const maxWait = time.Minute

// options are the members of extra.
type options struct {
	answer []string // nil where there is none
	tools  []providers.ToolCall
	pace   *time.Duration
	fail   *failure
	finish providers.FinishReason // empty where the answer says it
	usage  usage
}

// usage is the member usage. What is not given is counted.
type usage struct {
	PromptTokens     *int64 `json:"prompt_tokens"`
	CompletionTokens *int64 `json:"completion_tokens"`
}

// failure is the member fail.
type failure struct {
	kind       kind
	status     int
	code       string
	message    string
	retryAfter time.Duration
	times      int     // tries at the target that fail; 0 means all
	after      int     // words said before
	rate       float64 // share of the tries that fail; 0 means all
}

// parseExtra reads the request's extra members.
func parseExtra(extra map[string]json.RawMessage) (options, error) {
	var o options
	for name, raw := range extra {
		var err error
		switch name {
		case "answer":
			o.answer, err = parseAnswer(raw)
		case "tool_calls":
			o.tools, err = parseToolCalls(raw)
		case "pace":
			o.pace = new(time.Duration)
			*o.pace, err = parseDuration(raw)
		case "fail":
			o.fail, err = parseFailure(raw)
		case "finish_reason":
			o.finish, err = parseFinishReason(raw)
		case "usage":
			o.usage, err = parseUsage(raw)
		default:
			err = errors.New("is not known: the members are answer, tool_calls, pace, finish_reason, usage and fail")
		}
		if err != nil {
			return options{}, fmt.Errorf("extra.%s %w", name, err)
		}
	}
	if o.finish != "" && (o.finish == providers.FinishToolCalls) != (len(o.tools) > 0) && o.finish.Whole() {
		return options{}, fmt.Errorf("extra.finish_reason is %s, but there are %d tool_calls", o.finish, len(o.tools))
	}
	return o, nil
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
func parseUsage(raw json.RawMessage) (usage, error) {
	var u usage
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&u); err != nil {
		return usage{}, fmt.Errorf("is not understood: %w", err)
	}
	for _, n := range []*int64{u.PromptTokens, u.CompletionTokens} {
		if n != nil && (*n < 0 || *n > maxTokens) {
			return usage{}, fmt.Errorf("has counts from 0 to %d", maxTokens)
		}
	}
	return u, nil
}

// parseAnswer reads a text, which is said word by word, or a list of pieces.
func parseAnswer(raw json.RawMessage) ([]string, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return append([]string{}, split(text)...), nil
	}
	var pieces []string
	if json.Unmarshal(raw, &pieces) == nil && pieces != nil {
		return pieces, nil
	}
	return nil, errors.New("must be a string or a list of strings")
}

// parseToolCalls reads a list of {name, arguments, id}. Arguments are a text as
// models write it, JSON or not, or any other JSON value.
func parseToolCalls(raw json.RawMessage) ([]providers.ToolCall, error) {
	var list []struct {
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("is not understood: %w", err)
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
		if d, err := time.ParseDuration(text); err == nil && d >= 0 && d <= maxWait {
			return d, nil
		}
	}
	return 0, fmt.Errorf("must be a duration such as \"20ms\", at most %s", maxWait)
}

func parseFailure(raw json.RawMessage) (*failure, error) {
	var members struct {
		Kind       kind            `json:"kind"`
		Status     int             `json:"status"`
		Code       string          `json:"code"`
		Message    string          `json:"message"`
		RetryAfter json.RawMessage `json:"retry_after"`
		Times      int             `json:"times"`
		After      int             `json:"after"`
		Rate       float64         `json:"rate"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&members); err != nil {
		return nil, fmt.Errorf("is not understood: %w", err)
	}
	f := &failure{
		kind: members.Kind, status: members.Status, code: members.Code, message: members.Message,
		times: members.Times, after: members.After, rate: members.Rate,
	}
	switch f.kind {
	case "":
		f.kind = kindStatus
		if f.status == 0 && f.after > 0 {
			f.kind = kindTruncate
		}
	case kindStatus, kindConnect, kindRefuse, kindHang, kindTruncate, kindError:
	default:
		return nil, fmt.Errorf("has the unknown kind %q: the kinds are status, connect, refuse, hang, truncate and error", f.kind)
	}
	if f.kind == kindStatus && f.status == 0 {
		f.status = 500
	}
	if f.kind == kindStatus && (f.status < 400 || f.status > 599) {
		return nil, errors.New("has a status that is no failure: it must be 400 to 599")
	}
	if f.after > 0 && (f.kind == kindStatus || f.kind == kindConnect || f.kind == kindRefuse) {
		return nil, errors.New("has words before a failure that comes before all words: after goes with truncate, error and hang")
	}
	if f.times < 0 || f.after < 0 || f.rate < 0 || f.rate > 1 {
		return nil, errors.New("needs times and after of 0 or more, and a rate of 0 to 1")
	}
	if members.RetryAfter != nil {
		var err error
		if f.retryAfter, err = parseDuration(members.RetryAfter); err != nil {
			return nil, fmt.Errorf("retry_after %w", err)
		}
	}
	return f, nil
}
