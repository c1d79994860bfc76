package caddymodule_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/caddymodule"
	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// storeOld writes traces of an age, with answers of a size, into a store's file that
// is not open.
func storeOld(t *testing.T, path, workspace string, count, size int, age time.Duration) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	key, err := s.TraceKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	authority, err := trace.NewAuthority(key, workspace)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-age)
	var batch recorder.Batch
	for range count {
		batch.Records = append(batch.Records, &trace.Record{
			ID: authority.New(trace.KindPrompt, at), Time: at, Workspace: workspace, Kind: trace.KindPrompt, Key: "old", Status: 200,
			Response: bytes.Repeat([]byte("x"), size),
		})
	}
	if err := s.Commit(context.Background(), &batch); err != nil {
		t.Fatal(err)
	}
}

// sharing configures workspaces with these names and their own options, which share a store.
func sharing(t *testing.T, options map[string]string, names ...string) string {
	t.Helper()
	var all strings.Builder
	for _, name := range names {
		t.Setenv("CADENZA_KEY_"+name, "cadenza-test-key-of-"+name)
		fmt.Fprintf(&all, `
			workspace %[1]s {
				definitions {dir}/definitions
				api_key test {env.CADENZA_KEY_%[1]s}
				provider canned
				%[3]s
				%[2]s
			}`, name, options[name], keylessFake)
	}
	return all.String() + "\n"
}

// TestWaitingRowsOutliveARestart starts workspaces that share a store. The sink of one
// of them has yet to take many rows that are past the retention. The store must know
// that before it deletes anything, in whatever order the workspaces start.
func TestWaitingRowsOutliveARestart(t *testing.T) {
	const kept = "store sqlite {dir}/shared/cadenza.db {\nretention 1h\n}\n"
	shared := sharing(t, map[string]string{"a": kept, "b": kept, "c": kept, "d": kept + "sink file {dir}/out.jsonl\n"}, "a", "b", "c", "d")
	for range 3 { // the order is random
		g := startGateway(t, workspace, options)
		path := filepath.Join(g.dir, "shared", "cadenza.db")
		storeOld(t, path, "d", 300, 0, 3*time.Hour)
		storeOld(t, path, "a", 1, 0, time.Minute) // so that the store trusts the clock
		if err := g.load(shared); err != nil {
			t.Fatal(err)
		}
		eventually(t, "all of it is copied", func() bool {
			return len(lines(t, filepath.Join(g.dir, "out.jsonl"))["trace"]) == 300
		})
		if err := g.load(options); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSharedStoreHasOneLimit(t *testing.T) {
	g := startGateway(t, workspace, options)
	err := g.load(sharing(t, map[string]string{
		"a": "store sqlite {dir}/shared.db",
		"b": "store sqlite {dir}/shared.db {\nretention 1h\n}",
	}, "a", "b"))
	if err == nil || !strings.Contains(err.Error(), "share the store") {
		t.Errorf("two retentions of one store: %v", err)
	}
	if err := g.load(sharing(t, map[string]string{
		"a": "store sqlite {dir}/shared.db {\nretention 60m\n}",
		"b": "store sqlite {dir}/shared.db {\nretention 1h\n}",
	}, "a", "b")); err != nil {
		t.Errorf("one retention: %v", err)
	}
}

// TestRefusedReloadDeletesNothing has a refused configuration whose retention would
// delete rows that the running configuration keeps.
func TestRefusedReloadDeletesNothing(t *testing.T) {
	limited := strings.Replace(options, "cadenza.db", "cadenza.db {\nretention 24h\n}", 1)
	shorter := strings.Replace(options, "cadenza.db", "cadenza.db {\nretention 1h\n}", 1)
	g := startGateway(t, workspace, limited)
	// The store stays the same, and so does the configuration that opened it.
	retention := caddymodule.StoreConfig().CurrentRetention
	for _, refused := range []string{
		shorter + "sink postgres {env.CADENZA_TEST_KEY}\n", // while it is provisioned
		shorter + "workspace other {\ndefinitions {dir}/nowhere\napi_key test {env.CADENZA_TEST_KEY}\n}\n",
	} {
		if err := g.load(refused); err == nil {
			t.Fatal("it was not refused")
		}
		if got := retention(); got != 24*time.Hour {
			t.Errorf("the retention is %v after a reload that was refused", got)
		}
	}
	if err := g.load(shorter); err != nil {
		t.Fatal(err)
	}
	if got := retention(); got != time.Hour {
		t.Errorf("the retention is %v after a reload", got)
	}
}
