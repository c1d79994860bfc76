package rules

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// Remark is something in a file that is allowed but probably a mistake.
type Remark struct {
	Pos     document.Position
	Message string
}

// Remarks returns what decoding the table found.
func (t *Table) Remarks() []Remark { return t.remarks }

// Remarks returns what decoding the data model found.
func (m *Model) Remarks() []Remark { return m.remarks }

// remarkQuoted remarks on a quoted cell that looks like a pattern or a range but
// is, because of the quotes, the text itself.
func (r *cellReader) remarkQuoted(f *field, n *document.Node, text string) {
	if f.texts != nil {
		return // it is one of the values
	}
	meant := ""
	switch inner := strings.Trim(text, "/"); {
	case len(text) > 2 && text[0] == '/' && text[len(text)-1] == '/' && strings.ContainsAny(inner, `^$[](){}|*+?\`):
		meant = fmt.Sprintf("{matches: '%s'} for the regular expression", text[1:len(text)-1])
	case len(text) > 1 && strings.IndexByte(text, '*') == len(text)-1:
		meant = fmt.Sprintf("%s without quotes for all that begins so", text)
	case looksLikeRange(text):
		meant = fmt.Sprintf("a field of another type for a range, %s is %s", f.name, f.kind())
	default:
		return
	}
	r.remarks = append(r.remarks, Remark{n.Pos, fmt.Sprintf("%q is the text itself because it is quoted: write {is: %q} if that is meant, %s", text, text, meant)})
}

// remarkHidden remarks on a value that has an invisible character: it matches only
// text that has it, too.
func (r *cellReader) remarkHidden(n *document.Node, text string) {
	if what := document.Hidden(text); what != "" && !n.Quoted {
		r.remarks = append(r.remarks, Remark{n.Pos, fmt.Sprintf("%q has %s in it: delete it, or quote the value if it is meant", text, what)})
	}
}

// either finds what other languages write for one of several values, such as a|b.
var either = regexp.MustCompile(`^[^\s|]+(?:(?: ?\|\|? ?| or )[^\s|]+)+$`)

// remarkOperator remarks on a cell that looks like a condition of another language
// but is the text itself, such as "!= pro" or pro|free.
func (r *cellReader) remarkOperator(f *field, n *document.Node, text string) {
	if f.texts != nil || f.language {
		return // it is one of the values, or a mistake
	}
	meant := ""
	switch operand := strings.TrimSpace(strings.TrimLeft(text, "!=<>")); {
	case operand == "" || operand == text && !strings.ContainsAny(text, "| "):
	case strings.HasPrefix(text, "!=") || strings.HasPrefix(text, "<>"):
		meant = "not " + operand + " for all others"
	case strings.HasPrefix(text, "=="):
		meant = operand + " for that value"
	case strings.IndexByte("<>", text[0]) >= 0 && '0' <= operand[0] && operand[0] <= '9':
		meant = fmt.Sprintf("a range such as 10..20 in a field of another type, %s is %s", f.name, f.kind())
	case either.MatchString(text):
		values := strings.FieldsFunc(strings.ReplaceAll(text, " or ", "|"), func(c rune) bool { return c == '|' || c == ' ' })
		meant = "[" + strings.Join(values, ", ") + "] for each of them"
	}
	if meant != "" {
		r.remarks = append(r.remarks, Remark{n.Pos, fmt.Sprintf("%q is the text itself: write {is: %q} if that is meant, %s", text, text, meant)})
	}
}

// looksLikeRange reports whether text looks like a range of numbers, dates or
// versions.
func looksLikeRange(text string) bool {
	lo, hi, _, ok := cutRange(text)
	digit := func(s string) bool { return s != "" && '0' <= s[0] && s[0] <= '9' }
	return ok && (digit(lo) || lo == "") && (digit(hi) || hi == "") && lo+hi != "" && !strings.HasPrefix(hi, ".")
}

// Unused returns remarks on the segments and computed fields that neither a table uses,
// by itself or by way of another, nor trace.always.
func (m *Model) Unused(tables func(yield func(*Table) bool)) []Remark {
	used := make([]bool, m.nowSlot()+1)
	var use func(slots []int32)
	use = func(slots []int32) {
		for _, slot := range slots {
			if used[slot] {
				continue
			}
			used[slot] = true
			if i := int(slot) - len(m.fields); i >= 0 && slot < m.nowSlot() {
				use(m.segments[i].lazy)
			} else if i < 0 {
				use(m.fields[slot].uses)
			}
		}
	}
	for t := range tables {
		use(t.lazy)
	}
	for i := m.declared; i < len(m.fields); i++ {
		if m.fields[i].always {
			use([]int32{int32(i)})
		}
	}
	var remarks []Remark
	for i := m.declared; i < len(m.fields); i++ {
		if f := &m.fields[i]; !used[i] {
			remarks = append(remarks, Remark{Pos: f.node.Pos, Message: "no table uses the computed field " + f.name})
		}
	}
	for i := range m.segments {
		if s := &m.segments[i]; !used[len(m.fields)+i] {
			remarks = append(remarks, Remark{Pos: s.node.Pos, Message: "no table uses the segment " + s.name})
		}
	}
	return remarks
}
