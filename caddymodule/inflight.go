package caddymodule

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/inflight"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// inFlight counts the calls of the process. They outlive the configuration that
// they began with, so a reload forgets none.
var inFlight inflight.Calls

// callers are the connections of the process's servers that serve Cadenza.
var callers inflight.Connections

// connectionCollectors show the connections when metrics are scraped.
func connectionCollectors(c *inflight.Connections) []prometheus.Collector {
	closed := func(reason string, count func() uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name:        "cadenza_connections_closed_total",
			Help:        "Connections of callers that were closed because as many as may be were open.",
			ConstLabels: prometheus.Labels{"reason": reason},
		}, func() float64 { return float64(count()) })
	}
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "cadenza_connections",
			Help: "Connections of callers that are open.",
		}, func() float64 { return float64(c.Open()) }),
		closed("idle", func() uint64 { n, _, _ := c.Closed(); return n }),
		closed("silent", func() uint64 { _, n, _ := c.Closed(); return n }),
		closed("full", func() uint64 { _, _, n := c.Closed(); return n }),
	}
}

// guard has a server's connections counted, so that there are descriptors for
// what the gateway does for them.
func (a *App) guard(server *caddyhttp.Server) {
	if !slices.Contains(a.guarded, server) {
		a.guarded = append(a.guarded, server)
		server.RegisterConnState(callers.State)
	}
}

// ProcessInFlight is the ceiling of calls in flight of all workspaces together.
type ProcessInFlight struct {
	// How many calls of endpoints may be in flight at a time. Default: half of
	// the descriptors that the process may hold less a quarter, at most 4096.
	// Each call takes two descriptors and some 50 KB.
	Process int `json:"process,omitempty"`
}

// InFlight is the ceilings of a workspace's calls in flight.
type InFlight struct {
	// How many calls of the workspace's endpoints may be in flight at a time.
	// Default: three quarters of those of the process.
	Workspace int `json:"workspace,omitempty"`
	// How many of them may be of one API key. Default: half of those of the
	// process.
	Key int `json:"key,omitempty"`
	// How many calls, of whatever workspace, may be in flight at the host that
	// a call of this one goes to. A target whose host has as many is skipped.
	// Default: three eighths of those of the process.
	Host int `json:"host,omitempty"`
}

// provisionInFlight finds the ceilings of each workspace.
func (a *App) provisionInFlight() error {
	var process int
	if a.InFlight != nil {
		process = a.InFlight.Process
	}
	if process < 0 {
		return errors.New("in_flight process must be at least 1")
	}
	descriptors := inflight.Descriptors()
	common := inflight.Limits{Process: process}.WithDefaults(descriptors)
	if fit := inflight.DefaultProcess(descriptors); common.Process > fit && fit < inflight.MaxDefault {
		a.logger.Warn("in_flight allows the process more calls than its descriptors are meant for: raise its limit of open files",
			zap.Int("process", common.Process), zap.Int("descriptors", descriptors), zap.Int("meant_for", fit))
	}
	a.connections = inflight.MaxConnections(descriptors, common.Process)
	for name, w := range a.Workspaces {
		w.ceilings = inflight.Limits{Process: common.Process}
		if w.InFlight != nil {
			if w.InFlight.Workspace < 0 || w.InFlight.Key < 0 || w.InFlight.Host < 0 {
				return fmt.Errorf("workspace %s: in_flight: each ceiling must be at least 1", name)
			}
			w.ceilings.Workspace, w.ceilings.Key, w.ceilings.Host = w.InFlight.Workspace, w.InFlight.Key, w.InFlight.Host
		}
		w.ceilings = w.ceilings.WithDefaults(descriptors)
		// What was never refused is a zero that an alert can rise from.
		a.metrics.inFlight.WithLabelValues(name)
		for _, ceiling := range inflight.Ceilings {
			a.metrics.refused.WithLabelValues(name, ceiling.String())
		}
		w.logger.Info("calls in flight are bounded",
			zap.Int("process", w.ceilings.Process), zap.Int("in_workspace", w.ceilings.Workspace),
			zap.Int("key", w.ceilings.Key), zap.Int("host", w.ceilings.Host), zap.Int("connections", a.connections), zap.Int("descriptors", descriptors))
	}
	return nil
}

// hostOf is what the calls of a workspace's provider count at. One that does not
// say which host it calls counts for itself.
func (w *Workspace) hostOf(name string, provider providers.Provider) string {
	if host, said := providers.Host(provider); said {
		return host
	}
	return w.name + "/" + name
}

// retryInFlight is when a call may do better that was refused because as many as
// may be are in flight. Nobody knows when one of them ends.
const retryInFlight = time.Second

