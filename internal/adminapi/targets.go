package adminapi

import "github.com/cadenza-gateway/cadenza/internal/gateway"

// workspaceTargets is a workspace as GET /cadenza/targets shows it.
type workspaceTargets struct {
	Targets []gateway.Target `json:"targets"`
}

// targets answers GET /cadenza/targets: the targets of the workspace and their states.
func (w *Workspace) targets() workspaceTargets { return workspaceTargets{w.Targets()} }
