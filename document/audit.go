package document

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// auditor reads a file a second time, beside the tokens that the lexer made of
// it, by the rules of YAML 1.2 for where a scalar ends and what it says. The
// lexer takes liberties that would change what a file means without a word: it
// splits 12:30 within a list within a flow mapping, drops tabs within plain
// text, reads malformed escapes, takes a stray bracket for text. What it
// splits is put together again, texts are set right, and tokens that don't
// account for every character of the file are a mistake.
type auditor struct {
	*yamlReader
	text
	tokens token.Tokens // as read by the lexer
	i      int          // the token at hand
	out    token.Tokens // as they should be
	flow   []byte       // the brackets open at the moment
	parent int          // column of the last key or dash in block style, from 0; -1 before the first

	fresh    bool // what comes next is the first of its line
	complete bool // a node has just ended, so that an indicator must come
	explicit bool // a key with a question mark waits for its colon
}

// audit returns the tokens as they should be.
func (r *yamlReader) audit(src string, tokens token.Tokens) (token.Tokens, error) {
	if slices.ContainsFunc(tokens, func(tk *token.Token) bool { return tk.Type == token.InvalidType }) {
		return tokens, nil // the parser reports it in the lexer's words
	}
	a := &auditor{yamlReader: r, text: text{src: src}, tokens: tokens, parent: -1, out: make(token.Tokens, 0, len(tokens))}
	for ; a.i < len(tokens); a.i++ {
		tk := tokens[a.i]
		if tk.Type == token.CommentType {
			continue // a.skip knows what is one
		}
		a.fresh = a.skip()
		if err := a.token(tk); err != nil {
			return nil, err
		}
	}
	if a.skip(); a.at < len(src) {
		return nil, a.unexpected()
	}
	return a.out, nil
}

// failAt reports a mistake at an offset.
func (a *auditor) failAt(at int, format string, args ...any) error {
	return a.fail(offsetPosition(a.file, []byte(a.src), at), format, args...)
}

// unexpected reports that the lexer and the file don't agree about what comes
// next.
func (a *auditor) unexpected() error {
	rest, _, _ := strings.Cut(a.src[a.at:], "\n")
	return a.failAt(a.at, "invalid YAML: unexpected %q: quote it if it is text", shorten(rest))
}

// keep takes a token over.
func (a *auditor) keep(tk *token.Token) {
	tk.Prev, tk.Next = nil, nil
	a.out.Add(tk)
	a.complete = false
}

// keepNode takes over the last token of a node.
func (a *auditor) keepNode(tk *token.Token) {
	a.keep(tk)
	a.complete = true
}

// last is the type of the token before the one at hand.
func (a *auditor) last() token.Type {
	if len(a.out) == 0 {
		return token.UnknownType
	}
	return a.out[len(a.out)-1].Type
}

// token checks one token.
func (a *auditor) token(tk *token.Token) error {
	switch tk.Type {
	case token.SequenceStartType, token.MappingStartType:
		if err := a.begin(); err != nil {
			return err
		}
		if !a.take(tk.Value) {
			return a.unexpected()
		}
		a.flow = append(a.flow, tk.Value[0])
	case token.SequenceEndType, token.MappingEndType:
		// ']' and '}' stand two code points behind their openings.
		if len(a.flow) == 0 || a.flow[len(a.flow)-1]+2 != tk.Value[0] || !a.take(tk.Value) {
			return a.unexpected()
		}
		a.flow = a.flow[:len(a.flow)-1]
		a.keepNode(tk)
		return nil
	case token.CollectEntryType:
		if len(a.flow) == 0 || a.noEntry() || !a.take(",") {
			return a.unexpected()
		}
	case token.SequenceEntryType:
		if len(a.flow) > 0 || !a.blankAt(a.at+1) || !a.take("-") {
			return a.unexpected()
		}
		a.parent = a.column() - 1
	case token.MappingKeyType:
		return a.explicitKey(tk)
	case token.MappingValueType:
		return a.colon(tk)
	case token.AnchorType, token.AliasType:
		return a.name(tk)
	case token.TagType:
		return a.failAt(a.at, "explicit tags such as %s are not supported: quote the value if it is text", tk.Value)
	case token.DirectiveType:
		return a.failAt(a.at, "directives such as %%YAML are not supported: leave the line out")
	case token.DocumentHeaderType, token.DocumentEndType:
		return a.marker(tk)
	case token.LiteralType, token.FoldedType:
		return a.block(tk)
	case token.SingleQuoteType, token.DoubleQuoteType:
		return a.quoted(tk)
	case token.MergeKeyType:
		if !a.take("<<") {
			return a.unexpected()
		}
	default:
		return a.plain(tk)
	}
	a.keep(tk)
	return nil
}

