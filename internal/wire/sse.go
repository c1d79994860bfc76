package wire

import (
	"errors"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

const (
	// heartbeatInterval is the silence after which a stream sends an empty event,
	// so that no proxy closes the connection as idle.
	heartbeatInterval = 15 * time.Second
	// deadlineSlack lets many events share one deadline, because setting one costs
	// more than writing an event.
	deadlineSlack = 5 * time.Second
	// batchSize is how many bytes of events are written before their flush comes.
	batchSize = 16 << 10
	// firstBatch is the size of a new batch, in bytes.
	firstBatch = 2 << 10
)

// batch holds events until they are written. A stream that waits for its provider
// has none.
type batch struct{ events []byte }

var batches = sync.Pool{New: func() any { return &batch{make([]byte, 0, firstBatch)} }}

var errStreamClosed = errors.New("wire: the event stream is closed")

// EventStream sends an endpoint's answer as server-sent events. It writes nothing,
// not even headers, before the first content or the end, so that an earlier failure
// is an ordinary error. Afterwards it keeps the connection alive with events of
// empty content.
//
// One goroutine calls its methods. Close must be called before the handler
// returns.
type EventStream struct {
	w       http.ResponseWriter
	control http.ResponseController
	start   []byte // an event up to its content
	first   func(dst []byte) []byte

	mu        sync.Mutex // guards the fields below and every write
	batch     *batch     // whole events that are not written yet; nil for none
	held      [utf8.UTFMax]byte
	heldLen   int // bytes in held: the beginning of a rune that a delta broke off
	heartbeat *time.Timer
	lastWrite time.Time
	deadline  time.Time // zero where none is set
	limit     time.Time // no deadline is later; zero where there is no limit
	noTimeout bool      // the writer has no deadlines
	unflushed bool
	started   bool
	closed    bool
	err       error // of the first write that failed, after which none is made
}

// NewEventStream prepares a stream. It writes nothing yet.
func NewEventStream(w http.ResponseWriter, traceID string) *EventStream {
	const before, after = `data: {"trace_id":`, `,"content":"`
	s := &EventStream{w: w, control: *http.NewResponseController(w)}
	s.start = make([]byte, 0, len(before)+len(traceID)+2+len(after))
	s.start = append(s.start, before...)
	s.start = jsontext.AppendString(s.start, traceID)
	s.start = append(s.start, after...)
	return s
}

// Beside has the first event say more, whichever it is: append is called just before
// the headers go out, and appends further members, each after a comma. It is not
// called where the stream fails before that. It must not use the stream.
func (s *EventStream) Beside(append func(dst []byte) []byte) { s.first = append }

// Limit bounds the time that a client has to take the whole stream, where its content
// is known and has so many bytes in so many events. Without it only the time for
// each event is bounded. It is called before the first event.
func (s *EventStream) Limit(bytes, events int) {
	const end = len("\",\"is_final\":false}\n\n")
	s.limit = time.Now().Add(WriteTime(bytes + events*(len(s.start)+end)))
}

// Started reports whether the headers went out, so that the answer's status can
// no longer be changed.
func (s *EventStream) Started() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started
}

// Delta sends a piece of the answer in an event of its own. flush is false where the
// next piece has arrived already, so that several pieces share one write and one
// flush. Bytes of content that are not UTF-8 become U+FFFD, but a rune that is split
// between two deltas is joined. An error means that the client can no longer be
// reached.
func (s *EventStream) Delta(content string, flush bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errStreamClosed
	}
	events := s.begin()
	head := len(events)
	if events = s.appendContent(events, content); len(events) > head {
		s.add(append(events, endOfEvent...))
	}
	if flush {
		s.flush()
	}
	return s.err
}

// endOfEvent ends an event that is not the last one, after its content.
const endOfEvent = "\",\"is_final\":false}\n\n"

// begin returns the pending events with the beginning of another one.
func (s *EventStream) begin() []byte { return append(s.pending(), s.start...) }

// pending returns the events that are not written yet.
func (s *EventStream) pending() []byte {
	if s.batch == nil {
		s.batch = batches.Get().(*batch)
	}
	return s.batch.events
}

// add takes the pending events with another one after them. It writes the first
// event of a stream at once, because with it the answer has begun, and others where
// they are many.
func (s *EventStream) add(events []byte) {
	s.batch.events = events
	if !s.started || len(events) >= batchSize {
		s.write()
	}
}

// drop empties the batch, and returns it to its pool unless it has become large.
func (s *EventStream) drop() {
	if s.batch != nil && cap(s.batch.events) <= 2*batchSize {
		s.batch.events = s.batch.events[:0]
		batches.Put(s.batch)
	}
	s.batch = nil
}

// appendContent appends content to dst, preceded by the bytes held back before, and
// holds back the beginning of a rune at its end.
func (s *EventStream) appendContent(dst []byte, content string) []byte {
	if s.heldLen > 0 {
		for content != "" && !utf8.RuneStart(content[0]) && !utf8.FullRune(s.held[:s.heldLen]) {
			s.held[s.heldLen] = content[0]
			s.heldLen++
			content = content[1:]
		}
		if content == "" && !utf8.FullRune(s.held[:s.heldLen]) {
			return dst
		}
		dst = s.appendHeld(dst)
	}
	// An incomplete rune has at most UTFMax-1 bytes.
	for i := len(content) - 1; i >= 0 && i > len(content)-utf8.UTFMax; i-- {
		if utf8.RuneStart(content[i]) {
			if !utf8.FullRuneInString(content[i:]) {
				s.heldLen = copy(s.held[:], content[i:])
				content = content[:i]
			}
			break
		}
	}
	return jsontext.AppendEscaped(dst, content)
}

