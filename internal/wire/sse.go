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
)

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
	control *http.ResponseController
	start   []byte // an event up to its content
	first   func(dst []byte) []byte

	mu        sync.Mutex // guards the fields below and every write
	event     []byte     // the event under construction
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
	s := &EventStream{w: w, control: http.NewResponseController(w)}
	s.start = append(s.start, `data: {"trace_id":`...)
	s.start = jsontext.AppendString(s.start, traceID)
	s.start = append(s.start, `,"content":"`...)
	s.event = make([]byte, 0, 512)
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
// next piece has arrived already, so that several pieces share one flush. Bytes of
// content that are not UTF-8 become U+FFFD, but a rune that is split between two
// deltas is joined. An error means that the client can no longer be reached.
func (s *EventStream) Delta(content string, flush bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errStreamClosed
	}
	s.event = append(s.event[:0], s.start...)
	head := len(s.event)
	s.appendContent(content)
	if len(s.event) > head {
		s.event = append(s.event, "\",\"is_final\":false}\n\n"...)
		s.write()
	}
	if flush {
		s.flush()
	}
	return s.err
}

// appendContent appends content to the event, preceded by the bytes held back
// before, and holds back the beginning of a rune at its end.
func (s *EventStream) appendContent(content string) {
	if s.heldLen > 0 {
		for content != "" && !utf8.RuneStart(content[0]) && !utf8.FullRune(s.held[:s.heldLen]) {
			s.held[s.heldLen] = content[0]
			s.heldLen++
			content = content[1:]
		}
		if content == "" && !utf8.FullRune(s.held[:s.heldLen]) {
			return
		}
		s.appendHeld()
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
	s.event = jsontext.AppendEscaped(s.event, content)
}

func (s *EventStream) appendHeld() {
	s.event = jsontext.AppendEscaped(s.event, s.held[:s.heldLen])
	s.heldLen = 0
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
	s.event = append(s.event[:0], s.start...)
	s.event = append(s.event, `","is_final":false`...)
	s.event = appendToolCallsMember(s.event, list)
	s.event = append(s.event, "}\n\n"...)
	s.write()
	s.flush()
	return s.err
}

// releaseHeld sends the beginning of a rune whose rest never came.
func (s *EventStream) releaseHeld() {
	if s.heldLen == 0 {
		return
	}
	s.event = append(s.event[:0], s.start...)
	s.appendHeld()
	s.event = append(s.event, "\",\"is_final\":false}\n\n"...)
	s.write()
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
	s.event = append(s.event[:0], s.start...)
	s.event = append(s.event, `","is_final":true`...)
	s.event = end.appendMembers(s.event)
	s.event = append(s.event, "}\n\n"...)
	s.write()
	s.flush()
	s.event = append(s.event[:0], "data: [DONE]\n\n"...)
	s.write()
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
	s.event = append(s.event[:0], "event: error\n"...)
	s.event = append(s.event, s.start...)
	s.event = append(s.event, `","is_final":false,"error":`...)
	s.event = interrupted.appendObject(s.event)
	s.event = append(s.event, "}\n\n"...)
	s.write()
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
	if s.heartbeat != nil {
		s.heartbeat.Stop()
	}
	if !s.deadline.IsZero() {
		// The connection may serve another request.
		_ = s.control.SetWriteDeadline(time.Time{})
	}
}

// write sends s.event: in one piece, or in several where it is large. Before the
// first event it sends the headers.
func (s *EventStream) write() {
	if s.err != nil {
		return
	}
	if !s.started {
		if s.first != nil {
			const end = "}\n\n" // of every event but [DONE], which is never the first
			s.event = append(s.first(s.event[:len(s.event)-len(end)]), end...)
			defer func() { s.event = nil }() // it may be large, and the stream long
		}
		s.started = true
		h := s.w.Header()
		h.Del("Content-Length")
		// Without a charset some clients read text/* as ISO 8859-1.
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-store, no-transform")
		h.Set("X-Accel-Buffering", "no")
		s.w.WriteHeader(http.StatusOK)
		s.heartbeat = time.AfterFunc(heartbeatInterval, s.beat)
	}
	now := time.Now()
	s.lastWrite = now
	limit := now.Add(WriteTime(len(s.event)) + deadlineSlack)
	if !s.limit.IsZero() {
		limit = earlier(limit, s.limit)
	}
	for rest := s.event; ; now = time.Now() {
		piece := nextPiece(rest)
		s.allow(now, WriteTime(len(piece)), limit)
		_, s.err = s.w.Write(piece)
		if rest = rest[len(piece):]; s.err != nil || len(rest) == 0 {
			break
		}
	}
	s.unflushed = true
}

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

// flush sends what was written to the network. A writer that cannot flush delivers
// the answer later.
func (s *EventStream) flush() {
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
	s.event = append(s.event[:0], s.start...)
	s.event = append(s.event, "\",\"is_final\":false}\n\n"...)
	s.write()
	s.flush()
	s.heartbeat.Reset(heartbeatInterval)
}
