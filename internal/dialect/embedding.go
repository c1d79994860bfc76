package dialect

import (
	"encoding/json"
	"strconv"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Embedding is what a request for vectors asks for, and gets.
type Embedding struct {
	Inputs []providers.EmbeddingInput
	// Listed reports that the request has a list of inputs, not a single one.
	Listed bool
	// Dimensions is the length that the vectors are to have; 0: the model's own.
	Dimensions int64
	// Base64 asks for vectors in base64, not as lists of numbers.
	Base64 bool

	// Vectors are the answer, in the order of the inputs and in the form that was asked
	// for. They hold Memory until the answer is written.
	Vectors []json.RawMessage
	Memory  providers.Held
}

// Param returns the path of an input.
func (e *Embedding) Param(i int) string {
	if !e.Listed {
		return "input"
	}
	return "input[" + strconv.Itoa(i) + "]"
}
