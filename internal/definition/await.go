package definition

import (
	"context"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/trace"
)

// Await returns a source without a directory, for the gateways that known describes. It
// serves an empty snapshot that is Awaited, until Serve gives it files. In places of
// mistakes its name is that of their folder.
func Await(name string, known ...Configuration) *Source {
	s := newSource(name, known)
	s.awaits, s.settled = true, true
	s.read = func(ctx context.Context, _ string, m *memory, known ...Configuration) (*Snapshot, error) {
		var errs document.Errors
		return load(ctx, directoryOf(name, s.given, &errs), m, known, &errs)
	}
	// Nothing can be wrong with no files.
	empty, _ := compile(context.Background(), &directory{dir: name}, new(memory), 1, nil, new(document.Errors))
	empty.Awaited, empty.Revision, empty.Warnings = true, "", nil
	s.current.Store(empty)
	return s
}

// Serve serves these files, as Reload serves those of a directory after an edit: an error
// leaves the served set as it is. Only files whose hash changed are compiled again. The
// source is one of Await, and keeps the files.
func (s *Source) Serve(files []trace.File) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	last := s.given
	s.given = slices.Clip(files)
	if s.given == nil {
		s.given = []trace.File{}
	}
	err := s.reload()
	if err != nil {
		s.given = last
	}
	return err
}

// Refuse says why the newest files are not served: an error that Serve returned, or why they
// were not given to it. nil says that what is served is the newest. The source is one of
// Await.
func (s *Source) Refuse(err error) {
	s.loading.Lock()
	defer s.loading.Unlock()
	last := s.LastError()
	switch {
	case err == nil && last == nil, err != nil && last != nil && strings.Contains(err.Error(), last.Error()):
		return
	case err == nil:
		s.failure.Store(nil)
	default:
		s.fail(err)
	}
	s.publish(s.Snapshot(), err)
}

// directoryOf returns the files as if they were in dir. What a directory would be warned of,
// they are.
func directoryOf(dir string, files []trace.File, errs *document.Errors) *directory {
	d := &directory{dir: dir, texts: make(map[string]string, len(files))}
	warned := make(map[string]bool) // by folder
	for _, f := range files {
		if d.full() {
			break
		}
		d.texts[f.Path] = f.Content
		folder, _, nested := strings.Cut(f.Path, "/")
		k := kind.InFolder(folder)
		switch {
		case f.Path == allowEmpty:
			d.allowEmpty()
		case slices.ContainsFunc(strings.Split(f.Path, "/"), hidden):
		case nested && k != nil:
			d.definition(k, f.Path, nil, errs)
		case nested && !warned[folder]:
			warned[folder] = true
			d.other(folder, true, errs)
		case !nested:
			d.other(f.Path, false, errs)
		}
	}
	return d
}
