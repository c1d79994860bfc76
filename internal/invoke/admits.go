package invoke

import "time"

// Admits reports whether a call would try the target now: the target is not left
// alone, and no other call is the probe that finds out whether it answers again.
func (e *Engine) Admits(provider, model string) bool {
	e.health.mu.Lock()
	h := e.health.targets[[2]string{provider, model}]
	e.health.mu.Unlock()
	return h == nil || h.admits(time.Now())
}
