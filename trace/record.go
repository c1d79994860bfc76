package trace

import (
	"sync"
	"time"
)

// State is how far the work that a record describes has come.
type State uint8

// The states. The recorder sets them: Interrupted where it finds a start without
// an end.
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
// configuration. Members that are zero are stored as absent: they were not known,
// or the log policy left them out.
//
// Get one from [AcquireRecord] and hand it to the recorder, which owns it from
// then on. Fill the byte slices with append(r.Messages[:0], …): a record keeps
// its buffers for its next use, so no other code may hold them. Strings must not
// be views of a buffer that is reused.
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
	Revision  string // of the snapshot that has it
	Reason    string // one of rules.Reason: why Row answered
	Row       string // the matched row; empty: the default answered
	Variant   string // of a prompt

	// Arm is what the table chose: the key of a prompt's variant, for an endpoint
	// that of its prompt; for a configuration the name of the part of a split, or
	// its number from 1 on. Empty: a configuration's row without a split.
	Arm string

	// Of an endpoint with a table of its own: the variant that decided how to
	// call, and the row of the table; an empty row: the default.
	EndpointVariant, EndpointRow string

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

	// What the decision rests on, as JSON. Splits are the splits and ramps that
	// were consulted, also those that passed the unit on; Read are the versions of
	// the configurations that were read, by "remoteconfigs/KEY"; Inputs are the
	// values of the fields that the tables read, as far as the data model has them
	// recorded.
	Splits []byte // array
	Read   []byte // object
	Inputs []byte // object

	Notes    []string // what was odd about the request
	Metadata []byte   // JSON

	// Content, recorded only where the log policy says so.
	Context   []byte // JSON
	Variables []byte // JSON
	Messages  []byte // JSON: as sent upstream, or as answered
	Response  []byte // the answer's text, or a configuration's JSON
	ToolCalls []byte // JSON: those of an endpoint's answer

	// Decision is the id, of [KindDecision], of the request that this record
	// answers, which all records of the request have. Zero: records of earlier
	// versions may have none.
	Decision ID

	// Seal is what its Sealer made: see [Sealer]. Empty: the record has none.
	Seal string
	// Sealer seals the record before it is stored; nil: nothing does.
	Sealer *Sealer

	// Shared has the members that the record shares with others of its Decision,
	// in place of its own Metadata, Context and Variables; nil: none.
	// SharesContent says that the content in Shared is of this record too.
	Shared        *Shared
	SharesContent bool
}

// Attempt is one try of an upstream call.
type Attempt struct {
	Provider string        `json:"provider"`
	Model    string        `json:"model,omitempty"`
	Status   int           `json:"status,omitempty"` // HTTP status of the provider; 0: none came
	Code     string        `json:"code,omitempty"`   // class of its failure; empty on success
	Error    string        `json:"error,omitempty"`  // the failure in words: one line of at most 500 bytes, without secrets
	Latency  time.Duration `json:"latency_ns"`       // until it ended or failed

	Started    time.Duration `json:"started_ns,omitempty"`     // from the start of the call
	Wait       time.Duration `json:"wait_ns,omitempty"`        // before it
	FirstToken time.Duration `json:"first_token_ns,omitempty"` // from its start; 0: no content came

	// What it used, as the provider counted it or, where it was ended before,
	// as its text amounts to.
	PromptTokens     int64 `json:"prompt_tokens,omitempty"`
	CompletionTokens int64 `json:"completion_tokens,omitempty"`
	Estimated        bool  `json:"estimated,omitempty"`
	UsageDetails

	// Cost is what it cost, in US dollars: what the provider said, else what the
	// tokens cost by the price of the model. ListCost is the latter where the provider
	// said otherwise. Zero: unknown, or nothing.
	Cost     float64 `json:"cost_usd,omitempty"`
	ListCost float64 `json:"list_cost_usd,omitempty"`
	// Free reports that it is known to have cost nothing, by a price of 0 or by what
	// the provider said. Without it a Cost of 0 is unknown where tokens were used.
	Free bool `json:"free,omitempty"`

	Hedge bool `json:"hedge,omitempty"` // made beside another
}

