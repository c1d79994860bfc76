package rules

import (
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// traceMode is the form in which a trace records a field that a decision read.
type traceMode uint8

const (
	traceValue traceMode = iota + 1 // the value
	traceHash                       // a keyed hash of it
	traceNone                       // nothing
)

// traceModes are the modes' words, in the order of the constants.
var traceModes = []string{"value", "hash", "none"}

// decodeTrace reads the form in which a trace records the field.
func (f *field) decodeTrace(n *document.Node, errs *document.Errors) {
	if n == nil {
		return
	}
	if word, ok := n.ReadWord(errs, "trace", traceModes...); ok {
		f.trace = traceMode(slices.Index(traceModes, word) + 1)
	}
}

// defaultTrace returns the mode of a field that gives none. Only values that the
// data model itself lists can't identify a person.
func (f *field) defaultTrace() traceMode {
	if f.typ == booleanField || f.typ == stringField && f.allowed != nil {
		return traceValue
	}
	return traceHash
}