// enter lets a call of an endpoint in, until the call is released, or refuses it
// before anything is recorded or any provider asked. targets are looked at for
// one whose host has a place; nil where the answer may come from another call.
func (c *call) enter(targets []invoke.Target) *wire.Error {
	limits := &c.workspace.ceilings
	if full(targets, limits.Host) {
		return c.refuse(inflight.OfHost)
	}
	ceiling := inFlight.Enter(c.workspace.name, inflight.Key(c.key.digest), limits)
	if ceiling != inflight.None {
		return c.refuse(ceiling)
	}
	c.entered = true
	c.app.metrics.inFlight.WithLabelValues(c.workspace.name).Inc()
	return nil
}

// leave ends a call that was let in.
func (c *call) leave() {
	if c.entered {
		inFlight.Leave(c.workspace.name, inflight.Key(c.key.digest))
		c.entered = false
		c.app.metrics.inFlight.WithLabelValues(c.workspace.name).Dec()
	}
}

// full reports whether of the targets that can be called none has a place at its
// host, and there are such.
func full(targets []invoke.Target, limit int) bool {
	found := false
	for i := range targets {
		t := &targets[i]
		if t.Provider == nil || providers.Availability(t.Provider) != nil {
			continue
		}
		if t.Host == "" || !inFlight.HostFull(t.Host, limit) {
			return false
		}
		found = true
	}
	return found
}

func (c *call) refuse(by inflight.Ceiling) *wire.Error {
	c.app.metrics.refused.WithLabelValues(c.workspace.name, by.String()).Inc()
	limits := &c.workspace.ceilings
	var err *wire.Error
	switch by {
	case inflight.OfKey:
		err = wire.Errorf(wire.RateLimited, "", "The API key has %d calls in flight, as many as it may have (in_flight: key). Send the request again when one of them has ended.", limits.Key)
	case inflight.OfWorkspace:
		err = wire.Errorf(wire.Overloaded, "", "The workspace has %d calls in flight, as many as it may have (in_flight: workspace). Send the request again.", limits.Workspace)
	case inflight.OfProcess:
		err = wire.Errorf(wire.Overloaded, "", "The gateway has %d calls in flight, as many as it may have (in_flight: process). Send the request again.", limits.Process)
	default:
		err = wire.Errorf(wire.Overloaded, "", "The model provider's host has %d calls in flight, as many as it may have (in_flight: host). Send the request again.", limits.Host)
	}
	err.RetryAfter = retryInFlight
	return err
}

// inFlight is the workspace's ceilings, made where there are none.
func (w *Workspace) inFlight() *InFlight {
	if w.InFlight == nil {
		w.InFlight = new(InFlight)
	}
	return w.InFlight
}

// unmarshalInFlight reads the ceilings of the process and of the workspace that
// the cadenza block itself configures, where it names any of that.
func (a *App) unmarshalInFlight(d *caddyfile.Dispenser) error {
	process := func() *int {
		if a.InFlight == nil {
			a.InFlight = new(ProcessInFlight)
		}
		return &a.InFlight.Process
	}
	return unmarshalInFlight(d, process, func() *InFlight {
		if a.Workspaces[defaultWorkspace] == nil {
			a.Workspaces[defaultWorkspace] = new(Workspace)
		}
		return a.Workspaces[defaultWorkspace].inFlight()
	})
}

// unmarshalInFlight reads the ceilings of calls in flight, that of the process
// where process is not nil.
func unmarshalInFlight(d *caddyfile.Dispenser, process func() *int, of func() *InFlight) error {
	if d.NextArg() {
		return d.ArgErr()
	}
	known := []string{"workspace", "key", "host"}
	if process != nil {
		known = append([]string{"process"}, known...)
	}
	read := false
	for nesting := d.Nesting(); d.NextBlock(nesting); read = true {
		name := d.Val()
		var value *int
		switch name {
		case "process":
			if process == nil {
				return d.Err("in_flight process is the ceiling of all workspaces together: it belongs in the cadenza block's own in_flight")
			}
			value = process()
		case "workspace":
			value = &of().Workspace
		case "key":
			value = &of().Key
		case "host":
			value = &of().Host
		default:
			return d.Err(document.Unrecognized("in_flight ceiling", name, known))
		}
		if *value != 0 {
			return d.Errf("in_flight %s is configured twice", name)
		}
		var text string
		if !d.AllArgs(&text) {
			return d.ArgErr()
		}
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 1 {
			return d.Errf("in_flight %s %s: must be a whole number of calls, at least 1", name, text)
		}
		*value = int(n)
	}
	if !read {
		return d.Err("in_flight names no ceiling, known: " + strings.Join(known, ", "))
	}
	return nil
}
