package adminapi

import (
	"net/http"

	"github.com/cadenza-gateway/cadenza/internal/gateway"
)

// workspaceTargets is a workspace as GET /cadenza/targets shows it.
type workspaceTargets struct {
	Targets []gateway.Target `json:"targets"`
}

// serveTargets answers GET /cadenza/targets: the targets and their states, of all
// workspaces or of one with ?workspace=NAME.
func serveTargets(w http.ResponseWriter, r *http.Request) error {
	if err := knownParameters(r.URL.Query(), []string{"workspace"}); err != nil {
		return err
	}
	all, err := askedFor(r)
	if err != nil {
		return err
	}
	answer := make(map[string]workspaceTargets, len(all))
	for name, w := range all {
		answer[name] = workspaceTargets{w.Targets()}
	}
	return writeJSON(w, map[string]any{"workspaces": answer})
}
