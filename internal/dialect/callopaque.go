package dialect

import (
	"encoding/base64"
	"strings"

	"github.com/cadenza-gateway/cadenza/providers"
)

// callMark begins the opaque data of a call.
const callMark = "call_"

// OfCall returns a call's opaque data as that of a thought, for an API whose calls have
// no member for it. It names the call, since clients rename and reorder what they send
// back: call_, the call's id in base64url without padding, a dot and the data.
func OfCall(c *providers.ToolCall) string {
	return callMark + base64.RawURLEncoding.EncodeToString([]byte(c.ID)) + "." + c.Opaque
}

// OfCallLen returns the length of what OfCall returns.
func OfCallLen(c *providers.ToolCall) int {
	return len(callMark) + base64.RawURLEncoding.EncodedLen(len(c.ID)) + len(".") + len(c.Opaque)
}

// CallOf returns what OfCall joined. ok is false for the data of a thought.
func CallOf(data string) (id, opaque string, ok bool) {
	rest, ok := strings.CutPrefix(data, callMark)
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
