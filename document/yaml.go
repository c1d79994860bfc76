package document

import (
	"bytes"
	"errors"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// yamlReader builds nodes from goccy's syntax tree. It reads the text of the
// tokens, never the values goccy would make of them.
type yamlReader struct {
	builder
	anchors map[string]*anchor
	open    map[string]bool // anchors whose value is being read
	aliased int             // nodes repeated by aliases so far
}

// anchor is a named value and what repeating it costs.
type anchor struct {
	node          *Node
	nodes, height int
}

func parseYAML(file string, data []byte, errs *Errors) (n *Node) {
	r := &yamlReader{
		builder: builder{file, errs},
		anchors: make(map[string]*anchor),
		open:    make(map[string]bool),
	}
	defer func() {
		// The parser is not ours, and some malformed input makes it panic.
		if p := recover(); p != nil {
			errs.AddAt(Position{file, 1, 1}, "the file is not readable as YAML: %v", p)
			n = nil
		}
	}()
	// Line breaks mean the same in all three forms (YAML 1.2, section 5.4).
	if bytes.IndexByte(data, '\r') >= 0 {
		data = bytes.ReplaceAll(data, []byte("\r\n"), []byte{'\n'})
		data = bytes.ReplaceAll(data, []byte{'\r'}, []byte{'\n'})
	}
	tokens := lexer.Tokenize(string(data))
	if r.checkTokens(tokens) != nil {
		return nil
	}
	// Duplicates are found here: the parser stops at the first, and compares
	// whole paths, which confuses a key a.b with b below a.
	tokens, err := r.audit(string(data), tokens)
	if err != nil {
		return nil
	}
	tree, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntaxError(err)
		return nil
	}
	for _, doc := range tree.Docs {
		if doc.Body == nil {
			continue
		}
		if n != nil {
			_ = r.fail(r.position(doc.Body.GetToken()), "a second document begins here: one file holds one definition")
			return nil
		}
		if n, err = r.node(doc.Body, 1); err != nil {
			return nil
		}
	}
	return n
}

// syntaxError reports the parser's message without its dump of the source.
func (r *yamlReader) syntaxError(err error) {
	pos := Position{r.file, 1, 1}
	message := err.Error()
	if e, ok := errors.AsType[yaml.Error](err); ok {
		message = e.GetMessage()
		if tk := e.GetToken(); tk != nil {
			pos = r.position(tk)
			if tk.Type == token.AliasType || tk.Prev != nil && tk.Prev.Type == token.AliasType {
				message += `: a plain value can't begin with *, quote it ("*")`
			} else if tk.Type == token.MappingStartType && tk.Next != nil && tk.Next.Type == token.MappingStartType ||
				tk.Type == token.MappingStartType && tk.Prev != nil && tk.Prev.Type == token.MappingStartType {
				message += `: quote text that begins with {{`
			}
		}
	}
	_ = r.fail(pos, "invalid YAML: %s", message)
}

func (r *yamlReader) position(tk *token.Token) Position {
	if tk == nil || tk.Position == nil {
		return Position{r.file, 1, 1}
	}
	return Position{r.file, max(tk.Position.Line, 1), max(tk.Position.Column, 1)}
}

// checkTokens bounds nesting and the size of mappings before the parser runs:
// it recurses for every level, and for every member of a block mapping.
func (r *yamlReader) checkTokens(tokens token.Tokens) error {
	var (
		flow    int             // open [ and {
		run     int             // nested indicators since the last value
		line    int             // the line of the last token
		members = map[int]int{} // block mappings' members by column
		columns []int           // the keys of members, ascending
	)
	for i, tk := range tokens {
		pos := r.position(tk)
		if pos.Line != line && flow == 0 {
			line = pos.Line
			for len(columns) > 0 && columns[len(columns)-1] > pos.Column {
				delete(members, columns[len(columns)-1])
				columns = columns[:len(columns)-1]
			}
		}
		switch tk.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
			run++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(flow-1, 0)
			run = 0
		case token.SequenceEntryType, token.MappingKeyType, token.TagType, token.AnchorType:
			run++
		case token.MappingValueType:
			run++
			if flow > 0 || i == 0 {
				break
			}
			column := r.position(tokens[i-1]).Column
			if members[column] == 0 {
				columns = append(columns, column)
			}
			if members[column]++; members[column] > MaxMembers {
				return r.fail(pos, "a mapping has more than %d members", MaxMembers)
			}
		default:
			if i == 0 || tokens[i-1].Type != token.AnchorType {
				run = 0
			}
		}
		if flow > MaxDepth || run > MaxDepth {
			return r.checkDepth(MaxDepth+1, pos)
		}
	}
	return nil
}

