package definition

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/trace"
)

// Past is a set of definitions that was served, as a store keeps it: the data model
// as its file had it, and the contents of the definitions.
type Past struct {
	Revision    string
	Context     []byte // empty where the workspace had no data model
	Definitions []PastDefinition
}

// PastDefinition is one definition of a Past.
type PastDefinition struct {
	Kind    trace.Kind
	Key     string
	Version string
	Content []byte // as Definition.Content returned it
}

// errOtherRevision is the reason why files of a Past can't be used.
var errOtherRevision = errors.New("this version of Cadenza reads its definitions otherwise than the one that served them")

// Load builds the set again, in memory, as it was served: the same revision and the
// same versions. Its targets are not checked for the providers of a gateway, and its
// tables are not analysed.
func (p *Past) Load() (*Snapshot, error) {
	s, _, err := p.load()
	return s, err
}

// load builds the set and returns its files.
func (p *Past) load() (*Snapshot, *directory, error) {
	files, err := p.files()
	if err != nil {
		return nil, nil, err
	}
	// JSON says nothing of whether a scalar of a cell was quoted, so the name of
	// the data model matters. The store does not have it.
	names := []string{"context.yaml"}
	if json.Valid(p.Context) {
		names = []string{"context.json", "context.yaml"}
	}
	for _, name := range names {
		d := &directory{dir: "revision " + p.Revision, files: files, past: true}
		if len(p.Context) > 0 {
			d.context = &source{path: name, data: p.Context, size: int64(len(p.Context))}
		}
		var s *Snapshot
		s, err = load(context.Background(), d.clone(), new(memory), runtime.GOMAXPROCS(0), nil, new(document.Errors))
		if err == nil {
			err = p.check(s)
		}
		if err == nil {
			return s, d, nil
		}
	}
	return nil, nil, err
}

// clone copies the directory for a loading, which frees the texts.
func (d *directory) clone() *directory {
	c := *d
	c.files = make([]*source, len(d.files))
	for i, f := range d.files {
		copied := *f
		c.files[i] = &copied
	}
	return &c
}

// check reports an error unless a set is the past one.
func (p *Past) check(s *Snapshot) error {
	versions := make(map[trace.Kind]map[string]string)
	for d := range s.All() {
		if versions[d.Kind] == nil {
			versions[d.Kind] = make(map[string]string)
		}
		versions[d.Kind][d.Key] = d.Version
	}
	for _, d := range p.Definitions {
		if got := versions[d.Kind][d.Key]; got != d.Version {
			return fmt.Errorf("revision %s: the %s %s comes out as version %s and not as %s: %w", p.Revision, noun(d.Kind), d.Key, got, d.Version, errOtherRevision)
		}
	}
	if s.Revision != p.Revision {
		return fmt.Errorf("revision %s comes out as %s: %w", p.Revision, s.Revision, errOtherRevision)
	}
	return nil
}

// files returns the files of the definitions.
func (p *Past) files() ([]*source, error) {
	files := make([]*source, 0, len(p.Definitions))
	taken := make(map[string]bool) // in lower case: some disks do not tell cases apart
	for _, d := range p.Definitions {
		base, named := fileName(d.Kind, d.Key)
		if named && taken[strings.ToLower(base)] {
			base, named = otherName(d.Kind, d.Key), false
		}
		taken[strings.ToLower(base)] = true
		key := d.Key
		if named {
			key = ""
		}
		ext, data, err := writeContent(d.Kind, d.Key, key, d.Content)
		if err != nil {
			return nil, fmt.Errorf("the %s %s, version %s: %w", noun(d.Kind), d.Key, d.Version, err)
		}
		files = append(files, &source{path: base + ext, kind: d.Kind, key: defaultKey(base), data: data, size: int64(len(data))})
	}
	return files, nil
}

// plainName matches the names of files and folders that mean the same everywhere.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$`)

