package inflight

const (
	// MaxDefault is the most calls of the process by default. A call takes some
	// 50 KB, so that many take 200 MB.
	MaxDefault = 4096
	// minReserve is the least number of descriptors, of enough of them, that
	// calls leave alone: for files, for connections that ask for prompts,
	// configurations and metrics, for refused callers on their way out, and for
	// connections to upstreams that idle.
	minReserve = 128
	// perCall is how many descriptors a call takes: its caller's connection and
	// the one to its provider.
	perCall = 2
	// unlimited is the number of descriptors if the system has no limit, or does
	// not report it. Memory bounds the calls there.
	unlimited = 1 << 16
)

// DefaultProcess returns the default number of calls in flight in a process that
// may hold so many descriptors: half of the remainder when a quarter of them is
// left alone, because each call takes two.
func DefaultProcess(descriptors int) int {
	return min(max((descriptors-reserve(descriptors))/perCall, 1), MaxDefault)
}

func reserve(descriptors int) int { return max(descriptors/4, min(minReserve, descriptors/2)) }

// MaxConnections returns the number of connections of callers that may be open
// in a process that may hold so many descriptors: all but its calls'
// connections to providers, and half of the reserve. That half is for files and
// for idle connections to providers; the other half is for callers that make no
// call.
func MaxConnections(descriptors, process int) int {
	return max(descriptors-process-reserve(descriptors)/2, descriptors/4, 1)
}

// WithDefaults replaces zero limits by their defaults, which follow from the
// process's: a workspace gets three quarters of it and a key half, so that
// neither can shut the others out. A host gets three eighths, fewer than a key:
// if one host hangs, the calls of the very key that waits for it still have a
// place at the next target.
func (l Limits) WithDefaults(descriptors int) Limits {
	def := func(limit *int, n int) {
		if *limit == 0 {
			*limit = max(n, 1)
		}
	}
	def(&l.Process, DefaultProcess(descriptors))
	def(&l.Workspace, l.Process*3/4)
	def(&l.Key, l.Process/2)
	def(&l.Host, l.Process*3/8)
	return l
}