// UsageDetails are the parts of an attempt's tokens that have prices of their own, and
// what else is paid for. See providers.Usage.
type UsageDetails struct {
	CachedTokens          int64  `json:"cached_tokens,omitempty"`           // of the prompt's
	CacheWriteTokens      int64  `json:"cache_write_tokens,omitempty"`      // of the prompt's
	CacheWriteHourTokens  int64  `json:"cache_write_hour_tokens,omitempty"` // of the prompt's
	PromptAudioTokens     int64  `json:"prompt_audio_tokens,omitempty"`
	PromptImageTokens     int64  `json:"prompt_image_tokens,omitempty"`
	ReasoningTokens       int64  `json:"reasoning_tokens,omitempty"` // of the completion's
	CompletionAudioTokens int64  `json:"completion_audio_tokens,omitempty"`
	CompletionImageTokens int64  `json:"completion_image_tokens,omitempty"`
	WebSearches           int64  `json:"web_searches,omitempty"`
	FileSearches          int64  `json:"file_searches,omitempty"`
	CodeExecutions        int64  `json:"code_executions,omitempty"`
	Tier                  string `json:"tier,omitempty"` // of service, where it is not the usual one
}

// maxKeptBuffer is the size, in bytes, of the largest buffer that a pooled record
// keeps: one huge answer must not stay in memory.
const maxKeptBuffer = 16 << 10

var records = sync.Pool{New: func() any { return new(Record) }}

// AcquireRecord returns an empty record, whose slices may have capacity.
func AcquireRecord() *Record { return records.Get().(*Record) }

// roomForBuffers is how many buffers fit on the stack. A record may have more.
const roomForBuffers = 12

// ReleaseRecord gives back a record that was not handed to a recorder.
func ReleaseRecord(r *Record) {
	clear(r.Attempts)
	clear(r.Notes)
	own := make([][]byte, 0, roomForBuffers)
	for i := range buffers {
		own = append(own, kept(*buffers[i].bytes(r)))
	}
	*r = Record{Attempts: r.Attempts[:0], Notes: r.Notes[:0]}
	for i := range buffers {
		*buffers[i].bytes(r) = own[i]
	}
	records.Put(r)
}

func kept(buffer []byte) []byte {
	if cap(buffer) > maxKeptBuffer {
		return nil
	}
	return buffer[:0]
}

// CopyFrom makes r equal to from. The buffers are r's own; Shared is the same one.
func (r *Record) CopyFrom(from *Record) {
	own := make([][]byte, 0, roomForBuffers)
	for i := range buffers {
		own = append(own, *buffers[i].bytes(r))
	}
	attempts, notes := r.Attempts, r.Notes
	*r = *from
	r.Attempts = append(attempts[:0], from.Attempts...)
	r.Notes = append(notes[:0], from.Notes...)
	for i := range buffers {
		buffer := buffers[i].bytes(r)
		*buffer = append(own[i][:0], *buffer...)
	}
}

// recordOverhead is about what a record takes besides its content, in bytes.
const recordOverhead = 512

// Size returns about what the record takes in memory, in bytes, without what it
// shares with others. Model counts, since an upstream may send any text for it.
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

// DropContent empties the members that only the log policy content records, and
// reports whether there were any. Other records keep the content that they share
// with this one.
func (r *Record) DropContent() (some bool) {
	for i := range buffers {
		if buffers[i].Content {
			buffer := buffers[i].bytes(r)
			some = some || len(*buffer) > 0
			*buffer = kept(*buffer)
		}
	}
	if r.SharesContent && len(r.Shared.Context)+len(r.Shared.Variables) > 0 {
		some = true
		r.Shared = &Shared{Notes: r.Shared.Notes, Metadata: r.Shared.Metadata}
		r.SharesContent = false
	}
	return some
}
