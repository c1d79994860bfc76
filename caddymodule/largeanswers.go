package caddymodule

import (
	"sync/atomic"
	"time"

	"github.com/cadenza-gateway/cadenza/wire"
)

// largeAnswers counts the bytes of large answers to requests for prompts and
// configurations, in all workspaces, from before they are rendered until they
// are sent: for as long as slow readers take.
var largeAnswers room

const (
	// largeAnswer is the size of an answer, in bytes, from which it counts.
	// Smaller ones are never refused: there are as many as there are connections.
	largeAnswer = keepBuffer
	// maxLargeAnswers bounds them all together, in bytes: sixteen of the default
	// max_answer_size.
	maxLargeAnswers = 128 << 20
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

// takeRoom takes room for an answer, until the call is released.
func (c *call) takeRoom(size int) *wire.Error {
	if size <= largeAnswer {
		return nil
	}
	if !largeAnswers.take(int64(size), maxLargeAnswers) {
		err := wire.Errorf(wire.Overloaded, "", "Too many large answers are being sent. Try again, or ask for fewer keys at a time.")
		err.RetryAfter = retryLargeAnswer
		return err
	}
	c.room = int64(size)
	return nil
}
