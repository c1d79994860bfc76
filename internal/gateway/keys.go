package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/visible"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/secret"
)

// defaultKeysInterval is the time between two reads of a keys file.
const defaultKeysInterval = time.Second

// maxKeyProblems is how many refused keys of a file are logged one by one.
const maxKeyProblems = 20

// resolveKeys reads the keys of the configuration and of the keys file.
func (w *Workspace) resolveKeys() error {
	names := make(map[string]bool)
	digests := make(map[digest]string)
	var empty []string
	for _, key := range w.APIKeys {
		if key.Name == "" || names[key.Name] {
			return fmt.Errorf("api_key %q: every key needs a name of its own", key.Name)
		}
		if len(key.Name) > wire.MaxKeyName {
			return fmt.Errorf("api_key: a name has at most %d bytes, this one %d", wire.MaxKeyName, len(key.Name))
		}
		if err := checkKeyName(key.Name); err != nil {
			return err
		}
		names[key.Name] = true
		bound := newBound(key.Context)
		if err := w.checkBound(bound); err != nil {
			return fmt.Errorf("api_key %s: %w", key.Name, err)
		}
		if err := key.CheckAccess(); err != nil {
			return fmt.Errorf("api_key %s: %w", key.Name, err)
		}
		signed, err := key.contextSecret()
		if err != nil {
			return fmt.Errorf("api_key %s: signed_context: %w", key.Name, err)
		}
		value, err := key.Key.Resolve()
		switch {
		case errors.Is(err, secret.ErrEmpty):
			empty = append(empty, err.Error())
			w.Logger.Warn("an API key is empty and not used", zap.String("api_key", key.Name), zap.Error(err))
			continue
		case err != nil:
			return fmt.Errorf("api_key %s: %w", key.Name, err)
		case !wire.LegalToken(value):
			return fmt.Errorf("api_key %s: %s must be %d to %d visible ASCII characters, it has %d bytes",
				key.Name, key.Key, wire.MinTokenLength, wire.MaxTokenLength, len(value))
		}
		sum := digestOf(value)
		if first, twice := digests[sum]; twice {
			w.Logger.Error("two API keys are the same: the first name counts", zap.String("api_key", key.Name), zap.String("first", first))
			continue
		}
		digests[sum] = key.Name
		w.inline = append(w.inline, &principal{digest: sum, name: key.Name, workspace: w, bound: bound, contextSecret: signed, Access: key.Access})
	}
	if err := w.openKeysFile(); err != nil {
		return err
	}
	switch {
	case len(w.inline) > 0 || len(w.listed) > 0:
		return nil
	case len(empty) > 0:
		return fmt.Errorf("no usable API key: %s", strings.Join(empty, ", "))
	}
	return errors.New("no API key is configured: `api_key <name> {env.NAME}` or `keys <file>`")
}

// contextSecret returns the secret under which the key's contexts are signed, or nil. A
// secret that is missing is an error: without it the key would take any context.
func (k *APIKey) contextSecret() ([]byte, error) {
	if k.SignedContext == "" {
		return nil, nil
	}
	if k.Kind != KindClient {
		return nil, errors.New("it belongs to a key of kind client: others are held by servers, whose contexts are trusted")
	}
	value, err := k.SignedContext.Resolve()
	if err != nil {
		return nil, err
	}
	if err := checkTraceKey(value); err != nil {
		return nil, fmt.Errorf("%s %w", k.SignedContext, err)
	}
	secret.Remember(value)
	return []byte(value), nil
}

// openKeysFile reads the keys file. If a former configuration of the workspace runs with
// the same file, openKeysFile takes the list that is in use, and start reads the file.
func (w *Workspace) openKeysFile() error {
	if w.KeysFile == "" {
		return nil
	}
	w.fileKeys = &keysFile{path: w.KeysFile}
	if last := w.Memory.keys.Load(); last != nil && last.path == w.KeysFile {
		w.listed = last.listed
		return nil
	}
	var err error
	w.listed, _, err = w.fileKeys.read()
	if err == nil {
		err = w.checkListed(w.listed)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keys: there is no file %s: `caddy cadenza key` prints the content of a new one", visible.Line(w.KeysFile))
	}
	if err != nil {
		return fmt.Errorf("keys: %w", visible.Error(err))
	}
	return nil
}

