package redact

// Classes of bytes. keyChar are the characters of all kinds of tokens; wordChar are
// the characters that do not also separate tokens.
var (
	digit      = classOf("0123456789")
	upper      = classOf("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	lower      = classOf("abcdefghijklmnopqrstuvwxyz")
	hex        = classOf("0123456789abcdefABCDEF")
	alnum      = union(digit, upper, lower)
	upperNum   = union(digit, upper)
	base64Char = union(alnum, classOf("+/="))
	wordChar   = union(alnum, classOf("_-"))
	keyChar    = union(wordChar, classOf(".~+/="))
)

type class = [256]bool

func classOf(chars string) *class {
	var c class
	for i := range len(chars) {
		c[chars[i]] = true
	}
	return &c
}

func union(classes ...*class) *class {
	var u class
	for _, c := range classes {
		for b, in := range c {
			u[b] = u[b] || in
		}
	}
	return &u
}

// stretch returns how many bytes at the start of text are of a class.
func stretch(text []byte, c *class) int {
	for i, b := range text {
		if !c[b] {
			return i
		}
	}
	return len(text)
}

// foldPrefix reports whether text begins with the lower-case prefix, in any case.
func foldPrefix(text []byte, prefix string) bool {
	if len(text) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if text[i]|0x20 != prefix[i] && text[i] != prefix[i] {
			return false
		}
	}
	return true
}

// random reports whether a token looks random: its kinds of characters (digits,
// capitals, small letters) alternate more often than in words with numbers. A
// separator ends no alternation, so dates, versions and names with hyphens have
// hardly any, and the capital at the start of a word alternates only with the
// character before it.
func random(token []byte) bool {
	n, digits, changes, words := 0, 0, 0, 0
	last := byte(0)
	for _, b := range token {
		kind := byte(0)
		switch {
		case digit[b]:
			kind = 1
			digits++
		case upper[b]:
			kind = 2
		case lower[b]:
			kind = 3
		}
		if kind != 0 {
			n++
			if last != 0 && kind != last {
				changes++
				if last == 2 && kind == 3 {
					words++
				}
			}
		}
		last = kind
	}
	return digits > 0 && changes-words >= max(4, n/6) || changes >= max(6, n*2/5)
}

// escapeLength returns how many bytes after a backslash belong to its escape in JSON.
// A backslash before any other character is an ordinary one.
func escapeLength(text []byte) int {
	if len(text) == 0 {
		return 0
	}
	switch text[0] {
	case 'n', 'r', 't', 'b', 'f', '/', '"', '\\':
		return 1
	case 'u':
		if len(text) >= 5 && stretch(text[1:5], hex) == 4 {
			return 5
		}
	}
	return 0
}

// backslashes returns how many backslashes end at i.
func backslashes(text []byte, i int) int {
	n := 0
	for i-n > 0 && text[i-n-1] == '\\' {
		n++
	}
	return n
}

// behindEscape moves start past the escape that begins right before it, if one
// does. An even number of backslashes escape each other.
func behindEscape(text []byte, start int) int {
	if start > 0 && text[start-1] == '\\' && backslashes(text, start)%2 == 1 {
		return start + escapeLength(text[start:])
	}
	return start
}
