package document

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
	"go.yaml.in/yaml/v3"
)

// reference is another reader of YAML. It outlines a document in the form of
// outline.
type reference struct {
	name string
	read func(data string) (out string, err error)
	// tame leaves out of the documents what it is known to misread.
	tame bool
}

// references are the library's predecessor, which knows nothing that the
// library doesn't, but is frozen, and a reader of another origin. That one
// splits plain text with colons in flow style, drops tabs in it, misreads
// empty blocks and takes dashes for what they are not.
var references = []reference{
	{name: "yaml.v3", read: readV3},
	{name: "goccy", read: readGoccy, tame: true},
}

func readV3(data string) (out string, err error) {
	defer recovered(&err)
	var doc yaml.Node
	dec := yaml.NewDecoder(strings.NewReader(data))
	if err := dec.Decode(&doc); err != nil {
		return "", err
	}
	var b strings.Builder
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		switch n.Kind {
		case yaml.DocumentNode:
			walk(n.Content[0])
		case yaml.AliasNode:
			walk(n.Alias)
		case yaml.SequenceNode:
			separated(&b, "[]", len(n.Content), func(i int) { walk(n.Content[i]) })
		case yaml.MappingNode:
			separated(&b, "{}", len(n.Content)/2, func(i int) {
				walk(n.Content[2*i])
				b.WriteByte(':')
				walk(n.Content[2*i+1])
			})
		default:
			if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
				fmt.Fprintf(&b, "%q", n.Value)
			} else {
				b.WriteString(n.Value)
			}
		}
	}
	walk(&doc)
	return b.String(), nil
}

func readGoccy(data string) (out string, err error) {
	defer recovered(&err)
	tree, err := parser.ParseBytes([]byte(data), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return "", err
	}
	var b strings.Builder
	var walk func(n ast.Node)
	pair := func(v *ast.MappingValueNode) {
		walk(v.Key)
		b.WriteByte(':')
		walk(v.Value)
	}
	walk = func(n ast.Node) {
		switch n := n.(type) {
		case *ast.SequenceNode:
			separated(&b, "[]", len(n.Values), func(i int) { walk(n.Values[i]) })
		case *ast.MappingNode:
			separated(&b, "{}", len(n.Values), func(i int) { pair(n.Values[i]) })
		case *ast.MappingValueNode:
			separated(&b, "{}", 1, func(int) { pair(n) })
		case *ast.LiteralNode:
			fmt.Fprintf(&b, "%q", n.Value.Value)
		default:
			switch tk := n.GetToken(); tk.Type {
			case token.SingleQuoteType, token.DoubleQuoteType:
				fmt.Fprintf(&b, "%q", tk.Value)
			case token.ImplicitNullType:
			default:
				b.WriteString(tk.Value)
			}
		}
	}
	for _, doc := range tree.Docs {
		if doc.Body != nil {
			walk(doc.Body)
		}
	}
	return b.String(), nil
}

// recovered makes an error of a panic.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v", p)
	}
}

// separated writes n elements with spaces between them and brackets around
// them.
func separated(b *strings.Builder, brackets string, n int, element func(i int)) {
	b.WriteByte(brackets[0])
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		element(i)
	}
	b.WriteByte(brackets[1])
}

// scribe writes random small documents.
type scribe struct {
	*rand.Rand
	b    strings.Builder
	tame bool
}

var plainTexts = []string{
	"a", "b", "any", "not free", "10..20", "10..<20", "100..", "..20", "-1", "1.10", "012", "~", "null", "true", "x y",
	"2026-01-03T12:00:00Z..", "2026-01-03T12:00:00Z..2026-01-04T00:00:00+01:00", "a:b", "a::b", "http://x/y/z=1", "12:30", "fe80::/10", "10.0.0.0/8",
	"^2.1", "~2.1.3", "pre*", "/^a+$/", "a#b", "20%", "-a", "--", "a-b", "<10", "a>b", "a|b", "a&b", "a*b", "a'b", "it's", "a\"b", "a!", "x@y.z", "=", "<", "<<x", "a{b", "é", "日本", "a\\b", ".", "..", "...", "---", "-", "a -b", "a - b", "a\tb",
}