// node converts a value that stands depth levels deep.
func (r *yamlReader) node(v ast.Node, depth int) (*Node, error) {
	pos := r.position(v.GetToken())
	if err := r.checkDepth(depth, pos); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case *ast.MappingNode:
		return r.mapping(pos, v.Values, v.GetToken().Type == token.MappingStartType, depth)
	case *ast.MappingValueNode:
		return r.mapping(pos, []*ast.MappingValueNode{v}, false, depth)
	case *ast.SequenceNode:
		n := &Node{Kind: Sequence, Pos: pos, Items: make([]*Node, 0, len(v.Values))}
		for _, item := range v.Values {
			child, err := r.node(item, depth+1)
			if err != nil {
				return nil, err
			}
			n.Items = append(n.Items, child)
		}
		return n, nil
	case *ast.AnchorNode:
		return r.anchor(v, depth)
	case *ast.AliasNode:
		return r.alias(v, depth)
	case *ast.LiteralNode:
		return &Node{Kind: Scalar, Pos: pos, Text: v.Value.Value, Quoted: true}, nil
	case *ast.NullNode:
		n := &Node{Kind: Scalar, Pos: pos}
		if tk := v.GetToken(); tk.Type != token.ImplicitNullType {
			n.Text = tk.Value
		}
		return n, nil
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		tk := v.GetToken()
		quoted := tk.Type == token.SingleQuoteType || tk.Type == token.DoubleQuoteType
		return &Node{Kind: Scalar, Pos: pos, Text: tk.Value, Quoted: quoted}, nil
	case *ast.TagNode:
		return nil, r.fail(pos, "explicit tags such as %s are not supported: quote the value if it is text", v.GetToken().Value)
	case *ast.DirectiveNode:
		return nil, r.fail(pos, "directives such as %%YAML are not supported: leave the line out")
	}
	return nil, r.fail(pos, "unsupported YAML: %s", v.Type().YAMLName())
}

func (r *yamlReader) mapping(pos Position, values []*ast.MappingValueNode, flow bool, depth int) (*Node, error) {
	n := &Node{Kind: Mapping, Pos: pos, Members: make([]Member, 0, len(values))}
	seen := make(map[string]*Node, len(values))
	for i, mv := range values {
		key, err := r.key(mv.Key)
		if err != nil {
			return nil, err
		}
		if i == 0 && !flow {
			n.Pos = key.Pos // the parser gives the place of the colon
		}
		value, err := r.node(mv.Value, depth+1)
		if err != nil {
			return nil, err
		}
		r.addMember(n, seen, key, value)
	}
	return n, nil
}

// key converts the key of a member.
func (r *yamlReader) key(k ast.MapKeyNode) (*Node, error) {
	switch k := k.(type) {
	case *ast.MergeKeyNode:
		return nil, r.fail(r.position(k.GetToken()), "merge keys (<<) are not supported: write the members out")
	case *ast.MappingKeyNode:
		inner, ok := k.Value.(ast.MapKeyNode)
		if !ok {
			return nil, r.fail(r.position(k.GetToken()), "a key must be a single plain value")
		}
		return r.key(inner)
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode,
		*ast.InfinityNode, *ast.NanNode, *ast.LiteralNode:
		return r.node(k, 1)
	case *ast.AliasNode:
		return nil, r.fail(r.position(k.GetToken()), "a key can't be an alias: quote it if it begins with *")
	}
	return nil, r.fail(r.position(k.GetToken()), "a key must be a single plain value")
}

func (r *yamlReader) anchor(v *ast.AnchorNode, depth int) (*Node, error) {
	pos := r.position(v.GetToken())
	name := v.Name.GetToken().Value
	if _, dup := r.anchors[name]; dup || r.open[name] {
		return nil, r.fail(pos, "the anchor &%s is defined twice", name)
	}
	if v.Value == nil {
		return nil, r.fail(pos, "the anchor &%s has no value", name)
	}
	r.open[name] = true
	n, err := r.node(v.Value, depth)
	delete(r.open, name)
	if err != nil {
		return nil, err
	}
	nodes, height := measure(n)
	r.anchors[name] = &anchor{n, nodes, height}
	return n, nil
}

func (r *yamlReader) alias(v *ast.AliasNode, depth int) (*Node, error) {
	pos := r.position(v.GetToken())
	name := v.Value.GetToken().Value
	a, ok := r.anchors[name]
	if !ok {
		if r.open[name] {
			return nil, r.fail(pos, "the alias *%s stands inside the value it names", name)
		}
		return nil, r.fail(pos, "*%s is read as a YAML alias and no anchor &%s stands before it: if it is text or a pattern, quote it (\"*%s\")", name, name, strings.TrimSpace(name))
	}
	r.aliased += a.nodes
	if r.aliased > MaxAliasedNodes {
		return nil, r.fail(pos, "the aliases of this file repeat more than %d values", MaxAliasedNodes)
	}
	if err := r.checkDepth(depth+a.height-1, pos); err != nil {
		return nil, err
	}
	return a.node, nil
}

// measure counts the nodes of a tree and its levels. Aliases in it have been
// counted against the budget, which bounds the walk.
func measure(n *Node) (nodes, height int) {
	nodes = 1
	add := func(c *Node) {
		k, h := measure(c)
		nodes += k
		height = max(height, h)
	}
	for _, c := range n.Items {
		add(c)
	}
	for _, m := range n.Members {
		add(m.Value)
	}
	return nodes, height + 1
}
