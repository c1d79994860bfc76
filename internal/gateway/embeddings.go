package gateway

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// maxEmbeddingBatch is the most inputs of one request to a provider. As lists of numbers
// the vectors of so many have 12 MB at a length of 4,096.
const maxEmbeddingBatch = 128

// namedEndpoints is how many endpoints an error names.
const namedEndpoints = 5

// checkTask refuses a request for what the endpoint's models don't do.
func (q *asked) checkTask() *wire.Error {
	vectors := q.brought.Embedding != nil
	if vectors == (q.endpoint.Embedding != nil) {
		return nil
	}
	fit := endpointsThat(q.snapshot, vectors)
	what, instead := "makes vectors", "answers in words"
	if vectors {
		what, instead = instead, what
	}
	text := "There is none that " + instead
	if len(fit) > 0 {
		text = "One that " + instead + ": " + strings.Join(fit[:min(len(fit), namedEndpoints)], ", ")
	}
	where := "; ask it by POST /v1/embeddings"
	if vectors {
		where = "; ask it by another route, such as POST /v1/chat/completions"
	}
	return wire.Errorf(wire.InvalidRequest, q.brought.EndpointParam, "The endpoint %s %s%s. %s.", q.endpoint.Key, what, where, text)
}

// endpointsThat returns the keys of the endpoints that make vectors, or of those that
// answer in words.
func endpointsThat(s *definition.Snapshot, makeVectors bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.Endpoints)), func(key string) bool {
		return (s.Endpoints[key].Embedding != nil) != makeVectors
	})
}

// inputMessages returns the inputs as messages, for the record and for estimates.
func inputMessages(e *dialect.Embedding) []providers.Message {
	messages := make([]providers.Message, len(e.Inputs))
	for i := range e.Inputs {
		messages[i] = providers.Message{Role: "user", Content: jsontext.Escape(e.Inputs[i].Text)}
		if tokens := e.Inputs[i].Tokens; tokens != nil {
			messages[i].Content = jsontext.Text(jsontext.View(tokens))
		}
	}
	return messages
}

// embedding is the state of a call for vectors. Each attempt goes on where the one before
// has failed: the vectors of all targets are of one space, and those that are there are
// paid for.
type embedding struct {
	*dialect.Embedding
	targets  []invoke.Target
	messages []providers.Message // see inputMessages
	user     string
	batch    int             // the endpoint's bound of the inputs of one request; 0: none
	usage    providers.Usage // of the vectors
	length   int             // of each vector; 0: there is none yet
	long     int             // the input that is too long for a model
	scratch  []byte
}

func newEmbedding(i *invocation) *embedding {
	return &embedding{Embedding: i.plan.brought.Embedding, targets: i.plan.targets, messages: i.plan.messages, user: i.plan.brought.User, batch: i.plan.endpoint.Embedding.Batch}
}

// ask is invoke.Call.Ask.
func (e *embedding) ask(ctx context.Context, target int, _ *providers.Request) (providers.Stream, error) {
	return &embeddingAttempt{embedding: e, ctx: ctx, target: &e.targets[target]}, nil
}

// embeddingAttempt is an attempt to get the vectors that are missing. As a stream it is an
// answer without content: its result has what the attempt has used, even if it fails.
type embeddingAttempt struct {
	*embedding
	ctx    context.Context
	target *invoke.Target
	result providers.Result
}

// Next gets the vectors.
func (a *embeddingAttempt) Next() (providers.Delta, error) {
	if err := a.embed(); err != nil {
		return providers.Delta{}, err
	}
	return providers.Delta{}, io.EOF
}

// Result has the model and the usage.
func (a *embeddingAttempt) Result() providers.Result { return a.result }

// Close does nothing: the context ends the requests.
func (a *embeddingAttempt) Close() error { return nil }

