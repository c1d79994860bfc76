package definition

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/trace"
)

// Past is a set of definitions that was served, with its files as a store keeps them.
type Past struct {
	Revision string
	Since    time.Time // from when on it was served
	Files    []trace.File
}

// Counts counts the definitions and experiments, of which each has a file that is not CSV.
func (p *Past) Counts() Counts {
	counts := make(Counts)
	for _, f := range p.Files {
		if folder, _, nested := strings.Cut(f.Path, "/"); nested && !document.IsCSV(f.Path) {
			counts[kind.InFolder(folder)]++
		}
	}
	return counts
}

// Load builds the set again, in memory, as it was served. Its targets are not checked
// for the providers of a gateway, its tests are not run, and its tables are not
// analysed. A set that comes out as another revision is an error: another version of
// Cadenza may have read the files otherwise.
func (p *Past) Load() (*Snapshot, error) { return p.load("revision:"+p.Revision, new(memory)) }

// Pasts loads past sets one after another. What one has in common with the one before is in
// memory once. One goroutine uses it; the zero value is ready.
type Pasts struct{ memory memory }

// Load is Load of a past set.
func (l *Pasts) Load(p *Past) (*Snapshot, error) { return p.load("revision", &l.memory) }

func (p *Past) load(dir string, m *memory) (*Snapshot, error) {
	d, err := p.directory(dir)
	if err != nil {
		return nil, err
	}
	d.past = true
	s, err := load(context.Background(), d, m, nil, new(document.Errors))
	if err == nil && s.Revision != p.Revision {
		return nil, fmt.Errorf("revision %s comes out as %s: this version of Cadenza reads its definitions otherwise than the one that served them", p.Revision, s.Revision)
	}
	return s, err
}

// directory returns the files as if they were in dir. What a store has may have
// been changed there: a file that no directory could have given is an error.
func (p *Past) directory(dir string) (*directory, error) {
	d := &directory{dir: dir}
	for _, f := range p.Files {
		s := &source{path: f.Path, data: []byte(f.Content), size: int64(len(f.Content))}
		base, ok := definitionName(f.Path)
		folder, _, nested := strings.Cut(base, "/")
		s.kind = kind.InFolder(folder)
		table := nested && document.IsCSV(f.Path)
		switch {
		case !ok && !table || !fs.ValidPath(f.Path) || nested != (s.kind != nil) || !nested && (base != "context" || d.context != nil):
			return nil, fmt.Errorf("revision %s has a file %q, which is no definition: the store was changed", p.Revision, f.Path)
		case hashOf(s.data) != f.Hash:
			return nil, fmt.Errorf("revision %s: %s is not what was served, by its hash %q: the store was changed", p.Revision, f.Path, f.Hash)
		case s.size > document.MaxFileBytes || d.bytes+s.size > MaxBytes || nested && len(d.files)+len(d.tables) == MaxFiles:
			return nil, fmt.Errorf("revision %s: %s is beyond what definitions may be", p.Revision, f.Path)
		}
		d.bytes += s.size
		switch {
		case table:
			d.tables = append(d.tables, s)
		case !nested:
			d.context = s
		default:
			s.key = defaultKey(base)
			d.files = append(d.files, s)
		}
	}
	return d, nil
}

// WriteTo writes the files, byte for byte, into a folder that does not exist, or is
// empty. The folder appears when it is complete. written is false if it has these
// definitions already, and no others.
func (p *Past) WriteTo(dir string) (written bool, err error) {
	if _, err := p.directory(dir); err != nil {
		return false, err
	}
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
		if p.isIn(dir) {
			return false, nil
		}
		return false, fmt.Errorf("%s is not empty, and has not the files of revision %s: nothing was written", dir, p.Revision)
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
	if err := p.writeFiles(staged); err != nil {
		return false, fmt.Errorf("revision %s can't be written here: %w", p.Revision, err)
	}
	if err := os.Chmod(staged, 0o755); err != nil {
		return false, err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, os.Rename(staged, dir)
}

// isIn reports whether a folder has these files as its definitions, and no others.
func (p *Past) isIn(dir string) bool {
	var errs document.Errors
	d := readDirectory(dir, &errs)
	if d.context != nil {
		d.files = append(d.files, d.context)
	}
	content := make(map[string]string, len(p.Files))
	for _, f := range p.Files {
		content[f.Path] = f.Content
	}
	all := slices.Concat(d.files, d.tables)
	for _, s := range all {
		if was, ok := content[s.path]; !ok || was != string(s.data) {
			return false
		}
	}
	return errs.Len() == 0 && len(all) == len(p.Files)
}

// writeFiles writes the files below a folder that is empty. Two names that are one
// here, as on a file system that ignores case, are an error.
func (p *Past) writeFiles(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range p.Files {
		if !filepath.IsLocal(filepath.FromSlash(f.Path)) {
			return fmt.Errorf("%s can't be the name of a file", f.Path)
		}
		if err := root.MkdirAll(path.Dir(f.Path), 0o755); err != nil {
			return err
		}
		to, err := root.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		_, err = to.WriteString(f.Content)
		if err := errors.Join(err, to.Close()); err != nil {
			return err
		}
	}
	return nil
}
