package definition

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/regular"
)

// The ceilings of a workspace.
const (
	// MaxFiles is how many files a workspace may have.
	MaxFiles = 20_000
	// MaxBytes is how many bytes the files may have together.
	MaxBytes = 64 << 20
	// maxFolders bounds how deep folders nest.
	maxFolders = 32
)

// Layout returns the text that describes the files of a workspace.
func Layout() string {
	folders := kind.Folders()
	last := len(folders) - 1
	return "context.yaml and the folders " + strings.Join(folders[:last], ", ") + " and " + folders[last]
}

// source is one file of a workspace.
type source struct {
	path string     // slash-separated, below the directory
	kind *kind.Kind // nil for context.yaml
	key  string     // the default key
	data []byte
	size int64
	mod  time.Time
	// plain reports whether the file is no link, so that it can be looked up in
	// its folder.
	plain bool
}

// directory holds a workspace's files as they were read.
type directory struct {
	dir      string
	root     *os.Root
	texts    map[string]string // of the files that Serve gives, in the place of root
	context  *source
	files    []*source
	tables   []*source // CSV files next to definitions
	warnings []Warning
	bytes    int64
	emptying bool // allowEmpty is in it
	past     bool // the files come from a Past
	// lost are the files and folders that can't be read, by path. What they hold
	// is not known, so what refers to it is no mistake.
	lost []string
	// misnamed are entries that are not read, by the name that they probably
	// should have.
	misnamed map[string]string
}

// readDirectory reads all files of a workspace. Nothing outside of dir is
// read: symbolic links that lead out of it are errors. Where files change while they
// are read, all are read again, a few times.
func readDirectory(dir string, errs *document.Errors) *directory {
	const (
		attempts = 5
		pause    = 20 * time.Millisecond
	)
	for attempt := 1; ; attempt++ {
		var found document.Errors
		d, settled := readOnce(dir, &found)
		if settled || attempt == attempts {
			errs.Merge(&found)
			return d
		}
		time.Sleep(pause)
	}
}

// readOnce reads the files and reports whether none changed meanwhile.
func readOnce(dir string, errs *document.Errors) (d *directory, settled bool) {
	d = &directory{dir: dir}
	root, err := os.OpenRoot(folderName(dir))
	if err != nil {
		errs.AddAt(document.Position{File: dir}, "the definitions can't be read: %v", cause(err))
		return d, !gone(err)
	}
	defer root.Close()
	d.root = root
	entries, err := readDir(root, ".")
	if err != nil {
		d.fail(errs, ".", err)
		return d, false
	}
	for _, e := range entries {
		if d.full() {
			break
		}
		d.top(e.Name(), errs)
	}
	return d, d.settled()
}

// top handles an entry of the directory itself.
func (d *directory) top(name string, errs *document.Errors) {
	if name == allowEmpty {
		d.allowEmpty()
	}
	if hidden(name) {
		return
	}
	info, err := d.root.Stat(name)
	if err != nil {
		d.unreadable(errs, name, err)
		return
	}
	if k := kind.InFolder(name); k != nil && info.IsDir() {
		d.folder(k, name, []fs.FileInfo{info}, errs)
		return
	} else if k != nil && !info.Mode().IsRegular() {
		errs.AddAt(d.whole(name), "neither a folder nor a regular file")
		d.lost = append(d.lost, name)
		return
	}
	d.other(name, info.IsDir(), errs)
}

// allowEmpty notes that the file of this name is there.
func (d *directory) allowEmpty() {
	d.emptying = true
	d.warn("allow-empty", allowEmpty, "edits that remove definitions are not refused as long as this file exists: delete it after the removal")
}

// other handles what is in the directory itself and no folder of definitions.
func (d *directory) other(name string, folder bool, errs *document.Errors) {
	base, ok := definitionName(name)
	if ok && base == "context" && !folder {
		if d.context != nil {
			errs.AddAt(d.position(name), "there are two data models, and %s is the other: join them in one file", d.context.path)
			d.lost = append(d.lost, name)
			return
		}
		if s := d.read(nil, name, "", nil, errs); s != nil && d.admit(s, errs) {
			d.context = s
		}
		return
	}
	if folder || ok {
		hint := ""
		if near := document.Nearest(base, append([]string{"context"}, kind.Folders()...)); near != "" {
			if near == "context" {
				near += ".yaml"
			}
			hint = fmt.Sprintf(": did you mean %s?", near)
			if d.misnamed == nil {
				d.misnamed = make(map[string]string)
			}
			d.misnamed[near] = name
		}
		d.warn("not-read", name, "not read, a workspace has %s%s", Layout(), hint)
	}
}

