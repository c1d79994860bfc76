package gateway

import "github.com/cadenza-gateway/cadenza/internal/wire"

const (
	// largeAnswer is the largest answer, in bytes, that does not count and is never
	// refused: there are at most as many of them as there are connections.
	largeAnswer = keepBuffer
	// maxLargeAnswers bounds all larger answers together, in bytes: sixteen times the
	// default max_answer_size. A workspace may have half of it.
	maxLargeAnswers = 128 << 20
)

// takeRoom takes room for an answer until the call is released. If there is none,
// the error ends with advice: what the caller can do.
func (c *call) takeRoom(size int, advice string) *wire.Error {
	if size <= largeAnswer {
		return nil
	}
	if !takeBoth(&c.workspace.Memory.largeAnswers, &c.gateway.process.largeAnswers, int64(size), 0, maxLargeAnswers/2, maxLargeAnswers) {
		return noRoom("Too many large answers are being sent. " + advice)
	}
	c.room = int64(size)
	return nil
}

// roomStep is the least that a growing answer takes at a time, in bytes.
const roomStep = 64 << 10

// growRoom takes room for an answer that has come to so many bytes, until the call is
// released. Nothing else of the call has room then.
func (c *call) growRoom(size int) *wire.Error {
	more := int64(size) - largeAnswer - c.room
	if more <= 0 {
		return nil
	}
	more = max(more, roomStep)
	if !takeBoth(&c.workspace.Memory.largeAnswers, &c.gateway.process.largeAnswers, more, 0, maxLargeAnswers/2, maxLargeAnswers) {
		return noRoom("Too many large answers are being sent. " + adviseRepetition)
	}
	c.room += more
	return nil
}

// repeats is how many times a writer that keeps an answer has it in memory at its end.
const repeats = 6

// keepRoom gives back the room that takeRoom took, except for so many bytes.
func (c *call) keepRoom(bytes int) {
	if rest := c.room - int64(bytes); rest > 0 {
		giveBoth(&c.workspace.Memory.largeAnswers, &c.gateway.process.largeAnswers, rest)
		c.room -= rest
	}
}
