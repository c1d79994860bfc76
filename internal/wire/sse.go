package wire

import (
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	// heartbeatInterval is the silence after which a stream sends a heartbeat, so
	// that no proxy closes the connection as idle.
	heartbeatInterval = 15 * time.Second
	// deadlineSlack makes many events share one deadline, because setting one
	// costs more than writing an event.
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

// EventStream sends server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html). It writes nothing,
// not even headers, before the first of them, so that an earlier failure is an
// ordinary error. Afterwards it keeps the connection alive with heartbeats.
//
// One goroutine calls its methods. Close must be called before the handler
// returns.
type EventStream struct {
	w       http.ResponseWriter
	control http.ResponseController
	beats   func(dst []byte) []byte

	mu        sync.Mutex // guards the fields below and every write
	batch     *batch     // whole events that are not written yet; nil for none
	heartbeat *time.Timer
	lastWrite time.Time
	deadline  time.Time // zero if none is set
	limit     time.Time // no deadline is later; zero without a limit
	noTimeout bool      // the writer has no deadlines
	unflushed bool
	started   bool
	closed    bool
	err       error // of the first write that failed, after which none is made
}

// Open prepares the stream, which must be new. It writes nothing yet. heartbeat appends
// the event of a heartbeat.
func (s *EventStream) Open(w http.ResponseWriter, heartbeat func(dst []byte) []byte) {
	s.w, s.control, s.beats = w, *http.NewResponseController(w), heartbeat
}

// Limit bounds the time that a client has to take the whole stream, if its content is
// known and has that many bytes in that many events. Without it only the time for
// each event is bounded. It is called before the first event.
func (s *EventStream) Limit(bytes, events int) {
	s.limit = time.Now().Add(WriteTime(bytes + events*aroundContent))
}

// aroundContent estimates the bytes of an event without its content.
const aroundContent = 256

// Started reports whether the headers went out, so that the answer's status can
// no longer be changed.
func (s *EventStream) Started() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started
}

// Send sends the events, all complete, that the function events appends to dst,
// which may be none. The stream's lock is held meanwhile. flush is false if the
// next events are already available, so that several share one write and one
// flush. An error means that the client can no longer be reached.
func (s *EventStream) Send(events func(dst []byte) []byte, flush bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errStreamClosed
	}
	s.add(events)
	if flush {
		s.flush()
	}
	return s.err
}

// add adds events to the pending ones. It writes the first events of a stream at once,
// because with them the answer has begun, and others if they are many.
func (s *EventStream) add(events func(dst []byte) []byte) {
	if s.batch == nil {
		s.batch = batches.Get().(*batch)
	}
	s.batch.events = events(s.batch.events)
	if !s.started || len(s.batch.events) >= batchSize {
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

// Close stops the heartbeat and releases the writer. It may be called more than
// once.
func (s *EventStream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// write writes the pending events: in one piece, or in several if they are large.
// Before the first event it sends the headers.
func (s *EventStream) write() {
	if s.batch == nil {
		return
	}
	defer s.drop()
	if s.err != nil || len(s.batch.events) == 0 {
		return
	}
	if !s.started {
		s.started = true
		StartEvents(s.w)
		s.heartbeat = time.AfterFunc(heartbeatInterval, s.beat)
	}
	now := time.Now()
	s.lastWrite = now
	limit := now.Add(WriteTime(len(s.batch.events)) + deadlineSlack)
	if !s.limit.IsZero() {
		limit = earlier(limit, s.limit)
	}
	for rest := s.batch.events; ; now = time.Now() {
		piece := rest[:min(len(rest), writePiece)]
		s.allow(now, WriteTime(len(piece)), limit)
		_, s.err = s.w.Write(piece)
		if rest = rest[len(piece):]; s.err != nil || len(rest) == 0 {
			break
		}
	}
	s.unflushed = true
}

// StartEvents writes the header of a response with server-sent events.
func StartEvents(w http.ResponseWriter) {
	h := w.Header()
	delete(h, "Content-Length")
	h["Content-Type"] = contentTypeEvents
	h["Cache-Control"] = cacheControlEvents
	h["X-Accel-Buffering"] = noBuffering
	w.WriteHeader(http.StatusOK)
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

// beat sends a heartbeat if no event was sent for heartbeatInterval, and sets the
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
	s.add(s.beats)
	s.flush()
	s.heartbeat.Reset(heartbeatInterval)
}
