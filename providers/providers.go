// Package providers defines what an LLM provider is to the gateway: a request
// in, a stream of deltas and a final result out. A JSON answer is a stream
// with one delta. Adapters live in folders of their own.
package providers

import (
	"context"
	"encoding/json"
	"time"
)

// Parameters are the members of a request other than its messages. A member that
// is nil or empty is left to the provider. Requests share parameters, so they
// must not be changed.
type Parameters struct {
	Temperature      *float64
	MaxTokens        *int64
	TopP             *float64
	TopK             *int64
	FrequencyPenalty *float64
	PresencePenalty  *float64
	// Seed asks for the same answer to the same request. Models try to give it
	// and may fail.
	Seed *int64
	// Stop are texts at which the answer ends. They are not part of the answer.
	Stop []string
	// ReasoningEffort is how much a model may think: none, minimal, low, medium,
	// high, xhigh or max.
	ReasoningEffort string
	// Thinking is what a caller asks of thoughts beside the effort.
	Thinking       *Thinking
	ResponseFormat *ResponseFormat
	// Tools are the tools that the model may call in place of its answer, or in
	// addition.
	Tools      []Tool
	ToolChoice *ToolChoice
	// ParallelToolCalls is whether the model may call several tools at once.
	ParallelToolCalls *bool
	// Logprobs asks for the log probability of each token and, where it is above
	// zero, for so many alternatives (at most 20) of each; nil asks for none.
	Logprobs *int64
	// Caller is what else a caller brings that only some providers have.
	Caller *Caller
}

// Request is one call of a model. A provider must not change it: the same
// request goes to the next attempt.
type Request struct {
	Model      string
	Messages   []Message
	Parameters Parameters
	// Extra are raw parameters of the provider's own API, by member name. They
	// are merged into its JSON body last, so they win over what the gateway
	// derives from the members above.
	Extra map[string]json.RawMessage
	// Stream asks the provider to stream its answer.
	Stream bool
	// Prepared is the result of Prepare for a request with the same Model, Parameters
	// and Extra, and the same provider; nil where nothing was prepared.
	Prepared any
}

// Delta is a piece of an answer. A delta without content is a sign of life:
// the provider is working (it thinks, or names its role) but has said nothing
// yet. The members of a delta were said in the order Thinking, Thought, Content,
// Calls. One with Found has nothing else.
type Delta struct {
	Content string
	// Refusal reports that Content, and all that follows it, is the model's own refusal to
	// go on.
	Refusal bool
	// Thinking is a piece of the text of a thought. A delta has Content or Thinking,
	// never both.
	Thinking string
	// Thought is a thought that has just ended, with its Opaque. Its text was said in
	// Thinking before. A thought without Opaque need not be reported.
	Thought *Thought
	// Calls are pieces of tool calls. The whole calls are in the result.
	Calls []CallPiece
	// Found is what a search of the provider's adds to the answer.
	Found *Found
	// Logprobs is the list of the log probabilities of the tokens of Content, as
	// OpenAI's API has it in choices[].logprobs.content, or nil.
	Logprobs json.RawMessage
	// More reports whether the next call of Next returns without waiting, so that
	// a writer may delay its flush.
	More bool
}

// CallPiece is a piece of a tool call as it arrives. Pieces of different calls don't
// mix: all pieces of a call come before the pieces of the next.
type CallPiece struct {
	// Index counts the calls of the answer from 0, without gaps.
	Index int
	// ID and Name are whole, and with the first piece of a call alone. ID is empty where
	// that of the ToolCall is.
	ID, Name string
	// Arguments is a piece of the call's arguments; may be empty.
	Arguments string
	// Opaque is the provider's own data of the call, whole, with one of its pieces.
	Opaque string
}

// Thought is a model's thinking before its answer, or before one of its tool calls.
type Thought struct {
	// Text is the part that the provider shows, which may be empty.
	Text string
	// Opaque is the provider's own data of the thought, see Part; may be empty.
	Opaque string
}

// Usage counts the tokens of an answer. Zero means that the provider did not say.
// Members that are parts of others say so, even if the provider's own API counts them
// apart.
type Usage struct {
	PromptTokens     int64 // all of the prompt, whatever they cost
	CompletionTokens int64 // all of the answer, thoughts too
	TotalTokens      int64

	// Of PromptTokens: the tokens that the provider read from its cache, and the ones
	// that it wrote to it, for some minutes and for an hour. No token is two of
	// these.
	CachedTokens, CacheWriteTokens, CacheWriteHourTokens int64
	// Of PromptTokens: the tokens of sounds and images. They may be cached tokens
	// too.
	PromptAudioTokens, PromptImageTokens int64

	// Of CompletionTokens: the tokens of the model's thinking, and of sounds and
	// images that it made.
	ReasoningTokens, CompletionAudioTokens, CompletionImageTokens int64

	// How often the provider ran tools of its own for the answer.
	WebSearches, FileSearches, CodeExecutions int64

	// Tier is the provider's class of service where its price is another one: "batch",
	// "flex" or "priority"; empty: the usual one.
	Tier string

	// Cost is the answer's price in US dollars, as the provider says. HasCost
	// reports that it says so: an answer may cost nothing.
	Cost    float64
	HasCost bool
}

