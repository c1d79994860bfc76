package definition

// Accept is what callers of an endpoint may bring beside its variables. Its zero value
// accepts nothing.
type Accept struct {
	// History accepts the caller's messages, and Tools its tools and tool_choice.
	History, Tools bool
	// System accepts system and developer messages among them.
	System bool
	// Variants lets callers name a variant of the prompt, as KEY@VARIANT.
	Variants bool
	// MaxBodySize bounds a request's body in bytes; 0: the workspace's limit.
	MaxBodySize int64
}
