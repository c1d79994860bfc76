package trace

// Kind says what a trace is of. It is part of a trace's id, so that what may be
// reported on the trace is known without looking it up.
type Kind uint8

// The kinds. Ids hold their numbers, which never change. An id has room for kinds
// up to 7.
const (
	KindPrompt       Kind = iota + 1 // a prompt's evaluation
	KindEndpoint                     // an endpoint's upstream call
	KindRemoteConfig                 // a remote configuration's evaluation
	KindMetrics                      // metrics that were reported without a trace

	// KindDecision is of ids that name a request with all its answers. No trace
	// has one, so it is not valid for what names traces.
	KindDecision
)

// String returns the kind's name, as it is stored and shown.
func (k Kind) String() string {
	switch k {
	case KindPrompt:
		return "prompt"
	case KindEndpoint:
		return "endpoint"
	case KindRemoteConfig:
		return "remoteconfig"
	case KindMetrics:
		return "metrics"
	}
	return "unknown"
}

// Folder returns the name of the folder of the kind's definitions in a workspace,
// which begins what traces call them, as in remoteconfigs/limits. It is empty for a
// kind without definitions.
func (k Kind) Folder() string {
	switch k {
	case KindPrompt:
		return "prompts"
	case KindEndpoint:
		return "endpoints"
	case KindRemoteConfig:
		return "remoteconfigs"
	}
	return ""
}

// ParseKind is the inverse of Kind.String. It is false for any other name.
func ParseKind(name string) (Kind, bool) {
	for k := KindPrompt; k <= KindMetrics; k++ {
		if k.String() == name {
			return k, true
		}
	}
	return 0, false
}

func (k Kind) valid() bool { return k >= KindPrompt && k <= KindMetrics }
