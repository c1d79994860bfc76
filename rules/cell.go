package rules

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// maxPattern is how many bytes a regular expression may have.
const maxPattern = 1000

// maxPatterns bounds the memory, in bytes and estimated, that the regular
// expressions of a table, or of all segments, may take together. A few bytes of
// text can ask for megabytes: \pL{1000} is a thousand copies of a class of
// hundreds of ranges.
const maxPatterns = 64 << 20

// cond is a cell's condition on one field.
type cond struct {
	onMissing bool  // whether it matches a missing field
	pred      *pred // whether it matches a value
}

var (
	noCond  = cond{false, neverPred}
	anyCond = cond{true, alwaysPred}
)

// cellReader decodes the cells of a file.
type cellReader struct {
	m      *Model
	errs   *document.Errors
	config func(key, value *document.Node, errs *document.Errors) *Prerequisite
	known  map[string]atom // cells decoded before
	// patterns is how many bytes the regular expressions take, about.
	patterns int
	buf      []byte

	remarks []Remark
}

// cell decodes the condition n states on a field, or with negate its negation.
// Negation is pushed down to the single tests, because a test, negated or not,
// never matches a missing field.
func (r *cellReader) cell(f *field, n *document.Node, negate bool) cond {
	switch n.Shape {
	case document.Sequence:
		return r.several(f, n, false, negate)
	case document.Mapping:
		return r.tests(f, n, negate)
	}
	if n.IsNull() {
		return r.keyword(n, anyWord, negate)
	}
	return r.scalar(f, n, n.Text, negate)
}

// The words that are conditions themselves.
const (
	anyWord     = "any"
	missingWord = "missing"
	presentWord = "present"
	notWord     = "not"
)

func (r *cellReader) keyword(n *document.Node, word string, negate bool) cond {
	switch {
	case word == anyWord && negate:
		r.errs.Add(n, "not any never matches")
		return noCond
	case word == anyWord:
		return anyCond
	case (word == missingWord) != negate:
		return cond{true, neverPred}
	}
	return cond{false, alwaysPred}
}

// joinConds combines the conditions of several cells.
func joinConds(all bool, conds []cond) cond {
	preds := make([]*pred, len(conds))
	onMissing := all
	for i, c := range conds {
		preds[i] = c.pred
		if all {
			onMissing = onMissing && c.onMissing
		} else {
			onMissing = onMissing || c.onMissing
		}
	}
	if all {
		return cond{onMissing, allPred(preds)}
	}
	return cond{onMissing, anyPred(preds)}
}

// several decodes a list of cells, all or one of which must match.
func (r *cellReader) several(f *field, n *document.Node, all, negate bool) cond {
	items := n.Items
	if n.Shape != document.Sequence {
		items = []*document.Node{n}
	}
	if len(items) == 0 {
		r.errs.Add(n, "an empty list of values never matches: write any for no condition")
		return noCond
	}
	conds := make([]cond, len(items))
	for i, item := range items {
		conds[i] = r.cell(f, item, negate)
	}
	// De Morgan: the negation of one of is all of the negations.
	return joinConds(all != negate, conds)
}

// tests decodes a mapping of tests that must all match.
func (r *cellReader) tests(f *field, n *document.Node, negate bool) cond {
	known := []string{"any", "all", "none", notWord, "is", "matches"}
	if f.typ == listField {
		known = append(known, "size")
	}
	n.CheckMembers(r.errs, "a cell", known...)
	if len(n.Members) == 0 {
		r.errs.Add(n, "an empty mapping is not a condition: write any for no condition")
		return noCond
	}
	conds := make([]cond, 0, len(n.Members))
	for _, m := range n.Members {
		v := m.Value
		switch m.Key.Text {
		case "any":
			conds = append(conds, r.several(f, v, false, negate))
		case "all":
			conds = append(conds, r.several(f, v, true, negate))
		case "none":
			conds = append(conds, r.several(f, v, false, !negate))
		case notWord:
			conds = append(conds, r.cell(f, v, !negate))
		case "is":
			conds = append(conds, r.leaf(f, v, negate, r.is(f, v)))
		case "matches":
			conds = append(conds, r.leaf(f, v, negate, r.matches(f, v)))
		case "size":
			if f.typ == listField {
				conds = append(conds, r.size(v, negate))
			}
		}
	}
	return joinConds(!negate, conds)
}

