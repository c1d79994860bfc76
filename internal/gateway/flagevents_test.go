package gateway

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// flagHub is the streams of workspace a, without their handlers.
type flagHub struct {
	t       *testing.T
	dir     string
	gateway *Gateway
	w       *Workspace
	*flagEvents
}

// flagDefinitions are the files of a workspace with a flag and a prompt.
func flagDefinitions() map[string]string {
	return map[string]string{
		"context.yaml":            "fields: { user: string }\n",
		"remoteconfigs/flag.yaml": "type: boolean\ndefault: false\n",
		"prompts/hello.yaml":      "provider: canned\nmodel: m\nmessages: [ { role: user, content: Hi } ]\n",
	}
}

// testFlags runs a test of a workspace with the key "app" and these files besides those of
// flagDefinitions. In it the time begins with the year 2000 in UTC.
func testFlags(t *testing.T, files map[string]string, test func(t *testing.T, h *flagHub)) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range flagDefinitions() {
		gatewaytest.Write(t, dir, name, text)
	}
	for name, text := range files {
		gatewaytest.Write(t, dir, name, text)
	}
	synctest.Test(t, func(t *testing.T) {
		source, err := definition.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer source.Close()
		h := &flagHub{t: t, dir: dir, gateway: consoleKeys(t, map[string][]fileKey{"a": {entry("app", key1), entry("other", key2)}})}
		h.w = h.gateway.workspaces["a"]
		h.w.gateway, h.w.Source, h.w.MaxFlagStreams = h.gateway, source, 1000
		h.gateway.metrics = newMetrics()
		h.gateway.metrics.names.running = map[string][]*Workspace{"a": {h.w}}
		h.flagEvents = newFlagEvents()
		h.w.Memory.flags, h.w.rollouts = h.flagEvents, newRollouts(rolloutStore{}, new(rolloutRows), nil)
		defer source.Subscribe(func(*definition.Snapshot, error) { h.changed() }, nil)()
		defer h.end()
		test(t, h)
	})
}

// listener is a client of a stream. A handler would write what it hears.
type listener struct {
	*flagStream
	mu     sync.Mutex
	heard  []string
	at     []time.Time
	closed bool
}

// listen opens a stream of a key, which is not heard unless reads is set.
func (h *flagHub) listen(key, text string, ends time.Time, reads bool) *listener {
	h.t.Helper()
	l := &listener{flagStream: &flagStream{key: key, digest: digestOf(text), ends: ends, message: make(chan []byte, 1)}}
	if h.join(h.w, l.flagStream, time.Now()) == nil {
		h.t.Fatal("no more streams may be open")
	}
	if reads {
		go l.read()
	}
	return l
}

func (l *listener) read() {
	for message := range l.message {
		l.mu.Lock()
		l.heard, l.at = append(l.heard, string(message)), append(l.at, time.Now())
		l.mu.Unlock()
	}
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
}

// events returns when the client got events, since the year began.
func (l *listener) events() (at []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, text := range l.heard {
		if strings.Contains(text, `data: {"type":"refetchEvaluation"`) {
			at = append(at, l.at[i].Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)))
		}
	}
	return at
}

// over reports whether the stream was ended.
func (l *listener) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// edit writes a file and loads it.
func (h *flagHub) edit(name, text string) {
	h.t.Helper()
	gatewaytest.Write(h.t, h.dir, name, text)
	if err := h.w.Source.Reload(); err != nil {
		h.t.Fatal(err)
	}
}

// far is an end that no test reaches.
var far = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)

