// Package script reads the members of extra that direct the provider canned:
// its answer, its pace and its failures. It is apart from the provider so that
// definitions can be checked without Caddy.
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
var Members = []string{"answer", "thinking", "tool_calls", "call_tool", "turns", "pace", "finish_reason", "usage", "fail", "echo"}

// turnMembers are the members that a turn may have.
var turnMembers = slices.DeleteFunc(slices.Clone(Members), func(name string) bool { return name == "turns" || name == "pace" })

// Script is the content of the members of extra.
type Script struct {
	Answer   []string // nil if there is none
	Thinking []string // the words of the thought before the answer
	Tools    []providers.ToolCall
	// CallTool is the name of an offered tool to call, or FirstTool or AllTools; empty
	// for none.
	CallTool string
	// Turns are the answers of a conversation, one after the other. Beside them there
	// is a pace alone.
	Turns  []Script
	Echo   bool // the last message is the answer
	Pace   *time.Duration
	Fail   *Failure               // nil for none
	Finish providers.FinishReason // empty if the answer says it
	Usage  Usage

	inTurn bool // it is one of Turns
}

// The words of CallTool that are no names.
const (
	FirstTool = "first" // the first one that the request offers
	AllTools  = "all"   // each one once
)

// Error is a member of extra that is wrong.
type Error struct {
	Member string
	Reason string // the mistake and how to mend it, to go behind the member
}

// Error names the member and describes its mistake.
func (e *Error) Error() string { return "extra." + e.Member + " " + e.Reason }

// Silent is the message for a request that canned has nothing to answer with.
const Silent = "there is nothing to answer with: give extra an answer, tool_calls, fail or, to send the last message back, echo: true"

// Parse reads the members of extra. A member that is null counts as absent. The
// error is an *Error, for the first wrong member by name.
func Parse(extra map[string]json.RawMessage) (Script, error) { return parse(extra, Members) }

// parse reads the members of extra, or of a turn, of which known ones are known.
func parse(extra map[string]json.RawMessage, known []string) (Script, error) {
	var s Script
	var first *Error
	for name, raw := range extra {
		if string(raw) == "null" && slices.Contains(known, name) {
			continue
		}
		err := errors.New("is not known" + document.DidYouMean(name, known))
		if slices.Contains(known, name) {
			err = s.read(name, raw)
		}
		if err != nil && (first == nil || name < first.Member) {
			first = &Error{Member: name, Reason: err.Error()}
		}
	}
	if first != nil {
		return Script{}, first
	}
	if err := s.check(extra); err != nil {
		return Script{}, err
	}
	return s, nil
}

// read reads a member that is known.
func (s *Script) read(name string, raw json.RawMessage) (err error) {
	switch name {
	case "answer":
		s.Answer, err = parseAnswer(raw)
	case "thinking":
		s.Thinking, err = parseAnswer(raw)
	case "call_tool":
		if json.Unmarshal(raw, &s.CallTool) != nil || s.CallTool == "" {
			err = fmt.Errorf("must be %s, %s or the name of a tool that callers offer", FirstTool, AllTools)
		}
	case "turns":
		s.Turns, err = parseTurns(raw)
	case "tool_calls":
		s.Tools, err = parseToolCalls(raw)
	case "pace":
		s.Pace = new(time.Duration)
		*s.Pace, err = parseDuration(raw)
	case "fail":
		s.Fail, err = parseFailure(raw)
	case "finish_reason":
		if json.Unmarshal(raw, &s.Finish) != nil || !slices.Contains(reasons, s.Finish) {
			err = errors.New("must be stop, tool_calls, length or content_filter")
		}
	case "usage":
		s.Usage, err = parseUsage(raw)
	case "echo":
		if json.Unmarshal(raw, &s.Echo) != nil {
			err = errors.New("must be true or false")
		}
	}
	return err
}

// reasons are the reasons why a model stops.
var reasons = []providers.FinishReason{providers.FinishStop, providers.FinishToolCalls, providers.FinishLength, providers.FinishContentFilter}

// check finds members that do not go together.
func (s *Script) check(extra map[string]json.RawMessage) error {
	switch {
	case s.Turns != nil:
		for _, name := range turnMembers {
			if raw, ok := extra[name]; ok && string(raw) != "null" {
				return &Error{Member: name, Reason: "is beside turns: put it into a turn"}
			}
		}
	case s.CallTool != "" && len(s.Tools) > 0:
		return &Error{Member: "call_tool", Reason: "is given, but so are tool_calls: give one of them"}
	case s.CallTool != "" && s.Finish.Whole():
		return &Error{Member: "finish_reason", Reason: fmt.Sprintf("is %s, but call_tool decides that", s.Finish)}
	case s.Finish != "" && (s.Finish == providers.FinishToolCalls) != (len(s.Tools) > 0) && s.Finish.Whole():
		return &Error{Member: "finish_reason", Reason: fmt.Sprintf("is %s, but there are %d tool_calls", s.Finish, len(s.Tools))}
	case s.Echo && s.Answer != nil:
		return &Error{Member: "echo", Reason: "is true, but there is an answer: give one of them"}
	}
	return nil
}

// Speaks reports whether the script has something for each try of a call: an
// answer, tool calls, an echo, turns or a failure. A failure of some tries alone leaves
// the others with nothing.
func (s *Script) Speaks() bool {
	return s.Answer != nil || len(s.Tools) > 0 || s.CallTool != "" || len(s.Turns) > 0 || s.Echo || s.Fail != nil && s.Fail.always()
}

// decode reads a member that is an object, or a list of objects, with the known
// members. The error describes its mistake.
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

// parseTurns reads a list of objects with the members of an answer.
func parseTurns(raw json.RawMessage) ([]Script, error) {
	var list []map[string]json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return nil, fmt.Errorf("must be a list of turns, each with some of the members %s", strings.Join(turnMembers, ", "))
	}
	turns := make([]Script, len(list))
	for i, extra := range list {
		var err error
		if turns[i], err = parse(extra, turnMembers); err != nil {
			e, _ := errors.AsType[*Error](err)
			return nil, fmt.Errorf("has a mistake in turn %d: %s %s", i+1, e.Member, e.Reason)
		}
		if !turns[i].Speaks() {
			return nil, fmt.Errorf("has nothing to answer with in turn %d: give it an answer, tool_calls, call_tool, fail or echo: true", i+1)
		}
		turns[i].inTurn = true
	}
	return turns, nil
}

// parseToolCalls reads a list of {name, arguments, id}. Arguments are a text as
// models write it, JSON or not, or any other JSON value. Calls gives an id to those
// without one.
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
