package providers

import (
	"context"
	"encoding/json"
)

// Embedder is what a provider has beside Provider if it makes vectors of texts. It is
// safe for concurrent use.
type Embedder interface {
	// Embed asks for the vectors of the inputs, which are at most as many as
	// EmbeddingBatch says. The error is of the kinds that Provider.Invoke has. A
	// provider that does not take what the request has, such as lists of tokens, returns
	// an *Error with Lacks before it sends anything: the next target is asked then.
	Embed(ctx context.Context, req *EmbeddingRequest) (*Embeddings, error)
	// EmbeddingBatch returns what one request of a model may have. The gateway sends
	// the rest in further requests, one after another.
	EmbeddingBatch(model string) EmbeddingBatch
}

// EmbedderOf returns p as an Embedder, nil if it makes no vectors. A provider that passes
// calls on to a client has a method Embedder() Embedder.
func EmbedderOf(p Provider) Embedder {
	if w, ok := p.(interface{ Embedder() Embedder }); ok {
		return w.Embedder()
	}
	e, _ := p.(Embedder)
	return e
}

// EmbeddingBatch bounds one request. A member that is 0 means no bound of the provider's.
type EmbeddingBatch struct {
	Inputs int
	Tokens int // of all inputs together
}

// EmbeddingRequest is one request for vectors. A provider must not change it.
type EmbeddingRequest struct {
	Model  string
	Inputs []EmbeddingInput
	// Dimensions is the length that the vectors are to have; 0: the model's own.
	Dimensions int64
	// Base64 reports that the caller wants vectors in base64. A provider that has
	// numbers alone returns these: the gateway turns them into what the caller wants.
	Base64 bool
	// User is the caller's own user; may be empty. A provider without such a member
	// leaves it out.
	User string
	// Extra are raw parameters of the provider's own API, by member name. They win over
	// all else in its JSON body.
	Extra map[string]json.RawMessage
}

// EmbeddingInput is a text, or a list of tokens.
type EmbeddingInput struct {
	Text string
	// Tokens is a list of the numbers of tokens, as JSON; nil: the input is Text. Count is
	// how many they are.
	Tokens json.RawMessage
	Count  int
}

// Embeddings is an answer. The gateway checks the number of its vectors, their form and
// their length.
type Embeddings struct {
	Model string // that the provider says it used; may be empty
	// Vectors are in the order of the inputs. Each is JSON as the provider sent it: a list
	// of numbers, or a string with the base64 of numbers of 32 bits, little-endian. They
	// may be views of one buffer, which nothing changes afterwards.
	Vectors []json.RawMessage
	// Buffer is memory that the vectors may be views of, and nothing else: further
	// answers are read into it once these vectors are written. It may be nil.
	Buffer []byte
	// Usage has the tokens of the inputs in PromptTokens and TotalTokens; zero if the
	// provider does not count.
	Usage Usage
}
