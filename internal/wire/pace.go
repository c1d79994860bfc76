package wire

import (
	"net/http"
	"time"
)

const (
	// writeTimeout is the least time a client has to take an answer or an
	// event.
	writeTimeout = 30 * time.Second
	// writePace is how many bytes a client must take in each further second: half
	// a megabit. Bytes that it does not take stay in memory.
	writePace = 64 << 10
	// writePiece is how many bytes are written at once. Each piece has a deadline
	// of its own, so that a client that stops reading a large answer is cut off as
	// soon as with a small one.
	writePiece = 256 << 10
)

// WriteTime returns how long a client has to take so many bytes: writeTimeout, which
// is enough for most answers at any pace, and a second for each writePace.
func WriteTime(bytes int) time.Duration {
	return writeTimeout + time.Duration(bytes)*time.Second/writePace
}

// WriteBody writes the body of a whole answer. It cuts off a client that does not
// take a piece, or the whole body, in time, even if the client reads a little all
// along. The deadline ends with the response: the server removes it before another
// request on the connection. The time now is the caller's, which has often read
// the clock already.
func WriteBody(w http.ResponseWriter, body []byte, now time.Time) error {
	control := http.NewResponseController(w)
	limit := now.Add(WriteTime(len(body)))
	for {
		piece := body[:min(len(body), writePiece)]
		// A writer without deadlines is no connection.
		_ = control.SetWriteDeadline(earlier(now.Add(WriteTime(len(piece))), limit))
		if _, err := w.Write(piece); err != nil || len(piece) == len(body) {
			return err
		}
		body, now = body[len(piece):], time.Now()
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
