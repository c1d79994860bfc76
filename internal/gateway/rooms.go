package gateway

import (
	"sync/atomic"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// room counts the bytes that requests or answers hold at the moment.
type room struct{ taken atomic.Int64 }

// take takes bytes for a holder that has had bytes already, and reports whether it did. It
// does not if more than most bytes would be taken in all. But if no other holder has taken
// any, it always does: otherwise an answer larger than most could never be sent.
func (r *room) take(bytes, had, most int64) bool {
	if taken := r.taken.Add(bytes); taken > most && taken > bytes+had {
		r.taken.Add(-bytes)
		return false
	}
	return true
}

// takeBoth takes bytes of the room of a workspace and of the room of all workspaces, for a
// holder that has had bytes of both already, and reports whether it did. A workspace may
// take ownMost bytes and all together most, so no workspace can take everything.
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

// noRoom returns the error of a request that finds no room.
func noRoom(message string) *wire.Error {
	err := wire.Errorf(wire.Overloaded, "", "%s", message)
	err.RetryAfter = retryRoom
	return err
}
