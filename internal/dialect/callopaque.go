package dialect

import (
	"encoding/base64"
	"strings"

	"github.com/cadenza-gateway/cadenza/providers"
)

// callMark begins the opaque data of a call.
const callMark = "call_"

// OfCall returns a call's opaque data in the form of a thought's, for an API whose
// calls have no member for it. It names the call, since clients rename and reorder the
// items that they send back: call_, the call's id in base64url without padding, a dot
// and the data.
func OfCall(c *providers.ToolCall) string {
	return callMark + base64.RawURLEncoding.EncodeToString([]byte(c.ID)) + "." + c.Opaque
}

// CallOf undoes OfCall. ok is false for the data of a thought.
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
