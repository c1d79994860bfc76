package definition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/document/format"
)

// yamlWriter writes nodes as YAML. A scalar has three forms: text that is quoted in
// a file of YAML (Quoted), text of JSON, which may be quoted or not (Quoted and
// JSON), and the rest, which is not.
type yamlWriter struct {
	b bytes.Buffer
	// plain is whether a text can be written without quotes, in lines and in flow.
	plain map[string][2]bool
}

// file writes a definition, with the cells of its matrix aligned.
func (w *yamlWriter) file(def *document.Node) []byte {
	w.plain = make(map[string][2]bool)
	for _, m := range def.Members {
		w.b.WriteString(w.key(m.Key.Text))
		w.b.WriteByte(':')
		if slices.Contains(spacious, m.Key.Text) && len(m.Value.Items)+len(m.Value.Members) > 0 {
			w.lines(m.Value, 0, 1)
		} else {
			w.value(m.Value, 0, 1)
		}
	}
	data := w.b.Bytes()
	if aligned, err := format.Source("x.yaml", data); err == nil {
		return aligned
	}
	return data
}

// spacious are the members of a definition that are never on one line.
var spacious = []string{"variables", "matrix", "rules", "variants", "messages", "fallback"}

// members writes a mapping's members, each on lines of its own.
func (w *yamlWriter) members(n *document.Node, indent int) {
	for i, m := range n.Members {
		if i > 0 {
			w.indent(indent)
		}
		w.b.WriteString(w.key(m.Key.Text))
		w.b.WriteByte(':')
		w.value(m.Value, indent, 1)
	}
}

func (w *yamlWriter) indent(n int) {
	for range n {
		w.b.WriteString("  ")
	}
}

// lineWidth is up to how many bytes a list or mapping is written on one line.
const lineWidth = 100

// value writes the value of a member or an item behind its colon or dash. first is 0
// where the first member of a mapping may follow on the same line.
func (w *yamlWriter) value(n *document.Node, indent, first int) {
	if n.Shape == document.Scalar {
		w.b.WriteByte(' ')
		w.scalar(n, indent)
		w.b.WriteByte('\n')
		return
	}
	if flow, ok := w.flow(n); ok && (len(flow) <= lineWidth || len(n.Items)+len(n.Members) == 0 || first == 0 && n.Shape == document.Sequence) {
		w.b.WriteByte(' ')
		w.b.WriteString(flow)
		w.b.WriteByte('\n')
		return
	}
	w.lines(n, indent, first)
}

// lines writes a list or a mapping on more than one line.
func (w *yamlWriter) lines(n *document.Node, indent, first int) {
	if n.Shape == document.Mapping {
		if first == 0 {
			w.b.WriteByte(' ')
		} else {
			w.b.WriteByte('\n')
			w.indent(indent + 1)
		}
		w.members(n, indent+1)
		return
	}
	w.b.WriteByte('\n')
	for _, item := range n.Items {
		w.indent(indent + 1)
		w.b.WriteByte('-')
		w.value(item, indent+1, 0)
	}
}

// scalar writes a scalar at the end of a line.
func (w *yamlWriter) scalar(n *document.Node, indent int) {
	switch {
	case !n.Quoted && w.mustQuote(n):
		w.b.WriteString(yamlQuoted(n.Text))
	case !n.Quoted:
		// Each line break within plain text is an empty line.
		w.b.WriteString(lineBreaks.ReplaceAllString(n.Text, "$0\n"+strings.Repeat("  ", indent+1)))
	case isBlock(n.Text):
		w.b.WriteString("|")
		if !strings.HasSuffix(n.Text, "\n") {
			w.b.WriteByte('-')
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(n.Text, "\n"), "\n") {
			w.b.WriteByte('\n')
			if line != "" {
				w.indent(indent + 1)
				w.b.WriteString(line)
			}
		}
	case n.JSON && w.isText(n.Text, false):
		w.b.WriteString(n.Text)
	default:
		w.b.WriteString(yamlQuoted(n.Text))
	}
}

// mustQuote reports whether text that needs no quotes for its meaning needs them to be
// YAML, such as a hyphen alone.
func (w *yamlWriter) mustQuote(n *document.Node) bool {
	return !n.IsNull() && !strings.Contains(n.Text, "\n") && !w.isPlain(n.Text, false)
}

var lineBreaks = regexp.MustCompile(`\n+`)

// isBlock reports whether a text is written as a block of lines.
func isBlock(s string) bool {
	if !strings.Contains(s, "\n") || strings.HasSuffix(s, "\n\n") || strings.HasPrefix(s, "\n") || strings.HasPrefix(s, " ") || s == "\n" {
		return false
	}
	for _, c := range s {
		if c < ' ' && c != '\n' || !printsInYAML(c) {
			return false
		}
	}
	return true
}

