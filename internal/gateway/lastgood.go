package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/internal/visible"
	"github.com/cadenza-gateway/cadenza/trace"
)

// lastGoodTimeout bounds how long a start waits for the set that the store holds.
const lastGoodTimeout = 10 * time.Second

// maxArchive bounds the files that the store keeps of the served set, in bytes and
// compressed. A start can't serve a larger set from the store.
const maxArchive = 16 << 20

// maxMistakes is how many mistakes of one loading are logged.
const maxMistakes = 20

// settle decides which definitions are served at first.
func (w *Workspace) settle() error {
	if err := w.Source.Settle(w.servedLast, w.Strict); err != nil {
		return fmt.Errorf("workspace %s: definitions %s:\n%w", w.Name, w.Source.Dir(), visible.Error(err))
	}
	return nil
}

// servedLast returns the set that the store holds as the one that the workspace
// served last, or nil. It reads the file beside the recorder, which opens it for
// writing and sets it aside where it is damaged: a part may still be read.
func (w *Workspace) servedLast() *definition.Saved {
	ctx, cancel := context.WithTimeout(context.Background(), lastGoodTimeout)
	defer cancel()
	last, err := w.Store.servedLast(ctx, w.Name, w.Source.Dir())
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, sqlite.ErrNotFound) {
			w.Logger.Warn("the definitions that were served last can't be read from the store", zap.Error(err))
		}
		return nil
	}
	saved := &definition.Saved{Revision: last.Revision, Since: last.Time, Counts: make(definition.Counts), Archive: last.Archive}
	for _, v := range last.Versions {
		saved.Counts[v.Kind]++
	}
	return saved
}

func (s *Store) servedLast(ctx context.Context, workspace, directory string) (*recorder.Revision, error) {
	if _, err := os.Stat(s.Path); err != nil {
		return nil, err
	}
	r, err := sqlite.OpenReader(ctx, s.Path)
	if err != nil {
		return nil, err
	}
	last, err := r.ServedLast(ctx, workspace, directory)
	return last, errors.Join(err, r.Close())
}

// recordServed stores what is served: each definition's content, so that a trace
// leads to exactly the definition that answered, and the set as a whole.
func (w *Workspace) recordServed(snapshot *definition.Snapshot) {
	var versions []trace.Version
	for d := range snapshot.All() {
		versions = append(versions, trace.Version{
			Workspace: w.Name, Kind: d.Kind, Key: d.Key, Version: d.Version, Content: d.Content(),
		})
	}
	w.Store.Recorder.Versions(versions)
	served := &recorder.Revision{
		Workspace: w.Name, Directory: w.Source.Dir(), Revision: snapshot.Revision, Time: snapshot.Loaded,
		Versions: versions, Context: snapshot.Context, Archive: snapshot.Archive,
	}
	if since := w.Source.State().Restored; !since.IsZero() {
		served.Time = since
	}
	if len(served.Archive) > maxArchive {
		w.Logger.Warn("the definitions are too large to be kept: a start with invalid ones can't serve them",
			zap.Int("bytes", len(served.Archive)), zap.Int("max_bytes", maxArchive))
		served.Archive = nil
	}
	w.Store.Recorder.Revision(served)
}

// logMistakes logs why the definitions on disk are not served, each mistake for
// itself.
func (w *Workspace) logMistakes(message string, err error, fields ...zap.Field) {
	mistakes, ok := errors.AsType[*document.MultiError](err)
	if !ok {
		w.Logger.Error(message, append(fields, zap.Error(visible.Error(err)))...)
		return
	}
	w.Logger.Error(message, append(fields, zap.Int("mistakes", len(mistakes.List)))...)
	for i, mistake := range mistakes.List {
		if i == maxMistakes {
			w.Logger.Error("the definitions have more mistakes", zap.Int("mistakes", len(mistakes.List)-i))
			return
		}
		w.Logger.Error("the definitions have a mistake", append(placeFields(mistake.Pos), zap.String("mistake", visible.Line(mistake.Message)))...)
	}
}
