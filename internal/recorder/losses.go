package recorder

// lossReason is why a record was lost.
type lossReason uint8

const (
	lostQueueFull lossReason = iota
	lostTooLarge
	lostFailed
	lostClosed
	lossReasons
)

// String is the reason's name in logs.
func (l lossReason) String() string {
	switch l {
	case lostTooLarge:
		return "too_large"
	case lostFailed:
		return "failed"
	case lostClosed:
		return "closed"
	}
	return "queue_full"
}

func dropsOf(lost [lossReasons]uint64) Drops {
	return Drops{QueueFull: lost[lostQueueFull], TooLarge: lost[lostTooLarge], Failed: lost[lostFailed], Closed: lost[lostClosed]}
}

// lose counts lost records of a workspace. The caller logs as many as it returns,
// without the lock: the first loss at once, further ones once a minute.
func (of *share) lose(why lossReason, count uint64) (tell uint64) {
	of.lost[why] += count
	if of.said[why] {
		return 0
	}
	return of.untold(why)
}

// untold returns how many losses were not logged yet, and takes them as logged.
func (of *share) untold(why lossReason) uint64 {
	count := of.lost[why] - of.told[why]
	of.told[why], of.said[why] = of.lost[why], count > 0
	return count
}

// lose counts and logs lost records of a workspace.
func (r *Recorder) lose(workspace string, why lossReason, count uint64) {
	r.queue.mu.Lock()
	tell := r.queue.shares.share(workspace).lose(why, count)
	r.queue.mu.Unlock()
	r.tell(workspace, why, tell)
}

// tellLosses logs the losses that were not logged yet.
func (r *Recorder) tellLosses() {
	type loss struct {
		workspace string
		why       lossReason
		count     uint64
	}
	var losses []loss
	r.queue.mu.Lock()
	for workspace, of := range r.queue.shares.of {
		for why := range lossReasons {
			losses = append(losses, loss{workspace, why, of.untold(why)})
		}
	}
	r.queue.mu.Unlock()
	for _, l := range losses {
		r.tell(l.workspace, l.why, l.count)
	}
}

func (r *Recorder) tell(workspace string, why lossReason, count uint64) {
	if count > 0 {
		r.options.Logger.Error("trace records were lost", "workspace", workspace, "reason", why.String(), "count", count)
	}
}
