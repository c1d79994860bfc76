package wire

import (
	"net/http"
	"time"
)

const (
	// writeTimeout is the least time a client has to take an answer or an
	// event.
	writeTimeout = 30 * time.Second
	// writePace is how many bytes a client must take in a second beyond that:
	// half a megabit. What it doesn't take stays in memory.
	writePace = 64 << 10
	// writePiece is how many bytes are written at once. Each piece has a
	// deadline of its own: who takes nothing of a large answer any more is cut
	// as soon as with a small one, and not when the whole should be there.
	writePiece = 256 << 10
)

// WriteTime is how long a client has to take so many bytes: writeTimeout, which
// is enough for most answers at any pace, and a second for each writePace.
func WriteTime(bytes int) time.Duration {
	return writeTimeout + time.Duration(bytes)*time.Second/writePace
}

// WriteBody writes the body of a whole answer, and cuts a client off that
// doesn't take a piece of it, or all of it, in its time, however steadily it
// takes a little. The deadline ends with the response: the server lifts it from
// a connection that serves another one.
func WriteBody(w http.ResponseWriter, body []byte) error {
	control := http.NewResponseController(w)
	now := time.Now()
	limit := now.Add(WriteTime(len(body)))
	for {
		piece := nextPiece(body)
		// A writer that has no deadline is no connection.
		_ = control.SetWriteDeadline(earlier(now.Add(WriteTime(len(piece))), limit))
		if _, err := w.Write(piece); err != nil || len(piece) == len(body) {
			return err
		}
		body, now = body[len(piece):], time.Now()
	}
}

// nextPiece is what is written next of what is left.
func nextPiece(rest []byte) []byte { return rest[:min(len(rest), writePiece)] }

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
