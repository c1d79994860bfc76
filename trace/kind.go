package trace

import "slices"

// Kind is the kind of a trace. It is part of a trace's id, so that a report can be
// checked without reading the trace.
type Kind uint8

// The kinds. Their numbers are part of ids and never change. An id has three bits for
// the kind, so the highest is 7.
const (
	KindPrompt       Kind = iota + 1 // a prompt's evaluation
	KindEndpoint                     // an endpoint's upstream call
	KindRemoteConfig                 // a remote configuration's evaluation
	KindMetrics                      // metrics reported without a trace

	// KindDecision is the kind of decision ids, which identify a request with all its
	// answers. No trace has it, so it is not valid in a trace id.
	KindDecision
)

// kindNames are the names of the kinds of traces.
var kindNames = [...]string{KindPrompt: "prompt", KindEndpoint: "endpoint", KindRemoteConfig: "remoteconfig", KindMetrics: "metrics"}

// String returns the kind's name, as stored and shown.
func (k Kind) String() string {
	if k.valid() {
		return kindNames[k]
	}
	return "unknown"
}

// Kinds returns the kinds of traces.
func Kinds() []Kind {
	var kinds []Kind
	for k := range Kind(len(kindNames)) {
		if k.valid() {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// ParseKind is the inverse of Kind.String. It is false for any other name.
func ParseKind(name string) (Kind, bool) {
	if i := slices.Index(kindNames[:], name); i >= 0 && name != "" {
		return Kind(i), true
	}
	return 0, false
}

func (k Kind) valid() bool { return int(k) < len(kindNames) && kindNames[k] != "" }
