package caddymodule

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/inflight"
)

// callers are the connections of the process's servers that serve Cadenza.
var callers inflight.Connections

// connectionCollectors returns the metrics of the connections.
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

// guard counts a server's connections, so that enough descriptors are left for the calls of
// providers. At the start of the process it fails if another process listens on an address
// of the server.
func (a *App) guard(server *caddyhttp.Server) error {
	if slices.Contains(a.guarded, server) {
		return nil
	}
	a.guarded = append(a.guarded, server)
	server.RegisterConnState(callers.State)
	if startsAnyway() {
		return checkOtherListeners(server.Listen)
	}
	return nil
}

// ProcessInFlight is the ceiling of calls in flight of all workspaces together.
type ProcessInFlight struct {
	// Bounds the calls of endpoints in flight at a time. Each call takes two
	// file descriptors and about 50 KB. Default: half of the descriptors that
	// remain when a quarter is set aside for other uses, at most 4096.
	Process int `json:"process,omitempty"`
}

// InFlight holds the ceilings of a workspace's calls in flight.
type InFlight struct {
	// Bounds the calls of the workspace's endpoints in flight at a time.
	// Default: three quarters of the ceiling of the process.
	Workspace int `json:"workspace,omitempty"`
	// Bounds the calls of one API key among them. Default: half of the ceiling of
	// the process.
	Key int `json:"key,omitempty"`
	// Bounds the calls, of all workspaces together, in flight at the host that
	// a call of this workspace goes to. A target whose host has that many is
	// skipped. Default: three eighths of the ceiling of the process.
	Host int `json:"host,omitempty"`
	// Adapts the ceiling of a host to the success of its calls, for this workspace's
	// calls. The ceiling falls to 70 % of the calls in flight if, for most API keys of
	// a window of a second or more, the host limits the rate, fails with a status of
	// 5xx, can't be reached or waits longer than usual with its first content; by half
	// at most, and never below a tenth of `host`. It rises as fast if the host bears
	// the calls. Default: it is fixed.
	Adaptive bool `json:"adaptive,omitempty"`
}

// provisionInFlight sets the ceilings of each workspace.
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
		a.logger.Warn("in_flight process is too high: raise the limit of open files",
			zap.Int("process", common.Process), zap.Int("descriptors", descriptors), zap.Int("meant_for", fit))
	}
	a.connections = inflight.MaxConnections(descriptors, common.Process)
	if a.connections < common.Process {
		a.logger.Warn("in_flight process is above the ceiling of connections: callers wait for one, and are closed after that",
			zap.Int("process", common.Process), zap.Int("connections", a.connections), zap.Int("descriptors", descriptors))
	}
	for name, w := range a.Workspaces {
		limits := inflight.Limits{Process: common.Process}
		if w.InFlight != nil {
			if w.InFlight.Workspace < 0 || w.InFlight.Key < 0 || w.InFlight.Host < 0 {
				return fmt.Errorf("workspace %s: in_flight: each ceiling must be at least 1", name)
			}
			limits.Workspace, limits.Key, limits.Host = w.InFlight.Workspace, w.InFlight.Key, w.InFlight.Host
			limits.Adaptive = w.InFlight.Adaptive
		}
		limits = limits.WithDefaults(descriptors)
		w.config.InFlight = limits
		w.logger.Info("calls in flight are bounded",
			zap.Int("process", limits.Process), zap.Int("in_workspace", limits.Workspace),
			zap.Int("key", limits.Key), zap.Int("host", limits.Host), zap.Int("connections", a.connections), zap.Int("descriptors", descriptors))
	}
	return nil
}

// inFlight returns the workspace's ceilings, which it makes if they are nil.
func (w *Workspace) inFlight() *InFlight {
	if w.InFlight == nil {
		w.InFlight = new(InFlight)
	}
	return w.InFlight
}

// unmarshalInFlight reads the ceilings of the cadenza block: the ceiling of the process and
// those of the workspace "default". It makes the workspace, or a.InFlight, only if the
// block names one of its ceilings.
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

// afterNumber are the words that a ceiling takes after its number.
var afterNumber = map[string]string{"host": ", the word adaptive, or both, such as host 200 adaptive"}

// unmarshalInFlight reads the ceilings of calls in flight. process and workspace return the
// variables to set. process is nil in a workspace's block, which must not set it.
func unmarshalInFlight(d *caddyfile.Dispenser, process func() *int, workspace func() *InFlight) error {
	if d.NextArg() {
		return d.Err("in_flight takes its ceilings in a block, such as in_flight { key 100 }")
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
			value = &workspace().Workspace
		case "key":
			value = &workspace().Key
		case "host":
			value = &workspace().Host
		default:
			return d.Err(document.Unrecognized("in_flight ceiling", name, known))
		}
		if *value != 0 || name == "host" && workspace().Adaptive {
			return d.Errf("in_flight %s is configured twice", name)
		}
		args := d.RemainingArgs()
		if n := len(args); name == "host" && n > 0 && args[n-1] == "adaptive" {
			workspace().Adaptive = true
			if args = args[:n-1]; len(args) == 0 {
				continue // the ceiling is the default
			}
		}
		if len(args) != 1 {
			return d.Errf("in_flight %s takes a whole number of calls%s", name, afterNumber[name])
		}
		text := args[0]
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