var quotedTexts = []string{
	`"a"`, `'a'`, `"*"`, `"a: b"`, `'it''s'`, `"\u00e9"`, `"{{x}}"`, `"a, b"`, `'[x]'`, `""`, `''`, `"a # b"`, `"\""`, `'\'`, `"\x41"`, `"a\tb"`, `" a "`, `' '`, `"\e"`, `"\U0001F600"`, `"a  b"`, "\"a\tb\"", `"a:b"`, `"10..20"`,
}

// untamed finds what is left out of tame documents.
var untamed = regexp.MustCompile(`\t|\+|^-|^\.\.\.|:(?:[^ ]|$)`)

func (s *scribe) pick(list ...string) string {
	for {
		text := list[s.IntN(len(list))]
		if !s.tame || !untamed.MatchString(text) {
			return text
		}
	}
}

func (s *scribe) scalar() {
	if s.IntN(3) == 0 {
		s.b.WriteString(s.pick(quotedTexts...))
		return
	}
	s.b.WriteString(s.pick(plainTexts...))
}

func (s *scribe) space() {
	s.b.WriteString(s.pick("", "", " ", " ", " ", " ", "  ", "\n   ", "\n      ", " # c\n    ", "\t"))
}

func (s *scribe) flow(depth int) {
	switch k := s.IntN(7); {
	case depth == 0 || k < 3:
		s.scalar()
	case k < 5:
		s.b.WriteByte('[')
		s.list(depth)
		s.b.WriteByte(']')
	default:
		s.b.WriteByte('{')
		s.list(-depth)
		s.b.WriteByte('}')
	}
}

// list writes the elements of a flow list or, for a negative depth, the
// members of a flow mapping.
func (s *scribe) list(depth int) {
	s.space()
	n := s.IntN(4)
	for i := range n {
		if depth < 0 || s.IntN(12) == 0 {
			s.scalar()
			if s.IntN(12) > 0 {
				s.b.WriteString(s.pick(": ", ": ", ": ", ": ", ":", " : ", ":\n     "))
				s.flow(max(depth, -depth) - 1)
			}
		} else {
			s.flow(depth - 1)
		}
		s.space()
		if i < n-1 || s.IntN(10) == 0 {
			s.b.WriteByte(',')
			s.space()
		}
	}
}

func (s *scribe) block(indent, depth int) {
	pad := strings.Repeat(" ", indent)
	switch k := s.IntN(8); {
	case depth > 0 && k < 2:
		for range 1 + s.IntN(3) {
			s.b.WriteString(pad + "-" + s.pick(" ", " ", "  "))
			s.value(indent, depth-1)
		}
	default:
		for i := range 1 + s.IntN(3) {
			if s.IntN(6) == 0 {
				s.b.WriteString(pad)
				s.scalar()
			} else {
				fmt.Fprintf(&s.b, "%sk%d", pad, i)
			}
			s.b.WriteString(s.pick(": ", ": ", ": ", ":  ", " : ", ":"))
			s.value(indent, depth-1)
		}
	}
}

// value writes what follows a block mapping's colon or a dash.
func (s *scribe) value(indent, depth int) {
	switch k := s.IntN(10); {
	case depth > 0 && k < 2:
		s.b.WriteString(s.pick("\n", " # c\n", "\n\n"))
		s.block(indent+2, depth-1)
		return
	case k < 3:
		s.b.WriteString(s.pick("|", ">", "|-", ">-", "|+", ">+", "| # c", "|2") + "\n")
		if s.tame {
			s.b.WriteString(strings.Repeat(" ", indent+2) + "a\n")
		}
		for range s.IntN(4) {
			s.b.WriteString(s.pick(strings.Repeat(" ", indent+2)+s.pick("a", "b c", "# d", "a: b", "  x", "{{y}}", "- z"), ""))
			s.b.WriteByte('\n')
		}
		return
	case k < 4:
		s.scalar()
		for range s.IntN(3) {
			s.b.WriteString("\n" + strings.Repeat(" ", indent+1+s.IntN(3)))
			s.scalar()
		}
	default:
		s.flow(3)
	}
	s.b.WriteString(s.pick("\n", "\n", "\n", " # c\n", "\n# c\n", "\n\n", "  \n"))
}