// fileName returns the path of a definition's file without its extension, and
// whether its key is that path.
func fileName(kind trace.Kind, key string) (base string, named bool) {
	parts := strings.Split(key, "/")
	for i, part := range parts {
		_, isFile := definitionName(part)
		if !plainName.MatchString(part) || hidden(part) || strings.HasSuffix(part, ".") || isFile && i < len(parts)-1 {
			return otherName(kind, key), false
		}
	}
	if len(parts) >= maxFolders || !filepath.IsLocal(filepath.FromSlash(key)) {
		return otherName(kind, key), false
	}
	return path.Join(kind.Folder(), key), true
}

// otherName returns a name for a definition whose key is no name of a file: what the
// key begins with, and a hash.
func otherName(kind trace.Kind, key string) string {
	sum := sha256.Sum256([]byte(key))
	begin := strings.Map(func(r rune) rune {
		if strings.ContainsRune("._:/", r) {
			return '_'
		}
		return r
	}, key[:min(len(key), 40)])
	return path.Join(kind.Folder(), begin+"-"+hex.EncodeToString(sum[:6]))
}

// WriteTo writes the set into a folder that does not exist, or is empty. The folder
// appears when it is complete, and was loaded as the same revision. written is false
// where the folder loads as that revision already.
func (p *Past) WriteTo(dir string) (written bool, err error) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return false, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if len(entries) > 0 {
		if s, err := loadPast(dir); err == nil && s.Revision == p.Revision {
			return false, nil
		}
		return false, fmt.Errorf("%s is not empty, and is not revision %s: nothing was written", dir, p.Revision)
	}
	_, d, err := p.load()
	if err != nil {
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return false, err
	}
	// Beside the folder, so that renaming it is one step.
	staged, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(staged) }()
	if d.context != nil {
		d.files = append(d.files, d.context)
	}
	for _, f := range d.files {
		name := filepath.Join(staged, filepath.FromSlash(f.path))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return false, err
		}
		if err := os.WriteFile(name, f.data, 0o644); err != nil {
			return false, err
		}
	}
	s, err := loadPast(staged)
	if err == nil {
		err = p.check(s)
	}
	if err != nil {
		return false, fmt.Errorf("what was written can't be used: %w", err)
	}
	if err := os.Chmod(staged, 0o755); err != nil {
		return false, err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, os.Rename(staged, dir)
}

// loadPast loads a folder as Past.Load does.
func loadPast(dir string) (*Snapshot, error) {
	var errs document.Errors
	d := readDirectory(dir, nil, &errs)
	d.past = true
	return load(context.Background(), d, new(memory), runtime.GOMAXPROCS(0), nil, &errs)
}

// cellMembers are the members of a content that cellValue wrote. All others are JSON
// values.
var cellMembers = []string{"columns", "matrix", "rules", "hit", "merge", "prompt"}

// writeContent writes a canonical content as a file of a definition: YAML or, where
// only JSON can say the same, JSON. A key that is not empty becomes a member.
//
// The content of a cell is the text as it was written, so that the quotes of a file
// can be told from those of the text:
//
//	content         YAML
//	pro             pro
//	"\"any\""       "any"
//	1.10            1.10
//	null            null
//
// In JSON all text is quoted: "*.be" is a pattern there, and text in YAML.
func writeContent(kind trace.Kind, defKey, key string, canonical []byte) (ext string, data []byte, err error) {
	var errs document.Errors
	n := document.Parse("content.json", canonical, &errs)
	if err := errs.Err(); err != nil {
		return "", nil, err
	}
	if n == nil || n.Shape != document.Mapping {
		return "", nil, errors.New("the content is no mapping")
	}
	def := arrange(kind, defKey, key, n)
	data = (&yamlWriter{}).file(def)
	if saysSame(def, "x.yaml", data) {
		return ".yaml", data, nil
	}
	if data = jsonFile(def); saysSame(def, "x.json", data) {
		return ".json", data, nil
	}
	return "", nil, errors.New("the content can be written neither as YAML nor as JSON")
}

// memberOrder is the order in which people expect members; others follow in that of
// the content.
var memberOrder = []string{
	"key", "id", "name", "history", "role", "text", "image", "audio", "file", "type", "prompt", "provider", "model", "log", "default", "merge", "schema", "variables", "when", "columns", "matrix", "rules",
}

