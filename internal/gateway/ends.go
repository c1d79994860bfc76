package gateway

import (
	"net/http"
	"strconv"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// end has the values of the Deprecation and Sunset headers of an endpoint's answers.
type end struct{ deprecation, sunset []string }

// endsOf returns the end of each endpoint whose targets all end, by its key. An endpoint
// ends with the last of its models, and is deprecated since the last of their ends was
// announced.
func endsOf(targets []servedTarget) map[string]end {
	type dates struct {
		deprecated, shutdown time.Time
		unannounced, stays   bool // a target has no such date
	}
	all := make(map[string]dates)
	for _, t := range targets {
		for _, key := range t.Endpoints {
			d := all[key]
			d.unannounced = d.unannounced || t.model.Deprecated.IsZero()
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
		if !d.unannounced {
			e.deprecation = []string{"@" + strconv.FormatInt(d.deprecated.Unix(), 10)}
		}
		ends[key] = e
	}
	return ends
}

// nameEnd sets the Deprecation and Sunset headers if the endpoint ends.
func (in *incoming) nameEnd(endpoint *definition.Endpoint) {
	end, ends := in.workspace.callTargets(in.snapshot).ends[endpoint.Key]
	if !ends {
		return
	}
	h := in.w.Header()
	h[wire.HeaderSunset] = end.sunset
	if end.deprecation != nil {
		h[wire.HeaderDeprecation] = end.deprecation
	}
}
