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

// Brief is the text for a log that must hold nothing of what was asked or
// answered: the failures by their classes, with statuses, the providers' words
// for them and the gateway's own explanations. Providers quote prompts in their
// texts, and these are left out.
func (e *Error) Brief() string {
	if e.Attempts == 0 {
		return e.Error() // no provider said anything
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

// split takes apart what errors.Join joined.
func split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// word is what providers use for codes and types of errors. What is none may be
// anything.
var word = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

// brief is a failure without the provider's text.
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

// unquoted is an error of a connection without what the other side sent: net/http
// repeats what it can't read.
func unquoted(err error) string {
	text := err.Error()
	if i := strings.Index(text, "malformed"); i >= 0 {
		return text[:i] + "malformed answer"
	}
	return text
}