// randomDocument writes one document, the same for a seed every time.
func randomDocument(seed uint64, tame bool) string {
	s := &scribe{Rand: rand.New(rand.NewPCG(seed, 1)), tame: tame}
	if s.IntN(4) == 0 {
		s.flow(4)
		s.b.WriteByte('\n')
	} else {
		s.block(0, 3)
	}
	return s.b.String()
}

// diverges says how a document is read differently from a reference.
func (r reference) diverges(doc string) (how string, accepted bool) {
	want, refused := r.read(doc)
	var errs Errors
	n := Parse("a.yaml", []byte(doc), &errs)
	switch {
	case errs.Len() > 0 || n == nil && want == "":
		return "", false
	case n == nil:
		return "read as nothing, want " + want, false
	case refused != nil && r.tame:
		return "", false // it refuses much that is right
	case refused != nil:
		return fmt.Sprintf("read as %s, %s refuses it: %v", outline(n), r.name, refused), false
	case outline(n) != want:
		return fmt.Sprintf("read as %s, %s reads %s", outline(n), r.name, want), false
	}
	return "", true
}

// TestDifferential reads random documents, of the kind definitions are written
// in, as other readers do. What is refused is told; what is accepted must say
// the same.
func TestDifferential(t *testing.T) {
	for _, r := range references {
		t.Run(r.name, func(t *testing.T) {
			accepted := 0
			for seed := range uint64(randomDocuments) {
				doc := randomDocument(seed, r.tame)
				how, ok := r.diverges(doc)
				if how != "" {
					t.Errorf("seed %d: %q\n%s", seed, doc, how)
				}
				if ok {
					accepted++
				}
			}
			// Most of them are plain YAML: a reader that refused it all would
			// be of no use.
			if accepted < randomDocuments*4/10 {
				t.Errorf("%d of %d documents were accepted", accepted, randomDocuments)
			}
		})
	}
}

// FuzzDifferential compares any text. A few things it leaves out, as the
// reference reads them by older rules: question marks and leading or trailing
// colons within flow collections, some escapes, other line breaks, scalars on
// their own.
func FuzzDifferential(f *testing.F) {
	for seed, added := uint64(0), 0; added < 100; seed++ {
		if doc := randomDocument(seed, false); !leftOut(doc + "\n") {
			f.Add(doc)
			added++
		}
	}
	for _, s := range []string{"{ all: [2026-01-03T12:00:00Z.., x] }", "[{all: [a:b]}]", "a: |2-\n   x\n", "- - >+\n    a\n\n     b\n", "a: b\n  c\n\n  d\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		doc += "\n" // at the end of the file, blanks of a block are read in two ways
		if leftOut(doc) {
			t.Skip("version 3 reads it by rules of its own, or not as a mapping or a list")
		}
		start := time.Now()
		if how, _ := references[0].diverges(doc); how != "" {
			t.Errorf("%q %s", doc, how)
		}
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("%v for %d bytes", d, len(doc))
		}
	})
}

// leftOut reports whether version 3 reads a document by rules of its own, or neither as
// a mapping nor as a list.
func leftOut(doc string) bool {
	want, _ := readV3(doc)
	return !strings.HasPrefix(want, "{") && !strings.HasPrefix(want, "[") || strings.ContainsAny(doc, "?\\%!&*\t\r\u0085\u2028\u2029\ufeff") ||
		strings.Contains(doc, "---") || strings.Contains(doc, "...") || oldColon.MatchString(doc)
}

// oldColon finds colons that YAML 1.1 reads otherwise than 1.2 does.
var oldColon = regexp.MustCompile(`:[,\[\]{}]|[,\[{]\s*:`)
