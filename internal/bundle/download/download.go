// Package download follows the bundle at a URL, and at a mirror where the URL fails.
//
// Only a valid newer bundle takes the place of what is served. One that fails is remembered by
// its tag and its bytes, and not fetched again until the source has another one, or somebody
// pulls. The last good one is kept in a file as it came, and verified again at a start.
//
// If-None-Match says what the source had last, also where that was refused. So a 304 confirms
// what is served only if the tag was that of what is served. Else the source still has what was
// refused, and the age of what is served goes on.
package download

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/cadenza-gateway/cadenza/internal/bundle"
)

const (
	// longPoll is the shortest time that a source is asked to wait for news, and
	// longPollSpread what a node adds at most, so that waits which began at once end apart.
	longPoll       = 30 * time.Second
	longPollSpread = 15 * time.Second
	// pace is the time from one request to the next of a source that waits.
	pace = time.Second
	// maxRetryAfter bounds the wait that a source asks for.
	maxRetryAfter = time.Hour
)

// Config says what a Downloader follows, and what it does with it.
type Config struct {
	// URL has the bundle. Mirror is asked where URL fails; empty: none.
	URL, Mirror string
	// Keys and Scope are those of bundle.Read.
	Keys  []bundle.PublicKey
	Scope string
	// AllowRollback accepts an older serial.
	AllowRollback bool
	// PollMin and PollMax bound the time between two requests; 0: 10 s and 30 s.
	PollMin, PollMax time.Duration
	// Node is the name of this node, whose hash spreads the requests of a fleet.
	Node string
	// Authorize adds credentials to a request; nil adds none. It is not called for what a
	// redirect sends to another scheme, host or port.
	Authorize func(*http.Request) error
	// Client sends the requests; nil: one with the default transport. Its Timeout and
	// CheckRedirect have no effect. A ResponseHeaderTimeout would end long polls.
	Client *http.Client
	// File keeps the last good bundle; empty: none is kept.
	File string
	// Logger gets what changes; nil: nothing does.
	Logger *slog.Logger
	// Activate compiles and serves a bundle. Its error refuses the bundle. It is not called
	// for one with the files that are served already.
	Activate func(*bundle.Bundle) error
	// Answered is called with the new status after each answer that was dealt with, one at a
	// time; nil: nobody is told.
	Answered func(Status)
}

// Downloader follows a bundle. It is safe for concurrent use.
type Downloader struct {
	config  Config
	client  http.Client
	disk    disk
	sources []*source
	latest  bundle.Latest
	draws   atomic.Uint64
	shown   atomic.Pointer[Status] // a copy of status, which waits for no Activate

	mu      sync.Mutex // held while an answer is dealt with, for all below and for sources
	served  *bundle.Bundle
	from    *source // where what is served was fetched
	unsaved bool    // File lacks what is served
	status  Status
}

// Status says what a Downloader serves, and how its sources do.
type Status struct {
	URL, Mirror string // without query and user
	// Revision and Serial are those of the bundle that is served.
	Revision string
	Serial   int64
	// Confirmed is when a source last had what is served, and zero if nothing is.
	Confirmed time.Time
	// Error is what fails at URL, and then at Mirror; empty if URL answers.
	Error string
	// Refused is why what the source has is not served, and empty if it is.
	Refused string
	// FileError is why File was not read, or is not written.
	FileError string
}

// Outcome says what came of fetching.
type Outcome struct {
	Result   string // Fresh, Unchanged or Refused
	Reason   string // why it was refused
	URL      string // of the source that answered, as in Status
	Revision string // of what is served now, as Serial
	Serial   int64

	waits bool // the source can be asked to wait for another one
}

// What comes of fetching.
const (
	Fresh     = "new"
	Unchanged = "unchanged"
	Refused   = "refused"
)

// New makes a Downloader, which does nothing yet. Restore comes first, and then Run.
func New(config Config) *Downloader {
	config.PollMin = cmp.Or(config.PollMin, 10*time.Second)
	config.PollMax = max(config.PollMin, cmp.Or(config.PollMax, 30*time.Second))
	config.Logger = cmp.Or(config.Logger, slog.New(slog.DiscardHandler))
	if config.Authorize == nil {
		config.Authorize = func(*http.Request) error { return nil }
	}
	d := &Downloader{config: config, disk: realDisk, sources: []*source{newSource(config.URL)}}
	if config.Client != nil {
		d.client = *config.Client
	}
	d.client.Timeout, d.client.CheckRedirect = 0, d.redirect
	d.from, d.status.URL = d.sources[0], d.sources[0].shown
	if config.Mirror != "" {
		d.sources = append(d.sources, newSource(config.Mirror))
		d.status.Mirror = d.sources[1].shown
	}
	d.show()
	return d
}

