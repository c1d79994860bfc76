package dialect

import (
	"fmt"
	"strconv"

	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// Fate is the treatment of a member of a request. Nothing is dropped in silence.
type Fate string

// The fates of members.
const (
	Forwarded Fate = "forwarded" // reaches the provider, if the endpoint's accept has it
	Mapped    Fate = "mapped"    // has an effect in the gateway
	Fixed     Fate = "fixed"     // is refused unless it asks for the only value
	Refused   Fate = "refused"   // is an error with the member's path
	Ignored   Fate = "ignored"   // has no effect, and is named in the header Cadenza-Ignored
)

// NotKnown returns the error of a member that no table has, where it is refused.
func NotKnown(path string) *wire.Error { return Wrong(path, "is not known. Leave it out.") }

// Wrong returns the error of the value at a path. Its message begins with the path.
func Wrong(path, format string, args ...any) *wire.Error {
	return &wire.Error{Code: wire.InvalidRequest, Param: path, Message: strconv.Quote(path) + " " + fmt.Sprintf(format, args...)}
}
