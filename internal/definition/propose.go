package definition

import (
	"context"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/trace"
)

// Propose loads the files of the directory with others in the place of some of them, as
// Reload would, and returns the set next to the one that is served. It changes no file,
// and serves nothing. files has contents by path; nil stands for a file that is gone. Both
// sets have one data model if its file is the same in both.
//
// The error is that of a Reload after such an edit. The served set comes without its tests
// and its warnings.
func (s *Source) Propose(ctx context.Context, files map[string][]byte) (served, proposed *Snapshot, err error) {
	var m memory
	now := s.Snapshot()
	past, err := (&Past{Revision: now.Revision, Files: now.Files}).directory(s.dir)
	if err != nil {
		return nil, nil, err
	}
	past.past = true
	if served, err = load(ctx, past, &m, nil, new(document.Errors)); err != nil {
		return nil, nil, err
	}
	var errs document.Errors
	d := readDirectory(s.dir, &errs)
	for name, content := range files {
		d.put(name, content)
	}
	proposed, err = load(ctx, d, &m, s.configurations(), &errs)
	if err == nil {
		err = removal(s.dir, now.Counts(), proposed)
	}
	return served, proposed, err
}

// Unpack loads a whole set of files as Serve would, and serves nothing. dir is their folder
// in places of mistakes.
func (s *Source) Unpack(ctx context.Context, dir string, files []trace.File) (*Snapshot, error) {
	var errs document.Errors
	return load(ctx, directoryOf(dir, files, &errs), new(memory), s.configurations(), &errs)
}

// put has a file stand in the place of the one with its path. Without content the file is
// gone.
func (d *directory) put(name string, content []byte) {
	was := func(s *source) bool { return s.path == name }
	d.files, d.tables = slices.DeleteFunc(d.files, was), slices.DeleteFunc(d.tables, was)
	d.lost = slices.DeleteFunc(d.lost, func(lost string) bool { return lost == name })
	if d.context != nil && d.context.path == name {
		d.context = nil
	}
	if content == nil {
		return
	}
	base, _ := definitionName(name)
	folder, _, nested := strings.Cut(name, "/")
	s := &source{path: name, kind: kind.InFolder(folder), key: defaultKey(base), data: slices.Clone(content), size: int64(len(content))}
	switch {
	case !nested:
		d.context = s
	case document.IsCSV(name):
		d.tables = append(d.tables, s)
	default:
		d.files = append(d.files, s)
	}
}
