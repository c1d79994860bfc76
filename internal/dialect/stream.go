package dialect

import (
	"net/http"
	"unicode/utf8"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// Stream sends one answer as server-sent events, which its Writer appends. A rune that
// is split between two deltas is joined before the Writer sees it.
//
// One goroutine calls its methods. Close must be called before the handler returns.
type Stream struct {
	events   wire.EventStream
	writer   Writer
	answer   *Answer
	held     [utf8.UTFMax]byte // the beginning of a rune that a delta broke off
	heldLen  int
	thinking bool // held is of a thought
}

// NewStream prepares a stream of the answer a, and writes nothing yet. Until Finish
// a has the members known before the end.
func NewStream(w http.ResponseWriter, writer Writer, a *Answer) *Stream {
	s := &Stream{writer: writer, answer: a}
	s.events.Open(w, s.heartbeat)
	return s
}

func (s *Stream) heartbeat(dst []byte) []byte { return s.writer.Heartbeat(dst, s.answer) }

// Started reports whether the headers went out, so that the answer's status can no
// longer be changed.
func (s *Stream) Started() bool { return s.events.Started() }

// Limit bounds the time of a stream whose content is known, see wire.EventStream.
func (s *Stream) Limit(bytes, events int) { s.events.Limit(bytes, events) }

// Delta sends a piece of the answer. flush is false if the next piece has already
// arrived. An error means that the client can no longer be reached.
func (s *Stream) Delta(d providers.Delta, flush bool) error {
	return s.events.Send(func(dst []byte) []byte {
		thinking := d.Content == "" && d.Thinking != ""
		if s.heldLen > 0 && (thinking != s.thinking || len(d.Calls) > 0 || d.Thought != nil || d.Found != nil) {
			dst = s.release(dst)
		}
		switch {
		case d.Content != "":
			d.Content = s.join(d.Content)
		case thinking:
			d.Thinking = s.join(d.Thinking)
		}
		s.thinking = thinking
		if d.Content == "" && d.Thinking == "" && d.Thought == nil && len(d.Calls) == 0 && d.Found == nil && len(d.Logprobs) == 0 {
			return dst
		}
		return s.writer.Delta(dst, s.answer, d)
	}, flush)
}

// join returns text behind the bytes held back before, and holds back the beginning of
// a rune at its end.
func (s *Stream) join(text string) string {
	if s.heldLen > 0 {
		text = string(s.held[:s.heldLen]) + text
		s.heldLen = 0
	}
	// An incomplete rune has at most UTFMax-1 bytes.
	for i := len(text) - 1; i >= 0 && i > len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRuneInString(text[i:]) {
				s.heldLen = copy(s.held[:], text[i:])
				text = text[:i]
			}
			break
		}
	}
	return text
}

// release appends the beginning of a rune whose rest never came.
func (s *Stream) release(dst []byte) []byte {
	if s.heldLen == 0 {
		return dst
	}
	d := providers.Delta{Content: string(s.held[:s.heldLen])}
	if s.thinking {
		d.Content, d.Thinking = "", d.Content
	}
	s.heldLen = 0
	return s.writer.Delta(dst, s.answer, d)
}

// Finish ends a complete answer, of which all is known now. An error means that the
// client did not get it.
func (s *Stream) Finish() error {
	defer s.events.Close()
	return s.events.Send(func(dst []byte) []byte {
		return s.writer.Finish(s.release(dst), s.answer)
	}, true)
}

// Fail ends an answer that broke off after its first event, with the code
// UpstreamInterrupted in place of e's. Its caller must then abort the connection by a
// panic with http.ErrAbortHandler, because some clients take a clean end for a
// complete answer. Before the first event Fail writes nothing: e is an ordinary error.
func (s *Stream) Fail(e *wire.Error) {
	defer s.events.Close()
	if !s.Started() {
		return
	}
	interrupted := wire.Error{Code: wire.UpstreamInterrupted, Message: e.Message}
	_ = s.events.Send(func(dst []byte) []byte {
		return s.writer.Fail(dst, s.answer, &interrupted)
	}, true) // a client that left has no use for the error
}

// Refuse sends the error of an answer that has not begun as a whole stream, if the writer
// is a Refuser of such errors, and reports whether it did.
func (s *Stream) Refuse(e *wire.Error) bool {
	w, refuses := s.writer.(Refuser)
	if !refuses {
		return false
	}
	_ = s.events.Send(func(dst []byte) []byte {
		return w.Refuse(dst, s.answer, e)
	}, true) // a client that left has no use for the error
	return s.Started()
}

// Close stops the heartbeat and releases the writer. It may be called more than once.
func (s *Stream) Close() { s.events.Close() }
