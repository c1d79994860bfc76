package invoke

// A target is paid for before it is tried: what an attempt may cost at most is taken
// from the call's purse. What was taken for an attempt that was never made goes back.

// pay takes what an attempt at the target may cost. It is false where the purse has
// too little. It holds k.mu, as refuse does.
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

// refund gives back what was taken for targets that were not tried after all, such
// as that of a hedge whose call was answered meanwhile. It is called when no lane
// runs any more.
func (k *call) refund() {
	if k.Purse == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.usable {
		if u := &k.usable[i]; u.paid {
			u.paid = false
			k.Purse.Return(u.index)
		}
	}
}
