package wire

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

var signingSecret = []byte("bb0f3f4a6f0c4d7e9a51")

// sign signs text as an app's server does.
func sign(payload string, secret []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(payload))
	return payload + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func encoded(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// open opens a signed context of a body.
func open(r *Request, context string, now time.Time) (string, *Error) {
	r.body = append(r.body[:0], `{"keys":["a"],"context":`+context+`}`...)
	r.SetContextSecret(signingSecret, now)
	e, err := r.RemoteConfigs()
	if err != nil || e.Context == nil {
		return "", err
	}
	return string(e.Context.MarshalTo(nil)), nil
}

func TestSignedContexts(t *testing.T) {
	t.Parallel()
	now := time.Unix(1800000000, 500_000_000)
	quote := func(text string) string { return string(jsontext.AppendString(nil, text)) }
	signed := func(text string) string { return quote(sign(encoded(text), signingSecret)) }
	right := sign(encoded(`{"exp":1800000001,"plan":"pro"}`), signingSecret)
	payload, signature, _ := strings.Cut(right, ".")
	const wrong = "The signature of the context is wrong"
	r := AcquireRequest()
	defer r.Release()
	for name, test := range map[string]struct{ context, want, fails string }{
		"valid":                   {quote(right), `{"plan":"pro"}`, ""},
		"exp in its middle":       {signed(`{"a":1,"exp":1800000001,"b":{"exp":1}}`), `{"a":1,"b":{"exp":1}}`, ""},
		"exp alone":               {signed(`{"exp":1e12}`), "", ""},
		"a fraction":              {signed(`{"exp":1800000000.75,"a":1}`), `{"a":1}`, ""},
		"it has just ended":       {signed(`{"exp":1800000000.5,"a":1}`), "", "The signed context has expired"},
		"it has ended":            {signed(`{"exp":-1e300,"a":1}`), "", "The signed context has expired"},
		"no exp":                  {signed(`{"a":1}`), "", `"exp" must be a number`},
		"exp is text":             {signed(`{"exp":"1800000001"}`), "", `"exp" must be a number`},
		"exp is null":             {signed(`{"exp":null}`), "", `"exp" must be a number`},
		"exp twice":               {signed(`{"exp":1,"a":1,"\u0065xp":1800000001}`), "", `the member "exp" appears more than once`},
		"a list":                  {signed(`[1800000001]`), "", "its JSON must be an object, not an array"},
		"no JSON":                 {signed(`{"exp":1800000001`), "", "its JSON is wrong at byte "},
		"NaN":                     {signed(`{"exp":1800000001,"a":NaN}`), "", "its JSON is wrong at byte "},
		"no UTF-8":                {signed("{\"exp\":1800000001,\"a\":\"\xff\"}"), "", "it is not UTF-8"},
		"nothing":                 {quote(sign("", signingSecret)), "", "its JSON is wrong at byte 0"},
		"no base64":               {quote(sign("{}", signingSecret)), "", "must be base64url without padding"},
		"an object":               {`{"plan":"pro"}`, "", `must be the text that the app's server signs, and is an object`},
		"null":                    {`null`, "", "and is missing"},
		"not signed":              {quote(payload), "", "The context is not signed"},
		"an empty text":           {`""`, "", "The context is not signed"},
		"an empty signature":      {quote(payload + "."), "", wrong},
		"half a signature":        {quote(right[:len(right)-20]), "", wrong},
		"a signature and more":    {quote(right + ".x"), "", wrong},
		"another payload":         {quote(encoded(`{"exp":1800000001,"plan":"max"}`) + "." + signature), "", wrong},
		"another spelling of it":  {quote(strings.Replace(right, ".", "=.", 1)), "", wrong},
		"another secret":          {quote(sign(payload, []byte("another secret of 20"))), "", wrong},
		"a wrong one has expired": {quote(sign(encoded(`{"exp":1}`), []byte("another secret of 20"))), "", wrong},
		"unsigned nonsense":       {quote("\x00." + signature), "", wrong},
		"too large":               {signed(`{"exp":1800000001,"a":"` + strings.Repeat("x", 12300) + `"}`), "", "at most 16384 are allowed"},
	} {
		got, err := open(r, test.context, now)
		if test.fails == "" {
			if err != nil || got != test.want {
				t.Errorf("%s: %s, %v", name, got, err)
			}
			continue
		}
		if err == nil || err.Code != InvalidRequest || err.Param != "context" || !strings.Contains(err.Message, test.fails) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	// The last request's secret does not bind the next one.
	r.Release()
	r = AcquireRequest()
	r.body = append(r.body[:0], `{"keys":["a"],"context":{"a":1}}`...)
	if _, err := r.RemoteConfigs(); err != nil {
		t.Error(err)
	}
}

// FuzzSignedContext checks that nothing but what the secret's holder signed is opened: every
// payload is tried with a right signature and with the one that came.
func FuzzSignedContext(f *testing.F) {
	f.Add([]byte(`{"exp":1800000001,"plan":"pro","seats":{"a":[1,null]}}`), "eyJ9.AAAA")
	f.Add([]byte(`{"exp":1800000001,"a":1,"a":2}`), ".")
	f.Add([]byte("\ufeff{\"exp\":1e999}"), "a.b.c")
	now := time.Unix(1800000000, 0)
	f.Fuzz(func(t *testing.T, payload []byte, sent string) {
		r := AcquireRequest()
		defer r.Release()
		var values fastjson.Parser
		r.SetContextSecret(signingSecret, now)
		for i, text := range []string{sign(encoded(string(payload)), signingSecret), sent, encoded(string(payload)) + "." + sent} {
			v, err := values.ParseBytes(jsontext.AppendString(nil, text))
			if err != nil {
				t.Fatal(err)
			}
			got, refused := r.openContext("context", v)
			if refused != nil {
				if refused.Status != 400 || !json.Valid(refused.AppendJSON(nil)) {
					t.Fatalf("%q: %v", text, refused)
				}
				continue
			}
			if i > 0 {
				signed, mac, _ := strings.Cut(text, ".")
				if text != sign(signed, signingSecret) {
					t.Fatalf("%q with the signature %q is opened", signed, mac)
				}
				continue
			}
			var want map[string]any
			if err := json.Unmarshal(payload, &want); err != nil {
				t.Fatalf("%q is opened: %v", payload, err)
			}
			exp, ok := want["exp"].(float64)
			if !ok || exp <= 1800000000 {
				t.Fatalf("%q is opened, exp %s", payload, strconv.FormatFloat(exp, 'g', -1, 64))
			}
			if got != nil && got.Exists("exp") || got == nil && len(want) > 1 {
				t.Fatalf("%q became %s", payload, got)
			}
		}
	})
}
