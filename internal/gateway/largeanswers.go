package gateway

import (
	"sync/atomic"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
)

const (
	// largeAnswer is the largest answer, in bytes, that does not count and is never
	// refused: there are at most as many of them as there are connections.
	largeAnswer = keepBuffer
	// maxLargeAnswers bounds all larger answers together, in bytes: sixteen times the
	// default max_answer_size.
	maxLargeAnswers = 128 << 20
	// maxLargeAnswersWorkspace bounds those of one workspace, in bytes: half of all,
	// so that its slow readers leave room for other workspaces.
	maxLargeAnswersWorkspace = maxLargeAnswers / 2
	// retryLargeAnswer is the Retry-After of an answer without room.
	retryLargeAnswer = time.Second
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

func (r *room) give(bytes int64) { r.taken.Add(-bytes) }

// takeRoom takes room for an answer until the call is released. If there is none,
// the error ends with advice: what the caller can do.
func (c *call) takeRoom(size int, advice string) *wire.Error {
	if size <= largeAnswer {
		return nil
	}
	bytes, own := int64(size), &c.workspace.Memory.largeAnswers
	if own.take(bytes, maxLargeAnswersWorkspace) {
		if c.gateway.process.largeAnswers.take(bytes, maxLargeAnswers) {
			c.room = bytes
			return nil
		}
		own.give(bytes)
	}
	err := wire.Errorf(wire.Overloaded, "", "Too many large answers are being sent. %s", advice)
	err.RetryAfter = retryLargeAnswer
	return err
}

// keepRoom gives back the room that takeRoom took, except for so many bytes.
func (c *call) keepRoom(bytes int) {
	if rest := c.room - int64(bytes); rest > 0 {
		c.gateway.process.largeAnswers.give(rest)
		c.workspace.Memory.largeAnswers.give(rest)
		c.room -= rest
	}
}
