package format

import "strings"

// scanCells reads the entries of a YAML flow sequence, without the spaces around
// them. s begins behind the opening bracket; end is the offset of the closing
// one. ok is false for a sequence that does not end in the line or has a comment
// in it.
func scanCells(s string) (cells []string, end int, ok bool) {
	depth, start := 0, 0
	fresh := true // whether a value may begin here
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\n', '\r':
			return nil, 0, false
		case ' ', '\t':
			continue // a quote behind ": " also begins a value
		case '#':
			if i == 0 || s[i-1] == ' ' || s[i-1] == '\t' {
				return nil, 0, false
			}
			fresh = false
		case '"', '\'':
			if !fresh {
				continue
			}
			n := QuotedLength(s[i:])
			if n == 0 {
				return nil, 0, false
			}
			i += n - 1
			fresh = false
		case '[', '{':
			// In flow style these end a plain value everywhere.
			depth++
			fresh = true
		case ']', '}':
			if depth == 0 {
				if c != ']' {
					return nil, 0, false
				}
				return append(cells, strings.Trim(s[start:i], " \t")), i, true
			}
			depth--
			fresh = false
		case ',':
			if depth == 0 {
				cells = append(cells, strings.Trim(s[start:i], " \t"))
				start = i + 1
			}
			fresh = true
		case ':':
			fresh = true // {a: "b"}, {"a":"b"}
		default:
			fresh = false
		}
	}
	return nil, 0, false
}

// QuotedLength returns the length of the quoted YAML scalar or JSON string at the
// beginning of s, or 0 if it does not end.
func QuotedLength(s string) int {
	quote := s[0]
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && quote == '"':
			i++
		case s[i] == quote:
			if quote == '\'' && i+1 < len(s) && s[i+1] == quote {
				i++ // '' is a quote within the text
				continue
			}
			return i + 1
		}
	}
	return 0
}
