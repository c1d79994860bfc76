package definition

import (
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// DefaultWindow is how long an exposure stands for further answers, unless a definition has
// a window of its own. The longest one bounds how long a count may wait for its report.
const (
	DefaultWindow = 24 * time.Hour
	minWindow     = time.Minute
	maxWindow     = 30 * 24 * time.Hour
)

// recordMembers are the members that say which answers of a prompt or a remote configuration
// are traces of their own.
var recordMembers = []string{"record", "window"}

// decodeRecord reads recordMembers.
func (d *Definition) decodeRecord(errs *document.Errors) {
	if n := d.node.Get("record"); n != nil {
		if word, _ := n.ReadWord(errs, "record", "every", "exposures"); word == "exposures" {
			d.Window = DefaultWindow
		}
	}
	n := d.node.Get("window")
	switch {
	case n == nil:
	case d.Window == 0:
		errs.Add(n, "window needs record: exposures")
	default:
		d.Window, _ = n.ReadDuration(errs, "window", minWindow, maxWindow)
	}
}
