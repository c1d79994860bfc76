package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// Alphabets of invented keys.
const (
	hexDigits = "0123456789abcdef"
	base32    = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	base62    = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	base64std = base62 + "+/"
	base64url = base62 + "-_"
)

// invent makes n characters of an alphabet that look drawn at random and are
// the same in each run. Nothing in this file is anybody's key.
func invent(n int, alphabet string) string {
	state := uint32(n)*2654435761 + uint32(len(alphabet))
	b := make([]byte, n)
	for i := range b {
		state = state*1664525 + 1013904223
		b[i] = alphabet[int(state>>16)%len(alphabet)]
	}
	return string(b)
}

func b64(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

var (
	openAI    = "sk-" + "proj-" + invent(74, base64url) + "T3BlbkFJ" + invent(73, base64url)
	plainSK   = "sk-" + invent(48, base62)
	ownKey    = "cdz_" + invent(26, base32)
	accessID  = "AKIA" + invent(16, base32)
	awsSecret = "wJ" + invent(37, base64std) + "9"
	signed    = b64(`{"alg":"HS256","typ":"JWT"}`) + "." + b64(`{"sub":"1234567890","name":"A"}`) + "." + invent(43, base64url)
	basic     = base64.StdEncoding.EncodeToString([]byte("aladdin:opensesame"))
	pemBody   = invent(64, base64std) + "\n" + invent(64, base64std) + "\n" + invent(22, base64std) + "=="
	pem       = "-----BEGIN " + "RSA PRIVATE KEY-----\n" + pemBody + "\n-----END " + "RSA PRIVATE KEY-----"
)

// all finds everything; the isKey knows one key without a prefix.
var all = New(Email|Card, func(token []byte) bool { return string(token) == plainOwn || string(token) == "7777777777777777777" }, nil)

const plainOwn = "correct+horse.battery/staple"

func TestFindings(t *testing.T) {
	const key, secret = "[redacted:api_key]", "[redacted:secret]"
	for _, test := range []struct{ name, text, want string }{
		{"own", "use " + ownKey + ".", "use " + key + "."},
		{"own in a list", ownKey + "," + ownKey, key + "," + key},
		{"own by its digest", "it is " + plainOwn + ", really", "it is " + key + ", really"},
		{"own at the end of a sentence", "it is " + plainOwn + ".", "it is " + key},
		{"own behind a name", "KEY=" + plainOwn, "KEY=" + key},
		{"openai", openAI, key},
		{"openai, old", "OPENAI_API_KEY=" + plainSK + "\n", "OPENAI_API_KEY=" + key + "\n"},
		{"openai, of a service account", "sk-" + "svcacct-" + invent(60, base64url), key},
		{"deepseek", "sk-" + invent(32, hexDigits), key},
		{"anthropic", "key: sk-" + "ant-api03-" + invent(93, base64url) + "AA", "key: " + key},
		{"openrouter", "sk-" + "or-v1-" + invent(64, hexDigits), key},
		{"google", "?key=AIza" + invent(35, base64url) + "&x=1", "?key=" + key + "&x=1"},
		{"google, short-lived", "ya29" + "." + invent(60, base64url), key},
		{"groq", "gsk_" + invent(52, base62), key},
		{"xai", "xai-" + invent(80, base62), key},
		{"perplexity", "pplx-" + invent(48, base62), key},
		{"huggingface", "hf_" + invent(34, base62), key},
		{"bedrock", "ABSKQmVkcm9ja0FQSUtleS" + invent(88, base64std) + "=", key},
		{"bedrock, short-lived", "bedrock-" + "api-key-" + invent(300, base64std) + "==", key},
		{"nvidia", "nvapi-" + invent(64, base64url), key},
		{"aws id", "id " + accessID + " only", "id " + key + " only"},
		{"aws id of a session", "Credential=ASIA" + invent(16, base32) + "/20260101/eu-west-1/s3", "Credential=" + key + "/20260101/eu-west-1/s3"},
		{"aws pair", accessID + "\n" + awsSecret, key + "\n" + secret},
		{"aws pair, the other way", awsSecret + " " + accessID, secret + " " + key},
		{"aws named", "aws_secret_access_key = " + awsSecret, "aws_secret_access_key = " + secret},
		{"aws in the environment", "AWS_SECRET_ACCESS_KEY=" + awsSecret, "AWS_SECRET_ACCESS_KEY=" + secret},
		{"aws in JSON", `{"SecretAccessKey": "` + awsSecret + `"}`, `{"SecretAccessKey": "` + secret + `"}`},
		{"azure", "api-key: " + invent(32, hexDigits), "api-key: " + secret},
		{"azure gateway", `"Ocp-Apim-Subscription-Key":"` + invent(32, hexDigits) + `"`, `"Ocp-Apim-Subscription-Key":"` + secret + `"`},
		{"azure storage", "AccountName=x;AccountKey=" + invent(86, base64std) + "==;", "AccountName=x;AccountKey=" + secret + ";"},
		{"in prose", "My API key is " + invent(32, hexDigits) + ", keep it.", "My API key is " + secret + ", keep it."},
		{"client secret", `client_secret='` + invent(24, base62) + `'`, `client_secret='` + secret + `'`},
		{"token", `{"token":"` + invent(40, base62) + `"}`, `{"token":"` + secret + `"}`},
		{"refresh token", `{"refresh_token":"` + invent(40, base62) + `"}`, `{"refresh_token":"` + secret + `"}`},
		{"labelled, quoted twice", `{\"api_key\": \"` + invent(40, base62) + `\"}`, `{\"api_key\": \"` + secret + `\"}`},
		{"github", "ghp_" + invent(36, base62) + " gho_" + invent(36, base62), key + " " + key},
		{"github, fine-grained", "github_pat_" + invent(22, base62) + "_" + invent(59, base62), key},
		{"gitlab", "glpat-" + invent(20, base62), key},
		{"slack", "xoxb-" + "123456789012-1234567890123-" + invent(24, base62), key},
		{"stripe", "sk_" + "live_" + invent(24, base62) + ";rk_" + "live_" + invent(24, base62) + ";sk_" + "test_" + invent(24, base62), key + ";" + key + ";" + key},
		{"npm", "//registry/:_authToken=npm_" + invent(36, base62), "//registry/:_authToken=" + key},
		{"sendgrid", "SG" + "." + invent(22, base64url) + "." + invent(43, base64url), key},
		{"markup", "**" + plainSK + "** `" + plainSK + "` _" + invent(3, hexDigits), "**" + key + "** `" + key + "` _" + invent(3, hexDigits)},
		{"in a path", "https://host/bot/" + plainSK + "/send", "https://host/bot/" + key + "/send"},
		{"without spaces", "密钥是" + plainSK + "。", "密钥是" + key + "。"},
		{"encoded in a URL", "next=%3Fkey%3D" + plainSK, "next=%3Fkey%3D" + key},
		{"behind a line break", `{"a":"\n` + plainSK + `\n"}`, `{"a":"\n` + key + `\n"}`},
		{"behind a line break of JSON in JSON", `{"a":"{\"b\":\"\\n` + plainSK + `\"}"}`, `{"a":"{\"b\":\"\\n` + key + `\"}"}`},
		{"behind a character's escape", `{"a":"\u2028` + plainSK + `"}`, `{"a":"\u2028` + key + `"}`},

		{"jwt", "token " + signed + ".", "token [redacted:jwt]."},
		{"jwt, encrypted", b64(`{"alg":"dir","enc":"A128CBC-HS256"}`) + "..AxY8DCtDaGlsbGljb3RoZQ.KDlTtXchhZTGufMYmOYGS4HffxPSUrfmqCHXaI9wOGY.U0m_YmjN04DJvceFICbCVQ x", "[redacted:jwt] x"},
		{"jwt with spaces in its header", b64(`{ "typ" : "JWT", "alg" : "ES256" }`) + "." + b64(`{}`) + "x." + invent(86, base64url), "[redacted:jwt]"},
		{"jwt in a URL", "https://x/?access_token=" + signed + "#f", "https://x/?access_token=[redacted:jwt]#f"},
		{"bearer", "Authorization: Bearer " + invent(30, base62), "Authorization: Bearer [redacted:credentials]"},
		{"bearer, short", `curl -H "authorization: bearer t0ken"`, `curl -H "authorization: bearer [redacted:credentials]"`},
		{"bearer, short, of letters", `-H 'Authorization: Bearer opensesame'`, `-H 'Authorization: Bearer [redacted:credentials]'`},
		{"bearer in JSON", `{"Authorization":"Bearer opensesame"}`, `{"Authorization":"Bearer [redacted:credentials]"}`},
		{"bearer in JSON in JSON", `{"a":"{\"Authorization\": [\"Bearer open.sesame\"]}"}`, `{"a":"{\"Authorization\": [\"Bearer [redacted:credentials]\"]}"}`},
		{"bearer in code", `h.Set("Authorization", "Bearer open-sesame")`, `h.Set("Authorization", "Bearer [redacted:credentials]")`},
		{"bearer alone", "I send BEARER " + invent(30, base62), "I send BEARER [redacted:credentials]"},
		{"bearer with a jwt", "Authorization: Bearer " + signed, "Authorization: Bearer [redacted:jwt]"},
		{"basic", "Authorization: Basic " + basic, "Authorization: Basic [redacted:credentials]"},
		{"basic, short", `"Proxy-Authorization":"Basic YTpi"`, `"Proxy-Authorization":"Basic [redacted:credentials]"`},
		{"basic alone", "then Basic " + basic + " works", "then Basic [redacted:credentials] works"},

		{"pem", "a " + pem + " b", "a [redacted:private_key] b"},
		{"pem in JSON", `{"k":"` + strings.ReplaceAll(pem, "\n", `\n`) + `\n","b":1}`, `{"k":"[redacted:private_key]\n","b":1}`},
		{"pem in JSON in JSON", `{"k":"{\"k\":\"` + strings.ReplaceAll(pem, "\n", `\\n`) + `\"}"}`, `{"k":"{\"k\":\"[redacted:private_key]\"}"}`},
		{"pem in one line", strings.ReplaceAll(pem, "\n", " "), "[redacted:private_key]"},
		{"pem, encrypted", strings.Replace(pem, "-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,"+invent(32, hexDigits)+"\n\n", 1), "[redacted:private_key]"},
		{"pem of ssh", strings.ReplaceAll(pem, "RSA", "OPENSSH") + "\n", "[redacted:private_key]\n"},
		{"pgp", strings.ReplaceAll(pem, "RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK"), "[redacted:private_key]"},
		{"pem, two", pem + "\n" + pem, "[redacted:private_key]\n[redacted:private_key]"},
		{"pem cut off", pem[:150], "[redacted:private_key]"},
		{"pem cut off in JSON", `["` + strings.ReplaceAll(pem[:150], "\n", `\n`) + `","x"]`, `["[redacted:private_key]","x"]`},
		{"pem cut off before prose", pem[:150] + "…\n\nThank you for your help", "[redacted:private_key]…\n\nThank you for your help"},
		{"pem cut off before another", pem[:100] + "\n" + pem, "[redacted:private_key]\n[redacted:private_key]"},

		{"url", "postgres://user:s3cret@db.internal:5432/app", "postgres://user:[redacted:password]@db.internal:5432/app"},
		{"url without a user", "redis://:hunter2@cache/0", "redis://:[redacted:password]@cache/0"},
		{"url whose password has an @", "amqp://u:p@ss@host/", "amqp://u:[redacted:password]@host/"},
		{"url in JSON", `{"dsn":"mongodb+srv://u:p%40ss@h.example.com/?a=b@c"}`, `{"dsn":"mongodb+srv://u:[redacted:password]@h.example.com/?a=b@c"}`},
		{"url with a token", "https://x-access-token:ghs_" + invent(36, base62) + "@github.com/a/b", "https://x-access-token:" + key + "@github.com/a/b"},

		{"email", "Write to jane.doe+news@mail.example.co.uk.", "Write to [redacted:email]."},
		{"email in markup", "<a href=\"mailto:j@example.com\">", "<a href=\"mailto:[redacted:email]\">"},
		{"email behind a line break", `"\nj@example.com\n"`, `"\n[redacted:email]\n"`},
		{"email without spaces", "邮箱j@example.com。", "邮箱[redacted:email]。"},
		{"emails", "a@example.com;b@example.com,c@example.com", "[redacted:email];[redacted:email],[redacted:email]"},

		{"card", "4111111111111111", "[redacted:card]"},
		{"card in groups", "pay with 4111 1111 1111 1111 12/27 please", "pay with [redacted:card] 12/27 please"},
		{"card with hyphens", "5555-5555-5555-4444", "[redacted:card]"},
		{"card of 15", "3782 822463 10005, 378282246310005", "[redacted:card], [redacted:card]"},
		{"card with its code behind", "6011 1111 1111 1117 123", "[redacted:card] 123"},
		{"card behind a line break", `"\n4111111111111111"`, `"\n[redacted:card]"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := strings.Clone(test.text)
			got := all.String(test.text)
			if got != test.want {
				t.Errorf("%s\nbecame %s\n  want %s", test.text, got, test.want)
			}
			if test.text != before {
				t.Error("the text was changed in place")
			}
			if json.Valid([]byte(test.text)) {
				if got, _ := all.JSON([]byte(test.text)); !json.Valid(got) {
					t.Errorf("no JSON any more: %s", got)
				}
			}
		})
	}
}

// ordinary are the texts that no detector may touch.
var ordinary = []string{
	"", " ", "sk-", "a", "@", "+", "-----BEGIN ", "://@", "eyJ", "the task-force of the risk-averse disk-utility-2024-version",
	"task-" + invent(48, base62), "risk-" + invent(48, base62), "disk-" + invent(48, base62), "my_" + plainSK,
	"sk-learn-contrib-project-version-2", "sk-toggleable__content sk-estimator-doc-link sk-container-id-12-label", "sk-SK, sk-1234", "sk-your-api-key-goes-here-please",
	"sk-ecdsa-sha2-nistp256-cert-v01", "sk-MyKeyGoesHere",
	"password := mustDecodeBase64(text)", "PrivateKey = ed25519.NewKeyFromSeed(seed)", "apiKey := oauth2.google.serviceAccount", "Secret: TPM2BEncryptedSecret{}",
	`{"retention":2592000000000000}`, "1 2 4517 5179 5179 5179 867595", "4685 4685 7558 7558 4685", "4398046511104", "4604531861337669632", "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
	"550e8400-e29b-41d4-a716-446655440000", `{"trace_id":"01890dd5-ea3f-8746-9b3e-21d4a7164466"}`,
	"da39a3ee5e6b4b0d3255bfef95601890afd80709", "commit " + invent(40, hexDigits), "sha256:" + invent(64, hexDigits), "etag: \"" + invent(32, hexDigits) + "\"",
	"4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "md5 " + invent(32, hexDigits),
	"data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(invent(301, base62), 20))),
	b64(strings.Repeat(invent(301, base62), 20)),
	`{"api_key":"mobile-app-production-2"}`, `{"key":"support_chat_for_enterprise"}`, "api_key: your_api_key_goes_here", "secret: correct-horse-battery-staple",
	`{"next_page_token":"` + invent(40, base62) + `"}`, `{"prompt_tokens":1234567890123456}`, "tokens: gpt-4o-2024-08-06-preview", `{"token":" the","logprob":-0.25}`,
	"idempotency_key: " + invent(32, hexDigits), "the key is 550e8400-e29b-41d4-a716-446655440000",
	b64(`{"typ":"JWT"}`) + "." + b64(`{"sub":"1234567890"}`) + "." + invent(43, base64url), // no alg
	b64(`{"alg":"none"}`) + "." + b64(`{"sub":"1234567890"}`) + ".",
	"eyJ.not.jwt eyJhbGciOi.x.y com.example.eyJava.Thing", "eyJhbGciOiJIUzI1NiJ9", "2.0.1-beta.3+build.1848.abcdef",
	"Authorization: required for every request", "Authorization: Bearer <token>", "Authorization: Bearer $TOKEN", "Authorization: Bearer tokens are sent in the header", "Authorization: Basic authentication is weak",
	"authorization code flow", "the bearer of good-news-and-other-things", "Basic understanding-of-authentication-schemes", "organization, realization, size: Bearer of",
	"-----BEGIN CERTIFICATE-----\n" + pemBody + "\n-----END CERTIFICATE-----", "-----BEGIN PUBLIC KEY-----\n" + pemBody + "\n-----END PUBLIC KEY-----",
	"It begins with -----BEGIN PRIVATE KEY----- and ends with -----END PRIVATE KEY-----.", "| ----- | -------- |\n|-----|-----|",
	"http://localhost:8080/a@b", "http://localhost:8080 and user@host", `{"a":"http://h:80","b":"c@d"}`, "see https://example.com:443/x?y=a:b@c", "https://user@host/", "postgres://user:${PASSWORD}@host/db", "postgres://user:$DB_PASSWORD@host", "postgres://user:{env.PW}@host", "postgres://user:****@host", "postgres://user:[redacted:password]@host",
	"[redacted:api_key] [redacted:private_key] [redacted:credentials]",
	"git@github.com:owner/name.git", "react@18.2.0", "@scope/package@1.2.3", "pkg@1.0.0-beta.tgz", "icon@2x.png", "user@localhost", "@decorator.of.python", "a @ b.com", "x@y", "me@-example.com", "foo@1.2.3.4", "sshd@instance.service", "a@b.c",
	"order 4111111111111112", "4111111111111111.5", "0.4111111111111111", "ORD-4111111111111111", "#4111111111111111", "/orders/4111111111111111", "id4111111111111111", "$4111111111111111", "1700000000000", "1700000000000000000", "1234 5678 9012 3452", "9780306406157", "41111111111111111", "4111-1111-1111-1111-9999-0000", "4242 4242", "0000000000000000",
	"2024-01-15", "01.02.2024 10:30", "01-02-2024 10", "2024-01-15T10:30:00Z", "192.168.100.200", "10.0.0.1", "1.2.3.4", "123-45-6789", "555-0123", "212 555 0123", "+5%", "a+4915112345678", "+1000000000", "+12", "UTC+02:00", "1e+15551234567", "C++11", "+1.5", "192.555.0123",
	"order 123456789012", "2125550123", "12125550123", "0301234567", "00 01 02 03 04 05 06", "01 02 03 04 05 06 07", "0.1234567890", "1,234,567,890.00", "$1234567.89", "192-555-0123", "112-555-0123-9", "978-0-306-40615-7", "0815-4711", "09:30:15", "1234-5678-9012", "v1.212.555.0123", "ORD-212-555-0123", "0049", "001 002 003",
	"{\"metadata\":{\"user_id\":\"u_8842\",\"ts\":1767225600123,\"price\":19.99,\"ratio\":0.123456789012345,\"n\":[1,2,3]}}",
	"Ünïcödé — “quotes” 中文字符 العربية 🙂🙂🙂", "\xff\xfe\xfd\x00\x01", `\u00e9\n\t\\\"`,
	"class HTTPServerRequestHandlerFactoryBeanPostProcessorImpl2 extends X", "iPhone15ProMax256GB", "AKIAIOSFODNN7", "AKIATHISISNOTANIDBECAUSEITISLONG1", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "hf_transfer_is_faster", "npm_config_registry_is_a_variable_name_1", "ghp_short", "gsk_model", "xai-grok-4-fast-reasoning-latest-2025-09", "SG.Something.Else",
}

func TestOrdinaryTextIsLeftAlone(t *testing.T) {
	for _, text := range ordinary {
		src := []byte(text)
		for name, do := range map[string]func([]byte) ([]byte, int){"text": all.Text, "JSON": all.JSON} {
			got, n := do(src)
			if n != 0 || !bytes.Equal(got, []byte(text)) {
				t.Errorf("%s: %s became %s", name, text, got)
			} else if len(src) > 0 && &got[0] != &src[0] {
				t.Errorf("%s: %s was copied", name, text)
			}
		}
	}
}

func TestOptionalDetectorsAreOptional(t *testing.T) {
	const text = "jane@example.com, +49 30 1234567, 4111 1111 1111 1111"
	for _, test := range []struct {
		detectors Detectors
		want      string
	}{
		{0, text},
		{Email, "[redacted:email], +49 30 1234567, 4111 1111 1111 1111"},
		{Card, "jane@example.com, +49 30 1234567, [redacted:card]"},
	} {
		if got := New(test.detectors, nil, nil).String(text); got != test.want {
			t.Errorf("%d: %s", test.detectors, got)
		}
	}
	for _, name := range Names() {
		if d, ok := ParseDetector(name); !ok || d == 0 {
			t.Errorf("%s is no detector", name)
		}
	}
	if _, ok := ParseDetector("emails"); ok || !slices.IsSorted(Names()) {
		t.Error("names")
	}
}

func TestNumbersBecomeStrings(t *testing.T) {
	for text, want := range map[string]string{
		`{"card":4111111111111111}`:                       `{"card":"[redacted:card]"}`,
		`[4111111111111111, 5555555555554444]`:            `["[redacted:card]", "[redacted:card]"]`,
		`4111111111111111`:                                `"[redacted:card]"`,
		`{"a\\":"4111111111111111","b":1}`:                `{"a\\":"[redacted:card]","b":1}`,
		`{"a\"":4111111111111111,"b":"\""}`:               `{"a\"":"[redacted:card]","b":"\""}`,
		`[1.7777777777777777777,-7777777777777777777e+1]`: `["[redacted:api_key]",-7777777777777777777e+1]`,
		`{"own":7777777777777777777}`:                     `{"own":"[redacted:api_key]"}`,
		`{"4111111111111111":{"4111111111111111":1}}`:     `{"[redacted:card]":{"[redacted:card]":1}}`,
	} {
		if got, n := all.JSON([]byte(text)); string(got) != want || n != strings.Count(want, "[redacted:") {
			t.Errorf("%s became %s (%d)", text, got, n)
		}
	}
}

// TestInputs passes over the hashes of inputs alone. A caller's own text is searched
// wherever it is.
func TestInputs(t *testing.T) {
	const hash = "6vYaQckHwe7gZiDa"
	asked := 0
	r := New(Email|Card, func(token []byte) bool { asked++; return string(token) == hash }, nil)
	for _, test := range []struct {
		text, want string
		asked      int
	}{
		{``, ``, 0},
		{`{"plan":"pro","seats":{"hash":"` + hash + `"},"locale":{"hash":"` + hash + `"}}`, ``, 0},
		{`{"hash":"` + hash + `"}`, `{"hash":"[redacted:api_key]"}`, 1}, // a field of that name
		{`{"a":["` + hash + `"],"b":{"hash":"` + hash + `"}}`, `{"a":["[redacted:api_key]"],"b":{"hash":"` + hash + `"}}`, 1},
		{`{"a":":{\"hash\":\"` + hash + `\"}"}`, `{"a":":{\"hash\":\"[redacted:api_key]\"}"}`, 1},
		{`{"a":{"hash":"` + hash + `x"}}`, ``, 1},
		{`{"a":{"hash":"` + hash + `","b":1}}`, `{"a":{"hash":"[redacted:api_key]","b":1}}`, 1},
		{`{"mail":"ada@example.com","a":{"hash":"` + hash + `"}}`, `{"mail":"[redacted:email]","a":{"hash":"` + hash + `"}}`, 0},
	} {
		asked = 0
		want := test.want
		if want == "" {
			want = test.text
		}
		if got, _ := r.Inputs([]byte(test.text)); string(got) != want || asked != test.asked {
			t.Errorf("%s: %s, want %s, and %d tokens asked for, want %d", test.text, got, want, asked, test.asked)
		}
	}
}

// TestIsKeyIsAskedForTokens checks the doc comment of New about isKey.
func TestIsKeyIsAskedForTokens(t *testing.T) {
	var asked []string
	r := New(0, func(token []byte) bool { asked = append(asked, string(token)); return false }, nil)
	text := "short " + invent(15, base62) + " " + invent(16, base62) + " " + invent(512, base62) + " " + invent(513, base62) + ` {"a":"\n` + invent(20, base62) + `"} k=` + invent(21, base62)
	r.String(text)
	want := []string{invent(16, base62), invent(512, base62), invent(20, base62), "k=" + invent(21, base62), invent(21, base62)}
	if got := slices.Compact(asked); !slices.Equal(got, want) {
		t.Errorf("asked for %q", got)
	}
}

// worst are texts that would take a careless detector more than linear time.
func worst() map[string]string {
	texts := map[string]string{}
	for _, part := range []string{
		"sk-", "sk-ant-", "eyJ", "eyJ.", "eyJhbGciOiJIUzI1NiJ9.", "eyJhbGciOiJkaXIiLCJlbmMiOiJ4In0.", "@", "a@", "@a.", "a@b.", "://", "x://", "x://:", "x://a:@", "1", "1 ", "11 ", "1111 ", "4111 ", "+1", "+", "(1", "0 ", "01 ", "-", "-----", "-----BEGIN ",
		"-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "-----END ", "=", "a=", "=a", "token=", "Bearer ", "authorization:", "Authorization: Basic ", "z", "\\", "\\n", "\\\\n", "\\u0000", "%20", "%", "a.", ".", "/", "a/", "ABSKQmVkcm9ja0FQSUtleS/", "bedrock-api-key-/",
		"ABSKQmVkcm9ja0FQSUtleS.", "SG.", "AKIAAAAAAAAAAAAAAAAA ", "cdz_", "_", "A1b2", "is ", "api_key:", "\"", "{", "a b ", "0123456789abcdef", "/0123456789abcdef", "=0123456789abcdef", " 0123456789abcdef", "4111111111111111,", "a@b.co ", "é", "\x00",
	} {
		texts[part] = part
	}
	for name, part := range texts {
		texts[name] = strings.Repeat(part, 1<<20/slow/len(part))
	}
	return texts
}

// TestLinearTime compares the time of a text with that of twice the text, so
// that neither a slow machine nor the cost of coverage matters.
func TestLinearTime(t *testing.T) {
	const most = time.Second // for a megabyte, on any machine
	linear := func(once, double time.Duration) bool { return once < most && double < 3*once+20*time.Millisecond }
	for part, text := range worst() {
		twice := []byte(text + text)
		for _, r := range []*Redactor{New(0, nil, nil), New(Email|Card, func([]byte) bool { return false }, nil)} {
			once, double := time.Hour, time.Hour
			for range 100 { // the machine may be busy
				began := time.Now()
				r.JSON([]byte(text))
				half := time.Now()
				if half.Sub(began) > 20*most {
					t.Fatalf("%.40q takes %s", part, half.Sub(began))
				}
				r.JSON(twice)
				once, double = min(once, half.Sub(began)), min(double, time.Since(half))
				if linear(once, double) {
					break
				}
			}
			if !linear(once, double) {
				t.Errorf("%.40q takes %s, and twice as much of it %s (detectors %b)", part, once, double, r.detectors)
			}
		}
	}
}

func TestNothingFoundAllocatesNothing(t *testing.T) {
	r := New(Email|Card, func([]byte) bool { return false }, nil)
	text := []byte(benchText(4 << 10))
	if n := testing.AllocsPerRun(100, func() { r.JSON(text) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	s := string(text)
	if n := testing.AllocsPerRun(100, func() { _ = r.String(s) }); n != 0 {
		t.Errorf("%v allocations of a string", n)
	}
}

func FuzzRedact(f *testing.F) {
	for _, text := range ordinary {
		f.Add(text)
	}
	for _, text := range []string{openAI, ownKey + accessID + "/" + awsSecret, signed, pem, `{"a":"` + strings.ReplaceAll(pem, "\n", `\n`) + `"}`, `{"card":4111111111111111,"t":"` + signed + `"}`,
		`"\u0041@b.co \n+4930123456 \\n` + plainSK + `"`, `{"A\"z-12345":12345678,"a":[true,null],"\u00e9A-z":"\n@b.co12"}`, "a://b:c@d.ef@g", `{"Authorization":"Basic YTpi"}`, "api_key=" + invent(32, hexDigits), "(212) 555-0123 0151/23456789"} {
		f.Add(text)
	}
	f.Fuzz(checkProperties)
}

// checkProperties holds for any text: redacting twice is redacting once, what
// was JSON is JSON, and a count of none means the same text.
func checkProperties(t *testing.T, text string) {
	for _, r := range []*Redactor{all, odd, known} {
		once, n := r.Text([]byte(text))
		if (n == 0) != (string(once) == text) {
			t.Fatalf("%d findings in %q: %q", n, text, once)
		}
		if twice, n := r.Text(once); n != 0 {
			t.Fatalf("%q\nonce  %q\ntwice %q", text, once, twice)
		}
		// As JSON, itself, as a string, and as a string in a string.
		quoted, _ := json.Marshal(text)
		nested, _ := json.Marshal(string(quoted))
		for _, src := range [][]byte{[]byte(text), quoted, nested} {
			if !json.Valid(src) {
				continue
			}
			once, _ := r.JSON(src)
			if inputs, _ := r.Inputs(src); !bytes.Contains(src, []byte(`:{"hash":"`)) && !bytes.Equal(inputs, once) {
				t.Fatalf("%s as inputs became %s, else %s", src, inputs, once)
			}
			if !json.Valid(once) {
				t.Fatalf("%s became %s", src, once)
			}
			if twice, n := r.JSON(once); n != 0 {
				t.Fatalf("%s\nonce  %s\ntwice %s", src, once, twice)
			}
		}
	}
}

// odd takes many tokens for keys, numbers among them.
var odd = New(0, func(token []byte) bool { return token[len(token)-1]%3 == 0 }, nil)

// known knows values that look like JSON, or are a part of its escapes.
var known = knowing(Email|Card, knownValues...)

var knownValues = []string{`A"z-12345`, "12345678", "true,null", `\u00e9\n`, "u00e9A-z", "n@b.co12", `":"a@b.co`}

// TestAnyMixture puts findings of the detectors side by side in ways that
// random bytes don't come to.
func TestAnyMixture(t *testing.T) {
	fragments := append(knownValues, plainSK, openAI, ownKey, accessID, awsSecret, signed, basic, pem, pem[:120], invent(32, hexDigits), plainOwn, "sk-", "eyJ", "api_key", "token", "password", "Authorization", "Bearer", "Basic", " is ", "://", "postgres://u:", "pw", "host",
		"a@b.co", "jane", "@", "example.com", ".co", "+49 30 1234567", "+4930", "030 1234567", "(212) 555-0123", "212-555-0123", "06 12 34 56 78", "4111111111111111", "4111 1111 1111 1111", "5555-5555-5555-4444", "7777777777777777777", "12", "0", "[redacted:api_key]", "[redacted:", "-----BEGIN ", "-----", "-----END ", "PRIVATE KEY",
		" ", " ", " ", ":", ":", "=", "=", ",", ",", ".", "-", "_", "/", "+", "~", "(", ")", "[", "]", "{", "}", "\"", "\"", "'", "\\", "\\", "\\\\", "\n", "\\n", "\\u00e9", "\\u", "%", "%3D", "%4", "é", "中", "\x00", "\xff", "A", "z", "n", "u", "1e", "-1", "\u2028")
	rounds := 20000 / slow
	if testing.Short() {
		rounds = 2000
	}
	random := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for range rounds {
		b.Reset()
		for range 1 + random.IntN(9) {
			b.WriteString(fragments[random.IntN(len(fragments))])
		}
		checkProperties(t, b.String())
		// As JSON that has numbers, too.
		checkProperties(t, "{\"a\":["+[]string{"4111111111111111", "-7777777777777777777", "3.7777777777777777e+12", "1"}[random.IntN(4)]+",\""+strings.NewReplacer("\"", "\\\"", "\n", "\\n", "\x00", "", "\xff", "").Replace(b.String())+"\"]}")
	}
}

// benchText is ordinary text: English within the JSON of a conversation.
func benchText(size int) string {
	const english = "The customer wrote that the parcel hadn't arrived yet, and asked whether the warehouse could look into it before Friday. " +
		"We answered politely: our courier (see the tracking page) needs two or three more days, because of the weather. " +
		"If it does not come by then, we'll send a replacement at no cost, or refund the whole amount of 42.50 euros."
	var b strings.Builder
	b.WriteString(`[`)
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"role":"user","name":"u-%d","content":"%s\n\n- item %d: \"done\"\n"}`, i, english[i*7%100:], i)
	}
	return b.String()[:size-1] + "]"
}

func BenchmarkOrdinary(b *testing.B) {
	english := strings.Repeat("It is a truth universally acknowledged that whoever writes software must be in want of tests; however little known the feelings or views of such a person may be. ", 500)
	for _, r := range []struct {
		name string
		r    *Redactor
	}{{"secrets", New(0, nil, nil)}, {"secrets+keys", New(0, func([]byte) bool { return false }, nil)}, {"all", New(Email|Card, nil, nil)}} {
		for _, size := range []int{200, 2 << 10, 64 << 10} {
			for name, text := range map[string]string{"json": benchText(size), "english": english[:size]} {
				b.Run(fmt.Sprintf("%s/%s/%d", r.name, name, size), func(b *testing.B) {
					src := []byte(text)
					b.SetBytes(int64(size))
					b.ReportAllocs()
					for b.Loop() {
						if _, n := r.r.JSON(src); n != 0 {
							b.Fatal("found something")
						}
					}
				})
			}
		}
	}
}

func BenchmarkFinding(b *testing.B) {
	src := []byte(benchText(2<<10) + plainSK)
	r := New(0, nil, nil)
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		r.Text(src)
	}
}

// TestLongWordsAreNotRandom: a long name in which kinds of characters alternate now and
// then is no key.
func TestLongWordsAreNotRandom(t *testing.T) {
	for text, want := range map[string]bool{
		"abcdefghijk1lmnopqrstuvw2xyzabcdefghi3jklmnopqrs": false,
		"a1b2c3d4e5f6a7b8": true,
	} {
		if got := random([]byte(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}
