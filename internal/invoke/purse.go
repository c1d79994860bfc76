package invoke

// A target is paid for before it is tried: the highest cost of an attempt is taken
// from the call's purse. The cost of an attempt that was never made goes back.

// pay takes the highest cost of an attempt at the target. It returns false if the
// purse does not cover it. It holds k.mu, as refuse does.
func (k *call) pay(u *usable) bool {
	u.paid = u.paid || k.Purse == nil || k.Purse.Take(u.index)
	return u.paid
}

// refuse gives up a target that the purse has too little for.
func (k *call) refuse(u *usable) {
	u.refused = true
	k.leaveHost(u)
	k.result.Skipped = append(k.result.Skipped, Skip{u.index, ErrBudget})
}

// giveBack gives back the places at hosts that no lane has left, and the cost of targets
// that were not tried after all, for example of a hedge whose call was answered
// meanwhile. It is called when no lane runs any more.
func (k *call) giveBack() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.usable {
		u := &k.usable[i]
		k.leaveHost(u)
		if k.Purse != nil && u.paid {
			u.paid = false
			k.Purse.Return(u.index)
		}
	}
}
