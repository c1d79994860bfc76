package trace

import (
	"sync"
	"time"

	large "github.com/cadenza-gateway/cadenza/internal/buffers"
)

// State is the progress of the work that a record describes.
type State uint8

// The states. The recorder sets them: Interrupted if it finds a start without an
// end.
const (
	StateEnded       State = iota // the answer or the error is known
	StateStarted                  // an upstream call is about to be made
	StateInterrupted              // the process ended during the upstream call
)

// String returns the state's name, as stored and shown.
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

// FinishReasons are the possible finish_reasons of answers: why a model stops.
var FinishReasons = []string{"stop", "tool_calls", "length", "content_filter"}

// ConsoleKey begins the names under which the playground of the console calls: it is
// followed by the name of the visitor's API key. No API key has such a name. Statistics
// leave the traces of these names out; costs and lists of traces have them.
const ConsoleKey = "console:"

// NoteVariant begins the note on a caller that named the variant of a prompt, which
// follows: the table did not choose it.
const NoteVariant = "caller: variant: "

// Record is the record of one answer: of a prompt, an endpoint or a remote
// configuration. Members that are zero are stored as absent: they were unknown, or
// the log policy excludes them.
//
// Get one from [AcquireRecord] and hand it to the recorder, which owns it from
// then on. Fill the byte slices with append(r.Messages[:0], …): a record keeps
// its buffers for its next use, so no other code may keep them. Strings must not
// point into a buffer that is reused.
//
// A new member also needs a line in [RecordFields].
type Record struct {
	ID        ID
	Time      time.Time // when the request was accepted
	Workspace string
	APIKey    string // the name of the caller's key
	Kind      Kind
	Key       string // of the prompt, endpoint or configuration
	Version   string // of the definition that answered
	Revision  string // of the snapshot with this version
	Reason    string // one of rules.Reason: why Row answered
	Row       string // the matched row; empty: the default answered
	Variant   string // of a prompt

	// Arm is the choice of the table. For a prompt, and for an endpoint's prompt, it
	// is the key of the variant. For a configuration, it is the name of the part of a
	// split, or its number, counted from 1; empty: the row has no split.
	Arm string

	// EndpointVariant and EndpointRow are, for an endpoint with its own table, the
	// variant that decided how to call, and the row; an empty row: the default.
	EndpointVariant, EndpointRow string

	// Prompt and PromptVersion are the key and version of the prompt sent by an endpoint.
	Prompt, PromptVersion string

	Provider string // the one that answered
	Model    string
	Attempts []Attempt

	State      State
	Status     int    // HTTP status of the answer; 0 until it ended
	Code       string // error code of the answer; empty on success
	Latency    time.Duration
	FirstToken time.Duration // from the request to the first content

	// FinishReason is the reason why the model stopped, for an endpoint: one of
	// [FinishReasons]. Empty: there is no answer, or the provider gave no reason.
	FinishReason string

	HasUsage         bool // whether the tokens are known
	PromptTokens     int64
	CompletionTokens int64
	TotalTokens      int64
	Cost             float64 // in US dollars; 0: unknown
	Cached           bool    // a cache answered

	// The basis of the decision, as JSON. Splits are the evaluated splits and ramps,
	// including the ones that passed the unit on, and after them those of the same tables
	// that were not consulted. Read are the versions of the
	// configurations that were read, by "remoteconfigs/KEY". Inputs are the values of
	// the fields that the tables read, if the data model has them recorded.
	Splits []byte // array
	Read   []byte // object
	Inputs []byte // object

	Notes    []string // oddities of the request
	Metadata []byte   // JSON

	// Content, recorded only if the log policy says so.
	Context   []byte // JSON
	Variables []byte // JSON
	Messages  []byte // JSON: as sent upstream, or as answered
	Response  []byte // the answer's text, or a configuration's JSON
	ToolCalls []byte // JSON: the tool calls of an endpoint's answer

	// Decision is the id of the request, of [KindDecision]. All records of a request
	// have the same. It is zero in some records of earlier versions.
	Decision ID

	// Answers is how many answers the record stands for, if further ones were counted on it;
	// otherwise 0. A store adds it when the record is read: it is not part of the seal.
	Answers int

	// Seal is the seal made by Sealer. Empty: the record has no seal.
	Seal string
	// Sealer seals the record before it is stored; nil: it gets no seal.
	Sealer *Sealer

	// Shared has the members that the record shares with other records of its
	// Decision. They replace its own Metadata, Context and Variables; nil: it shares
	// nothing. SharesContent says that the content of Shared belongs to it, too.
	Shared        *Shared
	SharesContent bool
}

