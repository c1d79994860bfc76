package caddymodule

// CallsInFlight is how many calls of the process and at a host are in flight.
func CallsInFlight(host string) (process_, atHost int) { return process.CallsInFlight(host) }

// CallMetrics are the gauge of calls in flight of a workspace, and the counter
// of those refused by a ceiling.
func CallMetrics(workspace, ceiling string) (now, refused float64) {
	return process.CallMetrics(workspace, ceiling)
}

// OpenConnections is how many connections of callers are open.
func OpenConnections() int { return callers.Open() }

// SetMaxConnections bounds them, and returns what undoes it.
func SetMaxConnections(n int) (undo func()) {
	callers.SetLimit(n)
	return func() { callers.SetLimit(0) }
}

// EnterCall has a call of a key in flight until leave.
func EnterCall(workspace, key string) (leave func()) { return process.EnterCall(workspace, key) }
