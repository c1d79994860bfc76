package redact

import (
	"strings"
	"testing"
)

// inventedKeys has a key of each issuer: its prefix, and how many characters of
// which alphabet stand behind it.
var inventedKeys = []struct {
	prefix   string
	length   int
	alphabet string
}{
	{"cdz_", 20, base32},
	{"sk-ant-", 20, base64url},
	{"sk-", 20, base64url},
	{"AIza", 35, base64url},
	{"ya29.", 20, base64url},
	{"AQ.Ab", 30, base64url},
	{"GOCSPX-", 24, base64url},
	{"gsk_", 32, base62},
	{"xai-", 32, base62},
	{"pplx-", 32, base62},
	{"csk-", 32, base62},
	{"hf_", 30, base62},
	{"r8_", 30, base62},
	{"fw_", 20, base62},
	{"tgp_v1_", 20, base64url},
	{"nvapi-", 32, base64url},
	{"jina_", 32, base64url},
	{"tvly-", 20, base64url},
	{"lsv2_", 32, base64url},
	{"bedrock-api-key-", 32, base64std},
	{"ABSKQmVkcm9ja0FQSUtleS", 32, base64std},
	{"AKIA", 16, base32},
	{"ASIA", 16, base32},
	{"ABIA", 16, base32},
	{"ghp_", 30, base62},
	{"gho_", 30, base62},
	{"ghu_", 30, base62},
	{"ghs_", 30, base64url},
	{"ghr_", 30, base62},
	{"github_pat_", 40, base64url},
	{"glpat-", 20, base64url},
	{"gldt-", 20, base64url},
	{"glrt-", 20, base64url},
	{"glptt-", 20, base64url},
	{"glcbt-", 20, base64url},
	{"npm_", 36, base62},
	{"pypi-", 50, base64url},
	{"dckr_pat_", 20, base64url},
	{"rubygems_", 40, hexDigits},
	{"xoxa-", 20, base64url},
	{"xoxb-", 20, base64url},
	{"xoxe-", 20, base64url},
	{"xoxp-", 20, base64url},
	{"xoxr-", 20, base64url},
	{"xoxs-", 20, base64url},
	{"xapp-", 20, base64url},
	{"sk_live_", 16, base62},
	{"sk_test_", 16, base62},
	{"rk_live_", 16, base62},
	{"rk_test_", 16, base62},
	{"whsec_", 24, base64std},
	{"SG.", 20, base64url},
	{"hvs.", 20, base64url},
	{"dop_v1_", 60, hexDigits},
	{"shpat_", 32, hexDigits},
	{"glsa_", 32, base64url},
	{"lin_api_", 32, base62},
	{"ntn_", 40, base62},
	{"AGE-SECRET-KEY-1", 50, base32},
}

// TestEveryShape finds a key of each shape. The prefixes stand here once more: a
// typo in one of them would else be seen by nobody.
func TestEveryShape(t *testing.T) {
	r := New(0, nil, nil)
	known := make(map[string]bool)
	for _, s := range shapes {
		known[s.prefix] = true
	}
	if len(known) != len(inventedKeys) || len(known) != len(shapes) {
		t.Errorf("%d shapes, %d keys of them", len(shapes), len(inventedKeys))
	}
	for _, k := range inventedKeys {
		if !known[k.prefix] {
			t.Errorf("%s is the prefix of no shape", k.prefix)
		}
		key := k.prefix + invent(k.length, k.alphabet)
		for text, want := range map[string]string{
			"use " + key + ", please": "use [redacted:api_key], please",
			`{"a":["` + key + `"]}`:   `{"a":["[redacted:api_key]"]}`,
		} {
			if got := r.String(text); got != want {
				t.Errorf("%s became %s", text, got)
			}
		}
	}
}

// TestEveryLabel finds the value behind the name of a secret, whatever it looks
// like.
func TestEveryLabel(t *testing.T) {
	labels := []string{
		"apikey",
		"secretkey",
		"accesskey",
		"secretaccesskey",
		"subscriptionkey",
		"accountkey",
		"privatekey",
		"signingkey",
		"encryptionkey",
		"masterkey",
		"authkey",
		"functionskey",
		"sharedaccesskey",
		"accesstoken",
		"refreshtoken",
		"authtoken",
		"authorization",
		"apitoken",
		"sessiontoken",
		"securitytoken",
		"bearertoken",
		"bottoken",
		"idtoken",
		"secret",
		"password",
		"passwd",
		"passphrase",
	}
	known := strings.Join(secretLabels, " ")
	if want := strings.Join(labels, " "); known != want {
		t.Errorf("the labels are\n%s, tested are\n%s", known, want)
	}
	r := New(0, nil, nil)
	value := invent(24, base62)
	for _, label := range labels {
		for _, name := range []string{label, strings.ToUpper(label), "my_" + label} {
			for text, want := range map[string]string{
				name + "=" + value:                 name + "=[redacted:secret]",
				`{"` + name + `":"` + value + `"}`: `{"` + name + `":"[redacted:secret]"}`,
			} {
				if got := r.String(text); got != want {
					t.Errorf("%s became %s", text, got)
				}
			}
		}
	}
}
