package script

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/cadenza-gateway/cadenza/providers"
)

// signed begins canned's opaque data.
const signed = "canned-"

// Sign returns opaque data as providers attach it to their thoughts and calls: here
// a digest of the text.
func Sign(text string) string {
	sum := sha256.Sum256([]byte(text))
	return signed + hex.EncodeToString(sum[:12])
}

// CheckOpaque checks the opaque data that comes back with thoughts and tool calls. A
// thought may come back without its data, or without its text. The error names the
// message that was changed on its way.
func CheckOpaque(messages []providers.Message) error {
	for i := range messages {
		for j := range messages[i].Parts {
			p := &messages[i].Parts[j]
			text := p.Text.Plain()
			switch {
			case p.Opaque == "" || p.Kind == providers.PartThinking && text == "" && isSigned(p.Opaque):
				continue
			case p.Kind == providers.PartToolCall:
				text = p.Call.Name
			}
			if p.Opaque != Sign(text) {
				return fmt.Errorf("message %d has opaque data of a %s that is not what it was given with", i+1, p.Kind)
			}
		}
	}
	return nil
}

func isSigned(opaque string) bool {
	digest, ok := strings.CutPrefix(opaque, signed)
	_, err := hex.DecodeString(digest)
	return ok && err == nil && len(digest) == 24
}