// TestFlagEventsSpread checks that an edit reaches every stream once, within a second and
// not all at the same moment, and that an edit of something else reaches none.
func TestFlagEventsSpread(t *testing.T) {
	t.Parallel()
	testFlags(t, nil, func(t *testing.T, h *flagHub) {
		const streams = 200
		var all []*listener
		for range streams {
			all = append(all, h.listen("app", key1, far, true))
		}
		time.Sleep(10 * time.Second)
		edited := time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
		h.edit("remoteconfigs/flag.yaml", "type: boolean\ndefault: true\n")
		time.Sleep(500 * time.Millisecond)
		late := h.listen("app", key1, far, true) // it knows the edit
		time.Sleep(10 * time.Second)
		at := make(map[time.Duration]int)
		for i, l := range all {
			events := l.events()
			if len(events) != 1 || events[0] < edited || events[0] > edited+flagEventSpread {
				t.Fatalf("stream %d was told at %v of an edit at %v", i, events, edited)
			}
			at[events[0]]++
		}
		for when, n := range at {
			if n > streams/20 {
				t.Errorf("%d of %d streams were told at %v", n, streams, when)
			}
		}
		if told := late.events(); len(told) > 0 {
			t.Errorf("a client that knows the edit was told at %v", told)
		}
		h.edit("prompts/hello.yaml", "provider: canned\nmodel: m\nmessages: [ { role: user, content: Bye } ]\n")
		time.Sleep(2 * time.Second)
		for i, l := range append(all, late) {
			if events := l.events(); len(events) > 1 {
				t.Fatalf("stream %d was told at %v of an edit that changes no flag", i, events)
			}
		}
		h.edit("remoteconfigs/flag.yaml", "type: boolean\ndefault: false\n")
		time.Sleep(100 * time.Millisecond)
		h.edit("remoteconfigs/flag.yaml", "type: boolean\ndefault: true\n") // as it was
		time.Sleep(2 * time.Second)
		twice := 0
		for i, l := range all {
			switch events := l.events(); len(events) {
			case 3: // told of both
				twice++
			case 2:
				t.Fatalf("stream %d was told at %v: its client has the flags between two edits", i, events)
			}
		}
		if twice == 0 || twice > streams/4 {
			t.Errorf("%d streams were told of an edit that was undone a moment later", twice)
		}
		for _, edit := range [][2]string{
			{"context.yaml", "fields: { user: string, plan: string }\n"},
			{"remoteconfigs/flag.yaml", "type: boolean\ndefault: true\naliases: [ old ]\n"},
			{"remoteconfigs/another.yaml", "type: boolean\ndefault: true\n"},
		} {
			before := len(all[0].events())
			h.edit(edit[0], edit[1])
			time.Sleep(2 * time.Second)
			if events := all[0].events(); len(events) != before+1 {
				t.Errorf("an edit of %s: told at %v", edit[0], events)
			}
		}
	})
}

// TestFlagEventsOfTime checks the events of instants at which time alone changes answers.
func TestFlagEventsOfTime(t *testing.T) {
	t.Parallel()
	testFlags(t, map[string]string{
		"remoteconfigs/dated.yaml": "type: boolean\ndefault: false\nrules: [ { value: true, from: 2000-01-01T00:05:00.5Z, until: 2000-01-01T00:07:00Z } ]\ntests: [ { at: 2000-01-01, value: false } ]\n",
		"remoteconfigs/ramp.yaml":  "type: boolean\ndefault: false\nrules: [ { id: r, value: true, ramp: { by: user, start: 2000-01-01T00:10:30Z, end: 2000-01-01T00:13:10Z } } ]\ntests: [ { at: 2000-01-01, value: false } ]\n",
	}, func(t *testing.T, h *flagHub) {
		l := h.listen("app", key1, far, true)
		time.Sleep(20 * time.Minute)
		var got []string
		for _, at := range l.events() {
			got = append(got, at.Round(100*time.Millisecond).String())
		}
		want := []string{"5m0.5s", "7m0s", "10m30s", "11m0s", "12m0s", "13m0s", "13m10s"}
		if !slices.Equal(got, want) {
			t.Errorf("told at %v, want %v", got, want)
		}
	})
}

