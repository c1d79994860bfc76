// Package dialect holds the APIs in which callers speak to endpoints. A dialect
// reads a request into a Call, which is the same for all of them, and writes the
// answer in its own shape. It knows nothing of definitions, targets, retries, caches
// or traces: they belong to the call.
//
// Each dialect has its own folder, with its parser, its writer and its golden bytes,
// and touches no other.
package dialect

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// Dialect is one API. It is safe for concurrent use.
type Dialect interface {
	// Parse reads the body of a request for an endpoint's answer, as the function Parse
	// asks it to. The writer is for this one answer.
	Parse(r *wire.Request) (*Call, Writer, *wire.Error)
	// AppendError appends the body of an error.
	AppendError(dst []byte, e *wire.Error) []byte
}

// Parse reads the body of a request with a dialect. The texts of a conversation stay as
// they are in the body, see wire.Request.Conversation, unless the dialect has no use for
// one of them, or refuses the request: then it reads once more.
func Parse(d Dialect, r *wire.Request) (*Call, Writer, *wire.Error) {
	call, writer, err := d.Parse(r)
	if r.Unread(err != nil) {
		return d.Parse(r)
	}
	return call, writer, err
}

// Call is a caller's request to an endpoint, in any dialect. Its values and texts are
// views of the request.
type Call struct {
	// Endpoint is the key, of legal form. Variant is the key of the prompt's variant
	// that the caller names behind it; empty: the prompt's table picks.
	Endpoint, Variant string
	// Version is one of OpenAI's versions of a prompt, of which the endpoint knows the
	// variant; empty: none.
	Version string
	// EndpointParam is the path of the member that names the endpoint.
	EndpointParam string
	// Stream asks for server-sent events.
	Stream bool
	// RemoteConfigs are the keys whose values go with the answer.
	RemoteConfigs []string
	// Context, Metadata and Variables are objects with members, or nil.
	Context, Metadata, Variables *fastjson.Value

	// Turns are the caller's messages, or nil. Their roles are user, assistant, tool
	// and, if the caller sends any, system and developer. TurnsParam is the path of
	// their list, and Turn returns the path of one of them.
	Turns      []providers.Message
	TurnsParam string
	// TurnParams are the paths of Turns, or nil if each message i is TurnsParam[i].
	TurnParams []string
	// Parameters are the caller's. Given lists the ones that were set, and their
	// paths.
	Parameters providers.Parameters
	Given      []Given
	// ToolParams are the paths of the caller's tools.
	ToolParams []string
	// Marks are the paths of the marks for the cache that tools and turns have, in this
	// order, see providers.Part.Cache.
	Marks []string
	// Betas are the previews that the caller asks for.
	Betas []string
	// Ignored are the paths of members that have no effect, for HeaderIgnored. Past
	// maxIgnored paths Ignore counts them alone.
	Ignored     []string
	MoreIgnored int
	// Unknown is the path of the first ignored member that the API does not have; empty:
	// there is none.
	Unknown string
	// Hosted is the path of the first tool, or of its calls in a history, that the API's
	// own service runs. They are ignored, too; empty: there is none.
	Hosted string
	// Search is what the request has of the API's own web search, nil for nothing.
	Search *Search
	// Compacts asks for a summary of the conversation, see Answer.Seal.
	Compacts bool
	// Summaries are the turns that are sealed summaries.
	Summaries []int
	// User is the caller's own user, for the trace's metadata; empty: none. UserParam
	// is the path of the member that has it.
	User, UserParam string
	// Embedding is what the request asks vectors for; nil: it asks for an answer in words.
	Embedding *Embedding
}

// Turn returns the path of the caller's message i.
func (c *Call) Turn(i int) string {
	if c.TurnParams != nil {
		return c.TurnParams[i]
	}
	return c.TurnsParam + "[" + strconv.Itoa(i) + "]"
}

// maxIgnored is how many paths a call keeps. HeaderIgnored has room for fewer.
const maxIgnored = 256

// Ignore names a member that has no effect.
func (c *Call) Ignore(path string) {
	if len(c.Ignored) >= maxIgnored {
		c.MoreIgnored++
		return
	}
	c.Ignored = append(c.Ignored, path)
}

// IgnoreUnknown names a member that no table has. It has no effect, so that an app may
// send what its API gets next; an endpoint may refuse it.
func (c *Call) IgnoreUnknown(path string) {
	if c.Unknown == "" {
		c.Unknown = path
	}
	c.Ignore(path)
}

// IgnoreHosted names a tool that the API's own service runs, or a call of one. The gateway
// runs none. An endpoint may refuse it.
func (c *Call) IgnoreHosted(path string) {
	if c.Hosted == "" {
		c.Hosted = path
	}
	c.Ignore(path)
}

// Search is what a request has of its API's own web search. It has an effect once an
// endpoint accepts it: until then its paths are ignored, as those of all hosted tools.
type Search struct {
	// API is the one whose JSON parts of the history have, see providers.Caller.
	API string
	// Tool is nil if only the history has searches. Given are its parameters, and Choice is
	// a choice that only the tool can meet.
	Tool   *providers.WebSearch
	Given  []Given
	Choice *providers.ToolChoice
	// Paths, and those of what the history has, are among the ignored ones.
	Paths, History []string
}

