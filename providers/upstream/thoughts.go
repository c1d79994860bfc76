package upstream

import (
	"strings"

	"github.com/cadenza-gateway/cadenza/providers"
)

// thoughts puts the thoughts of an answer together. Its zero value holds none.
type thoughts struct {
	text     strings.Builder // of the thought that goes on
	ended    []providers.Thought
	size     int  // of all, in bytes
	overflow bool // a limit was exceeded: none are kept
}

// thoughtSize is the size of a thought without its text and data, in bytes.
const thoughtSize = 64

// add adds to the thought that goes on.
func (t *thoughts) add(text string) {
	if t.fits(len(text)) {
		t.text.WriteString(text)
	}
}

// open reports whether a thought goes on.
func (t *thoughts) open() bool { return t.text.Len() > 0 }

// end ends the thought that goes on. It returns the thought with its text if it
// has data, nil for nothing that need be reported.
func (t *thoughts) end(thought *providers.Thought) *providers.Thought {
	ended := providers.Thought{Text: t.text.String()}
	t.text.Reset()
	if thought != nil {
		ended.Opaque = thought.Opaque
	}
	if t.fits(thoughtSize+len(ended.Opaque)) && ended != (providers.Thought{}) {
		t.ended = append(t.ended, ended)
	}
	if ended.Opaque == "" {
		return nil
	}
	return &ended
}

func (t *thoughts) fits(n int) bool {
	if t.size += n; t.size > MaxBody {
		t.overflow, t.ended = true, nil
		t.text.Reset()
	}
	return !t.overflow
}

// all returns the thoughts, the one that goes on included.
func (t *thoughts) all() []providers.Thought {
	if !t.open() {
		return t.ended
	}
	return append(t.ended[:len(t.ended):len(t.ended)], providers.Thought{Text: t.text.String()})
}