// TestFlagStreamsEnd checks what ends streams, and that it ends no others.
func TestFlagStreamsEnd(t *testing.T) {
	t.Parallel()
	testFlags(t, nil, func(t *testing.T, h *flagHub) {
		app, other := h.listen("app", key1, far, true), h.listen("other", key2, far, true)
		brief := h.listen("other", key2, time.Now().Add(time.Minute), true)
		renamed := h.listen("other", key1, far, true) // the name has another key
		check := func(what string, ended ...*listener) {
			t.Helper()
			time.Sleep(2 * time.Second)
			for name, l := range map[string]*listener{"app": app, "other": other, "brief": brief, "renamed": renamed} {
				if over := l.over(); over != slices.Contains(ended, l) {
					t.Errorf("%s: the stream %s ended: %t", what, name, over)
				}
			}
		}
		check("another key of the name", renamed)
		time.Sleep(time.Minute)
		check("its time", renamed, brief)
		if _, _, err := h.gateway.keys.update(h.w, []fileKey{entry("-app", key1), entry("other", key2)}, time.Now()); err != nil {
			t.Fatal(err)
		}
		check("a revocation", renamed, brief, app)
		expiring := entry("other", key2)
		expiring.notAfter = time.Now().Add(10 * time.Second)
		if _, _, err := h.gateway.keys.update(h.w, []fileKey{expiring}, time.Now()); err != nil {
			t.Fatal(err)
		}
		check("before it expires", renamed, brief, app)
		time.Sleep(10 * time.Second)
		check("its key's expiry", renamed, brief, app, other)
	})
	testFlags(t, nil, func(t *testing.T, h *flagHub) {
		l := h.listen("app", key1, far, true)
		h.gateway.metrics.names.mu.Lock()
		delete(h.gateway.metrics.names.running, "a")
		h.gateway.metrics.names.mu.Unlock()
		time.Sleep(2 * time.Second)
		if !l.over() {
			t.Error("a stream outlives its workspace")
		}
	})
	testFlags(t, nil, func(t *testing.T, h *flagHub) {
		l := h.listen("app", key1, far, true)
		h.end()
		synctest.Wait()
		if !l.over() || h.join(h.w, new(flagStream), time.Now()) != nil {
			t.Error("the process ends, and streams don't")
		}
		h.leave(l.flagStream) // as its handler does
	})
}

// TestFlagStreamsCeiling checks that a workspace has no more streams than it may have, and
// that one that leaves makes room.
func TestFlagStreamsCeiling(t *testing.T) {
	t.Parallel()
	testFlags(t, nil, func(t *testing.T, h *flagHub) {
		h.w.MaxFlagStreams = 3
		var all []*listener
		for range 3 {
			all = append(all, h.listen("app", key1, far, true))
		}
		if h.join(h.w, new(flagStream), time.Now()) != nil {
			t.Fatal("a fourth stream is open")
		}
		h.leave(all[0].flagStream)
		h.leave(all[0].flagStream) // has no effect
		close(all[0].message)
		all[0] = h.listen("app", key1, far, true)
		h.edit("remoteconfigs/flag.yaml", "type: boolean\ndefault: true\n")
		time.Sleep(2 * time.Second)
		for i, l := range all {
			if len(l.events()) != 1 {
				t.Errorf("stream %d was told at %v", i, l.events())
			}
			h.leave(l.flagStream)
			close(l.message)
		}
		synctest.Wait()
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.running || len(h.streams) != 0 {
			t.Error("without streams the goroutine goes on")
		}
	})
}

// TestFlagStreamsSilence checks that a quiet stream gets comments, and that a client that
// reads nothing has the newest event waiting, and no other.
func TestFlagStreamsSilence(t *testing.T) {
	t.Parallel()
	testFlags(t, nil, func(t *testing.T, h *flagHub) {
		l, slow := h.listen("app", key1, far, true), h.listen("app", key1, far, false)
		time.Sleep(3*flagEventBeat + 5*time.Second)
		l.mu.Lock()
		if len(l.heard) != 3 || l.heard[0] != ":\n\n" || l.at[2].Sub(l.at[0]) < 2*flagEventBeat {
			t.Errorf("%q at %v", l.heard, l.at)
		}
		l.mu.Unlock()
		var last string
		for i := range 3 {
			h.edit("remoteconfigs/flag.yaml", fmt.Sprintf("type: number\ndefault: %d\n", i))
			time.Sleep(2 * time.Second)
			last = h.state.Load().id
		}
		message := <-slow.message
		if want := "id: " + last + "\nevent: message\ndata: {\"type\":\"refetchEvaluation\",\"etag\":\"" + last + "\",\"lastModified\":"; !bytes.HasPrefix(message, []byte(want)) {
			t.Errorf("%q, want %q", message, want)
		}
		if len(slow.message) > 0 {
			t.Error("two messages wait")
		}
	})
}
