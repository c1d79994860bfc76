package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// TestKeysState checks that an unusable keys file has a state with its start time and
// one log line per change, and that its keys still expire.
func TestKeysState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		path := filepath.Join(t.TempDir(), "keys.json")
		listed := func(keys ...fileKey) {
			t.Helper()
			var all []string
			for _, k := range keys {
				text := fmt.Sprintf(`{"name": %q, "sha256": "%x", "revoked": %t`, k.name, k.digest, k.revoked)
				if !k.notAfter.IsZero() {
					text += fmt.Sprintf(`, "not_after": %q`, k.notAfter.Format(time.RFC3339))
				}
				all = append(all, text+"}")
			}
			if err := os.WriteFile(path, []byte("["+strings.Join(all, ",")+"]"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		until := entry("app", key1)
		until.notAfter = time.Now().Add(time.Hour)
		listed(until)
		g := &Gateway{metrics: newMetrics()}
		w := &Workspace{WorkspaceConfig: WorkspaceConfig{Name: "w", Logger: zap.New(core), Memory: new(Memory), KeysFile: path}, gateway: g}
		if err := w.openKeysFile(); err != nil {
			t.Fatal(err)
		}
		if _, err := g.keys.begin(map[string]*Workspace{"w": w}); err != nil {
			t.Fatal(err)
		}
		// check checks the file like its watcher does, and then the keys.
		check := func(step string, want string, since time.Time, lines int, valid bool) {
			t.Helper()
			for range 3 {
				w.checkKeys()
			}
			state := w.Memory.badKeys.Load()
			if (want == "") != (state == nil) || want != "" && (!strings.Contains(state.Message, want) || !state.Since.Equal(since)) {
				t.Errorf("%s: %+v", step, state)
			}
			if all := logs.TakeAll(); len(all) != lines {
				t.Errorf("%s: %d lines: %v", step, len(all), all)
			}
			if got := g.keys.authenticate(key1, time.Now()) != nil; got != valid {
				t.Errorf("%s: the key is valid: %t", step, got)
			}
		}
		w.keysTaken(w.listed, nil)
		check("at first", "", time.Time{}, 0, true)
		time.Sleep(time.Hour + time.Second)
		expired := time.Now()
		check("expired", errNoneLeft.Error(), expired, 1, false)
		time.Sleep(time.Minute)
		listed()
		check("an empty list", "lists no key", expired, 1, false)
		listed(entry("app", key1))
		check("mended", "", time.Time{}, 1, true)
		time.Sleep(time.Minute)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		missing := time.Now()
		check("no file", "no such file", missing, 1, true)
		time.Sleep(time.Minute)
		listed(entry("-app", key1))
		check("the last one revoked", errNoUsableKey.Error(), missing, 1, false)
	})
}
