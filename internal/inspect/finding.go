package inspect

import (
	"cmp"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
)

// Finding is a message about a workspace's files, with its place. Line and
// Column are 0 where the message is about the file itself.
type Finding struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
	// Rule is a stable name for findings of this kind.
	Rule string `json:"rule,omitempty"`
	// Suggestion is what to write instead, where the message asks whether that
	// was meant, or names the successor of a model.
	Suggestion string `json:"suggestion,omitempty"`
	// More is how many findings of one kind this one sums up; 0 for a single finding.
	More int `json:"more,omitempty"`
	// Witness is a context that proves the finding at the instant At, or now where that is
	// zero.
	Witness json.RawMessage `json:"witness,omitempty"`
	At      time.Time       `json:"at,omitzero"`
}

// Findings returns warnings or remarks as findings.
func Findings(list []definition.Warning) []Finding {
	findings := make([]Finding, len(list))
	for i, w := range list {
		findings[i] = Finding{File: w.Pos.File, Line: w.Pos.Line, Column: w.Pos.Column, Message: w.Message, Rule: w.Kind, Suggestion: cmp.Or(w.Suggestion, suggestion(w.Message)), More: w.More, Witness: json.RawMessage(w.Witness), At: w.At}
	}
	return findings
}

// Mistakes returns the mistakes that an error of loading definitions lists. ok
// reports whether it lists any: other errors are not about a place in a file.
func Mistakes(err error) (mistakes []Finding, ok bool) {
	list, ok := errors.AsType[*document.MultiError](err)
	if !ok {
		return nil, false
	}
	mistakes = make([]Finding, len(list.List))
	for i, e := range list.List {
		mistakes[i] = Finding{File: e.Pos.File, Line: e.Pos.Line, Column: e.Pos.Column, Message: e.Message, Rule: e.Rule, Suggestion: suggestion(e.Message)}
	}
	return mistakes, true
}

// meant finds the question with which messages suggest a name, in quotes or
// without.
var meant = regexp.MustCompile(`did you mean (?:("(?:[^"\\]|\\.)*")|([^\s"?]+))\?`)

// suggestion returns what a message suggests, or "". The question is at the
// message's end, so the last one counts: there may be text of the file before it.
func suggestion(message string) string {
	all := meant.FindAllStringSubmatch(message, -1)
	if len(all) == 0 {
		return ""
	}
	last := all[len(all)-1]
	if text, err := strconv.Unquote(last[1]); err == nil {
		return text
	}
	return last[2]
}
