package rules

import "strings"

// Versions are compared by SemVer 2.0.0, section 11. They are bound on every
// request, so instead of a parsed version, which costs allocations to make and
// pointers to compare, they become one byte string that sorts by precedence:
// each number as its length and digits, then either versionRelease or the
// pre-release's identifiers. Build metadata has no precedence and is left out.
//
//	1.9.0         01 "1"  01 "9"   01 "0"  ff
//	1.10.0-rc     01 "1"  02 "10"  01 "0"  02 "rc" 00  00
//	1.10.0-rc.1   01 "1"  02 "10"  01 "0"  02 "rc" 00  01 01 "1"  00
//	1.10.0        01 "1"  02 "10"  01 "0"  ff
//
// These keys are in order: 10 is above 9 because its length is; the end 00 of a
// list of identifiers is below any further one; and the ff of a release is
// above all that a pre-release can begin with.

const (
	identifierEnd     = 0x00 // ends a text identifier, and the list of them
	identifierNumber  = 0x01 // below identifierText, as numbers are below text
	identifierText    = 0x02
	versionRelease    = 0xff // above every pre-release of the same version
	maxVersionNumber  = 0xfe // digits in one number
	maxVersionTextLen = 256
)

// version is a version's parts as text. parts counts the numbers given.
type version struct {
	numbers    [3]string
	parts      int
	prerelease string
}

// parseVersion splits a version. Unless it is strict, a leading v and missing
// minor and patch numbers are let pass.
func parseVersion(s string, strict bool) (version, bool) {
	var v version
	if len(s) > maxVersionTextLen {
		return v, false
	}
	if !strict && s != "" && (s[0] == 'v' || s[0] == 'V') {
		s = s[1:]
	}
	s, build, hasBuild := strings.Cut(s, "+")
	if hasBuild && !identifiers(build, false) {
		return v, false
	}
	core, pre, hasPre := strings.Cut(s, "-")
	if hasPre && !identifiers(pre, true) {
		return v, false
	}
	v.prerelease = pre
	for more := true; more; v.parts++ {
		var n string
		n, core, more = strings.Cut(core, ".")
		if v.parts == len(v.numbers) || !isNumber(n) || len(n) > maxVersionNumber {
			return v, false
		}
		v.numbers[v.parts] = n
	}
	if v.parts < len(v.numbers) && (strict || hasPre || hasBuild) {
		return v, false
	}
	return v, true
}

// appendPrefix appends the key that all versions with the first parts numbers
// of v share.
func (v *version) appendPrefix(dst []byte, parts int) []byte {
	for i := range parts {
		n := v.numbers[i]
		if n == "" {
			n = "0"
		}
		dst = append(dst, byte(len(n)))
		dst = append(dst, n...)
	}
	return dst
}

// appendKey appends the version's key, missing numbers taken as zero.
func (v *version) appendKey(dst []byte) []byte {
	dst = v.appendPrefix(dst, len(v.numbers))
	if v.prerelease == "" {
		return append(dst, versionRelease)
	}
	rest, more := v.prerelease, true
	for more {
		var id string
		id, rest, more = strings.Cut(rest, ".")
		if isDigits(id) {
			dst = append(dst, identifierNumber, byte(len(id)))
			dst = append(dst, id...)
			continue
		}
		dst = append(dst, identifierText)
		dst = append(dst, id...)
		dst = append(dst, identifierEnd)
	}
	return append(dst, identifierEnd)
}

// identifiers checks the dotted identifiers of a pre-release or build.
func identifiers(s string, prerelease bool) bool {
	for more := true; more; {
		var id string
		id, s, more = strings.Cut(s, ".")
		if id == "" || len(id) > maxVersionNumber {
			return false
		}
		for i := range len(id) {
			if !isIdentifierByte(id[i]) {
				return false
			}
		}
		if prerelease && isDigits(id) && !isNumber(id) {
			return false
		}
	}
	return true
}

func isIdentifierByte(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '-'
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// isNumber reports whether s is digits without a leading zero.
func isNumber(s string) bool { return isDigits(s) && (s[0] != '0' || len(s) == 1) }
