package gateway

import (
	"sync/atomic"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
)

const (
	// largeAnswer is the size of an answer, in bytes, from which it counts.
	// Smaller ones are never refused: there are as many as there are connections.
	largeAnswer = keepBuffer
	// maxLargeAnswers bounds them all together, in bytes: sixteen of the default
	// max_answer_size.
	maxLargeAnswers = 128 << 20
	// maxLargeAnswersWorkspace bounds those of one workspace, in bytes: half of
	// all, so that its slow readers leave room for others.
	maxLargeAnswersWorkspace = maxLargeAnswers / 2
	// retryLargeAnswer is when there may be room again.
	retryLargeAnswer = time.Second
)

// room is a number of bytes that are taken and given back.
type room struct{ taken atomic.Int64 }

// take takes room, unless that would take more than most. What nobody shares is
// always there, or an answer larger than all of it would never be.
func (r *room) take(bytes, most int64) bool {
	if taken := r.taken.Add(bytes); taken > most && taken > bytes {
		r.taken.Add(-bytes)
		return false
	}
	return true
}

func (r *room) give(bytes int64) { r.taken.Add(-bytes) }

// takeRoom takes room for an answer, until the call is released. advice says how
// to do better where there is none.
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

// keepRoom gives back what takeRoom took, but for so many bytes.
func (c *call) keepRoom(bytes int) {
	if rest := c.room - int64(bytes); rest > 0 {
		c.gateway.process.largeAnswers.give(rest)
		c.workspace.Memory.largeAnswers.give(rest)
		c.room -= rest
	}
}
