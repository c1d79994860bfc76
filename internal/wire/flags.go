package wire

import (
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/trace"
)

// FlagsPath is the path of the requests of OpenFeature's remote evaluation protocol
// (OFREP) for all flags. A slash and a key make the path for one flag.
const FlagsPath = "/ofrep/v1/evaluate/flags"

// The error codes of OFREP.
const (
	flagParseError          = "PARSE_ERROR"
	FlagTargetingKeyMissing = "TARGETING_KEY_MISSING"
	flagInvalidContext      = "INVALID_CONTEXT"
	flagGeneral             = "GENERAL"
	flagNotFound            = "FLAG_NOT_FOUND"
)

// Flag is the answer to one flag of OFREP.
type Flag struct {
	Key             string
	Value           []byte // JSON
	Reason, Variant string
	Version         string
}

// Flags parses the body of a request of OFREP. A signed context is the member
// signed_context of the context.
func (r *Request) Flags() (Facts, *Error) {
	body, err := r.Object()
	if err != nil {
		if err.Code == InvalidRequest {
			err.FlagCode = flagParseError
		}
		return Facts{}, err
	}
	// Providers send members of the context alone.
	const param = "context.signed_context"
	if r.contextSecret == nil {
		f, err := r.facts(body, false)
		if err == nil && f.Context.Exists("signed_context") {
			err = Errorf(InvalidRequest, param, "The contexts of this API key are plain. Send the fields, or add signed_context to the key.")
		}
		return f, err
	}
	context, err := ObjectMember(body, "context")
	if err != nil {
		return Facts{}, err
	}
	var f Facts
	if f.Context, err = r.openContext(param, context.Get("signed_context")); err == nil {
		f.Metadata, err = r.MetadataMember(body)
	}
	return f, err
}

// AppendFlag appends a flag. Reason and Version need no escapes.
func AppendFlag(dst []byte, f *Flag) []byte {
	dst = jsontext.AppendString(append(dst, `{"key":`...), f.Key)
	dst = append(append(dst, `,"value":`...), f.Value...)
	dst = append(append(dst, `,"reason":"`...), f.Reason...)
	dst = jsontext.AppendString(append(dst, `","variant":`...), f.Variant)
	dst = append(append(dst, `,"metadata":{"version":"`...), f.Version...)
	return append(dst, flagEnd...)
}

const flagEnd = `"}}`

// AppendFlagTrace adds the trace to the flag that was appended last.
func AppendFlagTrace(dst []byte, id trace.ID) []byte {
	dst = append(dst[:len(dst)-len(flagEnd)], `","trace_id":"`...)
	return append(id.AppendTo(dst), flagEnd...)
}

// appendFlagError appends the members that clients of OFREP read to the members of an
// error. They ignore all others.
func (e *Error) appendFlagError(dst []byte) []byte {
	if e.FlagKey != "" {
		dst = jsontext.AppendString(append(dst, `,"key":`...), e.FlagKey)
	}
	dst = jsontext.AppendString(append(dst, `,"errorCode":`...), e.flagCode())
	return jsontext.AppendString(append(dst, `,"errorDetails":`...), e.Message)
}

// flagCode returns the error's code in OFREP.
func (e *Error) flagCode() string {
	switch {
	case e.FlagCode != "":
		return e.FlagCode
	case e.Code == InvalidJSON:
		return flagParseError
	case e.Code == UnknownKey:
		return flagNotFound
	case e.Code == InvalidRequest && (e.Param == "context" || strings.HasPrefix(e.Param, "context.")):
		return flagInvalidContext
	}
	return flagGeneral
}

// MatchesETag reports whether a list of entity tags, as If-None-Match has it, has the tag,
// which is in quotes, or is *. It compares weakly (RFC 9110, section 8.8.3.2).
func MatchesETag(list []string, tag string) bool {
	for _, value := range list {
		for value = strings.TrimSpace(value); value != ""; {
			if value == "*" {
				return true
			}
			rest, quoted := strings.CutPrefix(strings.TrimPrefix(value, "W/"), `"`)
			end := strings.IndexByte(rest, '"')
			if !quoted || end < 0 {
				return false // not a list of tags
			}
			if rest[:end] == tag[1:len(tag)-1] {
				return true
			}
			value = strings.TrimLeft(rest[end+1:], " \t,")
		}
	}
	return false
}
