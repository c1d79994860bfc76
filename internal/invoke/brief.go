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

// Brief returns the error's text for a log that must not contain prompts or
// answers: the class of each failure with its status, the provider's codes and
// the gateway's own explanation. Texts of providers are left out because they
// quote prompts.
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
		b.WriteString(": ")
		if f, ok := errors.AsType[*targetError](failure); ok {
			b.WriteString(f.target + ": " + f.brief)
		} else {
			b.WriteString(brief(failure))
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

// member matches the path of a member of a request, such as messages[0].content.
var member = regexp.MustCompile(`^[a-z0-9_.\[\]]{1,64}$`)

// brief returns the text of a failure without the words of the provider and its
// name.
func brief(err error) string {
	if e, ok := errors.AsType[*providers.Error](err); ok {
		text := e.Kind.String()
		if e.Status != 0 {
			text += " " + strconv.Itoa(e.Status)
		}
		for _, w := range []string{e.Type, e.Code} {
			if word.MatchString(w) {
				text += " " + w
			}
		}
		if member.MatchString(e.Param) {
			text += " (" + e.Param + ")"
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
		return unquoted(e)
	}
	for _, own := range []error{errSuperseded, errTotal, errFirstToken, errWhole, errIdle, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, own) {
			return own.Error()
		}
	}
	return fmt.Sprintf("an error of the type %T", err)
}

// unquoted returns the text of a connection's error without the bytes that the
// other side sent: net/http quotes input that it can't parse.
func unquoted(err error) string {
	text := err.Error()
	if i := strings.Index(text, "malformed"); i >= 0 {
		return text[:i] + "malformed answer"
	}
	return text
}

// full returns the text of a failure without the provider's name, which its
// target has.
func full(err error) string {
	if e, ok := errors.AsType[*providers.Error](err); ok {
		return strings.TrimPrefix(err.Error(), e.Provider+": ")
	}
	return err.Error()
}

// explain returns why an attempt failed: brief, and the provider's words if they
// are about the account or the model. Such words don't quote prompts; explain
// detects a proxy that does so all the same.
func (k *call) explain(err error, class Class) string {
	text := brief(err)
	switch class {
	case Credential, Quota, RateLimit, Model:
		e, ok := errors.AsType[*providers.Error](err)
		if ok && e.Message != "" && !k.Terse && !k.quoted(e.Message) {
			return text + ": " + e.Message
		}
	}
	return text
}

const (
	// quotedRun is how many bytes a text has in common with a message that it
	// quotes.
	quotedRun = 12
	// maxQuotable bounds the messages that are looked at, in bytes. Of larger ones
	// any text may be a quotation.
	maxQuotable = 64 << 10
)

// quoted reports whether a text quotes one of the messages.
func (k *call) quoted(text string) bool {
	size := 0
	for i := range k.Messages {
		size += k.Messages[i].Size()
	}
	if size > maxQuotable {
		return true
	}
	runs := make(map[string]struct{}, len(text))
	for i := quotedRun; i <= len(text); i++ {
		runs[text[i-quotedRun:i]] = struct{}{}
	}
	for i := range k.Messages {
		for content := range texts(&k.Messages[i]) {
			if content != "" && len(content) < quotedRun && strings.Contains(text, content) {
				return true
			}
			for j := quotedRun; j <= len(content); j++ {
				if _, ok := runs[content[j-quotedRun:j]]; ok {
					return true
				}
			}
		}
	}
	return false
}

// targetError is the failure of a target.
type targetError struct {
	target string // PROVIDER/MODEL
	brief  string
	err    error
}

func (e *targetError) Error() string { return e.target + ": " + full(e.err) }
func (e *targetError) Unwrap() error { return e.err }
