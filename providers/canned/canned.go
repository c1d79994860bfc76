// Package canned is a provider without a network. It answers with a text from
// the definition or the configuration or, if the definition asks for an echo,
// with the last message. It plays a whole conversation by a script, with thoughts
// and tool calls, streams at a set pace and fails on demand: for first steps, for
// users' own tests and for tests of failing providers. It samples
// nothing, so parameters do not matter to it, except for the tools that it may call
// and for logprobs.
package canned

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/canned/script"
)

// DefaultPace is the time between two words of a stream.
const DefaultPace = 20 * time.Millisecond

// name is the provider's name in errors, and the model of answers to requests
// without one.
const name = script.Provider

// Provider answers with the texts that it is given. The zero value answers at
// once, with what the request brings.
type Provider struct {
	// Answer is the answer to requests that bring none and ask for
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
	all, err := script.Parse(req.Extra)
	if err == nil && p.Answer == "" && !all.Speaks() {
		err = errors.New(script.Silent)
	}
	if err != nil {
		return nil, rejected("invalid_extra", err)
	}
	if err := script.CheckOpaque(req.Messages); err != nil {
		return nil, rejected("invalid_signature", err)
	}
	what := all.At(req.Messages)
	s := &stream{ctx: ctx, pace: p.Pace, thoughts: what.Thinking, finish: what.Finish, usage: what.Usage}
	if s.tools, err = what.Calls(req); err != nil {
		return nil, rejected("invalid_extra", err)
	}
	s.words = p.words(req, what, len(s.tools) > 0)
	s.logprobs = req.Parameters.Logprobs
	if all.Pace != nil {
		s.pace = *all.Pace
	}
	s.result = providers.Result{Model: req.Model}
	if req.Parameters.Caller != nil {
		alone := providers.Parameters{Caller: req.Parameters.Caller}
		s.result.LeftOut, _ = alone.Lacking("canned") // none of them must not be left out
	}
	if req.Model == "" {
		s.result.Model = name
	}
	s.usage.Begin(&s.result.Usage, promptTokens(req.Messages))
	if what.Fail.Applies(ctx) {
		if f := what.Fail; f.InStream() {
			s.fail, s.after = f, f.After
		} else {
			return nil, f.Error(ctx, false)
		}
	}
	if !req.Stream {
		s.whole()
	}
	return s, nil
}

// rejected makes the error of a request that canned does not take.
func rejected(code string, err error) *providers.Error {
	return &providers.Error{
		Provider: name, Kind: providers.Status, Status: http.StatusBadRequest, Code: code, Reason: err.Error(),
	}
}

// words are the pieces of the answer. A script that calls tools says only the text
// that it has; if it calls none and has no text, it gives the last message back.
func (p *Provider) words(req *providers.Request, what *script.Script, calls bool) []string {
	switch {
	case what.Answer != nil || len(what.Tools) > 0 || calls && !what.Echo:
		return what.Answer
	case what.Echo || what.CallTool != "" && p.Answer == "":
		if calls {
			return nil // the echo is that of the results
		}
		return script.Split(script.Echo(req.Messages))
	}
	return script.Split(p.Answer)
}

// promptTokens counts the words of messages, and each image, sound and file as one.
func promptTokens(messages []providers.Message) (tokens int64) {
	for i := range messages {
		tokens += wordsOf(messages[i].Content.Plain())
		for j := range messages[i].Parts {
			p := &messages[i].Parts[j]
			tokens += partTokens(p)
			for k := range p.Result.Content {
				tokens += partTokens(&p.Result.Content[k])
			}
		}
	}
	return tokens
}

func partTokens(p *providers.Part) int64 {
	tokens := wordsOf(p.Text.Plain()) + wordsOf(p.Call.Arguments)
	if p.Media != (providers.Media{}) {
		tokens++
	}
	return tokens
}

// wordsOf counts the words of a text, see strings.Fields.
func wordsOf(text string) (words int64) {
	in := false
	for _, r := range text {
		if space := unicode.IsSpace(r); space {
			in = false
		} else if !in {
			in = true
			words++
		}
	}
	return words
}

