package gateway

import (
	"net/http"
	"strconv"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// end is what the answers of an endpoint say of its end, as values of headers.
type end struct{ deprecation, sunset []string }

// endsOf returns the ends of those endpoints of a snapshot of which every target ends,
// by their keys. An endpoint ends with the last of its models, and is deprecated since
// the last of their ends was announced.
func (w *Workspace) endsOf(snapshot *definition.Snapshot) map[string]end {
	type dates struct {
		deprecated, shutdown time.Time
		untold, stays        bool
	}
	all := make(map[string]dates)
	for _, t := range w.namedTargets(snapshot) {
		for _, key := range t.Endpoints {
			d := all[key]
			d.untold = d.untold || t.model.Deprecated.IsZero()
			d.stays = d.stays || t.model.Shutdown.IsZero()
			if t.model.Deprecated.After(d.deprecated) {
				d.deprecated = t.model.Deprecated.Time
			}
			if t.model.Shutdown.After(d.shutdown) {
				d.shutdown = t.model.Shutdown.Time
			}
			all[key] = d
		}
	}
	ends := make(map[string]end)
	for key, d := range all {
		if d.stays {
			continue
		}
		e := end{sunset: []string{d.shutdown.Format(http.TimeFormat)}}
		if !d.untold {
			e.deprecation = []string{"@" + strconv.FormatInt(d.deprecated.Unix(), 10)}
		}
		ends[key] = e
	}
	return ends
}

// nameEnd sets the headers that say until when an endpoint answers, where it ends.
func (c *call) nameEnd(endpoint *definition.Endpoint) {
	end, ends := c.workspace.callTargets(c.snapshot).ends[endpoint.Key]
	if !ends {
		return
	}
	h := c.w.Header()
	h[wire.HeaderSunset] = end.sunset
	if end.deprecation != nil {
		h[wire.HeaderDeprecation] = end.deprecation
	}
}