// folder reads the definitions of one kind. parents are the folders that it is in,
// with itself.
func (d *directory) folder(k *kind.Kind, name string, parents []fs.FileInfo, errs *document.Errors) {
	if len(parents) > maxFolders {
		errs.AddAt(d.whole(name), "folders nest more than %d deep", maxFolders)
		d.lost = append(d.lost, name)
		return
	}
	// The folder is opened once, so that its path is not followed for each file.
	here, err := d.root.OpenRoot(folderName(name))
	if err != nil {
		if !gone(err) {
			d.fail(errs, name, err)
		}
		return
	}
	defer here.Close()
	entries, err := readDir(here, ".")
	if err != nil {
		if !gone(err) {
			d.fail(errs, name, err)
		}
		return
	}
	for _, e := range entries {
		if d.full() {
			return
		}
		if hidden(e.Name()) {
			continue
		}
		file := path.Join(name, e.Name())
		if e.Type().IsRegular() {
			d.definition(k, file, here, errs)
			continue
		}
		// Stat follows links: Kubernetes mounts files and folders as links
		// into a hidden folder that it swaps.
		info, err := d.root.Stat(file)
		switch {
		case err != nil:
			d.unreadable(errs, file, err)
		case info.IsDir():
			if slices.ContainsFunc(parents, func(p fs.FileInfo) bool { return os.SameFile(p, info) }) {
				errs.AddAt(d.whole(file), "the link leads back to a folder it stands in")
				continue
			}
			d.folder(k, file, append(slices.Clip(parents), info), errs)
		default:
			d.definition(k, file, nil, errs)
		}
	}
}

// definition reads a file in a folder of definitions where its name is that of a
// definition or of a CSV file. here is its folder, nil for a link.
func (d *directory) definition(k *kind.Kind, name string, here *os.Root, errs *document.Errors) {
	base, ok := definitionName(name)
	if document.IsCSV(name) {
		if s := d.read(k, name, "", here, errs); s != nil && d.admit(s, errs) {
			d.tables = append(d.tables, s)
		}
		return
	}
	if !ok {
		if path.Ext(name) != ".md" {
			d.warn("not-read", name, "not read, definitions are .yaml, .yml or .json files")
		}
		return
	}
	if s := d.read(k, name, defaultKey(base), here, errs); s != nil && d.admit(s, errs) {
		d.files = append(d.files, s)
	}
}

// open opens a file in its folder where that is given, else by its whole path. The
// file may have become a link meanwhile.
func (d *directory) open(name string, here *os.Root) (*os.File, error) {
	if here != nil {
		if f, err := regular.OpenIn(here, path.Base(name)); err == nil {
			return f, nil
		}
	}
	return regular.OpenIn(d.root, name)
}

// read reads one file, in its folder where that is given.
func (d *directory) read(k *kind.Kind, name, key string, here *os.Root, errs *document.Errors) *source {
	s := &source{path: name, kind: k, key: key, plain: here != nil}
	if text, given := d.texts[name]; given {
		s.data, s.size = []byte(text), int64(len(text))
		return s
	}
	f, err := d.open(name, here)
	if err != nil {
		if !gone(err) {
			d.fail(errs, name, err)
		}
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		d.fail(errs, name, err)
		return nil
	}
	s.size, s.mod = info.Size(), info.ModTime()
	// One byte more, to find out whether the file has grown.
	s.data = make([]byte, min(s.size, document.MaxFileBytes)+1)
	n, err := io.ReadFull(f, s.data)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		d.fail(errs, name, err)
		return nil
	}
	s.data = s.data[:n]
	return s
}

// admit counts a file and reports whether it is within the ceilings.
func (d *directory) admit(s *source, errs *document.Errors) bool {
	d.bytes += int64(len(s.data))
	switch {
	case d.bytes > MaxBytes:
		errs.AddAt(d.position(s.path), "the definitions have more than %d MiB together", MaxBytes>>20)
	case len(d.files)+len(d.tables) == MaxFiles:
		errs.AddAt(d.position(s.path), "there are more than %d definitions", MaxFiles)
	default:
		return true
	}
	// The rest is not read.
	d.lost = append(d.lost, kind.Folders()...)
	return false
}

// full reports whether a ceiling was exceeded, so that reading stops.
func (d *directory) full() bool { return d.bytes > MaxBytes || len(d.files)+len(d.tables) > MaxFiles }

// settled reports whether the files are unchanged since they were read. A file that
// is being written may have been read in part.
func (d *directory) settled() bool {
	var (
		here *os.Root // the folder of the last file
		name string
		err  error
	)
	defer func() {
		if here != nil {
			here.Close()
		}
	}()
	for _, s := range slices.Concat(d.files, d.tables) {
		if !s.plain {
			if !s.unchanged(d.root, s.path) {
				return false
			}
			continue
		}
		if folder := path.Dir(s.path); here == nil || folder != name {
			if here != nil {
				here.Close()
			}
			if here, err = d.root.OpenRoot(folderName(folder)); err != nil {
				here = nil
				return false
			}
			name = folder
		}
		if !s.unchanged(here, path.Base(s.path)) {
			return false
		}
	}
	return d.context == nil || d.context.unchanged(d.root, d.context.path)
}

