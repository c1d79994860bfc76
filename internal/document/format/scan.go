package format

import "strings"

// scanCells reads the entries of a YAML flow sequence, without the spaces around
// them. s begins with the opening bracket; end is the offset of the closing
// one. ok is false for a sequence that does not end in the line or has a comment
// in it.
func scanCells(s string) (cells []string, end int, ok bool) {
	start := 1
	length := FlowLength(s, func(comma int) {
		cells = append(cells, strings.Trim(s[start:comma], " \t"))
		start = comma + 1
	})
	if length == 0 || strings.ContainsAny(s[:length], "\r\n") {
		return nil, 0, false
	}
	return append(cells, strings.Trim(s[start:length-1], " \t")), length - 1, true
}

// FlowLength returns the length of the YAML flow sequence or mapping at the beginning of
// s, or 0 if it does not end or has a comment in it. It calls between with the offset of
// each comma between the entries.
func FlowLength(s string, between func(comma int)) int {
	depth := 0
	fresh := true // whether a value may begin here
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case ' ', '\t', '\r', '\n':
			continue // a quote behind ": " also begins a value
		case '#':
			if s[i-1] <= ' ' {
				return 0
			}
			fresh = false
		case '"', '\'':
			if !fresh {
				continue
			}
			n := QuotedLength(s[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
			fresh = false
		case '[', '{':
			// In flow style these end a plain value everywhere.
			depth++
			fresh = true
		case ']', '}':
			if depth--; depth == 0 {
				return i + 1
			}
			fresh = false
		case ',':
			if depth == 1 {
				between(i)
			}
			fresh = true
		case ':':
			fresh = true // {a: "b"}, {"a":"b"}
		default:
			fresh = false
		}
	}
	return 0
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
