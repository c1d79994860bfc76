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
)

// WriteTime is how long a client has to take so many bytes: writeTimeout, which
// is enough for most answers at any pace, and a second for each writePace.
func WriteTime(bytes int) time.Duration {
	return writeTimeout + time.Duration(bytes)*time.Second/writePace
}

// LimitWrite cuts a client off that doesn't take an answer of so many bytes in
// its time, however steadily it takes a little. It comes before the answer's
// first byte. The deadline ends with the response: the server lifts it from a
// connection that serves another one.
func LimitWrite(w http.ResponseWriter, bytes int) {
	// A writer that has no deadline is no connection.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(WriteTime(bytes)))
}