// printsInYAML reports whether a character needs no escape in YAML.
func printsInYAML(c rune) bool {
	switch {
	case 0x7f <= c && c < 0xa0, c == 0x2028, c == 0x2029, c == 0xfeff, c == 0xfffe, c == 0xffff, 0xe000 <= c && c <= 0xf8ff:
		return false
	}
	return true
}

// yamlQuoted returns a text between double quotes.
func yamlQuoted(s string) string {
	text := string(canonicalJSON(s))
	if strings.IndexFunc(text, func(c rune) bool { return !printsInYAML(c) }) < 0 {
		return text
	}
	var b strings.Builder
	for _, c := range text {
		if !printsInYAML(c) {
			fmt.Fprintf(&b, `\u%04x`, c)
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

// flow returns a node on one line, if each of its scalars can be written so.
func (w *yamlWriter) flow(n *document.Node) (string, bool) {
	switch n.Shape {
	case document.Sequence:
		parts := make([]string, len(n.Items))
		for i, item := range n.Items {
			var ok bool
			if parts[i], ok = w.flow(item); !ok {
				return "", false
			}
		}
		return "[" + strings.Join(parts, ", ") + "]", true
	case document.Mapping:
		if len(n.Members) == 0 {
			return "{}", true
		}
		parts := make([]string, len(n.Members))
		for i, m := range n.Members {
			value, ok := w.flow(m.Value)
			if !ok {
				return "", false
			}
			parts[i] = w.key(m.Key.Text) + ": " + value
		}
		return "{ " + strings.Join(parts, ", ") + " }", true
	}
	switch {
	case !n.Quoted && w.mustQuote(n):
		return yamlQuoted(n.Text), true
	case !n.Quoted:
		return n.Text, n.IsNull() || w.isPlain(n.Text, true)
	case n.JSON && w.isText(n.Text, true):
		return n.Text, true
	}
	return yamlQuoted(n.Text), !isBlock(n.Text)
}

// key returns the key of a member.
func (w *yamlWriter) key(text string) string {
	if w.isText(text, true) && safeText.MatchString(text) {
		return text
	}
	return yamlQuoted(text)
}

// isText reports whether plain text is read as the same text by every reader.
func (w *yamlWriter) isText(s string, flow bool) bool {
	if !w.isPlain(s, flow) || document.Hidden(s) != "" {
		return false
	}
	plain := document.Node{Shape: document.Scalar, Text: s}
	var errs document.Errors
	raw := plain.AppendJSON(nil, &errs)
	return errs.Len() == 0 && raw[0] == '"'
}

// safeText matches text that is plain in YAML wherever it is.
var safeText = regexp.MustCompile(`^[A-Za-z0-9_/.+-]*[A-Za-z0-9_/]$`)

// isPlain reports whether a text can be written without quotes.
func (w *yamlWriter) isPlain(s string, flow bool) bool {
	if safeText.MatchString(s) && !strings.HasPrefix(s, "-") {
		return true
	}
	can, known := w.plain[s]
	if !known {
		can = [2]bool{readsAs("- "+s+"\n", s), readsAs("- ["+s+", "+s+"]\n", s)}
		w.plain[s] = can
	}
	if flow {
		return can[1]
	}
	return can[0]
}

// readsAs reports whether a document's first value is the plain text.
func readsAs(data, text string) bool {
	if !utf8.ValidString(data) || text == "" || strings.ContainsAny(text, "\n\r") {
		return false
	}
	var errs document.Errors
	n := document.Parse("x.yaml", []byte(data), &errs)
	if errs.Len() > 0 || n == nil || len(n.Items) != 1 {
		return false
	}
	if n = n.Items[0]; n.Shape == document.Sequence {
		if len(n.Items) != 2 {
			return false
		}
		n = n.Items[0]
	}
	return n.Shape == document.Scalar && !n.Quoted && n.Text == text
}

// jsonFile writes a definition as JSON. Text of cells that is a number, true, false or
// null there is written as that.
func jsonFile(def *document.Node) []byte {
	raw := appendJSONNode(nil, def)
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return raw
	}
	return append(b.Bytes(), '\n')
}

func appendJSONNode(dst []byte, n *document.Node) []byte {
	switch n.Shape {
	case document.Sequence:
		dst = append(dst, '[')
		for i, item := range n.Items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSONNode(dst, item)
		}
		return append(dst, ']')
	case document.Mapping:
		dst = append(dst, '{')
		for i, m := range n.Members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(append(dst, canonicalJSON(m.Key.Text)...), ':')
			dst = appendJSONNode(dst, m.Value)
		}
		return append(dst, '}')
	}
	var errs document.Errors
	if raw := n.AppendJSON(nil, &errs); errs.Len() == 0 {
		return append(dst, raw...)
	}
	return append(dst, canonicalJSON(n.Text)...)
}
