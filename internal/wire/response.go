package wire

import (
	"strconv"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/trace"
)

// The answer to a request for prompts or remote configurations is built in the
// order of its bytes, so that each value is rendered into the buffer that is sent:
//
//	dst = wire.AppendAnswersStart(dst)
//	for … {
//		dst = wire.AppendAnswerStart(dst, key)
//		dst = …append the value as JSON…
//		dst = wire.AppendAnswerEnd(dst, typ, traceID)
//	}
//	dst = wire.AppendAnswersEnd(dst)

// AppendAnswersStart opens the answer.
func AppendAnswersStart(dst []byte) []byte { return append(dst, '{') }

// AppendAnswerStart appends the beginning of one key's answer, up to where its
// value goes.
func AppendAnswerStart(dst []byte, key string) []byte {
	if n := len(dst); n > 0 && dst[n-1] != '{' {
		dst = append(dst, ',')
	}
	dst = jsontext.AppendString(dst, key)
	return append(dst, `:{"value":`...)
}

// AppendAnswerEnd appends the rest of one key's answer. typ is the type of a
// remote configuration's value, empty for a prompt.
func AppendAnswerEnd(dst []byte, typ string, traceID trace.ID) []byte {
	if typ != "" {
		dst = append(dst, `,"type":`...)
		dst = jsontext.AppendString(dst, typ)
	}
	dst = append(dst, `,"trace_id":"`...)
	dst = traceID.AppendTo(dst)
	return append(dst, `"}`...)
}

// AppendAnswersEnd closes the answer.
func AppendAnswersEnd(dst []byte) []byte { return append(dst, '}') }

// AnswersSize is how many bytes an answer has beside the AnswerSize of each key: its
// braces, without the comma that the first key lacks.
const AnswersSize = len("{}") - len(",")

// AnswerSize returns how many bytes one key adds to an answer: those of
// AppendAnswerStart and AppendAnswerEnd, and value, the bytes between them.
func AnswerSize(key string, value int, typ string) int {
	size := len(`,"":{"value":,"trace_id":""}`) + jsontext.EscapedLen(key) + value + TraceIDLength
	if typ != "" {
		size += len(`,"type":""`) + jsontext.EscapedLen(typ)
	}
	return size
}

// TraceIDLength is how many characters a trace id has.
const TraceIDLength = 36

// AppendDecisionStart opens the answer to a request for decisions, up to where the
// answers of its prompts go. As in the answer to a request for prompts, each is
// between AppendAnswerStart and AppendAnswerEnd.
func AppendDecisionStart(dst []byte, decisionID trace.ID) []byte {
	dst = append(dst, `{"decision_id":"`...)
	dst = decisionID.AppendTo(dst)
	return append(dst, `","prompts":{`...)
}

// AppendDecisionConfigs appends what is between a decision's prompts and its remote
// configurations.
func AppendDecisionConfigs(dst []byte) []byte { return append(dst, `},"remoteconfigs":{`...) }

// AppendDecisionEnd closes a decision's answer.
func AppendDecisionEnd(dst []byte) []byte { return append(dst, `}}`...) }

// DecisionSize returns how many bytes the answer to a request for decisions has
// beside the AnswerSize of each key.
func DecisionSize(prompts, configs int) int {
	return len(`{"decision_id":"","prompts":,"remoteconfigs":}`) + TraceIDLength + objectSize(prompts) + objectSize(configs)
}

// AppendBesideStart begins the member of an endpoint's answer that has the values of
// remote configurations. AppendAnswersEnd ends it.
func AppendBesideStart(dst []byte) []byte { return append(dst, `,"remoteconfigs":{`...) }

// BesideSize returns how many bytes that member has beside the AnswerSize of each key.
func BesideSize(configs int) int { return len(`,"remoteconfigs":`) + objectSize(configs) }

// objectSize is how many bytes an object of answers has beside their AnswerSize, of
// which each counts a comma.
func objectSize(answers int) int {
	if answers == 0 {
		return len(`{}`)
	}
	return AnswersSize
}

// AppendMetricsAnswer appends the answer to a stored metrics record. traceID is the
// id of the record's own trace, empty where the caller named a trace. ignored are
// the members that Apply dropped.
func AppendMetricsAnswer(dst []byte, traceID string, ignored []string) []byte {
	dst = append(dst, `{"ok":true`...)
	if traceID != "" {
		dst = append(dst, `,"trace_id":`...)
		dst = jsontext.AppendString(dst, traceID)
	}
	if len(ignored) > 0 {
		dst = append(dst, `,"ignored":[`...)
		for i, name := range ignored {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = jsontext.AppendString(dst, name)
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// maxUnknownKeys is the size in bytes that the list of unknown keys may have.
const maxUnknownKeys = 1 << 10

// MissingKey is a requested key that no definition has.
type MissingKey struct {
	// Folder is "prompts/" or "remoteconfigs/" where the request asks for keys of
	// more than one kind, else empty.
	Folder string
	Key    string
}

// UnknownKeys returns the value of HeaderUnknownKeys: the keys, separated by ", ".
// Keys without a legal form, which could hold anything, are left out, and so are
// keys beyond 1 KiB. The list then ends with "...+N", where N counts the keys left
// out.
func UnknownKeys(keys []MissingKey) string {
	var list []byte
	left := 0
	full := false
	for _, k := range keys {
		if full || !LegalKey(k.Key) || len(list)+len(", ")+len(k.Folder)+len(k.Key) > maxUnknownKeys {
			full = full || LegalKey(k.Key)
			left++
			continue
		}
		if len(list) > 0 {
			list = append(list, ", "...)
		}
		list = append(append(list, k.Folder...), k.Key...)
	}
	if left > 0 {
		list = append(list, "...+"...)
		list = strconv.AppendInt(list, int64(left), 10)
	}
	return string(list)
}

// maxIgnored is the size in bytes that the list of ignored members may have.
const maxIgnored = 1 << 10

// Ignored returns the value of HeaderIgnored: the paths of members, separated by ", ".
// Paths beyond 1 KiB, and those with other than visible ASCII characters, are left
// out. The list then ends with "...+N", where N counts the paths left out.
func Ignored(paths []string) string {
	var list []byte
	left := 0
	for _, path := range paths {
		if len(list)+len(", ")+len(path) > maxIgnored || !visibleASCII(path) {
			left++
			continue
		}
		if len(list) > 0 {
			list = append(list, ", "...)
		}
		list = append(list, path...)
	}
	if left > 0 {
		list = append(list, "...+"...)
		list = strconv.AppendInt(list, int64(left), 10)
	}
	return string(list)
}

func visibleASCII(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || s[i] == ',' {
			return false
		}
	}
	return true
}
