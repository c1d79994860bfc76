package redact

import "bytes"

// maxAuthority bounds the part of a URL with the host, in bytes.
const maxAuthority = 256

// authorityChar are the characters of a URL's user, password and host.
var authorityChar = func() *class {
	var c class
	for b := '!'; b <= '~'; b++ {
		c[b] = true
	}
	for _, b := range []byte("/?#\"'\\<>`") {
		c[b] = false
	}
	return &c
}()

// findAddresses finds passwords in URLs and e-mail addresses, which all have an @.
func (f *finder) findAddresses() {
	from := 0 // the text before belongs to an earlier @
	for {
		n := bytes.IndexByte(f.text[from:], '@')
		if n < 0 {
			return
		}
		at := from + n
		if last := f.password(from, at); last > 0 {
			at = last
		} else if f.r.detectors&Email != 0 {
			f.email(from, at)
		}
		from = at + 1
	}
}

// password takes the password before the @ at, where that is in a URL. It returns the
// offset of that URL's last @, because a password may contain one.
func (f *finder) password(from, at int) (last int) {
	text := f.text
	start := at
	for start > from && at-start < maxAuthority && authorityChar[text[start-1]] {
		start--
	}
	if start < 4 || string(text[start-3:start]) != "://" || !alnum[text[start-4]] {
		return 0
	}
	colon := bytes.IndexByte(text[start:at], ':')
	if colon < 0 {
		return 0
	}
	last = at
	for i := at + 1; i < len(text) && i-at < maxAuthority && authorityChar[text[i]]; i++ {
		if text[i] == '@' {
			last = i
		}
	}
	begin := start + colon + 1
	if password := text[begin:last]; len(password) > 0 && !isPlaceholder(password) {
		f.add(begin, last, "password")
	}
	return last
}

// isPlaceholder reports whether the text in the place of a password is filled in
// later, or was taken out.
func isPlaceholder(password []byte) bool {
	first, last := password[0], password[len(password)-1]
	switch {
	case bytes.HasPrefix(password, []byte("[redacted:")):
		return true
	case first == '{' && last == '}', first == '$' && len(password) > 2 && password[1] == '{' && last == '}':
		return true
	case first == '$':
		return len(password) > 1 && stretch(password[1:], upperNum) == len(password)-1 ||
			bytes.IndexByte(password, '_') > 0 && stretch(password[1:], nameChar) == len(password)-1
	case first == '%':
		return string(password) == "%s" || string(password) == "%v"
	}
	return len(bytes.Trim(password, "*")) == 0
}

// nameChar are the characters of the names of environment variables.
var nameChar = union(upperNum, classOf("_"))

const (
	maxLocal  = 64
	maxDomain = 253
)

var (
	localChar  = union(alnum, classOf("._%+-"))
	domainChar = union(alnum, classOf(".-"))
)

// fileEndings are endings of file names that no domain has. Files have an @ before the
// factor of their size (icon@2x.png) or a version.
var fileEndings = [][]byte{
	[]byte("png"), []byte("jpg"), []byte("jpeg"), []byte("gif"), []byte("svg"), []byte("webp"), []byte("avif"), []byte("ico"),
	[]byte("tgz"), []byte("gz"), []byte("whl"), []byte("jar"), []byte("js"), []byte("ts"), []byte("json"), []byte("css"), []byte("scss"),
	[]byte("html"), []byte("txt"), []byte("yaml"), []byte("yml"), []byte("service"), []byte("local"),
}

// email takes the e-mail address around the @ at.
func (f *finder) email(from, at int) {
	text := f.text
	start := at
	for start > from && at-start <= maxLocal && localChar[text[start-1]] {
		start--
	}
	start = behindEscape(text, start)
	for start < at && !alnum[text[start]] && text[start] != '_' {
		start++
	}
	if n := at - start; n < 1 || n > maxLocal || text[at-1] == '.' {
		return
	}
	domain := text[at+1 : at+1+stretch(text[at+1:min(at+2+maxDomain, len(text))], domainChar)]
	domain = bytes.TrimRight(domain, ".-")
	end := at + 1 + len(domain)
	if len(domain) > maxDomain || !isDomain(domain) || end < len(text) && (text[end] == '_' || text[end] == '@') {
		return
	}
	// A remote of git has the same form.
	if string(text[start:at]) == "git" && end < len(text) && (text[end] == ':' || text[end] == '/') {
		return
	}
	f.add(start, end, "email")
}

// isDomain reports whether a host has labels and ends with one of letters.
func isDomain(host []byte) bool {
	dot := bytes.LastIndexByte(host, '.')
	if dot < 1 {
		return false
	}
	top, rest := host[dot+1:], host[:dot]
	if len(top) < 2 || stretch(top, alnum) != len(top) || bytes.ContainsFunc(top, func(r rune) bool { return digit[byte(r)] }) {
		return false
	}
	for _, ending := range fileEndings {
		if bytes.EqualFold(top, ending) {
			return false
		}
	}
	letters := false
	for label := range bytes.SplitSeq(rest, []byte{'.'}) {
		if len(label) == 0 || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		letters = letters || !digit[label[0]] || stretch(label, alnum) > 2
	}
	return letters
}
