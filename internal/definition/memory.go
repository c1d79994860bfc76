package definition

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// memory is the state that one loading of a directory keeps for the next, so that an
// edit costs no more than the definitions edited. A file with the same content is not
// parsed again, and a definition with the same file, data model and references is not
// built again. The result is that of a loading without memory. One loading at a time
// uses it; the zero value remembers nothing.
//
// It keeps the texts and the syntax trees, which take about as much memory as the
// snapshot and make an edit of the data model cheaper, too.
type memory struct {
	files   map[string]*file // by path below the directory
	context *file            // the file that model was decoded from, or nil
	model   *rules.Model     // nil after a mistake in it
	gateway []string         // the fields of the gateway that model has been given
}

// file is a file's parsed content.
type file struct {
	trace.File                // node holds parts of its content
	node       *document.Node // nil for a file with a mistake
	// table is the CSV file that is the matrix, if any, and whole is node with its
	// rows, or nil where either has a mistake.
	table *file
	whole *document.Node
	errs  document.Errors // its mistakes
	keys  []string        // that a file with a mistake gives, as far as its text shows
	// gateway are the gateway's fields that its tables, or segments, name.
	gateway []*document.Node
	// Its values and keys, including the ones that its aliases repeat.
	nodes, bytes int
	// built is the definition in it, or nil where it has a mistake or refers to a
	// definition that does not exist.
	built *built
}

// built is a definition with everything that it was built from besides its
// file.
type built struct {
	definition any // *Prompt, *Endpoint or *RemoteConfig
	size       int // of its content, in bytes
	patterns   int // of its table
	rollouts   []readRollout
	model      *rules.Model
	refs       []ref
	warnings   []Warning // from its decoding
	tests      int       // how many it has, where all passed
	passed     bool
	analysis   *analysis // of its table, nil before it is done
}

// ref is a definition that another one refers to.
type ref struct {
	kind   *kind.Kind
	key    string
	target *Definition
}

// keyMember matches the key that a text that can't be parsed may have, in YAML or
// JSON.
var keyMember = regexp.MustCompile(`(?m)^[\s{"']*key["']?\s*:\s*["']?([A-Za-z0-9._:/-]{1,256})`)

// remembered returns a file's parsed content: that of the last loading where the
// file has not changed, otherwise from parse.
func (m *memory) remembered(s *source, parse func(text string, errs *document.Errors) *document.Node) *file {
	hash := hashOf(s.data)
	if f := m.files[s.path]; f != nil && f.Hash == hash {
		return f
	}
	f := &file{File: trace.File{Path: s.path, Hash: hash, Content: string(s.data)}}
	if f.node = parse(f.Content, &f.errs); f.node != nil {
		f.nodes, f.bytes = f.node.Size()
		f.gateway = gatewayFields(f.node, s.name(f.node))
	} else {
		const some = 10 // a text with more is no definition
		for _, m := range keyMember.FindAllStringSubmatch(f.Content, some) {
			f.keys = append(f.keys, m[1])
		}
	}
	return f
}

// name returns what traces call the definition in a file, "" for another file.
func (s *source) name(n *document.Node) string {
	switch key := n.Get("key"); {
	case s.kind == nil:
		return ""
	case key != nil:
		return s.kind.Folder + "/" + key.Text
	}
	return s.kind.Folder + "/" + s.key
}

// hashOf returns the hash of a trace.File.
func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// decodeModel decodes the data model unless it is that of the last loading, and the
// tables name the same fields of the gateway.
func (l *loader) decodeModel() *rules.Model {
	l.warnShadowed()
	gateway := l.gatewayNames()
	for _, name := range gateway {
		l.next.gateway = append(l.next.gateway, name.Text)
	}
	if last := l.last; last.model != nil && last.context == l.next.context && slices.Equal(last.gateway, l.next.gateway) {
		l.next.model = last.model
		l.remark(last.model.Remarks())
		return last.model
	}
	before := l.errs.Len()
	m := rules.DecodeModel(l.model, gateway, l.errs)
	l.remark(m.Remarks())
	if l.errs.Len() == before {
		l.next.model = m
	}
	return m
}

// compiled is a definition of any kind.
type compiled interface {
	base() *Definition
	size() int
}

// buildOne decodes a definition unless all that it is built from is unchanged.
func buildOne[T any](l *loader, d *doc, errs *document.Errors, decode func(*loader, *doc, *document.Errors) *T) *T {
	if b := d.file.built; b != nil && b.model == l.snapshot.Model && l.sameRefs(b.refs) {
		if t, ok := b.definition.(*T); ok {
			d.definition = any(t).(compiled).base()
			l.growContent(d, b.size, errs)
			l.growPatterns(b.patterns)
			return t
		}
	}
	d.fresh, d.file.built = true, nil
	before := errs.Len()
	t := decode(l, d, errs)
	d.definition = any(t).(compiled).base()
	size := any(t).(compiled).size()
	l.growContent(d, size, errs)
	l.growPatterns(d.patterns)
	if errs.Len() == before && !d.unresolved {
		d.file.built = &built{definition: t, size: size, patterns: d.patterns, rollouts: d.rollouts, model: l.snapshot.Model, refs: d.refs}
	}
	return t
}

// refer records a reference of a definition.
func (l *loader) refer(d *doc, k *kind.Kind, key *document.Node, found bool) {
	if !found {
		d.unresolved = true
		return
	}
	d.refs = append(d.refs, ref{k, key.Text, l.byKey[k][key.Text].definition})
}

// sameRefs reports whether references lead to the same definitions as before. It
// builds remote configurations that are not built yet.
func (l *loader) sameRefs(refs []ref) bool {
	for _, r := range refs {
		d := l.byKey[r.kind][r.key]
		if d == nil {
			return false
		}
		if r.kind == kind.RemoteConfig {
			if l.cycle(d.key) != "" {
				return false
			}
			l.config(d, l.errs)
		}
		if d.definition != r.target {
			return false
		}
	}
	return true
}

// keepWarnings keeps the warnings of the definitions that were decoded and adds those
// of the definitions that were not.
func (l *loader) keepWarnings() {
	fresh := make(map[string]*built)
	var again []Warning
	for _, docs := range l.docs {
		for _, d := range docs {
			switch b := d.file.built; {
			case b == nil:
			case d.fresh:
				fresh[d.node.Pos.File] = b
				if t := d.file.table; t != nil {
					fresh[l.file(t.Path)] = b
				}
			default:
				again = append(again, b.warnings...)
			}
		}
	}
	for _, w := range l.found {
		if b := fresh[w.Pos.File]; b != nil {
			b.warnings = append(b.warnings, w)
		}
	}
	l.found = append(l.found, again...)
}

// testOnce runs the tests of a definition unless it passed them before.
func (l *loader) testOnce(d *doc, errs *document.Errors) {
	b := d.file.built
	if b != nil && b.passed {
		l.tests.Add(int64(b.tests))
		return
	}
	before := errs.Len()
	loadings[d.kind].test(l, d, errs)
	if b != nil && errs.Len() == before {
		b.passed, b.tests = true, len(d.node.Get("tests").Items)
	}
}
