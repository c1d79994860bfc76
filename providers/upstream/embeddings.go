package upstream

import (
	"encoding/json"
	"io"
	"strconv"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
)

// CheckTexts returns an error if an input is a list of tokens, for a service that takes
// texts alone.
func (s *Service) CheckTexts(inputs []providers.EmbeddingInput) error {
	for i := range inputs {
		if inputs[i].Tokens != nil {
			e := s.Unsendable("%s takes texts, and no lists of tokens", s.Name)
			e.Param, e.Lacks = "input", "input of tokens"
			return e
		}
	}
	return nil
}

// InputSize returns about how many bytes the inputs take as JSON, with so many bytes for
// each beside its text or tokens.
func InputSize(inputs []providers.EmbeddingInput, each int) int {
	size := 0
	for i := range inputs {
		size += len(inputs[i].Text) + len(inputs[i].Tokens) + each
	}
	return size
}

// AppendInputs appends the inputs as a list.
func AppendInputs(dst []byte, inputs []providers.EmbeddingInput) []byte {
	dst = append(dst, '[')
	for i := range inputs {
		if i > 0 {
			dst = append(dst, ',')
		}
		if inputs[i].Tokens != nil {
			dst = append(dst, inputs[i].Tokens...)
		} else {
			dst = jsontext.AppendString(dst, inputs[i].Text)
		}
	}
	return append(dst, ']')
}

// Vectors reads an answer with vectors, and parses the rest of it. The error is a
// *providers.Error.
func (k Call) Vectors(body io.Reader) (*Vectors, *fastjson.Value, error) {
	vectors, err := ReadVectors(body)
	if err != nil {
		return nil, nil, k.Cut(err, false)
	}
	if len(vectors.JSON) == 0 {
		return nil, nil, k.Invalid("an empty answer")
	}
	v, err := fastjson.ParseBytes(vectors.JSON)
	if err != nil {
		return nil, nil, k.Invalid("the answer is not JSON: ", k.Excerpt(vectors.JSON))
	}
	return vectors, v, nil
}

// OfEach returns the vectors that stand in a list, in each of its values at keys. It
// fails if they are not as many as the inputs.
func (v *Vectors) OfEach(k Call, list []*fastjson.Value, inputs int, keys ...string) ([]json.RawMessage, error) {
	if len(list) != inputs {
		return nil, k.Invalid("the answer has " + strconv.Itoa(len(list)) + " vectors for " + strconv.Itoa(inputs) + " inputs")
	}
	all := make([]json.RawMessage, inputs)
	for i, value := range list {
		if all[i] = v.Of(value.Get(keys...)); all[i] == nil {
			return nil, k.Invalid("vector " + strconv.Itoa(i) + " is neither numbers nor base64")
		}
	}
	return all, nil
}
