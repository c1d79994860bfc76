package gateway

import (
	"errors"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// refuseMessages returns the caller's error for messages that can't be rendered. turns
// is the path of the caller's messages.
func refuseMessages(err error, turns string) *wire.Error {
	if e, ok := errors.AsType[*definition.HistoryError](err); ok {
		return wire.Errorf(wire.InvalidRequest, turns, "The messages can't be sent: %v.", e)
	}
	return wire.Errorf(wire.InvalidRequest, "variables", "The endpoint's prompt would be too large: %v.", err)
}
