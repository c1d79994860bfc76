package invoke

import "math/rand/v2"

// order puts the targets with a weight first, in an order that it draws for each
// call: each place goes to one of the targets left, with a chance in proportion to
// its weight. A target that is ejected when its turn comes is passed over, so the
// others share its part in proportion to their weights. Targets without a weight
// keep their order.
//
// For example, with the weights 3, 1 and none, a call tries the targets as 0, 1, 2
// with a chance of 3/4, else as 1, 0, 2.
func (k *call) order() {
	sum := 0
	weighted := k.usable[:0:0]
	for _, u := range k.usable {
		if w := k.weight(u); w > 0 {
			sum += w
			weighted = append(weighted, u)
		}
	}
	if len(weighted) == 0 {
		return
	}
	for _, u := range k.usable {
		if k.weight(u) == 0 {
			weighted = append(weighted, u)
		}
	}
	k.usable = weighted
	for i := 0; sum > 0; i++ {
		drawn, at := rand.IntN(sum), i
		for drawn -= k.weight(weighted[at]); drawn >= 0; drawn -= k.weight(weighted[at]) {
			at++
		}
		sum -= k.weight(weighted[at])
		// Those passed by move up, so the weights stay in front.
		u := weighted[at]
		copy(weighted[i+1:at+1], weighted[i:at])
		weighted[i] = u
	}
}

// weight returns the target's weight within 0 to MaxWeight, so that no sum
// overflows.
func (k *call) weight(u usable) int { return min(max(0, k.Targets[u.index].Weight), MaxWeight) }
