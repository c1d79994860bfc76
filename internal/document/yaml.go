package document

import (
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// yamlReader builds nodes from those of the library. It uses the text of scalars, and
// never the types that the library gives them.
type yamlReader struct {
	builder
	src *cursor
	// The characters that replace a backslash, if one is replaced, and the line
	// breaks of YAML 1.1. Texts get the original characters back.
	backslash string
	restore   *strings.Replacer
	anchors   map[string]*anchor
	open      map[string]bool // anchors whose value is being read
	aliased   size            // of what aliases have repeated so far
}

// anchor is a named value with the size of its repetition.
type anchor struct {
	node *Node
	size size
}

// yamlLimits makes the library refuse files that would make it recurse without end.
// The library does not expand aliases; they are counted here.
var yamlLimits = yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(MaxDepth), loaderlimits.AliasNone()))

func parseYAML(file, data string, errs *Errors) *Node {
	// Line breaks mean the same in all three forms (YAML 1.2, section 5.4).
	if strings.Contains(data, "\r") {
		data = strings.ReplaceAll(data, "\r\n", "\n")
		data = strings.ReplaceAll(data, "\r", "\n")
	}
	n, line, err := parsePlain(file, data)
	switch {
	case n != nil:
		return n
	case err != nil:
		errs.list = append(errs.list, err)
		return nil
	}
	return parseByLibrary(file, data, line, errs)
}

// parseByLibrary reads all of YAML. The file is no plain YAML in a line.
func parseByLibrary(file, data string, line int, errs *Errors) (n *Node) {
	r := &yamlReader{builder: builder{file: file, errs: errs, most: MaxLibraryNodes}}
	if i := strings.IndexFunc(data, unprintable); i >= 0 {
		c, _ := utf8.DecodeRuneInString(data[i:])
		_ = r.fail(offsetPosition(file, data, i), "control character U+%04X: write it as an escape in a double-quoted string", c)
		return nil
	}
	// Each takes a byte at least.
	if n := min(len(data), likelyNodes(data)); n > MaxLibraryNodes {
		_ = r.fail(Position{file, line, 1}, "the file has about %d values and keys, at most %d are read of YAML that is not plain, as in this line (it has a mistake, an anchor, a tag, an absent value or text in several lines): mend it, or split the file", n, MaxLibraryNodes)
		return nil
	}
	data, ok := r.standIn(data)
	if !ok {
		return nil
	}
	r.src = &cursor{text: data}
	defer func() {
		// A file must not end the process by a panic of the library.
		if p := recover(); p != nil {
			errs.AddAt(Position{file, 1, 1}, "the file is not readable as YAML: %v", p)
			n = nil
		}
	}()
	if r.directive() != nil {
		return nil
	}
	loader, err := yaml.NewLoader(strings.NewReader(data), yamlLimits)
	if err != nil {
		_ = r.fail(Position{file, 1, 1}, "the file is not readable as YAML: %v", err)
		return nil
	}
	for {
		var doc yaml.Node
		if err := loader.Load(&doc); errors.Is(err, io.EOF) {
			return n
		} else if err != nil {
			r.syntaxError(err)
			return nil
		}
		body := doc.Content[0]
		if missing(body) {
			continue
		}
		if n != nil {
			_ = r.fail(r.position(body), "a second document begins here: one file holds one definition")
			return nil
		}
		if n, err = r.node(body, 1); err != nil {
			return nil
		}
	}
}

// unprintable reports whether YAML does not allow a character without an escape.
func unprintable(c rune) bool {
	return c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0x7f || c == 0xfffe || c == 0xffff
}

