package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
)

// shape is the form of the keys of one issuer.
type shape struct {
	prefix   string
	min, max int    // characters behind the prefix; max 0: any number
	of       *class // the characters
	random   bool   // whether they must also look random
}

// shapes are the shapes of keys. A prefix that is a word, or that other texts begin
// with too, requires random characters after it. None is shorter than minToken.
var shapes = []shape{
	{"cdz_", 20, 64, upperNum, false}, // our own

	// Providers of models, and services in front of them.
	{"sk-ant-", 16, 0, wordChar, true},               // Anthropic
	{"sk-", 18, 0, wordChar, true},                   // OpenAI in all forms, OpenRouter, DeepSeek, …
	{"AIza", 35, 35, wordChar, false},                // Google
	{"ya29.", 20, 0, wordChar, true},                 // Google, short-lived
	{"AQ.Ab", 30, 0, wordChar, true},                 // Google, bound to an account
	{"GOCSPX-", 24, 40, wordChar, false},             // Google, of OAuth clients
	{"gsk_", 32, 0, alnum, false},                    // Groq
	{"xai-", 32, 0, alnum, false},                    // xAI
	{"pplx-", 32, 0, alnum, false},                   // Perplexity
	{"csk-", 32, 0, alnum, true},                     // Cerebras
	{"hf_", 30, 0, alnum, false},                     // Hugging Face
	{"r8_", 30, 0, alnum, true},                      // Replicate
	{"fw_", 20, 0, alnum, true},                      // Fireworks
	{"tgp_v1_", 20, 0, wordChar, true},               // Together
	{"nvapi-", 32, 0, wordChar, true},                // NVIDIA
	{"jina_", 32, 0, wordChar, true},                 // Jina
	{"tvly-", 16, 0, wordChar, true},                 // Tavily
	{"lsv2_", 32, 0, wordChar, true},                 // LangSmith
	{"bedrock-api-key-", 32, 0, base64s, true},       // Amazon Bedrock, short-lived
	{"ABSKQmVkcm9ja0FQSUtleS", 32, 0, base64s, true}, // Amazon Bedrock

	// AWS. Access key ids of users, of sessions, and bearer tokens of services.
	{"AKIA", 16, 16, upperNum, false},
	{"ASIA", 16, 16, upperNum, false},
	{"ABIA", 16, 16, upperNum, false},

	// Where code and packages are kept.
	{"ghp_", 30, 0, alnum, false}, {"gho_", 30, 0, alnum, false}, {"ghu_", 30, 0, alnum, false},
	{"ghs_", 30, 0, wordChar, false}, {"ghr_", 30, 0, alnum, false},
	{"github_pat_", 40, 0, wordChar, false},
	{"glpat-", 20, 0, wordChar, true}, {"gldt-", 20, 0, wordChar, true}, {"glrt-", 20, 0, wordChar, true},
	{"glptt-", 20, 0, wordChar, true}, {"glcbt-", 20, 0, wordChar, true},
	{"npm_", 36, 36, alnum, false},
	{"pypi-", 50, 0, wordChar, true},
	{"dckr_pat_", 20, 0, wordChar, true},
	{"rubygems_", 40, 0, hex, false},

	// Services that applications call.
	{"xoxa-", 16, 0, wordChar, true}, {"xoxb-", 16, 0, wordChar, true}, {"xoxe-", 16, 0, wordChar, true},
	{"xoxp-", 16, 0, wordChar, true}, {"xoxr-", 16, 0, wordChar, true}, {"xoxs-", 16, 0, wordChar, true},
	{"xapp-", 16, 0, wordChar, true},
	{"sk_live_", 16, 0, alnum, false}, {"sk_test_", 16, 0, alnum, false},
	{"rk_live_", 16, 0, alnum, false}, {"rk_test_", 16, 0, alnum, false},
	{"whsec_", 24, 0, base64s, true},
	{"SG.", 16, 0, wordChar, true},    // SendGrid
	{"hvs.", 20, 0, wordChar, true},   // Vault
	{"dop_v1_", 60, 0, hex, false},    // DigitalOcean
	{"shpat_", 32, 32, hex, false},    // Shopify
	{"glsa_", 32, 0, wordChar, true},  // Grafana
	{"lin_api_", 32, 0, alnum, false}, // Linear
	{"ntn_", 40, 0, alnum, true},      // Notion
	{"AGE-SECRET-KEY-1", 50, 70, upperNum, false},
}

// base64s are the characters of base64 in both alphabets.
var base64s = union(wordChar, classOf("+/="))

// shapesByFirst are the shapes by their first byte, the longer prefixes first.
var shapesByFirst = func() (by [256][]shape) {
	for _, s := range shapes {
		by[s.prefix[0]] = append(by[s.prefix[0]], s)
	}
	return by
}()

// maxDecisive is how many characters after a prefix decide.
const maxDecisive = 128

// shaped returns the end of the token that begins at start, and its name, or 0 if
// there is none. It reads to the end of the word, and on to the end of the run
// if the shape has more separators.
func (f *finder) shaped(start, word, end int) (int, string) {
	if end-start < minToken {
		return 0, ""
	}
	text := f.text[start:end]
	for _, s := range shapesByFirst[text[0]] {
		if len(text) <= len(s.prefix) || string(text[:len(s.prefix)]) != s.prefix {
			continue
		}
		rest := text[len(s.prefix):]
		// Only the characters that decide, because they may cross words that
		// are checked later.
		n := stretch(rest[:min(len(rest), maxDecisive)], s.of)
		if n < s.min || s.max > 0 && n > s.max || n < min(len(rest), maxDecisive) && alnum[rest[n]] || s.random && !random(rest[:n]) {
			continue
		}
		if s.of == upperNum && s.min == 16 {
			f.accessKeyAt = start + 1
			if f.secretKeyAt > 0 && start-f.secretKeyAt < nearby {
				f.add(f.secretKeyAt-1, f.secretKeyAt-1+40, "secret")
			}
		}
		n += stretch(rest[n:], s.of)
		stop := start + len(s.prefix) + n
		if s.prefix == "SG." { // two parts
			stop += stretch(f.text[stop:end], keyChar)
		}
		return max(word, stop), "api_key"
	}
	if n := jwtLength(text[:word-start], text); n > 0 {
		return start + n, "jwt"
	}
	return 0, ""
}

// maxHeader bounds the header of a JWT in bytes. Headers with certificates have some
// thousands.
const maxHeader = 16 << 10

// jwtLength returns the length of the JSON web token at the start of text, or 0.
// header is the part before its first full stop. A signed token has two more parts,
// an encrypted one four, which may be empty.
func jwtLength(header, text []byte) int {
	// The base64 of an opening brace with a quote or white space.
	if len(header) < 8 || len(header) > maxHeader || header[0] != 'e' || header[1] != 'y' && header[1] != 'w' ||
		len(header) == len(text) || text[len(header)] != '.' {
		return 0
	}
	decoded, err := base64.RawURLEncoding.AppendDecode(make([]byte, 0, 256), header)
	if err != nil || !bytes.Contains(decoded, []byte(`"alg"`)) || !json.Valid(decoded) {
		return 0
	}
	encrypted := bytes.Contains(decoded, []byte(`"enc"`))
	parts := 2
	if encrypted {
		parts = 4
	}
	n := len(header)
	for range parts {
		if n == len(text) || text[n] != '.' {
			return 0
		}
		part := stretch(text[n+1:], wordChar)
		if part == 0 && !encrypted {
			return 0
		}
		n += 1 + part
	}
	return n
}