// arrange makes the definition of a content: its members in a fixed order, and a
// prompt's only variant as the prompt itself.
func arrange(kind trace.Kind, defKey, key string, n *document.Node) *document.Node {
	def := &document.Node{Shape: document.Mapping}
	variants := n.Get("variants")
	single := kind == trace.KindPrompt && variants.Get(defKey) != nil && len(variants.Members) == 1
	for _, m := range n.Members {
		name := m.Key.Text
		switch {
		case name == "kind": // the folder says it
		case slices.Contains(cellMembers, name):
			def.Members = append(def.Members, document.Member{Key: m.Key, Value: cellNode(m.Value)})
		case name == "variables" && len(m.Value.Members) == 0: // always in the content
		case single && name == "default":
		case single && name == "variants":
			def.Members = append(def.Members, variant(m.Value.Members[0]).Members...)
		case name == "variants":
			all := &document.Node{Shape: document.Mapping}
			for _, v := range m.Value.Members {
				all.Members = append(all.Members, document.Member{Key: v.Key, Value: variant(v)})
			}
			def.Members = append(def.Members, document.Member{Key: m.Key, Value: all})
		default:
			def.Members = append(def.Members, document.Member{Key: m.Key, Value: m.Value})
		}
	}
	if key != "" {
		def.Members = append(def.Members, document.Member{Key: &document.Node{Shape: document.Scalar, Text: "key"}, Value: &document.Node{Shape: document.Scalar, Text: key, Quoted: true}})
	}
	sortMembers(def)
	return def
}

// variant returns a variant without a name that is its key.
func variant(m document.Member) *document.Node {
	own := &document.Node{Shape: document.Mapping}
	for _, member := range m.Value.Members {
		if member.Key.Text != "name" || member.Value.Text != m.Key.Text {
			own.Members = append(own.Members, member)
		}
	}
	return own
}

// sortMembers sorts the members of mappings as memberOrder has them. A model may
// read schemas in their order, so that of tools and formats stays.
func sortMembers(n *document.Node) {
	rank := func(m document.Member) int {
		i := slices.Index(memberOrder, m.Key.Text)
		switch {
		case i >= 0:
			return i
		case m.Key.Text == "messages": // the longest
			return len(memberOrder) + 1
		}
		return len(memberOrder)
	}
	slices.SortStableFunc(n.Members, func(a, b document.Member) int { return rank(a) - rank(b) })
	for _, item := range n.Items {
		sortMembers(item)
	}
	for _, m := range n.Members {
		if m.Key.Text != "tools" && m.Key.Text != "responseFormat" {
			sortMembers(m.Value)
		}
	}
}

// cellNode returns a node of which cellValue makes the content.
func cellNode(n *document.Node) *document.Node {
	out := &document.Node{Shape: n.Shape}
	for _, item := range n.Items {
		out.Items = append(out.Items, cellNode(item))
	}
	for _, m := range n.Members {
		out.Members = append(out.Members, document.Member{Key: m.Key, Value: cellNode(m.Value)})
	}
	if n.Shape == document.Scalar {
		out.Text = n.Text // also null, which is not quoted
		if text, err := strconv.Unquote(n.Text); err == nil && strings.HasPrefix(n.Text, `"`) {
			out.Text, out.Quoted = text, true
		}
	}
	return out
}

// saysSame reports whether a file of the name and data has the same members.
func saysSame(def *document.Node, name string, data []byte) bool {
	var errs document.Errors
	n := document.Parse(name, data, &errs)
	if errs.Len() > 0 || n == nil || len(n.Members) != len(def.Members) {
		return false
	}
	for i, want := range def.Members {
		got := n.Members[i]
		if got.Key.Text != want.Key.Text {
			return false
		}
		if slices.Contains(cellMembers, want.Key.Text) {
			if !bytes.Equal(canonicalJSON(cellValue(got.Value)), canonicalJSON(cellValue(want.Value))) {
				return false
			}
		} else if !bytes.Equal(got.Value.AppendJSON(nil, &errs), want.Value.AppendJSON(nil, &errs)) || errs.Len() > 0 {
			return false
		}
	}
	return true
}
