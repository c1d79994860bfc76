package wire

import (
	"strconv"
	"strings"

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

// AppendAnswerStart appends the part of one key's answer before its value.
func AppendAnswerStart(dst []byte, key string) []byte {
	if n := len(dst); n > 0 && dst[n-1] != '{' {
		dst = append(dst, ',')
	}
	dst = jsontext.AppendString(dst, key)
	return append(dst, `:{"value":`...)
}

// AppendAnswerEnd appends the part of one key's answer after its value. typ is
// the type of a remote configuration's value, empty for a prompt.
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

// AnswersSize is the size of an answer without its AnswerSizes: its braces, without
// the comma that the first key lacks.
const AnswersSize = len("{}") - len(",")

// AnswerSize returns the number of bytes that one key adds to an answer: the
// output of AppendAnswerStart and AppendAnswerEnd, and value, the length of the
// value between them.
func AnswerSize(key string, value int, typ string) int {
	size := len(`,"":{"value":,"trace_id":""}`) + jsontext.EscapedLen(key) + value + TraceIDLength
	if typ != "" {
		size += len(`,"type":""`) + jsontext.EscapedLen(typ)
	}
	return size
}

// TraceIDLength is how many characters a trace id has.
const TraceIDLength = 36

// AppendDecisionStart opens the answer to a request for decisions, up to the
// answers of its prompts. As in the answer to a request for prompts, each is
// between AppendAnswerStart and AppendAnswerEnd.
func AppendDecisionStart(dst []byte, decisionID trace.ID) []byte {
	dst = append(dst, '{')
	if !decisionID.IsZero() {
		dst = append(decisionID.AppendTo(append(dst, `"decision_id":"`...)), `",`...)
	}
	return append(dst, `"prompts":{`...)
}

// AppendDecisionConfigs appends the text between a decision's prompts and its
// remote configurations.
func AppendDecisionConfigs(dst []byte) []byte { return append(dst, `},"remoteconfigs":{`...) }

// AppendDecisionEnd closes a decision's answer.
func AppendDecisionEnd(dst []byte) []byte { return append(dst, `}}`...) }

// DecisionSize returns the size of the answer to a request for decisions
// without its AnswerSizes.
func DecisionSize(prompts, configs int) int {
	return len(`{"decision_id":"","prompts":,"remoteconfigs":}`) + TraceIDLength + objectSize(prompts) + objectSize(configs)
}

// AppendConfigsStart begins the member of an endpoint's answer that has the values of
// remote configurations. AppendAnswersEnd ends it.
func AppendConfigsStart(dst []byte) []byte { return append(dst, `,"remoteconfigs":{`...) }

// ConfigsSize returns the size of that member without its AnswerSizes.
func ConfigsSize(configs int) int { return len(`,"remoteconfigs":`) + objectSize(configs) }

// objectSize returns the size of an object of answers without their AnswerSizes,
// each of which counts a comma.
func objectSize(answers int) int {
	if answers == 0 {
		return len(`{}`)
	}
	return AnswersSize
}

// AppendMetricsAnswer appends the answer to a stored metrics record. traceID is the
// id of the record's own trace, empty if the caller named a trace. ignored are the
// members that Apply dropped.
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

// maxHeaderList is the size in bytes that the list in a header may have.
const maxHeaderList = 1 << 10

// headerList is a list in a header, whose texts are separated by ", ". Texts that are not
// legal are left out, and so are all from the one on that exceeds maxHeaderList. The
// list then ends with "...+N", where N counts the texts left out.
type headerList struct {
	text []byte
	left int
	full bool
}

func (l *headerList) add(legal bool, folder, text string) {
	if !legal || l.full || len(l.text)+len(", ")+len(folder)+len(text) > maxHeaderList {
		l.full = l.full || legal
		l.left++
		return
	}
	if len(l.text) > 0 {
		l.text = append(l.text, ", "...)
	}
	l.text = append(append(l.text, folder...), text...)
}

func (l *headerList) value() string {
	if l.left > 0 {
		l.text = strconv.AppendInt(append(l.text, "...+"...), int64(l.left), 10)
	}
	return string(l.text)
}

// MissingKey is a requested key that no definition has.
type MissingKey struct {
	// Folder is "prompts/" or "remoteconfigs/" if the request asks for keys of
	// more than one kind, else empty.
	Folder string
	Key    string
}

// UnknownKeys returns the value of HeaderUnknownKeys: the keys, without those that have
// no legal form, which could hold anything.
func UnknownKeys(keys []MissingKey) string {
	var list headerList
	for _, k := range keys {
		list.add(LegalKey(k.Key), k.Folder, k.Key)
	}
	return list.value()
}

// Ignored returns the value of HeaderIgnored: the paths of members, without those that
// have characters that are not visible ASCII. There are more members without a path.
func Ignored(paths []string, more int) string {
	list := headerList{left: more}
	for _, path := range paths {
		list.add(visibleASCII(path) && !strings.Contains(path, ","), "", path)
	}
	return list.value()
}

// visibleASCII reports whether s has only visible ASCII characters, and no space.
func visibleASCII(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