func (a *embeddingAttempt) embed() error {
	t := a.target
	embedder := providers.EmbedderOf(t.Provider)
	if embedder == nil {
		return &providers.Error{Provider: t.Name, Kind: providers.Status, Status: http.StatusBadRequest, Param: "model", Lacks: "embeddings", Reason: noEmbedder}
	}
	if err := a.checkWindow(); err != nil {
		return err
	}
	most := embedder.EmbeddingBatch(t.Model)
	for from := len(a.Vectors); from < len(a.Inputs); from = len(a.Vectors) {
		to := a.next(from, most)
		answer, err := embedder.Embed(a.ctx, &providers.EmbeddingRequest{
			Model: t.Model, Inputs: a.Inputs[from:to], Dimensions: a.Dimensions, Base64: a.Base64, User: a.user, Extra: t.Extra,
		})
		if err != nil {
			a.blame(err, from, to)
			return err
		}
		addUsage(&a.result.Usage, &answer.Usage)
		if a.result.Model = answer.Model; len(answer.Vectors) != to-from {
			return a.invalid("", "the answer has %d vectors for %d inputs", len(answer.Vectors), to-from)
		}
		vectors := make([]json.RawMessage, len(answer.Vectors))
		for i, raw := range answer.Vectors {
			if vectors[i], err = a.accept(raw); err != nil {
				return err
			}
		}
		a.Vectors = append(a.Vectors, vectors...)
		a.Memory.Lend(answer.Buffer)
		addUsage(&a.usage, &answer.Usage)
	}
	return nil
}

const noEmbedder = "the provider makes no vectors: name another one in the endpoint's targets"

// invalid returns the error of an answer that has no use.
func (a *embeddingAttempt) invalid(code, format string, args ...any) error {
	return &providers.Error{Provider: a.target.Name, Kind: providers.Invalid, Status: http.StatusOK, Code: code, Reason: fmt.Sprintf(format, args...)}
}

// accept checks a vector, and returns it in the form that was asked for. It is the one that
// the provider sent, mostly, with its bytes as they are. A vector of the wrong length is no
// failure of the target that its breaker counts: another request may ask for one that it
// makes.
func (a *embeddingAttempt) accept(raw json.RawMessage) (json.RawMessage, error) {
	length, numbers := 0, len(raw) > 2 && raw[0] == '['
	if numbers {
		length = strings.Count(jsontext.View(raw), ",") + 1
	} else if len(raw) > 2 {
		data, err := base64.StdEncoding.AppendDecode(a.scratch[:0], raw[1:len(raw)-1])
		if a.scratch = data; err != nil || len(data)%4 != 0 {
			return nil, a.invalid("", "a vector is not in base64")
		}
		length = len(data) / 4
	}
	const other = string(providers.FinishLength)
	switch {
	case length == 0:
		return nil, a.invalid("", "a vector is empty")
	case a.Dimensions > 0 && int64(length) != a.Dimensions:
		return nil, a.invalid(other, "a vector has %d numbers, and %d were asked for", length, a.Dimensions)
	case a.length > 0 && length != a.length:
		return nil, a.invalid(other, "a vector has %d numbers, and others of the call have %d", length, a.length)
	}
	a.length = length
	if err := a.Memory.Take(len(raw)); err != nil {
		return nil, err
	}
	switch {
	case numbers && a.Base64:
		return a.toBase64(raw)
	case !numbers && !a.Base64:
		return toNumbers(a.scratch), nil
	}
	return raw, nil
}

// toBase64 returns a list of numbers in base64, for a provider that has numbers alone.
func (a *embeddingAttempt) toBase64(raw json.RawMessage) (json.RawMessage, error) {
	data := a.scratch[:0]
	for text := range strings.SplitSeq(jsontext.View(raw[1:len(raw)-1]), ",") {
		n, err := strconv.ParseFloat(strings.TrimSpace(text), 32)
		if err != nil {
			return nil, a.invalid("", "a number of a vector is none of 32 bits")
		}
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(n)))
	}
	a.scratch = data
	return append(base64.StdEncoding.AppendEncode([]byte{'"'}, data), '"'), nil
}

// toNumbers returns the list of numbers that data in base64 has, for a provider that has
// base64 alone.
func toNumbers(data []byte) json.RawMessage {
	raw := []byte{'['}
	for ; len(data) > 0; data = data[4:] {
		if len(raw) > 1 {
			raw = append(raw, ',')
		}
		raw = strconv.AppendFloat(raw, float64(math.Float32frombits(binary.LittleEndian.Uint32(data))), 'g', -1, 32)
	}
	return append(raw, ']')
}

