package console

import (
	"net/url"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
)

// spanOf returns how far back a page looks: the visitor's word, or a default.
func (v *visit) spanOf(name, usual string) string {
	if text := strings.TrimSpace(v.query.Get(name)); text != "" {
		return text
	}
	return usual
}

// refusedPage has the requests that were refused before a call.
type refusedPage struct {
	Since string
	adminapi.Refused
}

func buildRefused(v *visit) (any, error) {
	p := &refusedPage{Since: v.spanOf("since", "24h")}
	v.command = "caddy cadenza refused --since " + shellWord(p.Since)
	return p, v.ask("refused", url.Values{"since": {p.Since}}, &p.Refused)
}
