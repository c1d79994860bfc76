package trace

import (
	"sync"
	"time"
)

// State is how far the work that a record describes has come.
type State uint8

// The states. The recorder sets the first two; a store sets Interrupted when it
// is opened and finds a start without an end.
const (
	StateEnded       State = iota // the answer, or the error, is known
	StateStarted                  // an upstream call is about to be made
	StateInterrupted              // the process ended during the upstream call
)

// String returns the state's name, as it is stored and shown.
func (s State) String() string {
	switch s {
	case StateStarted:
		return "started"
	case StateInterrupted:
		return "interrupted"
	}
	return "ended"
}

// ParseState is the inverse of State.String. It is false for any other name.
func ParseState(name string) (State, bool) {
	for s := StateEnded; s <= StateInterrupted; s++ {
		if s.String() == name {
			return s, true
		}
	}
	return 0, false
}

// FinishReasons are the reasons why a model stops, as answers give them.
var FinishReasons = []string{"stop", "tool_calls", "length", "content_filter"}

// Record is the record of one answer: of a prompt, an endpoint or a remote
// configuration. Members that are zero were not known, or the log policy left
// them out, and are stored as absent.
//
// Get one from [AcquireRecord] and hand it to the recorder, which owns it from
// then on. Fill the byte slices with append(r.Messages[:0], …): a record keeps
// its buffers for its next use, so they must be nobody else's. Strings must be
// real ones, not views of a buffer that is reused.
type Record struct {
	ID        ID
	Time      time.Time // when the request was accepted
	Workspace string
	APIKey    string // the name of the caller's key
	Kind      Kind
	Key       string // of the prompt, endpoint or configuration
	Version   string // of the definition that answered
	Revision  string // of the snapshot that it stands in
	Row       string // the matched row; empty: the default answered
	Variant   string // of a prompt

	// Of an endpoint: the key and the version of the prompt that was sent.
	Prompt, PromptVersion string

	Provider string // that answered
	Model    string
	Attempts []Attempt

	State      State
	Status     int    // HTTP status of the answer; 0 until it ended
	Code       string // error code of the answer; empty on success
	Latency    time.Duration
	FirstToken time.Duration // from the request to the first content

	// FinishReason is why the model of an endpoint's answer stopped: one of
	// [FinishReasons]. Empty: there is no answer, or the provider did not say.
	FinishReason string

	HasUsage         bool // whether the tokens are known
	PromptTokens     int64
	CompletionTokens int64
	TotalTokens      int64
	Cost             float64 // in US dollars; 0: unknown
	Cached           bool    // a cache answered

	Notes    []string // what was odd about the request
	Metadata []byte   // JSON

	// Content, recorded only where the log policy says so.
	Context   []byte // JSON
	Variables []byte // JSON
	Messages  []byte // JSON: as sent upstream, or as answered
	Response  []byte // the answer's text, or a configuration's JSON
	ToolCalls []byte // JSON: those of an endpoint's answer

	// Decision is the id, of [KindDecision], of the request that this is an
	// answer of. Zero: it has none.
	Decision ID

	// Shared is what the record has in common with others of its Decision, in
	// place of Metadata, Context and Variables of its own; nil: nothing.
	// SharesContent reports whether the content in it is of this record too.
	Shared        *Shared
	SharesContent bool
}

// Attempt is one try of an upstream call.
type Attempt struct {
	Provider string        `json:"provider"`
	Model    string        `json:"model,omitempty"`
	Status   int           `json:"status,omitempty"` // HTTP status of the provider; 0: none came
	Code     string        `json:"code,omitempty"`   // class of its failure; empty on success
	Latency  time.Duration `json:"latency_ns"`       // until it ended or failed

	Started    time.Duration `json:"started_ns,omitempty"`     // from the start of the call
	Wait       time.Duration `json:"wait_ns,omitempty"`        // before it
	FirstToken time.Duration `json:"first_token_ns,omitempty"` // from its start; 0: no content came

	// What it used, as the provider counted it or, where it was ended before,
	// as its text amounts to.
	PromptTokens     int64 `json:"prompt_tokens,omitempty"`
	CompletionTokens int64 `json:"completion_tokens,omitempty"`
	Estimated        bool  `json:"estimated,omitempty"`

	Hedge bool `json:"hedge,omitempty"` // made beside another
}

// maxKeptBuffer bounds what a pooled record keeps of each of its buffers, in
// bytes: one huge answer must not stay in memory.
const maxKeptBuffer = 16 << 10

var records = sync.Pool{New: func() any { return new(Record) }}

// AcquireRecord returns an empty record, whose slices may have capacity.
func AcquireRecord() *Record { return records.Get().(*Record) }

// ReleaseRecord gives back a record that was not handed to a recorder.
func ReleaseRecord(r *Record) {
	clear(r.Attempts)
	clear(r.Notes)
	*r = Record{
		Attempts:  r.Attempts[:0],
		Notes:     r.Notes[:0],
		Metadata:  kept(r.Metadata),
		Context:   kept(r.Context),
		Variables: kept(r.Variables),
		Messages:  kept(r.Messages),
		Response:  kept(r.Response),
		ToolCalls: kept(r.ToolCalls),
	}
	records.Put(r)
}

func kept(buffer []byte) []byte {
	if cap(buffer) > maxKeptBuffer {
		return nil
	}
	return buffer[:0]
}

// CopyFrom makes r equal to from, in buffers of its own but for what is shared.
func (r *Record) CopyFrom(from *Record) {
	own := *r
	*r = *from
	r.Attempts = append(own.Attempts[:0], from.Attempts...)
	r.Notes = append(own.Notes[:0], from.Notes...)
	r.Metadata = append(own.Metadata[:0], from.Metadata...)
	r.Context = append(own.Context[:0], from.Context...)
	r.Variables = append(own.Variables[:0], from.Variables...)
	r.Messages = append(own.Messages[:0], from.Messages...)
	r.Response = append(own.Response[:0], from.Response...)
	r.ToolCalls = append(own.ToolCalls[:0], from.ToolCalls...)
}

// recordOverhead is about what a record takes beside its content, in bytes.
const recordOverhead = 512

// Size is about what the record takes in memory, in bytes, without what it
// shares with others.
func (r *Record) Size() int {
	size := recordOverhead + len(r.Model) + len(r.Metadata) + len(r.Context) + len(r.Variables) + len(r.Messages) + len(r.Response) + len(r.ToolCalls) + 96*len(r.Attempts)
	for _, note := range r.Notes {
		size += 16 + len(note)
	}
	return size
}

// DropContent leaves out what only the log policy content records. It reports
// whether there was any. Content that the record shares stays with the others.
func (r *Record) DropContent() (some bool) {
	for _, content := range []*[]byte{&r.Context, &r.Variables, &r.Messages, &r.Response, &r.ToolCalls} {
		some = some || len(*content) > 0
		*content = kept(*content)
	}
	if r.SharesContent && len(r.Shared.Context)+len(r.Shared.Variables) > 0 {
		some = true
		r.Shared = &Shared{Notes: r.Shared.Notes, Metadata: r.Shared.Metadata}
		r.SharesContent = false
	}
	return some
}
