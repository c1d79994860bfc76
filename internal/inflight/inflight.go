// Package inflight bounds the calls of endpoints that are in flight at a time:
// those of the process, of each workspace and API key, and those at each host
// that providers call. No call waits for a place: it gets one at once or is
// refused.
package inflight

import "sync"

// Key identifies an API key by its digest.
type Key [32]byte

// Ceiling is the bound that refuses a call.
type Ceiling uint8

// The ceilings.
const (
	None Ceiling = iota // the call was let in
	OfKey
	OfWorkspace
	OfProcess
	OfHost
)

// Ceilings are all ceilings.
var Ceilings = [...]Ceiling{OfKey, OfWorkspace, OfProcess, OfHost}

var names = [...]string{None: "none", OfKey: "key", OfWorkspace: "workspace", OfProcess: "process", OfHost: "host"}

// String is the ceiling's name in metrics and configurations.
func (c Ceiling) String() string { return names[c] }

// Limits are how many calls may be in flight at a time.
type Limits struct {
	Process   int // over all workspaces
	Workspace int
	Key       int
	Host      int // over all workspaces
	// Adaptive has a host's ceiling follow how its calls go, with Host as the most.
	Adaptive bool
}

// AtHost returns the ceiling of calls at a host for a workspace's API key.
func (l *Limits) AtHost(workspace string, key Key) HostLimit {
	return HostLimit{Most: l.Host, Adaptive: l.Adaptive, Workspace: workspace, Key: key}
}

// Calls counts calls in flight. It keeps no limits: each call brings its own. So the
// counts outlive a configuration, and the limits of the next configuration apply
// to the calls that are under way. Keys, workspaces and hosts without calls take
// no memory, but for hosts whose ceiling is adaptive. Calls is safe for concurrent use; the zero value counts nothing yet.
type Calls struct {
	mu         sync.Mutex
	process    int
	workspaces map[string]int
	keys       map[Key]int
	hosts      map[string]int
	own        map[at]int      // of hosts whose ceiling is adaptive
	watched    map[at]*watched // these hosts
}

// Enter lets a call in and returns None, or returns the ceiling that refuses it.
// For a call that was let in, Leave must be called once.
func (c *Calls) Enter(workspace string, key Key, limits *Limits) Ceiling {
	c.mu.Lock()
	defer c.mu.Unlock()
	if full := c.full(workspace, key, limits); full != None {
		return full
	}
	c.process++
	c.workspaces = enter(c.workspaces, workspace)
	c.keys = enter(c.keys, key)
	return None
}

// Full returns the ceiling that would refuse a call now, or None.
func (c *Calls) Full(workspace string, key Key, limits *Limits) Ceiling {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.full(workspace, key, limits)
}

// full is Full. It holds c.mu.
func (c *Calls) full(workspace string, key Key, limits *Limits) Ceiling {
	switch {
	case c.keys[key] >= limits.Key:
		return OfKey
	case c.workspaces[workspace] >= limits.Workspace:
		return OfWorkspace
	case c.process >= limits.Process:
		return OfProcess
	}
	return None
}

// Leave ends a call that was let in.
func (c *Calls) Leave(workspace string, key Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.process--
	leave(c.workspaces, workspace)
	leave(c.keys, key)
}

// EnterHost counts a call at a host, and reports whether it is let in. If so,
// LeaveHost must be called once.
func (c *Calls) EnterHost(host string, limit HostLimit) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hostFull(host, &limit) {
		return false
	}
	c.hosts = enter(c.hosts, host)
	if limit.Adaptive {
		c.own = enter(c.own, at{limit.Workspace, host})
	}
	return true
}

// LeaveHost ends a call at a host that was let in there by the same limit.
func (c *Calls) LeaveHost(host string, limit HostLimit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	leave(c.hosts, host)
	if limit.Adaptive {
		leave(c.own, at{limit.Workspace, host})
	}
}

// hostFull reports whether a host has no place. It holds c.mu.
func (c *Calls) hostFull(host string, limit *HostLimit) bool {
	return c.hosts[host] >= limit.Most || limit.Adaptive && c.own[at{limit.Workspace, host}] >= c.ceiling(host, limit)
}

// HostFull reports whether EnterHost would refuse a call now.
func (c *Calls) HostFull(host string, limit HostLimit) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hostFull(host, &limit)
}

// Host returns how many calls are in flight at a host.
func (c *Calls) Host(host string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hosts[host]
}

// Workspace returns how many calls of a workspace are in flight.
func (c *Calls) Workspace(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.workspaces[name]
}

// Process returns how many calls are in flight in all.
func (c *Calls) Process() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process
}

func enter[K comparable](counts map[K]int, key K) map[K]int {
	if counts == nil {
		counts = make(map[K]int)
	}
	counts[key]++
	return counts
}

func leave[K comparable](counts map[K]int, key K) {
	if counts[key]--; counts[key] == 0 {
		delete(counts, key)
	}
}
