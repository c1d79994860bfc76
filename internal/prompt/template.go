package prompt

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// Template is the text of one message with holes for variables. It is
// immutable and safe for concurrent use.
type Template struct {
	parts []part
	fixed int // bytes of literal text
}

// part is literal text followed by a variable, unless slot is negative.
type part struct {
	text    string
	escaped jsontext.Text
	slot    int
}

// Compile reads a message's text. {{name}} and {{ name }} are replaced by a declared
// variable. \{{ is a literal {{; directly before braces a backslash itself is
// written twice. For example, \\{{name}} is a backslash and the variable. Mistakes
// are added to errs; the returned template is never nil.
func Compile(n *document.Node, vars *Variables, errs *document.Errors) *Template {
	t := &Template{}
	rest := n.Text
	var literal strings.Builder
	for {
		at := strings.Index(rest, "{{")
		if at < 0 {
			literal.WriteString(rest)
			break
		}
		before := rest[:at]
		rest = rest[at+len("{{"):]
		// Half of the backslashes before the braces stay; an odd one escapes.
		backslashes := len(before) - len(strings.TrimRight(before, `\`))
		literal.WriteString(before[:len(before)-(backslashes+1)/2])
		if backslashes%2 == 1 {
			literal.WriteString("{{")
			continue
		}
		inside, after, closed := strings.Cut(rest, "}}")
		name := strings.Trim(inside, " \t")
		if !closed || !ValidName(name) {
			errs.Add(n, `%s is not a placeholder: write {{name}}, or \{{ for the characters themselves`, excerpt("{{"+rest, closed, len(inside)))
			break
		}
		rest = after
		slot, ok := vars.index[name]
		if !ok {
			errs.Report("undeclared-variable", n.Pos, "{{%s}} is not declared under variables%s", name, document.DidYouMean(name, vars.Names()))
			continue
		}
		t.add(literal.String(), slot)
		literal.Reset()
	}
	t.add(literal.String(), -1)
	return t
}

// excerpt returns a piece of a template for a message.
func excerpt(s string, closed bool, inside int) string {
	const limit = 40
	if closed && inside+4 <= limit {
		return fmt.Sprintf("%q", s[:inside+4])
	}
	if len(s) <= limit {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%q…", strings.ToValidUTF8(s[:limit], ""))
}

func (t *Template) add(text string, slot int) {
	if text == "" && slot < 0 {
		return
	}
	t.parts = append(t.parts, part{text, jsontext.Escape(text), slot})
	t.fixed += len(text)
}

// ValidName reports whether s is [A-Za-z_][A-Za-z0-9_.-]*, at most 128 long.
func ValidName(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	for i, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_':
		case i > 0 && ('0' <= c && c <= '9' || c == '.' || c == '-'):
		default:
			return false
		}
	}
	return true
}

// Whole returns the slot of the variable if the text consists of one alone. Otherwise
// alone is false, and mixed reports whether the text has variables at all.
func (t *Template) Whole() (slot int, alone, mixed bool) {
	if len(t.parts) == 1 && t.parts[0].text == "" && t.parts[0].slot >= 0 {
		return t.parts[0].slot, true, false
	}
	return -1, false, slices.ContainsFunc(t.parts, func(p part) bool { return p.slot >= 0 })
}

// Literal returns the length of the text outside of variables, in bytes.
func (t *Template) Literal() int { return t.fixed }

// Text returns the rendered text.
func (t *Template) Text(v *Values) jsontext.Text {
	if len(t.parts) == 1 && t.parts[0].slot < 0 {
		return t.parts[0].escaped
	}
	size := 0
	for i := range t.parts {
		p := &t.parts[i]
		if size += len(p.escaped); p.slot >= 0 {
			size += v.escapedLen(p.slot)
		}
	}
	dst := make([]byte, 0, size)
	for i := range t.parts {
		p := &t.parts[i]
		if dst = append(dst, p.escaped...); p.slot >= 0 {
			dst = jsontext.AppendEscaped(dst, v.text[p.slot])
		}
	}
	return jsontext.Text(jsontext.View(dst))
}

// Uses calls f with the name of each variable that the template reads.
func (t *Template) Uses(vars *Variables, f func(name string)) {
	for i := range t.parts {
		if s := t.parts[i].slot; s >= 0 {
			f(vars.slots[s].name)
		}
	}
}
