package gateway

import (
	"sync/atomic"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// room counts bytes that are taken and given back.
type room struct{ taken atomic.Int64 }

// take takes room for one that has so much already, and reports whether it did: not if
// more than most bytes would be taken. If no others have taken any it always does, because
// an answer larger than most would otherwise never be sent.
func (r *room) take(bytes, had, most int64) bool {
	if taken := r.taken.Add(bytes); taken > most && taken > bytes+had {
		r.taken.Add(-bytes)
		return false
	}
	return true
}

// takeBoth takes room of a workspace and of all workspaces together, for one that has so
// much of both already, and reports whether there was any. A workspace may take ownMost
// bytes, and all together most: what one takes leaves some for others.
func takeBoth(own, all *room, bytes, had, ownMost, most int64) bool {
	if !own.take(bytes, had, ownMost) {
		return false
	}
	if !all.take(bytes, had, most) {
		own.taken.Add(-bytes)
		return false
	}
	return true
}

// giveBoth gives back what takeBoth took.
func giveBoth(own, all *room, bytes int64) {
	all.taken.Add(-bytes)
	own.taken.Add(-bytes)
}

// retryRoom is the Retry-After of a request without room.
const retryRoom = time.Second

// noRoom returns the error of a request for which there is no room.
func noRoom(message string) *wire.Error {
	err := wire.Errorf(wire.Overloaded, "", "%s", message)
	err.RetryAfter = retryRoom
	return err
}
