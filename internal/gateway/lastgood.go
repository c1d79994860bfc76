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

// maxMistakes is how many mistakes of one loading are logged.
const maxMistakes = 20

// settle decides which definitions the workspace serves first.
func (w *Workspace) settle() error {
	if err := w.Source.Settle(w.servedLast, w.Strict); err != nil {
		return fmt.Errorf("workspace %s: definitions %s:\n%w", w.Name, w.Source.Dir(), visible.Error(err))
	}
	return nil
}

// servedLast returns the set of definitions that the workspace served last, as the store
// holds it, or nil. It opens the file for itself: the recorder would set a damaged file
// aside, of which a part may still be readable.
func (w *Workspace) servedLast() *definition.Past {
	ctx, cancel := context.WithTimeout(context.Background(), lastGoodTimeout)
	defer cancel()
	last, err := w.Store.servedLast(ctx, w.Name, w.Source.Dir())
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, sqlite.ErrNotFound) {
			w.Logger.Warn("the definitions that were served last can't be read from the store", zap.Error(err))
		}
		return nil
	}
	return &definition.Past{Revision: last.Revision, Since: last.Time, Files: last.Files}
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

// recordServed stores the content of each served definition, so that a trace leads to
// exactly the definition that answered, the files of the set, and what to count.
func (w *Workspace) recordServed(snapshot *definition.Snapshot) {
	if snapshot.Awaited {
		return
	}
	var versions []trace.Version
	for _, d := range snapshot.Definitions {
		versions = append(versions, trace.Version{
			Workspace: w.Name, Kind: d.Kind.Trace, Key: d.Key, Version: d.Version, Content: d.Content(),
		})
	}
	w.Store.Recorder.Versions(versions)
	w.recordFiles(snapshot)
	w.recordCounted()
}

// recordCounted tells the store which experiments to count, also those of the guards of
// rollouts, which begin anew by rows.
func (w *Workspace) recordCounted() {
	w.telling.Lock() // the last call has the last word
	defer w.telling.Unlock()
	snapshot := w.Source.Snapshot()
	if snapshot.Awaited {
		return
	}
	plans, since := w.rollouts.counted()
	if at := w.servedSince(snapshot); at.After(since) {
		since = at
	}
	served := &recorder.Experiments{Workspace: w.Name, Time: since, Plans: append(plans, snapshot.Experiments...), Rollouts: []string{}}
	for i := range snapshot.Rollouts {
		served.Rollouts = append(served.Rollouts, snapshot.Rollouts[i].Name())
	}
	w.Store.Recorder.Experiments(served)
}

// servedSince returns from when on a set is served: from before the start if it was restored.
func (w *Workspace) servedSince(snapshot *definition.Snapshot) time.Time {
	if since := w.Source.State().Restored; !since.IsZero() {
		return since
	}
	return snapshot.Loaded
}

// recordFiles stores the files of the served definitions.
func (w *Workspace) recordFiles(snapshot *definition.Snapshot) {
	w.Store.Recorder.Revision(&recorder.Revision{
		Workspace: w.Name, Directory: w.Source.Dir(), Revision: snapshot.Revision, Time: w.servedSince(snapshot), Files: snapshot.Files,
	})
}

// logMistakes logs why the definitions on disk are not served, with a line for each
// mistake.
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
