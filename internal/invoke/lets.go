package invoke

import "time"

// Lets reports whether a call that comes to a target now tries it: it is neither left
// alone nor does another call find out whether it answers again.
func (e *Engine) Lets(provider, model string) bool {
	e.health.mu.Lock()
	h := e.health.targets[[2]string{provider, model}]
	e.health.mu.Unlock()
	return h == nil || h.lets(time.Now())
}