// noEntry tells that no element stands before the comma at hand.
func (a *auditor) noEntry() bool {
	switch a.last() {
	case token.SequenceStartType, token.MappingStartType, token.CollectEntryType:
		return true
	}
	return false
}

// begin checks that a node may begin here. In block style the first one of a
// line stands deeper than the key or the dash it belongs to, unless it is a key.
func (a *auditor) begin() error {
	if len(a.flow) > 0 || !a.fresh {
		if a.complete {
			return a.unexpected()
		}
		return nil
	}
	switch tk := a.tokens[a.i]; tk.Type {
	case token.AnchorType, token.AliasType:
		return nil // what they belong to comes later
	}
	if next := a.i + 1; next < len(a.tokens) && a.tokens[next].Type == token.MappingValueType {
		return nil
	}
	if a.complete {
		return a.unexpected()
	}
	if a.column() <= a.parent {
		return a.failAt(a.at, "invalid YAML: indent this by more than the line it belongs to")
	}
	return nil
}

// explicitKey checks a question mark.
func (a *auditor) explicitKey(tk *token.Token) error {
	if len(a.flow) > 0 || !a.blankAt(a.at+1) || !a.take("?") {
		return a.unexpected()
	}
	a.parent, a.explicit = a.column()-1, true
	a.keep(tk)
	return nil
}

// colon checks the colon of a member.
func (a *auditor) colon(tk *token.Token) error {
	if a.at >= len(a.src) || a.src[a.at] != ':' {
		return a.unexpected()
	}
	if len(a.flow) == 0 {
		switch {
		case !a.blankAt(a.at + 1):
			return a.unexpected()
		case a.fresh != a.explicit && a.explicit:
			return a.failAt(a.at, "a key must be a single plain value: leave out the question mark before it")
		case a.fresh != a.explicit:
			return a.failAt(a.at, "invalid YAML: a colon must stand on the line of its key")
		}
		a.explicit = false
		a.at++
		a.keep(tk)
		return nil
	}
	switch a.last() {
	case token.SingleQuoteType, token.DoubleQuoteType:
		// The colon after a quoted key needs no space.
	default:
		if a.plainAt(a.at, len(a.flow) > 0) {
			return a.plain(tk) // as in ::1
		}
		if !a.blankAt(a.at + 1) {
			return a.failAt(a.at, `a space is missing after the colon; if it is part of the text, quote the text`)
		}
	}
	if a.noEntry() || a.last() == token.MappingValueType {
		return a.failAt(a.at, "invalid YAML: a key is missing before the colon")
	}
	a.at++
	a.keep(tk)
	return nil
}

// name checks an anchor or an alias with the name that follows. Names are kept
// to what all readers agree on.
func (a *auditor) name(tk *token.Token) error {
	if err := a.begin(); err != nil {
		return err
	}
	sign := a.at
	if !a.take(tk.Value) {
		return a.unexpected()
	}
	a.keep(tk)
	start := a.at
	for a.at < len(a.src) && !a.blankAt(a.at) && !isFlowIndicator(a.src[a.at]) {
		a.at++
	}
	name := a.src[start:a.at]
	if a.i+1 == len(a.tokens) || name == "" {
		return nil // the parser reports that it is missing
	}
	a.i++
	next := a.tokens[a.i]
	if next.Value != name && tk.Type == token.AliasType {
		return a.failAt(sign, "*%s is read as a YAML alias: if it is text or a pattern, quote it (\"*%s\")", name, name)
	}
	if next.Value != name || tk.Type == token.AnchorType && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
		return a.failAt(sign, "&%s can't be an anchor: its name has letters, digits, _ and - (quote it if it is text)", name)
	}
	a.keep(next)
	a.complete = tk.Type == token.AliasType
	return nil
}

