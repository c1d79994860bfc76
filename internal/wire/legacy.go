package wire

import (
	"strconv"
	"unicode/utf8"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// Rule is a request to /evaluate, the only route of the oldest clients. It is a view of
// its Request.
type Rule struct {
	// Key names a remote configuration, and Domain several. One of them is empty.
	Key, Domain string
	// Param is the member that has it.
	Param   string
	Context *fastjson.Value // as in Facts
}

// Rule parses the body of a request to /evaluate.
func (r *Request) Rule() (rule Rule, err *Error) {
	if err := r.decodeLatin1(); err != nil {
		return Rule{}, err
	}
	body, err := r.Object()
	if err != nil {
		return Rule{}, err
	}
	rule.Param = "rule_key"
	name, into := body.Get("rule_key"), &rule.Key
	if domain := body.Get("domain"); !IsNull(domain) {
		if !IsNull(name) {
			return Rule{}, Errorf(InvalidRequest, "domain", `"rule_key" and "domain" can't be in one request. Send "rule_key" for one remote configuration, or "domain" for all of a folder.`)
		}
		rule.Param = "domain"
		name, into = domain, &rule.Domain
	}
	if IsNull(name) {
		return Rule{}, Errorf(InvalidRequest, "rule_key", `"rule_key" is required: the key of a remote configuration.`)
	}
	if *into = jsontext.View(name.GetStringBytes()); !LegalKey(*into) {
		return Rule{}, badKey(rule.Param, name)
	}
	rule.Context, err = ObjectMember(body, "context")
	return rule, err
}

// decodeLatin1 turns a body that is not UTF-8 into UTF-8. Such a body is in ISO-8859-1, as
// Java's client sends it, which takes no charset from its caller.
func (r *Request) decodeLatin1() *Error {
	if utf8.Valid(r.body) {
		return nil
	}
	more := 0 // each character beyond ASCII takes a second byte
	for _, c := range r.body {
		if c >= utf8.RuneSelf {
			more++
		}
	}
	from := len(r.body)
	if r.reserve != nil && from+more > keepBodyBytes {
		if err := r.reserve(2 * more); err != nil { // also for the parser's copy
			return err
		}
	}
	r.grow(from+more, 0)
	r.body = r.body[:from+more]
	for to := from + more; from < to; {
		from--
		if c := r.body[from]; c < utf8.RuneSelf {
			to--
			r.body[to] = c
		} else {
			to -= 2
			utf8.EncodeRune(r.body[to:], rune(c))
		}
	}
	return nil
}

// AppendDetailed appends the error's body with the members that the clients of /evaluate
// read besides: Go's and the GitHub action's detail, and Python's status_code, by which it
// knows an error.
func (e *Error) AppendDetailed(dst []byte) []byte {
	dst = e.AppendJSON(dst)
	dst = append(dst[:len(dst)-len("}")], `,"detail":`...)
	dst = jsontext.AppendString(dst, e.detail())
	dst = append(dst, `,"status_code":`...)
	dst = strconv.AppendInt(dst, int64(e.Status), 10)
	return append(dst, '}')
}

// detail returns the old service's word for the code, or the code itself.
func (c Code) detail() string {
	switch c {
	case UnknownKey:
		return "empty_evaluation"
	case InvalidJSON, BodyTooLarge, UnsupportedEncoding:
		return InvalidRequest.Name
	}
	return c.Name
}