// unchanged reports whether a file is the same as when it was read.
func (s *source) unchanged(root *os.Root, name string) bool {
	info, err := root.Stat(name)
	return err == nil && info.Size() == s.size && info.ModTime().Equal(s.mod) && int64(len(s.data)) == min(s.size, document.MaxFileBytes+1)
}

// whole returns a place without a line, for a folder, a link or no file at all.
func (d *directory) whole(name string) document.Position {
	return document.Position{File: d.file(name)}
}

// position returns the beginning of a file by the path that the caller can open, or
// the workspace's own folder, which has no lines.
func (d *directory) position(name string) document.Position {
	if name == "." {
		return d.whole(name)
	}
	return document.Position{File: d.file(name), Line: 1, Column: 1}
}

func (d *directory) file(name string) string {
	if strings.Contains(d.dir, "://") && name != "." { // no absolute path has that
		return d.dir + "/" + name
	}
	return filepath.Join(d.dir, filepath.FromSlash(name))
}

func (d *directory) fail(errs *document.Errors, name string, err error) {
	d.lost = append(d.lost, name)
	info, e := d.root.Lstat(name)
	if e == nil && info.Mode()&fs.ModeSymlink != 0 {
		d.badLink(errs, name, err)
		return
	}
	pos := d.position(name)
	if e == nil && info.IsDir() {
		pos = d.whole(name)
	}
	errs.Report("unreadable", pos, "can't be read: %v", cause(err))
}

// badLink reports a link that can't be followed.
func (d *directory) badLink(errs *document.Errors, name string, err error) {
	target, _ := d.root.Readlink(name)
	switch {
	case gone(err):
		errs.Report("bad-link", d.whole(name), "the link leads nowhere: its target %s does not exist", target)
	case leavesRoot(err):
		errs.Report("bad-link", d.whole(name), "the link leads out of the workspace, to %s, which is not read: put a copy here, or link to a file within the workspace", target)
	default:
		errs.Report("bad-link", d.whole(name), "the link to %s can't be followed: %v", target, cause(err))
	}
}

// leavesRoot reports whether os.Root refused to leave its directory. Its error has
// no value to compare with.
func leavesRoot(err error) bool {
	return strings.Contains(cause(err).Error(), "escapes")
}

// unreadable reports an entry that can't be read, unless it vanished after it
// was listed.
func (d *directory) unreadable(errs *document.Errors, name string, err error) {
	if _, e := d.root.Lstat(name); e == nil || !gone(err) {
		d.fail(errs, name, err)
	}
}

// isLost reports whether a definition may be in a file that can't be read.
func (d *directory) isLost(k *kind.Kind, key string) bool {
	return slices.ContainsFunc(d.lost, func(name string) bool {
		folder, rest, _ := strings.Cut(name, "/")
		if base, ok := definitionName(rest); ok {
			rest = base
		}
		return kind.InFolder(folder) == k && (rest == "" || rest == key || strings.HasPrefix(key, rest+"/"))
	})
}

// isLostFile reports whether a file is there and can't be read.
func (d *directory) isLostFile(name string) bool { return slices.Contains(d.lost, name) }

func (d *directory) warn(kind, name, format string, args ...any) {
	d.warnings = append(d.warnings, Warning{Pos: document.Position{File: d.file(name)}, Message: fmt.Sprintf(format, args...), Kind: kind})
}

// folderName returns a folder's name in a form that opens nothing but a folder: to
// open a FIFO would wait for its writer.
func folderName(name string) string { return name + "/" }

// readDir lists a folder by name.
func readDir(root *os.Root, name string) ([]fs.DirEntry, error) {
	f, err := root.Open(folderName(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// hidden reports whether a file is ignored: dot files (among them Kubernetes' ..data
// and editors' swap files) and editors' backups.
func hidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") || strings.HasSuffix(name, "~") || strings.HasSuffix(name, ".tmp")
}

// defaultKey returns the key of a definition that sets none, from its file's path
// without the extension.
func defaultKey(base string) string {
	_, key, _ := strings.Cut(base, "/")
	return key
}

// definitionName returns the name of a definition's file without its extension.
func definitionName(name string) (base string, ok bool) {
	ext := path.Ext(name)
	switch strings.ToLower(ext) {
	case ".yaml", ".yml", ".json":
		return strings.TrimSuffix(name, ext), true
	}
	return name, false
}

// gone reports whether the error is that no file has the name.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// cause returns an error without the path, which is in its position already.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
