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
func (sh *share) lose(why lossReason, count uint64) (due uint64) {
	sh.lost[why] += count
	if sh.recent[why] {
		return 0
	}
	return sh.unlogged(why)
}

// unlogged returns how many losses were not logged yet, and takes them as logged.
func (sh *share) unlogged(why lossReason) uint64 {
	count := sh.lost[why] - sh.logged[why]
	sh.logged[why], sh.recent[why] = sh.lost[why], count > 0
	return count
}

// lose counts and logs lost records of a workspace.
func (r *Recorder) lose(workspace string, why lossReason, count uint64) {
	r.queue.mu.Lock()
	due := r.queue.shares.share(workspace).lose(why, count)
	r.queue.mu.Unlock()
	r.logLoss(workspace, why, due)
}

// logLosses logs the losses that were not logged yet.
func (r *Recorder) logLosses() {
	type loss struct {
		workspace string
		why       lossReason
		count     uint64
	}
	var losses []loss
	r.queue.mu.Lock()
	for workspace, sh := range r.queue.shares.byWorkspace {
		for why := range lossReasons {
			losses = append(losses, loss{workspace, why, sh.unlogged(why)})
		}
	}
	r.queue.mu.Unlock()
	for _, l := range losses {
		r.logLoss(l.workspace, l.why, l.count)
	}
}

func (r *Recorder) logLoss(workspace string, why lossReason, count uint64) {
	if count > 0 {
		r.options.Logger.Error("trace records were lost", "workspace", workspace, "reason", why.String(), "count", count)
	}
}
