package responses

import (
	"encoding/base64"
	"strings"

	"github.com/cadenza-gateway/cadenza/providers"
)

// callMark begins the encrypted content of a call.
const callMark = "call_"

// ofCall returns a call's opaque data as the encrypted content of an item of its own,
// because an item of a call has no member for it. It names the call, since clients
// rename and reorder items: call_, the call's id in base64url without padding, a dot
// and the data.
func ofCall(c *providers.ToolCall) string {
	return callMark + base64.RawURLEncoding.EncodeToString([]byte(c.ID)) + "." + c.Opaque
}

// callOf returns what ofCall joined. ok is false for the content of a thought.
func callOf(content string) (id, opaque string, ok bool) {
	rest, ok := strings.CutPrefix(content, callMark)
	if !ok {
		return "", "", false
	}
	encoded, opaque, ok := strings.Cut(rest, ".")
	if !ok || opaque == "" {
		return "", "", false
	}
	decoded, err := base64.RawURLEncoding.DecodeString(encoded)
	return string(decoded), opaque, err == nil
}
