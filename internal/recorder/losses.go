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

// lose counts records of a workspace that are lost. What it returns is to be
// logged, without the lock: the first of them at once, the others once a minute.
func (of *share) lose(why lossReason, count uint64) (tell uint64) {
	of.lost[why] += count
	if of.said[why] {
		return 0
	}
	return of.untold(why)
}

// untold is what was not logged, and from then on is.
func (of *share) untold(why lossReason) uint64 {
	count := of.lost[why] - of.told[why]
	of.told[why], of.said[why] = of.lost[why], count > 0
	return count
}

// lose counts and logs records of a workspace that are lost.
func (r *Recorder) lose(workspace string, why lossReason, count uint64) {
	r.queue.mu.Lock()
	tell := r.queue.shares.share(workspace).lose(why, count)
	r.queue.mu.Unlock()
	r.tell(workspace, why, tell)
}

// tellLosses logs the losses that were not.
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
