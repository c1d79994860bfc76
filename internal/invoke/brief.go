package invoke

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Brief returns the text for a log that must hold nothing of prompts and answers:
// the class of each failure with its status, the provider's codes and the
// gateway's own explanation. Texts of providers are left out because they quote
// prompts.
func (e *Error) Brief() string {
	if e.Attempts == 0 {
		return e.Error() // no provider has answered
	}
	var b strings.Builder
	b.WriteString(e.Code.Name)
	for i, failure := range split(e.Err) {
		if i == 0 {
			b.WriteString(": ")
		} else {
			b.WriteString("\n")
		}
		b.WriteString(string(Classify(failure)))
		if text := brief(failure); text != "" {
			b.WriteString(": ")
			b.WriteString(text)
		}
	}
	return b.String()
}

// split returns the errors that errors.Join joined.
func split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// word matches the codes and types of errors that providers use. A text that it
// does not match may quote a prompt.
var word = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

// brief returns the text of a failure without the text of the provider.
func brief(err error) string {
	if e, ok := errors.AsType[*providers.Error](err); ok {
		text := e.Provider + ": " + e.Kind.String()
		if e.Status != 0 {
			text += " " + strconv.Itoa(e.Status)
		}
		for _, w := range []string{e.Type, e.Code} {
			if word.MatchString(w) {
				text += " " + w
			}
		}
		if e.Reason != "" {
			text += ": " + e.Reason
		}
		if e.Err != nil {
			text += ": " + unquoted(e.Err)
		}
		return text
	}
	if e, ok := errors.AsType[*providers.ConnectError](err); ok {
		return "no answer: " + unquoted(e.Err)
	}
	for _, own := range []error{errSuperseded, errTotal, errFirstToken, errWhole, errIdle, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, own) {
			return own.Error()
		}
	}
	return fmt.Sprintf("an error of the type %T", err)
}

// unquoted returns the text of a connection's error without what the other side
// sent: net/http repeats what it can't parse.
func unquoted(err error) string {
	text := err.Error()
	if i := strings.Index(text, "malformed"); i >= 0 {
		return text[:i] + "malformed answer"
	}
	return text
}
