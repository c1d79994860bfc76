package gateway

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// FlagEventsPath is the path of the streams that tell of changes of flags.
const FlagEventsPath = "/ofrep/v1/events"

// flagEventsRoute stands for the route of the streams where their keys are checked: client
// keys may open it.
var flagEventsRoute = &route{client: true}

const (
	// flagTokenTime is how long the address of a stream is good for, at least: web clients
	// keep their flags with the address for 30 days.
	flagTokenTime = 30 * 24 * time.Hour
	// maxFlagStreamTime is how long a stream may last. It ends up to flagStreamSpread earlier, so
	// that those that began together don't end together. Clients connect again.
	maxFlagStreamTime, flagStreamSpread = 24 * time.Hour, 2 * time.Hour
	// flagWriteTimeout bounds the time for a client to take a message of a stream.
	flagWriteTimeout = 30 * time.Second
	// maxFlagStreams is the default of max_flag_streams: each stream holds a connection, which
	// takes a descriptor and 40 KB or so.
	maxFlagStreams = 20_000
)

// defaultFlagStreams returns the default of max_flag_streams: half of the descriptors are
// left for other callers, and for providers.
func defaultFlagStreams() int { return min(maxFlagStreams, inflight.Descriptors()/2) }

// tokenEnd is when the tokens of today's addresses end. All tokens of a key are the same for
// a day, so that a client that asks again finds the address that it is connected to.
func tokenEnd(now time.Time) time.Time {
	const day = 24 * time.Hour
	return now.Truncate(day).Add(day + flagTokenTime)
}

// flagToken is the last token of a key, because making one takes longer than a decision.
type flagToken struct {
	end  time.Time
	ids  *authorities // that made it
	text string
}

// flagToken returns the key's token of today.
func (p *principal) flagToken(now time.Time) (text string, ok bool) {
	end, ids := tokenEnd(now), p.workspace.ids.Load()
	if last := p.token.Load(); last != nil && last.end.Equal(end) && last.ids == ids {
		return last.text, true
	}
	if text, ok = p.sealed(end, (*sealKeys).ofTokens); ok {
		p.token.Store(&flagToken{end, ids, text})
	}
	return text, ok
}

// appendEventStreams appends the member eventStreams of an answer with flags: the address of
// the stream that tells when they may have changed. The address has no origin: clients use
// that of the address that they asked, which a gateway behind a proxy doesn't know. It has a
// token, because browsers send no headers there, and the state that the answer is of.
func (in *incoming) appendEventStreams(dst []byte) []byte {
	token, ok := in.key.flagToken(in.began)
	if !ok {
		return append(dst, `"eventStreams":[]`...)
	}
	dst = append(dst, `"eventStreams":[{"type":"sse","endpoint":{"requestUri":"`...)
	dst = append(dst, in.pathBefore(wire.FlagsPath)...)
	dst = append(append(dst, FlagEventsPath+"?token="...), token...)
	dst = append(append(dst, "&since="...), in.workspace.Memory.flags.now(in.snapshot.Whole(), in.workspace.rollouts.answers.Load().flags, in.began).id...)
	return append(dst, `"},"inactivityDelaySec":120}]`...)
}

// pathBefore returns what precedes a route's path in the path that the caller asked for,
// such as /flags if the site serves the gateway below /flags. It is safe in JSON.
func (in *incoming) pathBefore(route string) string {
	url := in.r.URL
	if in.gateway.originalURL != nil {
		url = in.gateway.originalURL(in.r)
	}
	before, ok := strings.CutSuffix(url.EscapedPath(), route)
	if !ok || !strings.HasPrefix(before, "/") || strings.HasPrefix(before, "//") {
		return "" // two slashes would begin the name of a host
	}
	return before
}

// streamFlagEvents tells a client when its flags may have changed, until the client leaves,
// its key is no longer valid, or the process ends. It holds no call and no lease: the stream
// may last a day, over many configurations.
func (g *Gateway) streamFlagEvents(w http.ResponseWriter, r *http.Request, began time.Time, info *requestInfo) outcome {
	query := r.URL.Query()
	token := query.Get("token")
	if token == "" {
		return outcome{wire.UnauthorizedStream(false), unread}
	}
	if err := g.notStarted(r.Context()); err != nil {
		return outcome{err, unread}
	}
	key, ends := g.unseal(token, began, (*sealKeys).ofTokens)
	if key == nil {
		return outcome{wire.UnauthorizedStream(true), unread}
	}
	if err := key.opens(flagEventsRoute, r.Header["Origin"]); err != nil {
		return outcome{err, unread}
	}
	key.use(began)
	info.identify(key)
	workspace, flags := key.workspace, key.workspace.Memory.flags
	if last := began.Add(maxFlagStreamTime - rand.N(flagStreamSpread)); last.Before(ends) {
		ends = last
	}
	s := &flagStream{key: key.name, digest: key.digest, ends: ends, message: make(chan []byte, 1)}
	state := flags.join(workspace, s, began)
	if state == nil {
		err := wire.Errorf(wire.Overloaded, "", "The workspace has %d streams of flags' changes open, as many as it may have (max_flag_streams), or the gateway ends. Connect again later.", workspace.MaxFlagStreams)
		err.RetryAfter = retryFlagStream + rand.N(retryFlagStream)
		return outcome{err, unread}
	}
	defer flags.leave(s)
	open := workspace.calls.flagStreams
	open.Inc()
	defer open.Dec()

	control := http.NewResponseController(w)
	send := func(message []byte) bool {
		// A deadline that passes between two messages would end a stream over HTTP/2.
		defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
		_ = control.SetWriteDeadline(time.Now().Add(flagWriteTimeout))
		_, err := w.Write(message)
		return err == nil && control.Flush() == nil
	}
	known := r.Header.Get("Last-Event-Id")
	if known == "" {
		known = query.Get("since")
	}
	start := state.appendStart(make([]byte, 0, 256))
	if known != state.id {
		start = state.appendEvent(start, began) // an edit came while the client was not connected
	}
	wire.StartEvents(w)
	for message, more := start, true; more && send(message); {
		select {
		case message, more = <-s.message:
		case <-r.Context().Done():
			more = false
		}
	}
	return outcome{end: answered}
}

// retryFlagStream is the shortest Retry-After of a stream that is refused. The longest is
// twice as long.
const retryFlagStream = 30 * time.Second

// EndFlagStreams ends the streams of flags' changes, when the process is about to exit: they
// would not end by themselves.
func (g *Gateway) EndFlagStreams() {
	for _, w := range g.workspaces {
		w.Memory.flags.end()
	}
}
