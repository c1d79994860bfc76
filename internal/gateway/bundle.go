package gateway

import (
	"cmp"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cadenza-gateway/cadenza/internal/bundle/download"
)

// Bundle is the source of a workspace whose definitions come as bundles.
type Bundle struct {
	*download.Downloader
	// MaxAge is the age of the definitions beyond which they are a condition; 0: none is.
	MaxAge time.Duration
	// Unready has the gateway be not ready while they are.
	Unready bool
}

// SourceStatus is the present state of the source of bundles.
type SourceStatus struct {
	URL    string `json:"url"` // without query and user, as all here
	Mirror string `json:"mirror,omitempty"`
	// Bundle and Serial are the revision and the serial of the bundle that is served.
	Bundle string `json:"bundle,omitempty"`
	Serial int64  `json:"serial,omitempty"`
	// Confirmed is when the source last had the bundle that is served, and AgeSeconds the
	// time since.
	Confirmed  time.Time `json:"confirmed,omitzero"`
	AgeSeconds float64   `json:"age_seconds,omitempty"`
	Error      string    `json:"error,omitempty"`   // what fails at the source now
	Refused    string    `json:"refused,omitempty"` // why the source's bundle is not served
}

// SourceStatus returns the state of the source of bundles. It is nil where the definitions
// are in a directory.
func (w *Workspace) SourceStatus() *SourceStatus {
	if w.Bundle == nil {
		return nil
	}
	s := w.Bundle.Status()
	return &SourceStatus{
		URL: s.URL, Mirror: s.Mirror, Bundle: s.Revision, Serial: s.Serial,
		Confirmed: s.Confirmed.UTC(), AgeSeconds: w.Bundle.age(&s).Seconds(), Error: s.Error, Refused: s.Refused,
	}
}

// age returns the time since the source last had what is served, 0 where nothing is served.
func (b *Bundle) age(s *download.Status) time.Duration {
	if s.Confirmed.IsZero() {
		return 0
	}
	return max(0, time.Since(s.Confirmed))
}

// bundleConditions returns the conditions of the source of bundles.
func (w *Workspace) bundleConditions() (list []Condition) {
	if w.Bundle == nil {
		return nil
	}
	s := w.Bundle.Status()
	age := w.Bundle.age(&s)
	snapshot := w.Source.Snapshot()
	if snapshot.Awaited {
		list = append(list, Condition{DefinitionsAwaited, "definitions", snapshot.Loaded, cmp.Or(s.Refused, s.Error, "the source has not answered yet")})
	}
	if w.Bundle.isOld(age) {
		list = append(list, Condition{DefinitionsStale, "definitions", s.Confirmed.Add(w.Bundle.MaxAge),
			fmt.Sprintf("the source last confirmed the definitions at %s, which is more than %s ago", timestamp(s.Confirmed), w.Bundle.MaxAge)})
	}
	if s.FileError != "" {
		list = append(list, Condition{DefinitionsUnsaved, "definitions", snapshot.Loaded, s.FileError})
	}
	if s.Error != "" && age > longAway {
		list = append(list, Condition{SourceFailing, "definitions", s.Confirmed, s.Error})
	}
	return list
}

// isOld reports whether definitions of this age are older than they may be.
func (b *Bundle) isOld(age time.Duration) bool { return b.MaxAge > 0 && age > b.MaxAge }

// unready reports whether the gateway should get no requests because of the workspace's
// definitions.
func (w *Workspace) unready() bool {
	if w.Bundle == nil {
		return false
	}
	s := w.Bundle.Status()
	return w.Source.Snapshot().Awaited || w.Bundle.Unready && w.Bundle.isOld(w.Bundle.age(&s))
}

// collectAge exports the age of the definitions.
func (w *Workspace) collectAge(out chan<- prometheus.Metric, to *prometheus.Desc) {
	if w.Bundle == nil {
		return
	}
	if s := w.Bundle.Status(); !s.Confirmed.IsZero() {
		gauge(out, to, w.Bundle.age(&s).Seconds(), w.Name)
	}
}
