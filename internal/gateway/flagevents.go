package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/kind"
)

const (
	// flagEventSpread is the time over which the streams of a workspace are told of a
	// change, so that their clients don't all ask again at once.
	flagEventSpread = time.Second
	// flagEventPace is the time between two looks at the streams while they are told.
	flagEventPace = 20 * time.Millisecond
	// flagEventCheck is how often the keys of the streams are checked.
	flagEventCheck = time.Second
	// flagEventBeat is the silence after which a stream gets a comment, so that no proxy
	// closes its connection as idle.
	flagEventBeat = 45 * time.Second
)

// flagEvents are the open streams of a workspace that tell of changes of its flags. They
// are a part of the workspace's memory, so a stream goes on over reloads and follows the
// newest configuration. One goroutine looks after all streams while there are any; a
// stream has no timer and no goroutine beside its handler's.
type flagEvents struct {
	state  atomic.Pointer[flagState] // the latest; nil: none yet
	edited chan struct{}

	mu      sync.Mutex
	streams []*flagStream
	running bool // the goroutine
	ended   bool // the process or the workspace ends
}

// flagStream is one open stream. The fields after message are the goroutine's, under the
// lock of flagEvents.
type flagStream struct {
	key    string // its name
	digest digest
	ends   time.Time
	// message has the next bytes to send. It is closed when the stream is over.
	message chan []byte

	index int       // in streams; -1: it is not among them
	told  string    // the id of the state that the client knows
	due   time.Time // when it is told of a newer one; zero: it knows the newest
	sent  time.Time // the last message
}

// flagState is what the answers of a workspace's remote configurations depend on apart
// from the context.
type flagState struct {
	revision string    // of all definitions
	rows     string    // those that rollouts of remote configurations are answered by
	flags    string    // a hash of the remote configurations, the data model and rows
	until    time.Time // when time alone changes an answer; zero: never
	id       string    // of all these: gateways with the same definitions have the same
}

func newFlagEvents() *flagEvents { return &flagEvents{edited: make(chan struct{}, 1)} }

// now returns the state of a snapshot at an instant, by the rows of its rollouts.
func (f *flagEvents) now(snapshot *definition.Snapshot, rows string, now time.Time) *flagState {
	last := f.state.Load()
	same := last != nil && last.revision == snapshot.Revision && last.rows == rows
	if same && (last.until.IsZero() || now.Before(last.until)) {
		return last
	}
	next := &flagState{revision: snapshot.Revision, rows: rows}
	if same {
		next.flags = last.flags
	} else {
		next.flags = hashFlags(snapshot, rows)
	}
	for _, config := range snapshot.RemoteConfigs {
		if config.Table() == nil {
			continue
		}
		if at := config.Table().NextChange(now); !at.IsZero() && (next.until.IsZero() || at.Before(next.until)) {
			next.until = at
		}
	}
	next.id = next.flags
	if !next.until.IsZero() {
		next.id += "-" + strconv.FormatInt(next.until.UnixMicro(), 36)
	}
	f.state.Store(next)
	return next
}

// hashFlags returns a hash of all that the answers of remote configurations depend on, so
// that an edit of a prompt is no change.
func hashFlags(snapshot *definition.Snapshot, rows string) string {
	h := sha256.New()
	_, _ = h.Write([]byte(snapshot.Context()))
	for _, d := range snapshot.Definitions {
		if d.Kind != kind.RemoteConfig {
			continue
		}
		for _, text := range append([]string{d.Key, d.Version}, d.Aliases...) {
			_, _ = h.Write([]byte("\x00" + text))
		}
		_, _ = h.Write([]byte("\x01"))
	}
	_, _ = h.Write([]byte(rows))
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// changed is called after an edit, and when a rollout moved.
func (f *flagEvents) changed() {
	select {
	case f.edited <- struct{}{}:
	default:
	}
}

// join adds a stream of the workspace, and returns the present state. It returns nil if as
// many streams as may be are open, or if they end.
func (f *flagEvents) join(w *Workspace, s *flagStream, now time.Time) *flagState {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || len(f.streams) >= w.MaxFlagStreams {
		return nil
	}
	state := f.now(w.Source.Snapshot(), w.rollouts.answers.Load().flags, now)
	s.index, s.told, s.sent = len(f.streams), state.id, now
	f.streams = append(f.streams, s)
	if !f.running {
		f.running = true
		names, name := &w.gateway.metrics.names, w.Name // the workspace must not outlive its end
		go f.run(func() *Workspace { return names.newest(name) })
	}
	return state
}

// leave removes a stream whose client has left.
func (f *flagEvents) leave(s *flagStream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.remove(s)
	if len(f.streams) == 0 {
		f.changed() // the goroutine ends
	}
}

func (f *flagEvents) remove(s *flagStream) {
	if s.index < 0 {
		return
	}
	last := len(f.streams) - 1
	f.streams[s.index] = f.streams[last]
	f.streams[s.index].index = s.index
	f.streams[last] = nil
	f.streams, s.index = f.streams[:last], -1
}

// end ends all streams, now and from now on.
func (f *flagEvents) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	f.endAll()
	f.changed()
}

