// Package embeddings is OpenAI's API for vectors of texts, POST /v1/embeddings
// (https://platform.openai.com/docs/api-reference/embeddings).
package embeddings

import (
	"strconv"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// Dialect is OpenAI's API for vectors.
var Dialect dialect.Dialect = embeddings{}

type embeddings struct{}

// AppendError appends an error's own body, which has OpenAI's members.
func (embeddings) AppendError(dst []byte, e *wire.Error) []byte { return e.AppendJSON(dst) }

// Parse reads a request's body.
func (embeddings) Parse(r *wire.Request) (*dialect.Call, dialect.Writer, *wire.Error) {
	body, err := r.Object()
	if err != nil {
		return nil, nil, err
	}
	// One allocation for all four.
	of := new(struct {
		parser parser
		call   dialect.Call
		wanted dialect.Embedding
		writer writer
	})
	p := &of.parser
	p.Request = openai.Request{Wire: r, Body: body, Call: &of.call}
	of.call.Embedding, of.writer.Embedding = &of.wanted, &of.wanted
	of.call.TurnsParam = "input"
	if err := members.ReadBody(p, p.Call, body); err != nil {
		return nil, nil, err
	}
	if of.wanted.Inputs == nil {
		return nil, nil, dialect.Wrong("input", "is required: a text, a list of texts, a list of tokens or a list of such lists.")
	}
	return p.Call, &of.writer, nil
}

// members are the members of OpenAI's API, and our own. docs/embeddings.md has the same
// table.
var members = openai.NewMembers([]openai.Member[*parser]{
	{Path: "model", Fate: dialect.Mapped, Note: "The endpoint's key.", Read: (*parser).Model},
	{Path: "input", Fate: dialect.Forwarded, Note: "A text, a list of texts, a list of tokens or a list of such lists: at most 2048, none of them empty.", Read: (*parser).input},
	{Path: "dimensions", Fate: dialect.Forwarded, Note: "The length of the vectors. A model that makes others does not answer.", Read: (*parser).dimensions},
	{Path: "encoding_format", Fate: dialect.Forwarded, Note: "float or base64.", Read: (*parser).format},
	{Path: "user", Fate: dialect.Forwarded, Note: "Metadata of the trace, too.", Read: (*parser).User},
	{Path: "context", Fate: dialect.Mapped, Note: "An object, of which the trace records what the data model says.", Read: (*parser).Context},
	{Path: "metadata", Fate: dialect.Mapped, Note: "An object that the trace keeps, and limits count by.", Read: (*parser).Metadata},
})

// parser reads one request.
type parser struct{ openai.Request }

const (
	// maxInputs bounds the inputs of a request, as OpenAI does.
	maxInputs = 2048
	// maxDimensions bounds the length of vectors that a request asks for.
	maxDimensions = 1 << 16
)

func (p *parser) input(v *fastjson.Value) *wire.Error {
	e := p.Call.Embedding
	list := v.GetArray()
	if v.Type() == fastjson.TypeArray && len(list) == 0 {
		return dialect.Wrong("input", "is an empty list: send a text, a list of texts, a list of tokens or a list of such lists.")
	}
	if v.Type() != fastjson.TypeArray || list[0].Type() == fastjson.TypeNumber {
		list = []*fastjson.Value{v}
	} else {
		e.Listed = true
	}
	if len(list) > maxInputs {
		return dialect.Wrong("input", "has %d elements, at most %d are possible. Send the rest in another request.", len(list), maxInputs)
	}
	e.Inputs = make([]providers.EmbeddingInput, len(list))
	for i, item := range list {
		in := &e.Inputs[i]
		switch item.Type() {
		case fastjson.TypeString:
			in.Text = openai.Text(item)
		case fastjson.TypeArray:
			if err := readTokens(e, i, item.GetArray()); err != nil {
				return err
			}
		default:
			return dialect.Wrong(e.Param(i), "must be a text or a list of tokens, not %s.", wire.Describe(item))
		}
		if in.Text == "" && in.Count == 0 {
			return dialect.Wrong(e.Param(i), "is empty, and can have no vector.")
		}
	}
	return nil
}

// readTokens reads input i, a list of the numbers of tokens.
func readTokens(e *dialect.Embedding, i int, list []*fastjson.Value) *wire.Error {
	raw := make([]byte, 0, 7*len(list)+2)
	raw = append(raw, '[')
	for n, v := range list {
		token, err := v.Int64()
		if err != nil || token < 0 {
			return dialect.Wrong(e.Param(i)+"["+strconv.Itoa(n)+"]", "must be the number of a token: a whole number from 0.")
		}
		if n > 0 {
			raw = append(raw, ',')
		}
		raw = strconv.AppendInt(raw, token, 10)
	}
	e.Inputs[i].Tokens, e.Inputs[i].Count = append(raw, ']'), len(list)
	return nil
}

func (p *parser) dimensions(v *fastjson.Value) *wire.Error {
	n, err := v.Int64()
	if err != nil || n < 1 || n > maxDimensions {
		return dialect.Wrong("dimensions", "must be a whole number from 1 to %d.", maxDimensions)
	}
	p.Call.Embedding.Dimensions = n
	return nil
}

func (p *parser) format(v *fastjson.Value) *wire.Error {
	switch format := openai.Text(v); format {
	case "float":
	case "base64":
		p.Call.Embedding.Base64 = true
	default:
		return dialect.Wrong("encoding_format", "must be float or base64.")
	}
	return nil
}

// writer writes an answer.
type writer struct{ *dialect.Embedding }

// Answer appends the body of an answer.
func (w *writer) Answer(dst []byte, a *dialect.Answer) []byte {
	dst = append(dst, `{"object":"list","data":[`...)
	for i, vector := range w.Vectors {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"object":"embedding","index":`...)
		dst = strconv.AppendInt(dst, int64(i), 10)
		dst = append(dst, `,"embedding":`...)
		dst = append(append(dst, vector...), '}')
	}
	dst = append(dst, `],"model":`...)
	dst = jsontext.AppendString(dst, a.Key)
	dst = append(dst, `,"usage":{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, a.Usage.PromptTokens, 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, a.Usage.TotalTokens, 10)
	return append(dst, `}}`...)
}

// Held returns how many bytes the vectors add to an answer.
func (w *writer) Held() int {
	const around = 64 // of each vector
	size := 0
	for _, vector := range w.Vectors {
		size += around + len(vector)
	}
	return size
}

// Release gives the memory of the vectors back.
func (w *writer) Release() { w.Memory.Release() }

// No request asks for a stream.

// Pieces is false.
func (w *writer) Pieces() bool { return false }

// Delta appends nothing.
func (w *writer) Delta(dst []byte, _ *dialect.Answer, _ providers.Delta) []byte { return dst }

// Heartbeat appends nothing.
func (w *writer) Heartbeat(dst []byte, _ *dialect.Answer) []byte { return dst }

// Finish appends nothing.
func (w *writer) Finish(dst []byte, _ *dialect.Answer) []byte { return dst }

// Fail appends nothing.
func (w *writer) Fail(dst []byte, _ *dialect.Answer, _ *wire.Error) []byte { return dst }
