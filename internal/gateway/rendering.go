package gateway

import (
	"errors"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// refuseMessages returns the caller's error for messages that can't be rendered. subject
// names the prompt, turns is the path of the caller's messages.
func refuseMessages(err error, subject, turns string) *wire.Error {
	if e, ok := errors.AsType[*definition.HistoryError](err); ok {
		return wire.Errorf(wire.InvalidRequest, turns, "The messages can't be sent: %v.", e)
	}
	if e, ok := errors.AsType[*prompt.InvalidError](err); ok {
		param := "variables." + e.Name
		return wire.Errorf(wire.InvalidRequest, param, "%q %s.", param, e.Reason)
	}
	return wire.Errorf(wire.InvalidRequest, "variables", "%s would be too large: %v.", subject, err)
}