// beginKeys takes the reasons why keys of the file are refused at the start.
func (w *Workspace) beginKeys(problems []string) {
	w.refusedKeys = problems
	if w.fileKeys != nil && w.fileKeys.wasRead() {
		w.reportKeys(problems)
	}
}

// startKeys begins to follow the keys file.
func (w *Workspace) startKeys(ctx context.Context) {
	before := w.Memory.badKeys.Load()
	w.keysTaken(w.listed, w.refusedKeys)
	w.background.Go(func() { w.keepUses(ctx) })
	if w.fileKeys == nil {
		return
	}
	w.checkKeys()
	if now := w.Memory.badKeys.Load(); before != nil && now != nil {
		w.Memory.badKeys.Store(&Condition{now.Code, now.Subject, before.Since, now.Message})
	}
	w.background.Go(func() { w.followKeys(ctx) })
}

// followKeys reads the keys file again whenever it has changed. It polls the path
// and does not watch it, because the path may be a symbolic link that is replaced.
func (w *Workspace) followKeys(ctx context.Context) {
	ticker := time.NewTicker(w.gateway.keysInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.checkKeys()
		}
	}
}

func (w *Workspace) checkKeys() {
	w.checking.Lock()
	defer w.checking.Unlock()
	listed, changed, err := w.fileKeys.read()
	now := time.Now()
	if !changed {
		// Keys expire without a change of their file.
		if w.Memory.badKeys.Load() == nil && w.gateway.keys.usable(w, now) == 0 {
			w.keysFailed("the keys file has no usable key", errNoneLeft)
		}
		return
	}
	if err != nil {
		w.keysFailed("the keys file can't be used, its last keys stay valid", err)
		return
	}
	if err := w.checkListed(listed); err != nil {
		w.keysFailed("the keys file can't be used, its last keys stay valid", err)
		return
	}
	problems, inUse, err := w.gateway.keys.update(w, listed, now)
	if err != nil {
		w.reportKeys(problems)
		w.rememberKeys(inUse)
		w.keysFailed("the keys file has no usable key, those of its last list that it does not revoke stay valid", err,
			zap.Int("valid", w.gateway.keys.usable(w, now)))
		return
	}
	w.keysTaken(inUse, problems)
	w.reportKeys(problems)
	w.Logger.Info("keys loaded", zap.String("file", w.fileKeys.path), zap.Int("keys", len(listed)-len(problems)))
}

// keysFailed notes and logs why the keys file as it is now is not in use.
func (w *Workspace) keysFailed(message string, err error, fields ...zap.Field) {
	w.keysFail(firstMistake(err))
	w.Logger.Error(message, append(fields, zap.String("file", w.fileKeys.path), zap.Error(visible.Error(err)))...)
}

// keysTaken remembers the keys that are in use. problems are why some of them were
// refused.
func (w *Workspace) keysTaken(listed []fileKey, problems []string) {
	w.rememberKeys(listed)
	if len(problems) > 0 {
		w.keysFail("refused: " + strings.Join(problems[:min(len(problems), maxKeyProblems)], "; "))
		return
	}
	w.Memory.badKeys.Store(nil)
	w.gateway.metrics.keysValid.WithLabelValues(w.Name).Set(1)
}

// rememberKeys keeps the keys that are in use for the next configuration.
func (w *Workspace) rememberKeys(listed []fileKey) {
	last := &lastKeys{listed: listed, has: w.gateway.keys.has(w)}
	if w.fileKeys != nil {
		last.path = w.fileKeys.path
	}
	w.Memory.keys.Store(last)
}

// reportKeys logs why keys of the file are refused.
func (w *Workspace) reportKeys(problems []string) {
	for i, problem := range problems {
		if i == maxKeyProblems {
			w.Logger.Error("more API keys are refused", zap.String("file", w.fileKeys.path), zap.Int("keys", len(problems)-i))
			return
		}
		w.Logger.Error("an API key is refused until its keys file changes", zap.String("reason", problem), zap.String("file", w.fileKeys.path))
	}
}