// Latest returns the holder of the bundle that is served.
func (d *Downloader) Latest() *bundle.Latest { return &d.latest }

// Status returns what is served, and how the sources do.
func (d *Downloader) Status() Status { return *d.shown.Load() }

func (d *Downloader) show() {
	s := d.status
	for _, source := range d.sources {
		if source.failure == nil {
			break // the mirror is not asked while the URL answers
		}
		s.Error = strings.TrimPrefix(s.Error+"; "+source.failure.Error(), "; ")
	}
	d.shown.Store(&s)
}

// Run fetches until ctx ends.
func (d *Downloader) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			timer.Reset(d.round(ctx))
		}
	}
}

// Pull fetches now, also what was refused, and says what came of it. Run goes on as if nothing
// had been asked.
func (d *Downloader) Pull(ctx context.Context) (Outcome, error) {
	var failures []error
	for _, s := range d.sources {
		o, err := d.ask(ctx, s, 0, true)
		if err == nil {
			return o, nil
		}
		failures = append(failures, err)
	}
	return Outcome{}, errors.Join(failures...)
}

// round asks the source, or the mirror where it fails, and returns the time until the next
// round. One that failed is left alone for a while: a round asks those whose time has come.
func (d *Downloader) round(ctx context.Context) time.Duration {
	var next time.Time
	for _, s := range d.sources {
		good := time.Until(s.notBefore) <= 0 && d.visit(ctx, s)
		if next.IsZero() || s.notBefore.Before(next) {
			next = s.notBefore
		}
		if good || ctx.Err() != nil {
			break
		}
	}
	return time.Until(next)
}

// visit asks a source, sets the time of the next visit, and reports whether it answered.
func (d *Downloader) visit(ctx context.Context, s *source) bool {
	var wait time.Duration
	if s.mayWait {
		wait = (longPoll + d.draw(longPollSpread)).Truncate(time.Second)
	}
	begun := time.Now()
	outcome, err := d.ask(ctx, s, wait, false)
	s.mayWait = outcome.waits
	if err != nil {
		s.failures++
		s.notBefore = time.Now().Add(d.backoff(s.failures, err))
		d.client.CloseIdleConnections() // HTTP/2 would go on with one that is dead
		return false
	}
	// A source that came back is polled once, so that a proxy which cuts long polls is not
	// asked all the time. One that answers at once though it was asked to wait can't wait, or
	// its nodes have different bundles.
	hasty := time.Since(begun) < wait/2 && outcome.Result != Fresh
	s.notBefore = begun.Add(pace)
	if hasty || s.failures > 0 || !s.mayWait {
		s.notBefore = time.Now().Add(d.config.PollMin + d.draw(d.config.PollMax-d.config.PollMin))
	}
	s.failures = 0
	return true
}

// backoff returns how long a source is left alone after so many failures in a row: from a
// second to twice the longest poll, and where it refuses credentials, from there to 30 times
// the longest poll or an hour. What the source asks for counts if it is longer.
func (d *Downloader) backoff(failures int, err error) time.Duration {
	wait, most := min(time.Second, d.config.PollMin), 2*d.config.PollMax
	answer, bad := errors.AsType[*badAnswer](err)
	if bad && answer.refused() {
		wait, most = most, max(most, min(30*d.config.PollMax, time.Hour))
	}
	for ; failures > 1 && wait < most; failures-- {
		wait = min(2*wait, most)
	}
	if bad && answer.retryAfter > wait {
		wait = max(wait, min(answer.retryAfter, maxRetryAfter))
		return wait + d.draw(wait/4)
	}
	return wait/2 + d.draw(wait/2)
}

// draw returns the node's next time below most. Those of a fleet are spread evenly.
func (d *Downloader) draw(most time.Duration) time.Duration {
	hash := xxhash.Sum64String(d.config.Node + " " + strconv.FormatUint(d.draws.Add(1), 10))
	return time.Duration(float64(hash>>11) / (1 << 53) * float64(most))
}