// standIn replaces the characters that the library reads by the rules of YAML 1.1:
// those that were line breaks, or were left out, and are text in 1.2, and the pairs
// of escapes by which JSON writes one character. It replaces them by as many
// characters that the file does not contain. ok is false after it has reported that
// there are no such characters.
func (r *yamlReader) standIn(data string) (_ string, ok bool) {
	const breaks = "\u0085\u2028\u2029\ufeff"
	odd, paired := strings.ContainsAny(data, breaks), surrogates.MatchString(data)
	if !odd && !paired {
		return data, true
	}
	const needed = 1 + 4 // for a backslash and for the breaks
	free := unusedCharacters(data, needed)
	if len(free) < needed {
		_ = r.fail(Position{r.file, 1, 1}, "the file uses nearly all characters for private use (U+E000 to U+F8FF): write them as escapes in a file without U+0085, U+2028, U+2029 and U+FEFF, or leave some out")
		return "", false
	}
	next := func() (s string) {
		s, free = string(free[0]), free[1:]
		return s
	}
	if paired {
		r.backslash = next()
		data = surrogates.ReplaceAllStringFunc(data, func(pair string) string {
			return strings.ReplaceAll(pair, `\`, r.backslash)
		})
	}
	if odd {
		var there, back []string
		for _, c := range breaks {
			s := next()
			there = append(there, string(c), s)
			back = append(back, s, string(c))
		}
		r.restore = strings.NewReplacer(back...)
		data = strings.NewReplacer(there...).Replace(data)
	}
	return data, true
}

// unusedCharacters finds characters for private use that the text does not contain,
// neither as they are nor possibly as escapes.
func unusedCharacters(text string, most int) []rune {
	const first, last = 0xe001, 0xf8ff
	used := make([]bool, last+1)
	note := func(c rune) {
		if first <= c && c <= last {
			used[c] = true
		}
	}
	for i, c := range text {
		note(c)
		if strings.ContainsRune("eEfF", c) && i+4 <= len(text) {
			if v, err := strconv.ParseUint(text[i:i+4], 16, 16); err == nil {
				note(rune(v))
			}
		}
	}
	var free []rune
	for c := rune(first); c <= last && len(free) < most; c++ {
		if !used[c] {
			free = append(free, c)
		}
	}
	return free
}

// likelyNodes estimates how many values and keys a YAML file has, from the characters
// that come before them. The estimate is rather too high: text that looks like
// values counts as values. A file with too many is never given to the library,
// which makes a few hundred bytes of each.
func likelyNodes(text string) int {
	var inBraces [MaxDepth]bool // by depth, of flow style
	depth := 0
	n := 1
	// ends reports whether an indicator may end at a place.
	ends := func(i int) bool { return i >= len(text) || strings.IndexByte(" \t\n,[]{}", text[i]) >= 0 }
	for i := range len(text) {
		switch text[i] {
		case '&', '*', '!':
			// An anchor, alias or tag takes twice what a value does, and many may
			// stand before one, or before a mistake.
			if !ends(i+1) && (i == 0 || ends(i-1)) {
				n += 2
			}
		case '"', '\'':
			// So may quoted texts with nothing between them.
			if i > 1 && text[i-1] == ' ' && (text[i-2] == '"' || text[i-2] == '\'') {
				n += 2
			}
		case '-':
			if ends(i+1) && (i == 0 || ends(i-1)) {
				n++
			}
		case '?':
			if ends(i+1) && (i == 0 || ends(i-1)) {
				n += 2
			}
		case ':':
			// Between braces the key and its value count with the character
			// before them.
			if !inBraces[depth] && (ends(i+1) || i > 0 && (text[i-1] == '"' || text[i-1] == '\'')) {
				n += 2
			}
		case ',':
			n++
			if inBraces[depth] {
				n++
			}
		case '[', '{':
			n++
			if depth < MaxDepth-1 {
				depth++
			}
			if inBraces[depth] = text[i] == '{'; inBraces[depth] {
				n++
			}
		case ']', '}':
			depth = max(depth-1, 0)
		}
	}
	return n
}

// surrogates finds the two escapes of one character.
var surrogates = regexp.MustCompile(`\\u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2}`)

// text returns a scalar's text.
func (r *yamlReader) text(n *yaml.Node) string {
	s := n.Value
	if r.backslash != "" && strings.Contains(s, r.backslash) {
		s = strings.ReplaceAll(s, r.backslash, `\`)
		if n.Style&yaml.DoubleQuotedStyle != 0 {
			s = surrogates.ReplaceAllStringFunc(s, func(pair string) string {
				c, _ := jsonEscape(pair)
				return string(c)
			})
		}
	}
	if r.restore != nil {
		s = r.restore.Replace(s)
	}
	return s
}

// directive refuses a file that begins with a directive.
func (r *yamlReader) directive() error {
	line := 1
	for text := range strings.Lines(r.src.text) {
		if text[0] == '%' {
			return r.fail(Position{r.file, line, 1}, "directives such as %%YAML are not supported: leave the line out")
		}
		if text = strings.TrimLeft(text, " \t\n"); text != "" && text[0] != '#' {
			return nil
		}
		line++
	}
	return nil
}

// position returns where a value begins: after its anchor, if it has one.
func (r *yamlReader) position(n *yaml.Node) Position {
	pos := Position{r.file, max(n.Line, 1), max(n.Column, 1)}
	if n.Anchor == "" || missing(n) {
		return pos
	}
	c := r.src
	c.seek(pos.Line, pos.Column)
	c.skip(len("&") + utf8.RuneCountInString(n.Anchor))
	c.skipBlanks()
	return Position{r.file, c.line, c.column}
}

const (
	quotedStyle = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	anyStyle    = quotedStyle | yaml.TaggedStyle
)

// missing reports whether a value is absent.
func missing(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "" && n.Style&anyStyle == 0
}

// node converts a value at a depth.
func (r *yamlReader) node(v *yaml.Node, depth int) (*Node, error) {
	pos := r.position(v)
	if err := r.count(pos); err != nil {
		return nil, err
	}
	if v.Kind == yaml.AliasNode {
		return r.alias(v, pos, depth)
	}
	if v.Style&yaml.TaggedStyle != 0 || v.Tag == "!" {
		if operand, ok := strings.CutPrefix(v.Tag, "!="); ok {
			return nil, r.fail(pos, "!= is no operator of cells: write %s", "not "+operand+strings.TrimSpace(v.Value))
		}
		return nil, r.fail(pos, "explicit tags such as %s are not supported: quote the value if it is text", v.Tag)
	}
	if v.Anchor != "" {
		if strings.Trim(v.Anchor, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
			return nil, r.fail(Position{r.file, v.Line, v.Column}, "&%s can't be an anchor: its name has letters, digits, _ and - (quote it if it is text)", v.Anchor)
		}
		if _, dup := r.anchors[v.Anchor]; dup || r.open[v.Anchor] {
			return nil, r.fail(Position{r.file, v.Line, v.Column}, "the anchor &%s is defined twice", v.Anchor)
		}
		if r.open == nil {
			r.open, r.anchors = make(map[string]bool), make(map[string]*anchor)
		}
		r.open[v.Anchor] = true
	}
	n, err := r.value(v, pos, depth)
	if err == nil && v.Anchor != "" {
		delete(r.open, v.Anchor)
		r.anchors[v.Anchor] = &anchor{n, measure(n)}
	}
	return n, err
}

// value converts a value without regard to its anchor.
func (r *yamlReader) value(v *yaml.Node, pos Position, depth int) (*Node, error) {
	switch v.Kind {
	case yaml.SequenceNode:
		if err := r.checkDepth(depth, pos); err != nil {
			return nil, err
		}
		n := &Node{Shape: Sequence, Pos: pos, Items: make([]*Node, 0, len(v.Content))}
		for i, item := range v.Content {
			child, err := r.node(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.Items = append(n.Items, child)
			v.Content[i] = nil // no longer needed, and large
		}
		return n, nil
	case yaml.MappingNode:
		if err := r.checkDepth(depth, pos); err != nil {
			return nil, err
		}
		return r.mapping(v, pos, depth)
	}
	n := &Node{Shape: Scalar, Pos: pos, Text: r.text(v), Quoted: v.Style&quotedStyle != 0}
	if !n.Quoted && curlyQuoted(n.Text) {
		return nil, r.fail(pos, `curly quotes are text in YAML: write " or ' around the text, or around the quotes if they belong to it`)
	}
	return n, nil
}

func (r *yamlReader) mapping(v *yaml.Node, pos Position, depth int) (*Node, error) {
	n := &Node{Shape: Mapping, Pos: pos, Members: make([]Member, 0, len(v.Content)/2)}
	seen := make(map[string]*Node, len(v.Content)/2)
	for pair := range slices.Chunk(v.Content, 2) {
		key, err := r.key(v, pair[0])
		if err != nil {
			return nil, err
		}
		if v.Style&yaml.FlowStyle != 0 && !key.Quoted && strings.Contains(key.Text, ":") && missing(pair[1]) {
			return nil, r.fail(key.Pos, "a space is missing after the colon in %q; if it is part of the text, quote the text", shorten(key.Text))
		}
		value, err := r.node(pair[1], depth+1)
		if err != nil {
			return nil, err
		}
		if err := r.addMember(n, seen, key, value); err != nil {
			return nil, err
		}
		clear(pair) // no longer needed, and large
	}
	return n, nil
}

// key converts the key of a member of a mapping.
func (r *yamlReader) key(mapping, k *yaml.Node) (*Node, error) {
	pos := Position{r.file, k.Line, k.Column}
	switch {
	case k.Kind == yaml.AliasNode:
		return nil, r.fail(pos, "a key can't be an alias: quote it if it begins with *")
	case k.Kind == yaml.MappingNode && mapping.Style&k.Style&yaml.FlowStyle != 0 && k.Line == mapping.Line && k.Column == mapping.Column+1:
		return nil, r.fail(r.position(mapping), "a key must be a single plain value: quote text that begins with {{")
	case k.Kind == yaml.MappingNode && k.Style&yaml.FlowStyle == 0:
		return nil, r.fail(pos, "a key must be a single plain value: leave out the question mark before it")
	case k.Kind != yaml.ScalarNode || k.Anchor != "":
		return nil, r.fail(pos, "a key must be a single plain value")
	case k.Value == "<<" && k.Style&anyStyle == 0:
		return nil, r.fail(pos, "merge keys (<<) are not supported: write the members out")
	case missing(k):
		return nil, r.fail(pos, "a key is missing before the colon")
	}
	if what := Hidden(r.text(k)); what != "" && k.Style&anyStyle == 0 {
		return nil, r.fail(pos, "the name %q has %s in it: delete it", r.text(k), what)
	}
	return r.node(k, 1)
}

func (r *yamlReader) alias(v *yaml.Node, pos Position, depth int) (*Node, error) {
	a := r.anchors[v.Value]
	if a == nil {
		// The library reports an alias that is not defined.
		return nil, r.fail(pos, "the alias *%s stands inside the value it names", v.Value)
	}
	r.aliased.nodes += a.size.nodes
	r.aliased.bytes += a.size.bytes
	if r.aliased.nodes > MaxAliasedNodes {
		return nil, r.fail(pos, "the aliases of this file repeat more than %d values and keys", MaxAliasedNodes)
	}
	if r.aliased.bytes > MaxAliasedBytes {
		return nil, r.fail(pos, "the aliases of this file repeat more than %d MiB of text", MaxAliasedBytes>>20)
	}
	if a.node.Shape != Scalar {
		if err := r.checkDepth(depth+a.size.height-1, pos); err != nil {
			return nil, err
		}
	}
	return a.node, nil
}

// Size returns how many values and keys a tree has, and how many bytes of text. What
// aliases repeat counts each time.
func (n *Node) Size() (nodes, bytes int) {
	s := measure(n)
	return s.nodes, s.bytes
}

// size is the size of a tree with its aliases expanded.
type size struct {
	nodes, bytes int
	height       int // levels of lists and mappings
}

// measure returns the size of a tree. Its aliases were checked against their ceilings,
// which bounds the walk.
func measure(n *Node) size {
	s := size{nodes: 1, bytes: len(n.Text)}
	add := func(c *Node) {
		child := measure(c)
		s.nodes += child.nodes
		s.bytes += child.bytes
		s.height = max(s.height, child.height)
	}
	for _, c := range n.Items {
		add(c)
	}
	for _, m := range n.Members {
		s.nodes++
		s.bytes += len(m.Key.Text)
		add(m.Value)
	}
	if n.Shape != Scalar {
		s.height++
	}
	return s
}

// curlyQuoted reports whether plain text has the quotes that a word processor makes,
// and was meant to be quoted.
func curlyQuoted(s string) bool {
	first, _ := utf8.DecodeRuneInString(s)
	last, _ := utf8.DecodeLastRuneInString(s)
	return strings.ContainsRune("“”„", first) || strings.ContainsRune("‘’", first) && strings.ContainsRune("‘’", last)
}