// stream is an answer: the words of a thought, the words of the answer, then the
// pieces of its tool calls.
type stream struct {
	ctx      context.Context
	pace     time.Duration
	thoughts []string
	thought  bool // it has ended
	words    []string
	tools    []providers.ToolCall
	pieces   []providers.CallPiece // of tools; made once the words are said
	said     int                   // pieces so far, of all three
	logprobs *int64                // alternatives of each token; nil for none
	finish   providers.FinishReason
	usage    script.Usage
	fail     *script.Failure // nil for none
	after    int             // pieces before it
	result   providers.Result
	err      error
}

// whole makes the answer one piece. One that fails keeps the words before the
// failure, which no caller sees.
func (s *stream) whole() {
	s.pace = 0
	if s.fail != nil {
		s.after = 0
		s.thoughts, s.words, s.tools = nil, nil, nil
		return
	}
	if s.logprobs != nil {
		s.result.Logprobs = logprobs(s.words, *s.logprobs)
		s.logprobs = nil
	}
	for _, words := range []*[]string{&s.thoughts, &s.words} {
		if len(*words) > 1 {
			*words = []string{strings.Join(*words, "")}
		}
	}
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
	if s.fail != nil && s.said >= s.after {
		return providers.Delta{}, s.fail.Error(s.ctx, true)
	}
	d := providers.Delta{More: s.pace <= 0 && s.fail == nil}
	word := s.said - len(s.thoughts)
	if word == 0 && len(s.thoughts) > 0 && !s.thought {
		s.thought = true
		text := strings.Join(s.thoughts, "")
		s.result.Thoughts = []providers.Thought{{Text: text, Opaque: script.Sign(text)}}
		d.Thought = &s.result.Thoughts[0]
		return d, nil
	}
	call := word - len(s.words)
	if call == 0 {
		s.pieces = script.Pieces(s.tools)
	}
	if call >= 0 && call == len(s.pieces) {
		return providers.Delta{}, s.end()
	}
	if s.said > 0 {
		if err := sleep(s.ctx, s.pace); err != nil {
			return providers.Delta{}, err
		}
	}
	s.said++
	switch {
	case word < 0:
		d.Thinking = s.thoughts[s.said-1]
		n := wordsOf(d.Thinking)
		s.result.Usage.ReasoningTokens += n
		s.count(n)
	case call < 0:
		d.Content = s.words[word]
		if s.logprobs != nil {
			d.Logprobs = logprobs(s.words[word:word+1], *s.logprobs)
		}
		s.count(wordsOf(d.Content))
	default:
		d.Calls = s.pieces[call : call+1 : call+1]
	}
	return d, nil
}

// end ends the answer. It returns io.EOF, unless the answer is none.
func (s *stream) end() error {
	reason := providers.FinishStop
	if len(s.tools) > 0 {
		reason = providers.FinishToolCalls
		for _, c := range s.tools {
			if !json.Valid([]byte(c.Arguments)) {
				return &providers.Error{
					Provider: name, Kind: providers.Invalid, Status: http.StatusOK, Reason: "the arguments of a tool call are not JSON",
				}
			}
			s.count(wordsOf(c.Arguments))
		}
	}
	if s.finish != "" {
		reason = s.finish
	}
	if reason == providers.FinishContentFilter && len(s.words) == 0 && len(s.tools) == 0 {
		return &providers.Error{Provider: name, Kind: providers.Refused, Status: http.StatusOK, Code: string(reason)}
	}
	s.usage.End(&s.result.Usage)
	s.result.FinishReason = reason
	if len(s.tools) > 0 {
		s.result.ToolCalls = s.tools
	}
	return io.EOF
}

// count adds to the tokens of the answer.
func (s *stream) count(tokens int64) {
	s.result.Usage.CompletionTokens += tokens
	s.result.Usage.TotalTokens += tokens
}

// Result is the answer so far.
func (s *stream) Result() providers.Result {
	r := s.result
	if s.usage.None {
		r.Usage = providers.Usage{}
	}
	return r
}

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
