package gateway

import (
	"cmp"
	"os"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/sinks"
)

// Status is the present state of a workspace, for its operator.
type Status struct {
	Degraded []Condition `json:"degraded"`
	Targets  []Target    `json:"targets"`
	Store    StoreStatus `json:"store"`
	Sinks    []SinkState `json:"sinks"`
	Keys     []KeyState  `json:"keys"`
	// Limits are the limits of callers, in the order of the configuration.
	Limits []LimitStatus `json:"limits"`
	// Rollouts are those of the served definitions, by name.
	Rollouts []RolloutStatus `json:"rollouts,omitempty"`
	// KeysFile is the path of the keys file; empty: no file is configured.
	KeysFile string `json:"keys_file,omitempty"`
}

// StoreStatus is the present state of a store.
type StoreStatus struct {
	Path string `json:"path"`
	// State is available, failing, opening or closed.
	State string    `json:"state"`
	Since time.Time `json:"since,omitzero"` // when it became available, or ceased to be
	Error string    `json:"error,omitempty"`
	Bytes int64     `json:"bytes"` // of its files
	// Queued and QueuedBytes are the waiting records of all the store's workspaces.
	Queued      int   `json:"queued"`
	QueuedBytes int64 `json:"queued_bytes"`
	// Dropped are the workspace's records that could not be kept.
	Dropped uint64 `json:"dropped"`
}

// SinkState is the present state of a sink.
type SinkState struct {
	Name string `json:"name"`
	// State is up, failing or trying. A sink is trying before its first delivery, and while
	// a failure is too recent to report.
	State      string    `json:"state"`
	Since      time.Time `json:"since,omitzero"`  // when its failures began; zero unless failing
	Error      string    `json:"error,omitempty"` // the last one
	Pending    int64     `json:"pending"`         // about how many rows wait
	LagSeconds float64   `json:"lag_seconds"`     // age of the oldest of them
}

// KeyState is an API key without the key.
type KeyState struct {
	Name string `json:"name"`
	// State is valid, expiring (within 30 days), expired or revoked.
	State    string    `json:"state"`
	NotAfter time.Time `json:"not_after,omitzero"`
	Role     Role      `json:"role,omitempty"`
}

// expiresSoon is how long before its end a key is expiring.
const expiresSoon = 30 * 24 * time.Hour

// Status returns the present state of the workspace. It asks the system for the sizes of
// the store's files.
func (w *Workspace) Status() Status {
	s := Status{
		Degraded: append([]Condition{}, w.Conditions()...), Targets: w.Targets(), Store: w.storeStatus(),
		Limits: w.LimitStatus(maxFullest), Rollouts: w.rollouts.statuses(),
		Sinks: []SinkState{}, Keys: w.gateway.keys.states(w, time.Now()), KeysFile: w.KeysFile,
	}
	for i := range w.Sinks {
		var stats sinks.Stats
		if drain := w.Sinks[i].drain; drain != nil {
			stats = drain.Stats()
		}
		state := "trying"
		switch {
		case !stats.DownSince.IsZero():
			state = "failing"
		case stats.Up:
			state = "up"
		}
		s.Sinks = append(s.Sinks, SinkState{
			w.Sinks[i].Name, state, stats.DownSince.UTC(), stats.LastError, stats.Pending, stats.Age.Seconds(),
		})
	}
	return s
}

func (w *Workspace) storeStatus() StoreStatus {
	stats := w.Store.Recorder.Stats()
	s := StoreStatus{
		Path: w.Store.Path, State: stats.Availability.String(), Since: stats.Since.UTC(), Error: stats.LastError,
		Queued: stats.Queued, QueuedBytes: stats.QueuedBytes, Dropped: stats.Workspaces[w.Name].Total(),
	}
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(w.Store.Path + suffix); err == nil {
			s.Bytes += info.Size()
		}
	}
	return s
}

// states returns a workspace's keys by name.
func (k *keyring) states(w *Workspace, now time.Time) []KeyState {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := []KeyState{}
	for _, p := range k.held[w].keys {
		state := "valid"
		switch {
		case p.revoked:
			state = "revoked"
		case p.notAfter.IsZero():
		case now.After(p.notAfter):
			state = "expired"
		case p.notAfter.Sub(now) < expiresSoon:
			state = "expiring"
		}
		list = append(list, KeyState{p.name, state, p.notAfter.UTC(), p.Role})
	}
	slices.SortFunc(list, func(a, b KeyState) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