// is decodes the literal value of {is: …}.
func (r *cellReader) is(f *field, n *document.Node) *pred {
	if n.Shape != document.Scalar || n.IsNull() {
		r.errs.Add(n, "is takes a single value")
		return nil
	}
	if f.textual() {
		return r.literal(f, n, n.Text)
	}
	return r.value(f, n, n.Text)
}

// matches decodes the regular expression of {matches: …}.
func (r *cellReader) matches(f *field, n *document.Node) *pred {
	text, ok := n.ReadString(r.errs, "matches")
	if !ok {
		return nil
	}
	if !f.textual() {
		r.errs.Add(n, "a regular expression needs a field of text: %s is %s", f.name, f.kind())
		return nil
	}
	return r.pattern(f, n, text)
}

// listSize is the field that the size of a list is read by.
var listSize = func() *field {
	f := newField("size", nil, false)
	f.typ, f.min = numberField, 0
	return &f
}()

// size decodes the condition on the number of a list's elements.
func (r *cellReader) size(n *document.Node, negate bool) cond {
	c := r.cell(listSize, n, negate)
	// A list that is bound has at least one element.
	return cond{false, c.pred}
}

// leaf returns a single test, negated on demand. A nil p is a mistake that has
// been reported.
func (r *cellReader) leaf(f *field, n *document.Node, negate bool, p *pred) cond {
	if p == nil {
		return noCond
	}
	if f.typ == listField {
		p = somePred(p)
	}
	if p.op == never {
		r.errs.Add(n, "%s never matches", CellText(n))
		return noCond
	}
	if negate {
		p = notPred(p)
	}
	return cond{false, p}
}

// scalar decodes a cell that is a single value.
func (r *cellReader) scalar(f *field, n *document.Node, text string, negate bool) cond {
	plain := !n.Quoted || n.JSON || !f.textual()
	if !plain && !strings.HasPrefix(text, "*") {
		r.remarkQuoted(f, n, text)
		r.remarkOperator(f, n, text)
		return r.leaf(f, n, negate, r.literal(f, n, text))
	}
	switch text {
	case anyWord, "*":
		return r.keyword(n, anyWord, negate)
	case missingWord, presentWord:
		return r.keyword(n, text, negate)
	case "":
		if !f.textual() {
			return r.keyword(n, anyWord, negate)
		}
	}
	if rest, ok := cutNot(text); ok {
		return r.scalar(f, n, rest, !negate)
	}
	if f.textual() {
		return r.leaf(f, n, negate, r.text(f, n, text))
	}
	return r.leaf(f, n, negate, r.value(f, n, text))
}

// cutNot cuts the word not off the text it negates.
func cutNot(text string) (string, bool) {
	rest, ok := strings.CutPrefix(text, notWord+" ")
	return strings.TrimSpace(rest), ok
}

// text decodes a plain scalar on a field of text: a pattern or a literal.
func (r *cellReader) text(f *field, n *document.Node, text string) *pred {
	switch {
	case len(text) > 1 && text[0] == '/' && text[len(text)-1] == '/':
		return r.pattern(f, n, text[1:len(text)-1])
	case strings.Contains(text, "*"):
		return r.wildcard(f, n, text)
	case strings.Contains(text, ".."):
		r.errs.Add(n, "%s looks like a range, but %s is %s: write {is: %q} to mean the text itself", text, f.name, f.kind(), text)
		return nil
	}
	r.remarkOperator(f, n, text)
	return r.literal(f, n, text)
}

// wildcard decodes prefix*, *suffix and *part*.
func (r *cellReader) wildcard(f *field, n *document.Node, text string) *pred {
	head, tail := strings.HasPrefix(text, "*"), strings.HasSuffix(text, "*")
	body := strings.TrimSuffix(strings.TrimPrefix(text, "*"), "*")
	if body == "" || strings.Contains(body, "*") {
		r.errs.Add(n, "%q: an asterisk stands at the beginning, the end or both; for the asterisk itself write {is: %q}, for more a regular expression between slashes", text, text)
		return nil
	}
	if f.foldCase {
		body = fold(body)
	}
	p := &pred{text: body}
	switch {
	case head && tail:
		p.op = contains
	case head:
		p.op = suffix
	default:
		p = strPred(strSet{startingWith(body)})
	}
	return r.checkAllowed(f, n, text, p)
}

