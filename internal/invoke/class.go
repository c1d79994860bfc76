package invoke

import (
	"context"
	"errors"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// Class is a class of failure. It decides the next step and the error that the
// caller gets.
type Class string

// The classes of failure.
const (
	ClientGone    Class = "client_gone"
	Superseded    Class = "superseded"
	Deadline      Class = "deadline"
	Connect       Class = "connect"
	Transient     Class = "transient"
	InvalidAnswer Class = "invalid"
	Length        Class = "length"
	NoRoom        Class = "no_room"
	Slow          Class = "slow"
	RateLimit     Class = "rate_limit"
	Quota         Class = "quota"
	Credential    Class = "credential"
	Model         Class = "model"
	ContextLength Class = "context_length"
	Rejected      Class = "rejected"
	ContentPolicy Class = "content_policy"
	Unknown       Class = "unknown"
)

// ClassRow holds the consequences of a class of failure.
type ClassRow struct {
	Class Class
	// Meaning is the class in a few words.
	Meaning string
	// Retry reports whether the same target may be tried again.
	Retry bool
	// Next reports whether the next target is tried.
	Next bool
	// Counts reports whether the failure counts against the target's health.
	Counts bool
	// Cools reports whether the target is left alone for a while: for as long as
	// the provider asks, else 5 seconds after a rate limit and a minute after
	// another failure.
	Cools bool
	// Final reports whether another call would end in the same way: the provider
	// does not accept the request or the configuration.
	Final bool
	// Code is the error callers get when this class decides it.
	Code wire.Code
}

// The classes as a table. Documentation and tests print it.
var classes = []ClassRow{
	{Class: ClientGone, Meaning: "the caller went away", Code: wire.UpstreamInterrupted},
	{Class: Superseded, Meaning: "the other attempt of a hedged call was faster", Code: wire.UpstreamInterrupted},
	{Class: Deadline, Meaning: "the endpoint's total time is used up", Code: wire.UpstreamTimeout},
	{Class: Connect, Meaning: "no answer: DNS, TCP, TLS, or cut before the headers", Retry: true, Next: true, Counts: true, Code: wire.UpstreamUnavailable},
	{Class: Transient, Meaning: "the provider says it failed: 408, 409, 425, 5xx, 529, or such an error inside an answer", Retry: true, Next: true, Counts: true, Code: wire.UpstreamError},
	{Class: InvalidAnswer, Meaning: "an answer that is no complete completion", Retry: true, Next: true, Counts: true, Code: wire.UpstreamInvalidResponse},
	{Class: Length, Meaning: "JSON was asked for, and a limit of tokens cut it; or vectors of another length than was asked for", Next: true, Final: true, Code: wire.UpstreamInvalidResponse},
	{Class: NoRoom, Meaning: "the gateway has no memory left for an answer of its size", Next: true, Code: wire.Overloaded},
	{Class: Slow, Meaning: "no first token, or no whole answer, in time", Retry: true, Next: true, Counts: true, Code: wire.UpstreamTimeout},
	{Class: RateLimit, Meaning: "429 or throttled", Retry: true, Next: true, Cools: true, Code: wire.UpstreamRateLimited},
	{Class: Quota, Meaning: "the account's quota or credit is used up", Next: true, Cools: true, Final: true, Code: wire.UpstreamCredentials},
	{Class: Credential, Meaning: "401, 403 or a key that is not accepted", Next: true, Cools: true, Final: true, Code: wire.UpstreamCredentials},
	{Class: Model, Meaning: "404, 410, or a model that is unknown, gone or not offered here", Next: true, Cools: true, Final: true, Code: wire.UpstreamRejected},
	{Class: ContextLength, Meaning: "413 or more tokens than the model takes", Next: true, Final: true, Code: wire.ContextLengthExceeded},
	{Class: Rejected, Meaning: "any other 4xx: the provider does not accept the request", Next: true, Final: true, Code: wire.UpstreamRejected},
	{Class: ContentPolicy, Meaning: "the provider withholds an answer by its content policy", Final: true, Code: wire.UpstreamRefused},
	{Class: Unknown, Meaning: "anything else", Next: true, Counts: true, Final: true, Code: wire.UpstreamRejected},
}

// Classes returns the table of classes.
func Classes() []ClassRow { return append([]ClassRow(nil), classes...) }

func (c Class) row() *ClassRow {
	for i := range classes {
		if classes[i].Class == c {
			return &classes[i]
		}
	}
	return &classes[len(classes)-1]
}

// The reasons for which the loop itself ends an attempt or a call. They are the
// causes of the contexts that it cancels.
var (
	errClientGone = errors.New("the caller went away")
	errSuperseded = errors.New("the other attempt was faster")
	errTotal      = errors.New("the endpoint's total time is used up")
	errFirstToken = errors.New("no first token in time")
	errWhole      = errors.New("no whole answer in time")
	errIdle       = errors.New("the stream stalled")
)

// Classify puts a failed attempt into a class.
func Classify(err error) Class {
	switch {
	case errors.Is(err, errClientGone):
		return ClientGone
	case errors.Is(err, errSuperseded):
		return Superseded
	case errors.Is(err, errTotal):
		return Deadline
	case errors.Is(err, errFirstToken), errors.Is(err, errWhole), errors.Is(err, errIdle):
		return Slow
	case errors.Is(err, providers.ErrNoRoom):
		return NoRoom
	}
	if e, ok := errors.AsType[*providers.Error](err); ok {
		return classifyAnswer(e)
	}
	if _, ok := errors.AsType[*providers.ConnectError](err); ok {
		return Connect
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		// A timer of the provider's own.
		return Slow
	}
	return Unknown
}