func (f *flagEvents) endAll() {
	for _, s := range f.streams {
		s.index = -1
		close(s.message)
	}
	f.streams = nil
}

// run looks after the streams until none is left. serving returns the workspace that
// serves now, or nil.
func (f *flagEvents) run(serving func() *Workspace) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var checked time.Time
	for {
		select {
		case <-timer.C:
		case <-f.edited:
		}
		w, now := serving(), time.Now()
		check := now.Sub(checked) >= flagEventCheck
		if check {
			checked = now
		}
		wait, some := f.turn(w, now, check)
		if !some {
			return
		}
		timer.Reset(wait)
	}
}

// turn tells the streams what they are to be told now. check also ends those whose key or
// time is over. It returns the time until the next turn, and whether streams are left.
func (f *flagEvents) turn(w *Workspace, now time.Time, check bool) (wait time.Duration, some bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w == nil {
		f.endAll()
	} else if check {
		f.endInvalid(w, now)
	}
	if len(f.streams) == 0 {
		f.running = false
		return 0, false
	}
	state := f.now(w.Source.Snapshot(), w.rollouts.answers.Load().flags, now)
	wait = flagEventCheck
	if !state.until.IsZero() {
		wait = min(wait, state.until.Sub(now))
	}
	var event []byte
	for i, s := range f.streams {
		switch {
		case s.told == state.id:
			s.due = time.Time{}
			if now.Sub(s.sent) >= flagEventBeat && s.send(heartbeatComment, false) {
				s.sent = now
			}
			continue
		case s.due.IsZero():
			s.due = now.Add(flagEventSpread * time.Duration(i) / time.Duration(len(f.streams)))
		}
		if s.due.After(now) {
			wait = flagEventPace
			continue
		}
		if event == nil {
			event = state.appendEvent(nil, now)
		}
		s.send(event, true)
		s.told, s.due, s.sent = state.id, time.Time{}, now
	}
	return wait, true
}

// endInvalid ends the streams whose key is no longer valid, and those that are old.
func (f *flagEvents) endInvalid(w *Workspace, now time.Time) {
	for i := len(f.streams) - 1; i >= 0; i-- {
		s := f.streams[i]
		p := w.gateway.keys.named(w.Name, s.key)
		if p == nil || p.digest != s.digest || !p.validAt(now) || p.opens(flagEventsRoute, nil) != nil || !now.Before(s.ends) {
			f.remove(s)
			close(s.message)
		}
	}
}

// send gives a message to the stream's handler. An event replaces a message that was not
// sent yet: the client has to ask again only once. send reports whether it gave it.
func (s *flagStream) send(message []byte, event bool) bool {
	select {
	case s.message <- message:
		return true
	default:
	}
	if !event {
		return false
	}
	select {
	case <-s.message:
	default:
	}
	s.message <- message // nobody else sends
	return true
}

// heartbeatComment is a comment: clients ignore it.
var heartbeatComment = []byte(":\n\n")

// appendEvent appends the event that has a client ask for its flags again.
func (s *flagState) appendEvent(dst []byte, now time.Time) []byte {
	dst = append(append(dst, "id: "...), s.id...)
	dst = append(append(dst, "\nevent: message\ndata: {\"type\":\"refetchEvaluation\",\"etag\":\""...), s.id...)
	dst = strconv.AppendInt(append(dst, `","lastModified":`...), now.Unix(), 10)
	return append(dst, "}\n\n"...)
}

// appendStart appends what a stream begins with: after how many milliseconds a client that
// lost it connects again, which differs between clients, and the id of the state, which the
// client names then.
func (s *flagState) appendStart(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, "retry: "...), 1000+rand.Int64N(4000), 10)
	dst = append(append(dst, "\nid: "...), s.id...)
	return append(dst, "\n\n"...)
}