// Attempt is one try of an upstream call.
type Attempt struct {
	Provider string        `json:"provider"`
	Model    string        `json:"model,omitempty"`
	Status   int           `json:"status,omitempty"` // HTTP status of the provider; 0: no response
	Code     string        `json:"code,omitempty"`   // class of its failure; empty on success
	Error    string        `json:"error,omitempty"`  // the failure in words: one line of at most 500 bytes, without secrets
	Latency  time.Duration `json:"latency_ns"`       // until it ended or failed

	Started    time.Duration `json:"started_ns,omitempty"`     // from the start of the call
	Wait       time.Duration `json:"wait_ns,omitempty"`        // before the attempt
	FirstToken time.Duration `json:"first_token_ns,omitempty"` // from its start; 0: no content came

	// The used tokens: the provider's count, or, if the attempt was stopped before
	// that, an estimate from its text.
	PromptTokens     int64 `json:"prompt_tokens,omitempty"`
	CompletionTokens int64 `json:"completion_tokens,omitempty"`
	Estimated        bool  `json:"estimated,omitempty"`
	UsageDetails

	// Cost is the cost in US dollars: the provider's number, or else the cost of the
	// tokens by the price of the model. ListCost is the latter, if the provider's number
	// differs. Zero: unknown, or no cost.
	Cost     float64 `json:"cost_usd,omitempty"`
	ListCost float64 `json:"list_cost_usd,omitempty"`
	// Free reports that the attempt is known to cost nothing, by a price of 0 or by the
	// provider. If it is false and tokens were used, a Cost of 0 means unknown.
	Free bool `json:"free,omitempty"`

	Hedge bool `json:"hedge,omitempty"` // made while another attempt was running
}

// UsageDetails are the parts of an attempt's tokens that have their own prices, and other
// priced items. See providers.Usage.
type UsageDetails struct {
	CachedTokens          int64  `json:"cached_tokens,omitempty"`           // part of PromptTokens
	CacheWriteTokens      int64  `json:"cache_write_tokens,omitempty"`      // part of PromptTokens
	CacheWriteHourTokens  int64  `json:"cache_write_hour_tokens,omitempty"` // part of PromptTokens
	PromptAudioTokens     int64  `json:"prompt_audio_tokens,omitempty"`
	PromptImageTokens     int64  `json:"prompt_image_tokens,omitempty"`
	ReasoningTokens       int64  `json:"reasoning_tokens,omitempty"` // part of CompletionTokens
	CompletionAudioTokens int64  `json:"completion_audio_tokens,omitempty"`
	CompletionImageTokens int64  `json:"completion_image_tokens,omitempty"`
	WebSearches           int64  `json:"web_searches,omitempty"`
	FileSearches          int64  `json:"file_searches,omitempty"`
	CodeExecutions        int64  `json:"code_executions,omitempty"`
	Tier                  string `json:"tier,omitempty"` // the service tier, unless it is the default
}

// maxKeptBuffer is the size in bytes of the largest buffer that a pooled record
// keeps, so that one huge answer does not stay in memory.
const maxKeptBuffer = 16 << 10

var records = sync.Pool{New: func() any { return new(Record) }}

// AcquireRecord returns an empty record, whose slices may have capacity.
func AcquireRecord() *Record { return records.Get().(*Record) }

// stackBuffers is the number of buffers for which the stack has space. A record may
// have more.
const stackBuffers = 12

// ReleaseRecord returns a record that was not handed to a recorder.
func ReleaseRecord(r *Record) {
	clear(r.Attempts)
	clear(r.Notes)
	own := make([][]byte, 0, stackBuffers)
	for i := range buffers {
		own = append(own, kept(*buffers[i].bytes(r)))
	}
	*r = Record{Attempts: r.Attempts[:0], Notes: r.Notes[:0]}
	for i := range buffers {
		*buffers[i].bytes(r) = own[i]
	}
	records.Put(r)
}

// kept returns the buffer for the record's next use, unless it is large.
func kept(buffer []byte) []byte {
	if cap(buffer) > maxKeptBuffer {
		large.Put(buffer)
		return nil
	}
	return buffer[:0]
}

// CopyFrom makes r a copy of other. It copies the buffers, but not Shared.
func (r *Record) CopyFrom(other *Record) {
	own := make([][]byte, 0, stackBuffers)
	for i := range buffers {
		own = append(own, *buffers[i].bytes(r))
	}
	attempts, notes := r.Attempts, r.Notes
	*r = *other
	r.Attempts = append(attempts[:0], other.Attempts...)
	r.Notes = append(notes[:0], other.Notes...)
	for i := range buffers {
		buffer := buffers[i].bytes(r)
		*buffer = append(own[i][:0], *buffer...)
	}
}

// recordOverhead is the approximate memory of an empty record or empty metrics, in bytes.
const recordOverhead = 512

// Size returns the approximate memory of the record without Shared, in bytes. Model
// counts, because an upstream may send a text of any length.
func (r *Record) Size() int {
	size := recordOverhead + len(r.Model) + 232*len(r.Attempts)
	for i := range r.Attempts {
		size += len(r.Attempts[i].Error)
	}
	for i := range buffers {
		size += len(*buffers[i].bytes(r))
	}
	for _, note := range r.Notes {
		size += 16 + len(note)
	}
	return size
}

// HasContent reports whether the record has members that only the log policy content
// records.
func (r *Record) HasContent() bool {
	for i := range buffers {
		if buffers[i].Content && len(*buffers[i].bytes(r)) > 0 {
			return true
		}
	}
	return r.SharesContent && len(r.Shared.Context)+len(r.Shared.Variables) > 0
}

// DropContent empties the members that only the log policy content records. It
// reports whether there were any. Other records with the same Shared keep its
// content.
func (r *Record) DropContent() (some bool) {
	some = r.HasContent()
	for i := range buffers {
		if buffers[i].Content {
			buffer := buffers[i].bytes(r)
			*buffer = kept(*buffer)
		}
	}
	if r.SharesContent && len(r.Shared.Context)+len(r.Shared.Variables) > 0 {
		r.Shared = &Shared{Notes: r.Shared.Notes, Metadata: r.Shared.Metadata}
		r.SharesContent = false
	}
	return some
}