// Counted reports whether the provider counted any tokens.
func (u *Usage) Counted() bool {
	return u.PromptTokens != 0 || u.CompletionTokens != 0 || u.TotalTokens != 0
}

// FinishReason says why a model stopped. Each provider turns its own words into
// these. A word that it does not know is an *Error, never an answer.
type FinishReason string

// The reasons why a model stops.
const (
	FinishStop          FinishReason = "stop"           // the answer is whole
	FinishToolCalls     FinishReason = "tool_calls"     // the model wants tools called
	FinishLength        FinishReason = "length"         // a limit of tokens cut the answer
	FinishContentFilter FinishReason = "content_filter" // the content policy cut the answer
)

// Whole reports whether the model said all that it meant to say.
func (r FinishReason) Whole() bool { return r == FinishStop || r == FinishToolCalls }

// Result is a complete answer as far as it is known. The gateway cuts names in
// it to MaxName bytes.
type Result struct {
	Model        string // the model the provider says it used
	FinishReason FinishReason
	Usage        Usage
	// ToolCalls are the tools that the model wants called, in its order. An
	// answer may consist of nothing else.
	ToolCalls []ToolCall
	// Thoughts are in the order of the answer, for the caller's history.
	Thoughts []Thought
	// Found is what searches added, in the order of the answer.
	Found []Found
	// Paused reports that a search goes on once the answer is sent back. FinishReason is
	// FinishLength then.
	Paused bool
	// Refusal reports that the content from its byte Refused on is the model's own
	// refusal, if the provider tells it apart from an answer.
	Refusal bool
	Refused int
	// Category and Explanation are why the answer was cut with FinishContentFilter, in
	// the provider's own words, fit for the log; may be empty.
	Category, Explanation string
	// Logprobs is the list of all of the answer's log probabilities, as in Delta. Only
	// a whole answer has it.
	Logprobs json.RawMessage
	// LeftOut are the parameters of the request that the provider does not
	// have, by their names in definitions. Leaving them out does not change
	// the meaning of the request; if it would, the call fails instead. Media in
	// tools' results, in whose place the model got a text, are there by
	// LeftOutMedia.
	LeftOut []string
}

// Provider calls models. It is safe for concurrent use.
type Provider interface {
	// Invoke sends the request. The error, as that of Stream.Next, is an
	// *Error if the provider answered, a *ConnectError if no answer
	// began, or the context's own. Cancelling ctx ends the call at any time
	// until the stream is closed.
	Invoke(ctx context.Context, req *Request) (Stream, error)
}

// Stream is an answer as it arrives. It is read by one goroutine and must be
// closed.
type Stream interface {
	// Next returns the next delta, or io.EOF after the provider's own end
	// marker was seen, and only then: an answer that merely stops is an
	// *Error of kind Truncated. Once it has returned an error it returns the
	// same one again.
	Next() (Delta, error)
	// Result is valid after io.EOF; before, it holds the answer so far.
	Result() Result
	// Close ends the call and releases its resources. It may be called again.
	Close() error
}

// Host returns the host and port that p sends its requests to, for the ceiling of
// calls in flight at a host. It is empty where p sends none. A provider names it
// by a method Host() string; without that method ok is false.
func Host(p Provider) (host string, ok bool) {
	h, ok := p.(interface{ Host() string })
	if !ok {
		return "", false
	}
	return h.Host(), true
}

// Availability returns why p cannot be called at present, nil when it can. A
// provider that may lack something, such as its key, has a method Unavailable()
// error. While that returns an error the provider's targets are skipped, so that a
// missing key does not stop the gateway.
func Availability(p Provider) error {
	if u, ok := p.(interface{ Unavailable() error }); ok {
		return u.Unavailable()
	}
	return nil
}

// Stale returns why a secret of p can't be read again, and since when its last value
// stays in use therefore; nil while all are as their files have them. A provider
// that follows its secrets has a method Stale() (time.Time, error). The error names
// the secret's reference, and never has the secret.
func Stale(p Provider) (since time.Time, err error) {
	if s, ok := p.(interface{ Stale() (time.Time, error) }); ok {
		return s.Stale()
	}
	return time.Time{}, nil
}

// Prepare returns the form that p makes, once, for all requests with the Model,
// Parameters and Extra of req have in common. It goes into their member Prepared, and
// is nil where p makes nothing. A provider that makes something has a method
// PrepareRequests(*Request) (any, error), and takes requests without it, too. The
// error is the error of every such request: an *Error if the provider lacks what the
// answer would be another without.
func Prepare(p Provider, req *Request) (any, error) {
	if preparer, ok := p.(interface {
		PrepareRequests(req *Request) (any, error)
	}); ok {
		return preparer.PrepareRequests(req)
	}
	return nil, nil
}
