package wire

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// maxSignedContext bounds a signed context, in bytes as it is sent.
const maxSignedContext = 16 << 10

// SetContextSecret has the request's contexts be signed under a secret and valid at a time.
// A nil secret has them be plain objects.
func (r *Request) SetContextSecret(secret []byte, now time.Time) {
	r.contextSecret, r.now = secret, now
}

// openContext opens a signed context, the value of the member param of the body:
//
//	BASE64URL(JSON) "." BASE64URL(HMAC-SHA256(secret, BASE64URL(JSON)))
//
// without padding. The JSON is an object with exp, the time of its end in seconds since
// 1970 (NumericDate of RFC 7519), and with the context in its other members. openContext
// returns the context as ObjectMember does, without exp.
//
// It reads nothing of the JSON before the signature is known to be right, so its errors tell
// a caller without the secret nothing that the caller did not write.
func (r *Request) openContext(param string, v *fastjson.Value) (*fastjson.Value, *Error) {
	if IsNull(v) || v.Type() != fastjson.TypeString {
		what := "missing"
		if !IsNull(v) {
			what = Describe(v)
		}
		return nil, Errorf(InvalidRequest, param, "The context of this API key is signed: %q must be the text that the app's server signs, and is %s.", param, what)
	}
	text := jsontext.View(v.GetStringBytes())
	if len(text) > maxSignedContext {
		return nil, Errorf(InvalidRequest, param, "The signed context has %d bytes, at most %d are allowed. Sign fewer fields.", len(text), maxSignedContext)
	}
	payload, signature, found := strings.Cut(text, ".")
	if !found {
		return nil, Errorf(InvalidRequest, param, "The context is not signed: it must be base64url of JSON, a dot and the signature.")
	}
	mac := hmac.New(sha256.New, r.contextSecret)
	mac.Write([]byte(payload))
	sent, err := base64.RawURLEncoding.Strict().DecodeString(signature)
	if err != nil || !hmac.Equal(mac.Sum(nil), sent) {
		return nil, Errorf(InvalidRequest, param, "The signature of the context is wrong: it must be the HMAC-SHA256 of the text before the dot, under the secret of this API key, in base64url without padding.")
	}
	return r.signedObject(param, payload)
}

// signedObject reads the JSON of a context whose signature is right.
func (r *Request) signedObject(param, payload string) (*fastjson.Value, *Error) {
	fail := func(format string, args ...any) (*fastjson.Value, *Error) {
		return nil, Errorf(InvalidRequest, param, "The signed context is not valid: "+format, args...)
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(payload)
	if err != nil {
		return fail("the text before the dot must be base64url without padding.")
	}
	if !utf8.Valid(b) {
		return fail("it is not UTF-8.")
	}
	if _, bad := checkSyntax(b, nil); bad != nil {
		return fail("its JSON is wrong at byte %d: %s.", bad.offset, bad.problem)
	}
	root, err := r.signed.ParseBytes(b)
	if err != nil {
		return fail("it is not JSON.") // unreachable: checkSyntax accepts no text that fastjson refuses
	}
	object, err := root.Object()
	if err != nil {
		return fail("its JSON must be an object, not %s.", Describe(root))
	}
	r.names = r.names[:0]
	if name, found := r.duplicate(root); found {
		return fail("the member %q appears more than once in its object.", name)
	}
	end := object.Get("exp")
	if IsNull(end) || end.Type() != fastjson.TypeNumber {
		return fail(`"exp" must be a number, the time of its end in seconds since 1970.`)
	}
	if exp := end.GetFloat64(); exp*1000 <= float64(r.now.UnixMilli()) {
		return nil, Errorf(InvalidRequest, param, "The signed context has expired. Get a new one from the app's server.")
	}
	object.Del("exp")
	if object.Len() == 0 {
		return nil, nil
	}
	return root, nil
}
