package document

import (
	"encoding/json"
	"strconv"
	"strings"
)

// AppendJSON appends the node as compact JSON, with its members in the order of the
// file. Plain scalars are typed by YAML's core schema: null, true, false and
// numbers; all else is text, also yes, no, on and off. Numbers keep their text. A
// number that JSON can't write (012, .5, +3, 0x1f, .inf) is reported as a mistake.
func (n *Node) AppendJSON(dst []byte, errs *Errors) []byte {
	if n == nil {
		return append(dst, "null"...)
	}
	switch n.Shape {
	case Sequence:
		dst = append(dst, '[')
		for i, item := range n.Items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = item.AppendJSON(dst, errs)
		}
		return append(dst, ']')
	case Mapping:
		dst = append(dst, '{')
		for i, m := range n.Members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendString(dst, m.Key.Text)
			dst = append(dst, ':')
			dst = m.Value.AppendJSON(dst, errs)
		}
		return append(dst, '}')
	}
	if n.Quoted {
		return appendString(dst, n.Text)
	}
	if n.IsNull() {
		return append(dst, "null"...)
	}
	switch n.Text {
	case "true", "True", "TRUE":
		return append(dst, "true"...)
	case "false", "False", "FALSE":
		return append(dst, "false"...)
	}
	if !looksNumeric(n.Text) {
		return appendString(dst, n.Text)
	}
	if !isJSONNumber(n.Text) {
		if s := suggestNumber(n.Text); s != "" {
			errs.Add(n, "%s is not a JSON number: write %s for the number or %q for the text", n.Text, s, n.Text)
		} else {
			errs.Add(n, "%s is not a JSON number: write %q for the text", n.Text, n.Text)
		}
		return append(dst, "null"...)
	}
	if _, err := strconv.ParseFloat(n.Text, 64); err != nil {
		errs.Add(n, "the number %s is too large: write %q for the text", n.Text, n.Text)
		return append(dst, "null"...)
	}
	return append(dst, n.Text...)
}

// appendString appends a JSON string. Definitions are read at startup, so the standard
// library's encoder is fast enough. It can't fail on a string.
func appendString(dst []byte, s string) []byte {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s)
	return append(dst, strings.TrimSuffix(b.String(), "\n")...)
}

// looksNumeric reports whether YAML 1.1 or 1.2 would read plain text as a number.
func looksNumeric(s string) bool {
	body := strings.TrimLeft(s, "+-")
	if len(s)-len(body) > 1 || body == "" {
		return false
	}
	switch strings.ToLower(body) {
	case ".inf":
		return true
	case ".nan":
		return body == s
	}
	if len(body) > 2 && body[0] == '0' {
		switch body[1] {
		case 'x':
			return strings.Trim(body[2:], "0123456789abcdefABCDEF_") == ""
		case 'o':
			return strings.Trim(body[2:], "01234567_") == ""
		case 'b':
			return strings.Trim(body[2:], "01_") == ""
		}
	}
	mantissa, exponent := body, ""
	if i := strings.IndexAny(body, "eE"); i >= 0 {
		mantissa, exponent = body[:i], strings.TrimLeft(body[i+1:], "+-")
		if len(body)-i-1-len(exponent) > 1 || !digits(exponent) {
			return false
		}
	}
	whole, fraction, dotted := strings.Cut(mantissa, ".")
	if strings.HasPrefix(whole, "_") {
		return false
	}
	whole = strings.ReplaceAll(whole, "_", "")
	if whole == "" {
		return dotted && digits(fraction)
	}
	return digits(whole) && (fraction == "" || digits(fraction))
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// isJSONNumber reports whether s is a number by RFC 8259, section 6.
func isJSONNumber(s string) bool {
	return s != "" && (s[0] == '-' || '0' <= s[0] && s[0] <= '9') && json.Valid([]byte(s))
}

// suggestNumber rewrites a number as JSON writes it, or returns "".
func suggestNumber(s string) string {
	sign := ""
	body := strings.TrimPrefix(strings.ReplaceAll(s, "_", ""), "+")
	if strings.HasPrefix(body, "-") {
		sign, body = "-", body[1:]
	}
	if len(body) > 1 && body[0] == '0' && strings.IndexByte("xob", body[1]) >= 0 {
		v, err := strconv.ParseUint(body, 0, 53)
		if err != nil {
			return ""
		}
		return sign + strconv.FormatUint(v, 10)
	}
	mantissa, exponent := body, ""
	if i := strings.IndexAny(body, "eE"); i >= 0 {
		mantissa, exponent = body[:i], body[i:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	whole = strings.TrimLeft(whole, "0")
	if whole == "" {
		whole = "0"
	}
	if fraction != "" {
		fraction = "." + fraction
	}
	if out := sign + whole + fraction + exponent; isJSONNumber(out) {
		return out
	}
	return ""
}
