package upstream_test

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// A stream as a service sends it: a comment that keeps the connection open, an
// event in two lines and an event with a name.
func ExampleEventReader() {
	body := strings.NewReader(": still there\n\ndata: {\"text\":\ndata: \"Hello\"}\n\nevent: end\ndata: {}\n\n")
	events := upstream.NewEventReader(body, 1<<20)
	for {
		event, err := events.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			panic(err)
		}
		fmt.Printf("%q %q\n", event.Name, event.Data)
	}
	// Output:
	// "" "{\"text\":\n\"Hello\"}"
	// "end" "{}"
}