func (s *EventStream) appendHeld(dst []byte) []byte {
	dst = jsontext.AppendEscaped(dst, s.held[:s.heldLen])
	s.heldLen = 0
	return dst
}

// ToolCalls sends the list of the answer's tool calls, in an event of its own
// with empty content. It goes before Finish, once; an empty list sends nothing.
func (s *EventStream) ToolCalls(list []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errStreamClosed
	}
	if len(list) == 0 {
		return s.err
	}
	s.releaseHeld()
	events := append(s.begin(), `","is_final":false`...)
	events = appendToolCallsMember(events, list)
	s.add(append(events, "}\n\n"...))
	s.flush()
	return s.err
}

// releaseHeld writes the beginning of a rune whose rest never came.
func (s *EventStream) releaseHeld() {
	if s.heldLen == 0 {
		return
	}
	s.add(append(s.appendHeld(s.begin()), endOfEvent...))
}

// Finish ends a complete answer: an event with is_final that says how it ended,
// then [DONE]. An error means that the client did not get it.
func (s *EventStream) Finish(end Ending) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errStreamClosed
	}
	s.releaseHeld()
	events := append(s.begin(), `","is_final":true`...)
	events = end.appendMembers(events)
	s.add(append(events, "}\n\n"...))
	s.add(append(s.pending(), "data: [DONE]\n\n"...))
	s.flush()
	s.close()
	return s.err
}

// Fail ends an answer that broke off. Before the first content it answers with e as
// an ordinary error and returns false. Afterwards it sends an error event with the
// code UpstreamInterrupted in place of e's and returns true. The caller must then
// abort the connection by a panic with http.ErrAbortHandler, because some clients
// take a clean end for a complete answer.
func (s *EventStream) Fail(e *Error) (abort bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.started
	}
	if !s.started {
		s.close()
		WriteError(s.w, e)
		return false
	}
	interrupted := Error{Code: UpstreamInterrupted, Message: e.Message}
	events := append(s.pending(), "event: error\n"...)
	events = append(events, s.start...)
	events = append(events, `","is_final":false,"error":`...)
	events = interrupted.appendObject(events)
	s.add(append(events, "}\n\n"...))
	s.flush()
	s.close()
	return true
}

// Close stops the heartbeat and releases the writer. It may be called more than
// once.
func (s *EventStream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.close()
}

func (s *EventStream) close() {
	if s.closed {
		return
	}
	s.closed = true
	s.drop()
	if s.heartbeat != nil {
		s.heartbeat.Stop()
	}
	if !s.deadline.IsZero() {
		// The connection may serve another request.
		_ = s.control.SetWriteDeadline(time.Time{})
	}
}

// write writes the pending events: in one piece, or in several where they are large.
// Before the first event, which is the only one then, it sends the headers.
func (s *EventStream) write() {
	if s.batch == nil {
		return
	}
	defer s.drop()
	if s.err != nil || len(s.batch.events) == 0 {
		return
	}
	if !s.started {
		if s.first != nil {
			const end = "}\n\n" // of every event but [DONE], which is never the first
			events := s.batch.events
			s.batch.events = append(s.first(events[:len(events)-len(end)]), end...)
		}
		s.started = true
		h := s.w.Header()
		delete(h, "Content-Length")
		h["Content-Type"] = contentTypeEvents
		h["Cache-Control"] = cacheControlEvents
		h["X-Accel-Buffering"] = noBuffering
		s.w.WriteHeader(http.StatusOK)
		s.heartbeat = time.AfterFunc(heartbeatInterval, s.beat)
	}
	now := time.Now()
	s.lastWrite = now
	limit := now.Add(WriteTime(len(s.batch.events)) + deadlineSlack)
	if !s.limit.IsZero() {
		limit = earlier(limit, s.limit)
	}
	for rest := s.batch.events; ; now = time.Now() {
		piece := nextPiece(rest)
		s.allow(now, WriteTime(len(piece)), limit)
		_, s.err = s.w.Write(piece)
		if rest = rest[len(piece):]; s.err != nil || len(rest) == 0 {
			break
		}
	}
	s.unflushed = true
}

// The headers of all streams: no code changes them in place. Without a charset some
// clients read text/* as ISO 8859-1.
var (
	contentTypeEvents  = []string{"text/event-stream; charset=utf-8"}
	cacheControlEvents = []string{"no-store, no-transform"}
	noBuffering        = []string{"no"}
)

// allow sets the deadline of the next write, which is never after limit.
func (s *EventStream) allow(now time.Time, need time.Duration, limit time.Time) {
	if s.noTimeout || s.deadline.Sub(now) >= need {
		return
	}
	s.deadline = earlier(now.Add(need+deadlineSlack), limit)
	if s.control.SetWriteDeadline(s.deadline) != nil {
		s.deadline, s.noTimeout = time.Time{}, true
	}
}

// flush writes the pending events, and sends what was written to the network. A
// writer that cannot flush delivers the answer later.
func (s *EventStream) flush() {
	s.write()
	if s.err != nil || !s.unflushed {
		return
	}
	s.unflushed = false
	if err := s.control.Flush(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		s.err = err
	}
}

// beat sends an empty event where none was sent for heartbeatInterval, and sets the
// time of the next check. Events do not reset the timer, because that would cost as
// much as the event.
func (s *EventStream) beat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		// A writer's panic must end this stream, not the process.
		if recovered := recover(); recovered != nil {
			s.err = http.ErrAbortHandler
		}
	}()
	if s.closed || s.err != nil {
		return
	}
	if silence := time.Since(s.lastWrite); silence < heartbeatInterval {
		s.heartbeat.Reset(heartbeatInterval - silence)
		return
	}
	s.add(append(s.begin(), endOfEvent...))
	s.flush()
	s.heartbeat.Reset(heartbeatInterval)
}
