// Package canned is a provider without a network. It answers with a text from
// the definition or the configuration or, where the definition asks for an echo,
// with the last message. It streams at a set pace and fails on demand: for first
// steps, for users' own tests and for tests of what happens when a provider fails. It samples nothing, so
// parameters do not matter to it; its answers and its tool calls are those it
// is given.
package canned

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/canned/script"
)

// DefaultPace is the time between two words of a stream.
const DefaultPace = 20 * time.Millisecond

// name is the provider's name in errors, and the model of answers to requests
// without one.
const name = script.Provider

// Provider answers from what it is given. The zero value answers at once, with
// what the request brings.
type Provider struct {
	// Answer is what requests are answered with that bring no answer and ask for
	// no echo. Without it they fail.
	Answer string
	// Pace is the time between two words of a stream.
	Pace time.Duration
}

// Invoke answers the request.
func (p *Provider) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	what, err := script.Parse(req.Extra)
	if err == nil && p.Answer == "" && !what.Speaks() {
		err = errors.New(script.Silent)
	}
	if err != nil {
		return nil, &providers.Error{
			Provider: name, Kind: providers.Status, Status: http.StatusBadRequest,
			Code: "invalid_extra", Reason: err.Error(),
		}
	}
	s := &stream{ctx: ctx, pace: p.Pace, words: p.words(req, &what), tools: what.Tools, finish: what.Finish, usage: what.Usage}
	if what.Pace != nil {
		s.pace = *what.Pace
	}
	s.result = providers.Result{Model: req.Model}
	if req.Model == "" {
		s.result.Model = name
	}
	prompt := int64(0)
	for _, m := range req.Messages {
		prompt += int64(len(strings.Fields(m.Content)))
	}
	if n := what.Usage.PromptTokens; n != nil {
		prompt = *n
	}
	s.result.Usage = providers.Usage{PromptTokens: prompt, TotalTokens: prompt}
	if what.Fail.Applies(ctx) {
		if f := what.Fail; f.InStream() {
			s.fail = f
		} else if err := f.Before(ctx); err != nil {
			return nil, err
		}
	}
	if !req.Stream {
		s.whole()
	}
	return s, nil
}

// words are the pieces of the answer.
func (p *Provider) words(req *providers.Request, what *script.Script) []string {
	switch {
	case what.Answer != nil || len(what.Tools) > 0:
		return what.Answer
	case what.Echo && len(req.Messages) > 0:
		return script.Split(req.Messages[len(req.Messages)-1].Content)
	case what.Echo:
		return nil
	}
	return script.Split(p.Answer)
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
	usage  script.Usage
	fail   *script.Failure // at its time; nil for none
	result providers.Result
	err    error
}

// whole makes the answer one piece. One that fails keeps the words before the
// failure, which no caller sees.
func (s *stream) whole() {
	if s.fail != nil {
		s.fail = s.fail.AtOnce()
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
	if s.fail != nil && s.said >= s.fail.After() {
		return providers.Delta{}, s.fail.During(s.ctx)
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