// next returns the end of the batch that begins at from.
func (e *embedding) next(from int, most providers.EmbeddingBatch) int {
	inputs := maxEmbeddingBatch
	for _, bound := range [...]int{most.Inputs, e.batch} {
		if bound > 0 {
			inputs = min(inputs, bound)
		}
	}
	to, tokens := min(from+inputs, len(e.Inputs)), int64(0)
	if most.Tokens == 0 {
		return to
	}
	for i := from; i < to; i++ {
		if tokens += e.mostTokens(i); tokens > int64(most.Tokens) && i > from {
			return i
		}
	}
	return to
}

// mostTokens returns an upper bound of the tokens of an input.
func (e *embedding) mostTokens(i int) int64 {
	if in := &e.Inputs[i]; in.Tokens != nil {
		return int64(in.Count)
	}
	return invoke.MostTokens(e.messages[i:i+1], nil)
}

// checkWindow refuses inputs that the target's model can't take, as far as its window is
// known, before anything is paid for: some providers cut such a text in silence. Of a text
// CountTokens may count a third too many tokens.
func (a *embeddingAttempt) checkWindow() error {
	window := a.target.Window
	for i := len(a.Vectors); i < len(a.Inputs) && window > 0; i++ {
		in := &a.Inputs[i]
		tokens := int64(in.Count)
		if in.Tokens == nil && int64(len(in.Text)) > window {
			tokens = invoke.CountTokens(a.messages[i:i+1], nil) * 3 / 4
		}
		if tokens > window {
			a.long = i
			return &providers.Error{
				Provider: a.target.Name, Kind: providers.Status, Status: http.StatusBadRequest, Code: wire.ContextLengthExceeded.Name,
				Reason: fmt.Sprintf("input %d has about %d tokens, and the model takes %d", i, tokens, window),
			}
		}
	}
	return nil
}

// longInput matches the path of an input in the words of a provider.
var longInput = regexp.MustCompile(`input\[(\d{1,4})\]`)

// blame finds the input that is too long for a model: the one that its provider names, or
// else the longest of the batch.
func (e *embedding) blame(err error, from, to int) {
	if invoke.Classify(err) != invoke.ContextLength {
		return
	}
	if failure, ok := errors.AsType[*providers.Error](err); ok {
		if found := longInput.FindStringSubmatch(failure.Param + " " + failure.Message); found != nil {
			if n, _ := strconv.Atoi(found[1]); from+n < to {
				e.long = from + n
				return
			}
		}
	}
	size := func(i int) int { return max(e.Inputs[i].Count*4, len(e.Inputs[i].Text)) }
	e.long = from
	for i := from + 1; i < to; i++ {
		if size(i) > size(e.long) {
			e.long = i
		}
	}
}

// tooLong returns the path of the input that is too long, and the text of the error.
func (e *embedding) tooLong(failure *invoke.Error) (param, message string) {
	param = e.Param(e.long)
	message = strconv.Quote(param) + " has more tokens than the endpoint's models take. Split it, and send a part at a time."
	if failure.Tokens > 0 {
		message = fmt.Sprintf("%q has more tokens than the endpoint's models take: the maximum context length is %d tokens. Split it, and send a part at a time.", param, failure.Window)
	}
	return param, message
}

// complete gives the result the usage of all vectors, of which another attempt may have
// made some.
func (e *embedding) complete(result *invoke.Result) {
	if e.usage.Counted() {
		result.Usage, result.Estimated = e.usage, false
	}
}

func addUsage(sum, of *providers.Usage) {
	sum.PromptTokens += of.PromptTokens
	sum.TotalTokens += of.TotalTokens
	sum.Cost += of.Cost
	sum.HasCost = sum.HasCost || of.HasCost
	sum.Tier = of.Tier
}

// checkEmbedder returns an error if a target of an endpoint that makes vectors can't.
func checkEmbedder(endpoint *definition.Endpoint, provider providers.Provider) error {
	if endpoint.Embedding == nil || provider == nil || providers.EmbedderOf(provider) != nil {
		return nil
	}
	return errors.New(noEmbedder)
}