// marker checks --- and ..., which stand at the beginning of a line.
func (a *auditor) marker(tk *token.Token) error {
	mark := strings.Repeat(tk.Value[:1], 3)
	if len(a.flow) > 0 || a.column() > 0 || !a.blankAt(a.at+3) || !a.take(mark) {
		return a.unexpected()
	}
	if rest, _, _ := strings.Cut(a.src[a.at:], "\n"); tk.Type == token.DocumentEndType {
		if rest = strings.TrimLeft(rest, " \t"); rest != "" && rest[0] != '#' {
			return a.unexpected()
		}
	}
	a.parent = -1
	a.keep(tk)
	return nil
}

// noteKey remembers where a key in block style begins.
func (a *auditor) noteKey(column int) {
	if next := a.i + 1; len(a.flow) == 0 && next < len(a.tokens) && a.tokens[next].Type == token.MappingValueType {
		a.parent = column
	}
}

// quoted checks a quoted scalar and sets its text right.
func (a *auditor) quoted(tk *token.Token) error {
	if err := a.begin(); err != nil {
		return err
	}
	column, start := a.column(), a.at
	value, bad := a.readQuoted()
	if bad >= 0 {
		a.at = bad
		return a.failAt(a.at, "invalid YAML: malformed escape in double-quoted text")
	}
	if a.at == start {
		return a.unexpected()
	}
	tk.Value = value
	a.noteKey(column)
	a.keepNode(tk)
	return nil
}

// plain checks a plain scalar, and puts it together again where the lexer took
// a colon in it for the colon of a member.
func (a *auditor) plain(tk *token.Token) error {
	if err := a.begin(); err != nil {
		return err
	}
	if !a.plainAt(a.at, len(a.flow) > 0) {
		return a.unexpected()
	}
	column, start := a.column(), a.at
	value := a.readPlain(len(a.flow) > 0, a.parent)
	if tk.Value != value && tk.Value != strings.ReplaceAll(value, "\t", "") {
		before := a.last()
		for got := tk.Value; got != value; got += a.tokens[a.i].Value {
			if a.i++; a.i == len(a.tokens) || len(got) > len(value) {
				a.at = start
				return a.unexpected()
			}
		}
		if len(a.flow) > 0 && a.flow[len(a.flow)-1] == '{' && before != token.MappingValueType {
			return a.failAt(start, "a space is missing after the colon in %q; if it is part of the text, quote the text", value)
		}
		tk = token.String(value, value, tk.Position)
	}
	tk.Value = value
	a.noteKey(column)
	a.keepNode(tk)
	return nil
}

// block checks a block scalar, the token of its header and that of its text,
// and sets the text right.
func (a *auditor) block(tk *token.Token) error {
	start := a.at
	if a.complete || a.explicit || len(a.flow) > 0 {
		return a.unexpected()
	}
	value, ok := a.readBlock(a.parent)
	if !ok {
		return a.failAt(start, "invalid YAML: malformed block of text")
	}
	a.keep(tk)
	for a.i+1 < len(a.tokens) && a.tokens[a.i+1].Type == token.CommentType {
		a.i++
	}
	// The lexer leaves out the text where it is empty at the end of the file.
	text := token.String(value, value, tk.Position)
	if a.i+1 < len(a.tokens) && a.tokens[a.i+1].Type == token.StringType {
		a.i++
		text = a.tokens[a.i]
		text.Value = value
	}
	a.keepNode(text)
	return nil
}
