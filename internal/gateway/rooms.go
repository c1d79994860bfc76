package gateway

import (
	"sync/atomic"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// room counts bytes that are taken and given back.
type room struct{ taken atomic.Int64 }

// take takes room, and reports whether it did: not if more than most bytes would be
// taken. If no other bytes are taken it always does, because an answer larger than
// most would otherwise never be sent.
func (r *room) take(bytes, most int64) bool {
	if taken := r.taken.Add(bytes); taken > most && taken > bytes {
		r.taken.Add(-bytes)
		return false
	}
	return true
}

// takeBoth takes room of a workspace and of all workspaces together, and reports
// whether there was any. All together may take most bytes, and one workspace half
// of that, so that its slow readers leave room for other workspaces.
func takeBoth(own, all *room, bytes, most int64) bool {
	if !own.take(bytes, most/2) {
		return false
	}
	if !all.take(bytes, most) {
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
