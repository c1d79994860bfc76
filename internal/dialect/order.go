package dialect

import "github.com/cadenza-gateway/cadenza/providers"

// CompareParts orders the parts of a message of the assistant as a history has them:
// thoughts, then texts, then calls.
func CompareParts(a, b providers.Part) int { return rank(a.Kind) - rank(b.Kind) }

func rank(k providers.PartKind) int {
	switch k {
	case providers.PartThinking:
		return 0
	case providers.PartToolCall:
		return 2
	}
	return 1
}