// FromSearch returns Search, and never nil.
func (c *Call) FromSearch(api string) *Search {
	if c.Search == nil {
		c.Search = &Search{API: api}
	}
	return c.Search
}

// Given is a parameter that the caller sets: tools, tool_choice, or one by its name in
// definitions, such as max_tokens.
type Given struct{ Name, Param string }

// Writer writes one answer. All its methods append to dst and keep no part of it. One
// with a method Release is not used after it, and neither is the Call that came with it.
// What Delta, Heartbeat, Finish and Fail append are whole server-sent events, or
// nothing. One goroutine at a time calls it.
type Writer interface {
	// Answer appends the body of a whole answer.
	Answer(dst []byte, a *Answer) []byte
	// Delta appends the events of one piece of a stream. The first call also appends
	// the dialect's first events, and a.Extra. Of a, the members known before the end
	// are set: ID, Key, Time, Revision and Extra.
	Delta(dst []byte, a *Answer, d providers.Delta) []byte
	// Heartbeat appends an event that keeps a silent connection open, after the first Delta.
	Heartbeat(dst []byte, a *Answer) []byte
	// Finish appends the end of a stream that is complete. If Delta was never
	// called it begins the stream, too. A stream of pieces has said its content,
	// thoughts and tool calls by then, unless Pieces is false.
	Finish(dst []byte, a *Answer) []byte
	// Fail appends the event of a stream that broke off after its first Delta.
	Fail(dst []byte, a *Answer, e *wire.Error) []byte
	// Pieces reports whether Delta wants thoughts and tool calls as they arrive. If it
	// is false Delta gets content alone, and tool calls come with Finish.
	Pieces() bool
}

// Refuser is a Writer whose clients act on some errors only within a stream.
type Refuser interface {
	// Refuse appends the whole stream of a call that failed before its first event, or
	// nothing: then the error is answered with its status.
	Refuse(dst []byte, a *Answer, e *wire.Error) []byte
}

// Keeper is a Writer that keeps what an answer repeats at its end.
type Keeper interface {
	// Held returns how many bytes that takes by now: what is kept, and what Answer or
	// Finish will append of it.
	Held() int
}

// Answer is an endpoint's answer.
type Answer struct {
	// TraceID is the id of the call's trace, as text.
	TraceID string
	// Key is the endpoint as the caller named it.
	Key string
	// Time is the arrival of the request, Revision the definitions' revision.
	Time     time.Time
	Revision string
	// Content is the whole text. For Finish of a stream it is empty.
	Content string
	// Refusal reports that the text from its byte Refused on is the model's own refusal.
	Refusal bool
	Refused int
	// Category and Explanation are as in providers.Result.
	Category, Explanation string

	Thoughts  []providers.Thought // Opaque is sealed, see Seal
	ToolCalls []providers.ToolCall
	Found     []providers.Found // Opaque is among Thoughts
	Logprobs  json.RawMessage
	// FinishReason is why the model stopped. Paused is as in providers.Result.
	FinishReason providers.FinishReason
	Paused       bool
	Usage        providers.Usage
	// Estimated reports that the provider gave no usage, so that Usage is an estimate.
	Estimated bool
	// Seal seals a summary, of a call that Compacts.
	Seal func(summary string) string
	// Extra, unless it is nil, appends further members, each after a comma: our own
	// API's members of a decision. Other dialects leave them out.
	Extra func(dst []byte) []byte
}

// Said returns the text, and behind it the model's own refusal, or why the provider cut it.
func (a *Answer) Said() (text, refusal string) {
	at := len(a.Content)
	if a.Refusal {
		at = min(a.Refused, at)
	}
	return a.Content[:at], a.Content[at:] + a.Explanation
}

// Size returns an upper bound of the bytes that the Answer method of any Writer appends,
// without those of a.Extra and those that a Keeper holds.
func (a *Answer) Size() int {
	const rest, part = 1024, 256 // the most that surrounds the texts
	size := rest + jsontext.EscapedLen(a.Key) + jsontext.EscapedLen(a.Content) + len(a.Logprobs) + jsontext.EscapedLen(a.Category) + jsontext.EscapedLen(a.Explanation)
	for i := range a.Thoughts {
		t := &a.Thoughts[i]
		size += part + 2*jsontext.EscapedLen(t.Text) + jsontext.EscapedLen(t.Opaque)
	}
	for i := range a.ToolCalls {
		// The id stands beside the opaque data once more, in base64 or as it is.
		c := &a.ToolCalls[i]
		size += 2*part + 3*jsontext.EscapedLen(c.ID) + jsontext.EscapedLen(c.Name) + jsontext.EscapedLen(c.Arguments) + jsontext.EscapedLen(c.Opaque)
	}
	for i := range a.Found {
		size += 2*part + 6*a.Found[i].Size() + len(a.Found[i].Sources)*part
	}
	if a.Seal != nil {
		size += len(a.Content) // which is in base64
	}
	return size
}

// AppendID appends the trace id without its hyphens, for the ids of other APIs.
func (a *Answer) AppendID(dst []byte) []byte {
	for i := range len(a.TraceID) {
		if c := a.TraceID[i]; c != '-' {
			dst = append(dst, c)
		}
	}
	return dst
}
