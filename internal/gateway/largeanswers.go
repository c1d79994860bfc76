package gateway

import "github.com/cadenza-gateway/cadenza/internal/wire"

const (
	// largeAnswer is the largest answer, in bytes, that needs no room and is never refused.
	// The number of connections bounds the number of such answers.
	largeAnswer = keepBuffer
	// maxLargeAnswers bounds all larger answers together, in bytes: sixteen times the
	// default max_answer_size. A workspace may have half of it.
	maxLargeAnswers = 128 << 20
)

// takeRoom takes room for an answer of size bytes until the call is released. Without
// room it returns an error that ends with advice.
func (h *holdings) takeRoom(size int, advice string) *wire.Error {
	if size <= largeAnswer {
		return nil
	}
	if !takeBoth(&h.workspace.Memory.largeAnswers, &h.gateway.process.largeAnswers, int64(size), 0, maxLargeAnswers/2, maxLargeAnswers) {
		return noRoom("Too many large answers are being sent. " + advice)
	}
	h.room = int64(size)
	return nil
}

// roomStep is the least that a growing answer takes at a time, in bytes.
const roomStep = 64 << 10

// growRoom takes room for an answer that has grown to size bytes, until the call is
// released. The call must hold no room for anything else.
func (h *holdings) growRoom(size int) *wire.Error {
	more := int64(size) - largeAnswer - h.room
	if more <= 0 {
		return nil
	}
	more = max(more, roomStep)
	if !takeBoth(&h.workspace.Memory.largeAnswers, &h.gateway.process.largeAnswers, more, 0, maxLargeAnswers/2, maxLargeAnswers) {
		return noRoom("Too many large answers are being sent. " + adviseRepetition)
	}
	h.room += more
	return nil
}

// repeats is the number of copies of an answer that a keeping writer holds at its end.
const repeats = 6

// keepRoom gives the call's room back, except for the given bytes.
func (h *holdings) keepRoom(bytes int) {
	if rest := h.room - int64(bytes); rest > 0 {
		giveBoth(&h.workspace.Memory.largeAnswers, &h.gateway.process.largeAnswers, rest)
		h.room -= rest
	}
}
