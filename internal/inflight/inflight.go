// Package inflight bounds the calls of endpoints that are in flight at a time:
// in the process, of each workspace and API key, and at each host that
// providers call. No call waits for a place: it gets one at once or is refused.
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
	OfShare // a key's, of the places of one of the last three
)

// Ceilings are all ceilings.
var Ceilings = [...]Ceiling{OfKey, OfWorkspace, OfProcess, OfHost, OfShare}

var names = [...]string{None: "none", OfKey: "key", OfWorkspace: "workspace", OfProcess: "process", OfHost: "host", OfShare: "share"}

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
	return HostLimit{Max: l.Host, Adaptive: l.Adaptive, Workspace: workspace, Key: key}
}

// Calls counts calls in flight. It keeps no limits: each call brings its own. So the
// counts outlive a configuration, and the limits of the next configuration apply
// to the calls that are under way. Keys without calls take no memory; workspaces and
// hosts, which configurations name, stay. Calls is safe for concurrent use; the zero value
// counts nothing yet.
type Calls struct {
	mu         sync.Mutex
	process    places
	workspaces map[string]*places
	hosts      map[string]*host
	own        map[at]*places  // at hosts whose ceiling is adaptive
	watched    map[at]*watched // these hosts
}

// host is a host that all workspaces call.
type host struct {
	places
	strain
}

// Enter admits a call and returns None, or returns the ceiling that refuses it.
// Leave must be called once for each admitted call.
func (c *Calls) Enter(workspace string, key Key, limits *Limits) Ceiling {
	c.mu.Lock()
	defer c.mu.Unlock()
	if by := c.full(workspace, key, limits); by != None {
		return by
	}
	c.process.enter(key)
	named(&c.workspaces, workspace).enter(key)
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
	if c.process.keys[key] >= limits.Key {
		return OfKey
	}
	if by := named(&c.workspaces, workspace).refuses(key, limits.Workspace, OfWorkspace); by != None {
		return by
	}
	return c.process.refuses(key, limits.Process, OfProcess)
}

// Leave ends a call that was let in.
func (c *Calls) Leave(workspace string, key Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.process.leave(key)
	c.workspaces[workspace].leave(key)
}

// EnterHost counts a call at a host, and reports whether it is let in. If so,
// LeaveHost must be called once.
func (c *Calls) EnterHost(name string, limit HostLimit) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hostRefuses(name, &limit) != None {
		return false
	}
	named(&c.hosts, name).enter(limit.Key)
	if limit.Adaptive {
		named(&c.own, at{limit.Workspace, name}).enter(limit.Key)
	}
	return true
}

// LeaveHost ends a call at a host that was let in there by the same limit.
func (c *Calls) LeaveHost(name string, limit HostLimit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hosts[name].leave(limit.Key)
	if limit.Adaptive {
		c.own[at{limit.Workspace, name}].leave(limit.Key)
	}
}

// hostRefuses holds c.mu.
func (c *Calls) hostRefuses(name string, limit *HostLimit) Ceiling {
	h := named(&c.hosts, name)
	if by := h.places.refuses(limit.Key, limit.Max, OfHost); by != None {
		return by
	}
	if limit.Adaptive {
		own := named(&c.own, at{limit.Workspace, name})
		if by := own.refuses(limit.Key, c.ceiling(name, limit), OfHost); by != None {
			return by
		}
	}
	if h.strain.refuses(&h.places, limit.Key) {
		return OfShare
	}
	return None
}

// HostRefuses returns the ceiling by which EnterHost would refuse a call now, or None if
// it would admit it.
func (c *Calls) HostRefuses(name string, limit HostLimit) Ceiling {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hostRefuses(name, &limit)
}

// Standing says of a key with calls at a host whether it has its share of the places there
// already, and whether it has less than half of an equal part of the calls.
func (c *Calls) Standing(name string, limit HostLimit) (full, light bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := named(&c.hosts, name)
	return h.strain.refuses(&h.places, limit.Key), h.light(limit.Key)
}

// Host returns how many calls are in flight at a host.
func (c *Calls) Host(host string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return named(&c.hosts, host).calls
}

// Workspace returns how many calls of a workspace are in flight.
func (c *Calls) Workspace(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return named(&c.workspaces, name).calls
}

// Process returns how many calls are in flight in all.
func (c *Calls) Process() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process.calls
}

// named returns the value for a name, which it adds if it is missing.
func named[K comparable, V any](m *map[K]*V, name K) *V {
	v := (*m)[name]
	if v == nil {
		if *m == nil {
			*m = make(map[K]*V)
		}
		v = new(V)
		(*m)[name] = v
	}
	return v
}
