package redact

import (
	"bytes"
	"encoding/base64"
)

// secretLabels are the endings of the names of secrets, in small letters and without
// separators.
var secretLabels = []string{
	"apikey", "secretkey", "accesskey", "secretaccesskey", "subscriptionkey", "accountkey", "privatekey",
	"signingkey", "encryptionkey", "masterkey", "authkey", "functionskey", "sharedaccesskey",
	"accesstoken", "refreshtoken", "authtoken", "authorization", "apitoken", "sessiontoken", "securitytoken",
	"bearertoken", "bottoken", "idtoken",
	"secret", "password", "passwd", "passphrase",
}

// maxLabel bounds how far a label is looked for before a value, in bytes.
const maxLabel = 40

// labelled reports whether the label of a secret is before start, as in
// "api_key":"…", API_KEY=…, Api-Key: … or "the API key is …".
func (f *finder) labelled(start int) bool {
	text := f.text[max(0, start-maxLabel-8):start]
	end, assigned := len(text), false
gap:
	for ; end > 0 && len(text)-end < 8; end-- {
		switch text[end-1] {
		case ':', '=', '>':
			assigned = true
		case ' ', '"', '\'', '`', '\\', '[', '(':
		default:
			break gap
		}
	}
	if text = text[:end]; !assigned {
		text = bytes.TrimSuffix(text, []byte(" is"))
		if len(text) == end {
			return false
		}
	}
	// The label's letters, from its end.
	var letters [maxLabel]byte
	at := len(letters)
	bare := byte(0) // the character before a label of one word
	for i := len(text) - 1; i >= 0 && at > 0; i-- {
		c := text[i]
		if !wordChar[c] && c != ' ' && c != '.' {
			break
		}
		if bare == 0 && at == len(letters)-len("token") {
			bare = c
		}
		if alnum[c] {
			at--
			letters[at] = c | 0x20
		}
	}
	label := letters[at:]
	for _, l := range secretLabels {
		if bytes.HasSuffix(label, []byte(l)) {
			return true
		}
	}
	// A token with another name is as often that of a page, or of text.
	return string(label) == "token" || bytes.HasSuffix(label, []byte("token")) && bare == ' '
}

// behindScheme reports whether a scheme of HTTP authentication, in any case, is before
// start.
func (f *finder) behindScheme(start int, scheme string) bool {
	end := start
	for end > 0 && start-end < 4 && f.text[end-1] == ' ' {
		end--
	}
	begin := end - len(scheme)
	return end < start && begin >= 0 && foldPrefix(f.text[begin:end], scheme) && f.boundary(begin)
}

// boundary reports whether no word ends right before i. An escape is no word, though
// it ends with a letter.
func (f *finder) boundary(i int) bool {
	if i == 0 || !alnum[f.text[i-1]] && f.text[i-1] != '_' {
		return true
	}
	for _, n := range [...]int{1, 5} {
		if i > n && f.text[i-1-n] == '\\' && escapeLength(f.text[i-n:]) == n && backslashes(f.text, i-n)%2 == 1 {
			return true
		}
	}
	return false
}

// isBasic reports whether a token is a user's name and password in base64.
func isBasic(token []byte) bool {
	if len(token) > maxToken {
		return false
	}
	var buffer [maxToken]byte
	decoded, err := base64.RawStdEncoding.AppendDecode(buffer[:0], bytes.TrimRight(token, "="))
	return err == nil && bytes.IndexByte(decoded, ':') >= 0 &&
		!bytes.ContainsFunc(decoded, func(r rune) bool { return r < ' ' })
}

// schemes are the authentication schemes (RFC 9110,
// https://www.rfc-editor.org/rfc/rfc9110#section-11.1) whose credentials are
// one token.
var schemes = []string{"bearer ", "basic ", "token ", "apikey ", "api-key ", "bot ", "negotiate "}

// findAuthorization finds the values of Authorization headers, also short ones. It
// searches for z, which is rare.
func (f *finder) findAuthorization() {
	const before, after = "authori", "zation"
	text := f.text
	for i := 0; ; i++ {
		n := bytes.IndexByte(text[i:], 'z')
		if n < 0 {
			return
		}
		i += n
		if i < len(before) || !foldPrefix(text[i-len(before):], before+after) {
			continue
		}
		at, assigned := i+len(after), false
		for limit := min(at+12, len(text)); at < limit; at++ {
			c := text[at]
			if c == ':' || c == '=' || c == ',' {
				assigned = true
			} else if bytes.IndexByte([]byte(` "'\[](>`), c) < 0 {
				break
			}
		}
		if !assigned {
			continue
		}
		for _, scheme := range schemes {
			if foldPrefix(text[at:], scheme) {
				at += len(scheme)
				if end := f.credentials(at, scheme == "basic "); end > 0 {
					f.add(at, end, "credentials")
				}
				break
			}
		}
	}
}

// credentials returns the end of the credentials that begin at start, or 0 if the
// text is only about credentials.
func (f *finder) credentials(start int, basic bool) int {
	n := stretch(f.text[start:], keyChar)
	end := start + n
	value := f.text[start:end]
	switch {
	case n < 4:
		return 0
	case basic:
		if !isBasic(value) {
			return 0
		}
	case n < minToken && stretch(value, lower) == n && end < len(f.text) && f.text[end] == ' ':
		return 0 // "Authorization: Bearer tokens are …"
	}
	return end
}
