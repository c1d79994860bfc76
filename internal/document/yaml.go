package document

import (
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// yamlReader builds nodes from the library's. It uses the text of scalars, and never
// the types that the library gives them.
type yamlReader struct {
	builder
	src     *cursor
	stoodIn bool // texts have characters that stand in for others
	anchors map[string]*anchor
	open    map[string]bool // anchors whose value is being read
	aliased size            // repeated by aliases so far
}

// anchor is a named value with the size of its repetition.
type anchor struct {
	node *Node
	size size
}

// yamlLimits makes the library refuse files that would make it recurse without end.
// The library does not expand aliases; they are counted here.
var yamlLimits = yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(MaxDepth), loaderlimits.AliasNone()))

// parseYAML reads a file. The library makes a tree of several hundred bytes for each
// value, so a file with too many is never given to it.
func parseYAML(file, data string, errs *Errors) (n *Node) {
	// Line breaks mean the same in all three forms (YAML 1.2, section 5.4).
	data = unixLines(data)
	r := &yamlReader{builder: builder{file: file, errs: errs, limit: MaxYAMLNodes, instead: "write it as JSON, its matrix as a CSV file, or split it"}}
	if i := strings.IndexFunc(data, unprintable); i >= 0 {
		c, _ := utf8.DecodeRuneInString(data[i:])
		_ = r.fail(offsetPosition(file, data, i), "control character U+%04X: write it as an escape in a double-quoted string", c)
		return nil
	}
	if r.tooMany(data) {
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

// tooMany reports a file that has too many values and keys by the characters that
// come before them, and returns whether it did. It counts too few if values are
// absent or keys stand between braces; mapping and list count these.
func (r *yamlReader) tooMany(data string) bool {
	count := 0
	for i := range len(data) {
		switch data[i] {
		case ',', '[', '{', '&', '*', '!':
			count++
		case '-', ':', '?':
			if i+1 == len(data) || data[i+1] == ' ' || data[i+1] == '\n' {
				count++
			}
		case '"', '\'':
			// The library keeps a line of quoted texts with nothing between them.
			if i > 1 && data[i-1] == ' ' && (data[i-2] == '"' || data[i-2] == '\'') {
				count++
			}
		}
		if count > r.limit {
			_ = r.overfull(offsetPosition(r.file, data, i))
			return true
		}
	}
	return false
}

// The characters that the library reads by the rules of YAML 1.1
// (https://yaml.org/spec/1.1/: as line breaks, or not at all), a backslash for the pairs
// of escapes by which JSON writes one character, and their replacements. No text has
// these: they are Unicode's noncharacters.
const (
	oldBreaks = "\u0085\u2028\u2029\ufeff"
	backslash = "\ufdd4"
	standIns  = "\ufdd0\ufdd1\ufdd2\ufdd3" + backslash
)

var (
	hide    = strings.NewReplacer("\u0085", "\ufdd0", "\u2028", "\ufdd1", "\u2029", "\ufdd2", "\ufeff", "\ufdd3")
	restore = strings.NewReplacer("\ufdd0", "\u0085", "\ufdd1", "\u2028", "\ufdd2", "\u2029", "\ufdd3", "\ufeff", backslash, `\`)
	// standInEscape matches an escape of a character that replaces another.
	standInEscape = regexp.MustCompile(`(?i)\\u(0000)?fdd[0-4]`)
)

// standIn replaces the characters that the library reads by older rules. If the file
// has one of the replacements itself, standIn reports that and returns false.
func (r *yamlReader) standIn(data string) (_ string, ok bool) {
	if !strings.ContainsAny(data, oldBreaks) && !surrogates.MatchString(data) {
		return data, true
	}
	if strings.ContainsAny(data, standIns) || standInEscape.MatchString(data) {
		_ = r.fail(Position{r.file, 1, 1}, "the file has U+0085, U+2028, U+2029, U+FEFF or pairs of escapes, and one of U+FDD0 to U+FDD4, which are no characters: leave the latter out")
		return "", false
	}
	r.stoodIn = true
	data = surrogates.ReplaceAllStringFunc(data, func(pair string) string {
		return strings.ReplaceAll(pair, `\`, backslash)
	})
	return hide.Replace(data), true
}

// surrogates finds the two escapes of one character, hiddenPair those whose
// backslashes were replaced.
var (
	surrogates = regexp.MustCompile(`\\u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2}`)
	hiddenPair = regexp.MustCompile(strings.ReplaceAll(surrogates.String(), `\\`, backslash))
)

// text returns a scalar's text.
func (r *yamlReader) text(n *yaml.Node) string {
	if !r.stoodIn {
		return n.Value
	}
	s := n.Value
	if n.Style&yaml.DoubleQuotedStyle != 0 {
		s = hiddenPair.ReplaceAllStringFunc(s, func(pair string) string {
			c, _ := jsonEscape(strings.ReplaceAll(pair, backslash, `\`))
			return string(c)
		})
	}
	return restore.Replace(s)
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

// position returns the position of a value: after its anchor, if it has one.
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
	if hidden := Hidden(r.text(k)); hidden != "" && k.Style&anyStyle == 0 {
		return nil, r.fail(pos, "the name %q has %s in it: delete it", r.text(k), hidden)
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