// pattern decodes a regular expression.
func (r *cellReader) pattern(f *field, n *document.Node, expr string) *pred {
	if expr == "" || len(expr) > maxPattern {
		r.errs.Add(n, "a regular expression must have 1 to %d bytes, this has %d", maxPattern, len(expr))
		return nil
	}
	if f.foldCase {
		expr = "(?i:" + expr + ")"
	}
	parsed, err := syntax.Parse(expr, syntax.Perl)
	if err == nil {
		before := r.patterns
		if r.patterns += patternSize(parsed); r.patterns > maxPatterns {
			if before <= maxPatterns {
				r.errs.Add(n, "the regular expressions up to here take about %d MiB, at most %d MiB are possible: repeat fewer characters and classes in them", r.patterns>>20, maxPatterns>>20)
			}
			return nil
		}
	}
	var re *regexp.Regexp
	if err == nil {
		re, err = regexp.Compile(expr)
	}
	if err != nil {
		message, _ := strings.CutPrefix(err.Error(), "error parsing regexp: ")
		if e, ok := errors.AsType[*syntax.Error](err); ok && e.Code == syntax.ErrInvalidPerlOp {
			message = e.Expr + " is not possible: regular expressions are RE2, which has no lookaround and no references back"
		}
		r.errs.Add(n, "invalid regular expression: %s", message)
		return nil
	}
	return r.checkAllowed(f, n, n.Text, &pred{op: matches, re: re})
}

// patternSize returns how many bytes a regular expression takes, about: some for
// each instruction, and for each range of a class.
func patternSize(re *syntax.Regexp) int {
	const instruction, bound = 100, 10
	n := instruction
	switch re.Op {
	case syntax.OpLiteral:
		n *= len(re.Rune)
	case syntax.OpCharClass:
		n += bound * len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += patternSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		if n *= re.Max; re.Max < 0 {
			n *= -(re.Min + 1) // x{3,} is xxxx*
		}
	}
	return n
}

// checkAllowed reports a pattern that none of the field's closed values meets.
func (r *cellReader) checkAllowed(f *field, n *document.Node, text string, p *pred) *pred {
	if f.texts == nil {
		return p
	}
	for key := range f.texts {
		if p.matchText(key) {
			return p
		}
	}
	r.errs.Add(n, "%s matches none of the values of %s (%s)", text, f.name, shorten(strings.Join(f.allowed, ", ")))
	return nil
}

// literal decodes a value of a field of text.
func (r *cellReader) literal(f *field, n *document.Node, text string) *pred {
	key, _ := f.textKey(text)
	if f.language {
		if !isLanguageRange(key) {
			hint := ""
			if hyphens := strings.ReplaceAll(text, "_", "-"); isLanguageRange(strings.ToLower(hyphens)) {
				hint = ": write " + hyphens
			}
			r.errs.Add(n, "%q is not a language range such as nl or nl-BE%s", text, hint)
			return nil
		}
		// RFC 4647, section 3.3.1: the range itself, or it and a hyphen.
		p := strPred(strDomain.normalize(strSet{point(key), startingWith(key + "-")}))
		return r.checkAllowed(f, n, text, p)
	}
	if !f.allowsText(key) {
		r.errs.Add(n, "%q is not one of the values of %s%s", text, f.name, f.valueHint(text))
		return nil
	}
	r.remarkHidden(n, text)
	return strPred(strSet{point(key)})
}

// valueHint returns the end of the message about text that is none of the field's
// closed values.
func (f *field) valueHint(text string) string {
	if rest := strings.TrimLeft(text, "!= "); strings.HasPrefix(text, "!") {
		if key, _ := f.textKey(rest); f.allowsText(key) {
			return ": write not " + rest
		}
	}
	switch strings.ToLower(text) {
	case "null", "nil", "none", "undefined", "empty", "unset":
		return ": write missing for a field without a value"
	}
	return document.DidYouMean(text, f.allowed)
}

// isLanguageRange checks the grammar of RFC 4647, section 2.1, for a range that
// is folded.
func isLanguageRange(s string) bool {
	for i, more := 0, true; more; i++ {
		var tag string
		tag, s, more = strings.Cut(s, "-")
		if len(tag) < 1 || len(tag) > 8 {
			return false
		}
		for j := range len(tag) {
			c := tag[j]
			if !('a' <= c && c <= 'z' || i > 0 && '0' <= c && c <= '9') {
				return false
			}
		}
	}
	return true
}

// kind describes the values of a field, for messages.
func (f *field) kind() string {
	switch {
	case f.format == semverText:
		return "a version"
	case f.format == addressText:
		return "an IP address"
	}
	return f.typ.article()
}
