// Package canned is a provider without a network. It answers with a text from
// the definition or the configuration, else with the last message, streams at
// a set pace and fails on demand: for first steps, for users' own tests and
// for tests of what happens when a provider fails. It samples nothing, so
// parameters do not matter to it; its answers and its tool calls are those it
// is given.
package canned

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/cadenza-gateway/cadenza/providers"
)

// DefaultPace is the time between two words of a stream.
const DefaultPace = 20 * time.Millisecond

// name is the provider's name in errors, and the model of answers to requests
// without one.
const name = "canned"

// Provider answers from what it is given. The zero value echoes at once.
type Provider struct {
	// Answer is what requests are answered with that bring no answer; empty
	// echoes their last message.
	Answer string
	// Pace is the time between two words of a stream.
	Pace time.Duration
}

// Invoke answers the request.
func (p *Provider) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	options, err := parseExtra(req.Extra)
	if err != nil {
		return nil, &providers.Error{
			Provider: name, Kind: providers.Status, Status: http.StatusBadRequest,
			Code: "invalid_extra", Reason: err.Error(),
		}
	}
	s := &stream{ctx: ctx, pace: p.Pace, words: p.words(req, options), tools: options.tools, finish: options.finish, usage: options.usage}
	if options.pace != nil {
		s.pace = *options.pace
	}
	s.result = providers.Result{Model: req.Model}
	if req.Model == "" {
		s.result.Model = name
	}
	prompt := int64(0)
	for _, m := range req.Messages {
		prompt += int64(len(strings.Fields(m.Content)))
	}
	if n := options.usage.PromptTokens; n != nil {
		prompt = *n
	}
	s.result.Usage = providers.Usage{PromptTokens: prompt, TotalTokens: prompt}
	if options.fail.applies(ctx) {
		if f := options.fail; f.inStream() {
			s.fail = f
		} else if err := f.before(ctx); err != nil {
			return nil, err
		}
	}
	if !req.Stream {
		s.whole()
	}
	return s, nil
}

// words are the pieces of the answer.
func (p *Provider) words(req *providers.Request, options options) []string {
	switch {
	case options.answer != nil || len(options.tools) > 0:
		return options.answer
	case p.Answer != "":
		return split(p.Answer)
	case len(req.Messages) > 0:
		return split(req.Messages[len(req.Messages)-1].Content)
	}
	return nil
}

// split cuts a text into words, each with the white space that follows it.
func split(text string) []string {
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

// stream is an answer.
type stream struct {
	ctx    context.Context
	pace   time.Duration
	words  []string
	said   int
	tools  []providers.ToolCall // after the words
	called bool                 // a delta reported them
	finish providers.FinishReason
	usage  usage
	fail   *failure // at its time; nil for none
	result providers.Result
	err    error
}

// whole makes the answer one piece. One that fails keeps the words before the
// failure, which no caller sees.
func (s *stream) whole() {
	if s.fail != nil {
		s.fail = &failure{kind: s.fail.kind, code: s.fail.code, message: s.fail.message}
		s.words, s.tools = nil, nil
		return
	}
	if len(s.words) > 1 {
		s.words = []string{strings.Join(s.words, "")}
	}
	s.pace = 0
}

// Next returns the next word.
func (s *stream) Next() (providers.Delta, error) {
	if s.err == nil {
		var d providers.Delta
		if d, s.err = s.next(); s.err == nil {
			return d, nil
		}
	}
	return providers.Delta{}, s.err
}

func (s *stream) next() (providers.Delta, error) {
	if err := s.ctx.Err(); err != nil {
		return providers.Delta{}, err
	}
	if s.fail != nil && s.said >= s.fail.after {
		return providers.Delta{}, s.fail.during(s.ctx)
	}
	if s.said == len(s.words) {
		return s.end()
	}
	if s.said > 0 {
		if err := sleep(s.ctx, s.pace); err != nil {
			return providers.Delta{}, err
		}
	}
	word := s.words[s.said]
	s.said++
	s.count(int64(len(strings.Fields(word))))
	return providers.Delta{Content: word, More: s.pace <= 0 && s.fail == nil}, nil
}

// end ends the answer, with its tool calls where it has some.
func (s *stream) end() (providers.Delta, error) {
	reason := providers.FinishStop
	if len(s.tools) > 0 {
		if !s.called {
			s.called = true
			return providers.Delta{ToolCall: true}, nil
		}
		reason = providers.FinishToolCalls
		for _, c := range s.tools {
			if !json.Valid([]byte(c.Arguments)) {
				return providers.Delta{}, &providers.Error{
					Provider: name, Kind: providers.Invalid, Status: http.StatusOK, Reason: "the arguments of a tool call are not JSON",
				}
			}
			s.count(int64(len(strings.Fields(c.Arguments))))
		}
	}
	if s.finish != "" {
		reason = s.finish
	}
	if reason == providers.FinishContentFilter && s.said == 0 && len(s.tools) == 0 {
		return providers.Delta{}, &providers.Error{Provider: name, Kind: providers.Refused, Status: http.StatusOK, Code: string(reason)}
	}
	if n := s.usage.CompletionTokens; n != nil {
		s.count(*n - s.result.Usage.CompletionTokens)
	}
	s.result.FinishReason = reason
	if len(s.tools) > 0 {
		s.result.ToolCalls = s.tools
	}
	return providers.Delta{}, io.EOF
}

// count adds to the tokens of the answer.
func (s *stream) count(tokens int64) {
	s.result.Usage.CompletionTokens += tokens
	s.result.Usage.TotalTokens += tokens
}

// Result is what was said so far.
func (s *stream) Result() providers.Result { return s.result }

// Close ends the answer.
func (s *stream) Close() error {
	if s.err == nil {
		s.err = errors.New("the stream is closed")
	}
	return nil
}

// before makes the failure of a call that gets no answer.
func (f *failure) before(ctx context.Context) error {
	switch f.kind {
	case kindHang:
		<-ctx.Done()
		return ctx.Err()
	case kindConnect:
		return &providers.ConnectError{Err: errors.New("a connection failure was asked for")}
	case kindRefuse:
		return &providers.Error{Provider: name, Kind: providers.Refused, Status: http.StatusOK, Code: f.code, Message: f.message}
	}
	return &providers.Error{
		Provider: name, Kind: providers.Status, Status: f.status,
		Code: f.code, Message: f.message, RetryAfter: f.retryAfter,
	}
}

// during makes the failure of an answer that began.
func (f *failure) during(ctx context.Context) error {
	switch f.kind {
	case kindHang:
		<-ctx.Done()
		return ctx.Err()
	case kindError:
		return &providers.Error{Provider: name, Kind: providers.Reported, Status: http.StatusOK, Code: f.code, Message: f.message}
	}
	return &providers.Error{Provider: name, Kind: providers.Truncated, Status: http.StatusOK, Message: f.message}
}

// inStream reports whether the failure comes in an answer that began.
func (f *failure) inStream() bool {
	return f.after > 0 || f.kind == kindTruncate || f.kind == kindError
}

// applies reports whether this attempt is one that fails: the tries at the
// target count within each call, so that no state outlives it.
func (f *failure) applies(ctx context.Context) bool {
	if f == nil {
		return false
	}
	if f.times > 0 {
		if budget := providers.BudgetFrom(ctx); budget != nil && budget.Tries() > f.times {
			return false
		}
	}
	return f.rate == 0 || rand.Float64() < f.rate
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
