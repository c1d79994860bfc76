package caddymodule_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestConsoleOverMillions bounds the pages about traces over the store that
// CADENZA_MILLIONS names, such as the one that TestMustHoldMillions of
// internal/store/sqlite makes: a copy of it. Now must come in 150 ms, and no page in more
// than a second.
func TestConsoleOverMillions(t *testing.T) {
	made := os.Getenv("CADENZA_MILLIONS")
	if made == "" {
		t.Skip("CADENZA_MILLIONS names no store")
	}
	g := startConsoleSite(t)
	copyStore(t, made, filepath.Join(g.dir, "millions.db"))
	if err := g.loadText(strings.ReplaceAll(g.consoleSite(""), "data/cadenza.db", "millions.db")); err != nil {
		t.Fatal(err)
	}
	session := g.signIn("our_editor")
	var list struct {
		Traces []struct {
			ID string `json:"trace_id"`
		}
	}
	if err := json.Unmarshal(g.do("GET", "/console/api/traces?sort=cost", "", session).ok(t).body, &list); err != nil || len(list.Traces) == 0 {
		t.Fatal(err, len(list.Traces))
	}
	for page, most := range map[string]time.Duration{
		"": 150 * time.Millisecond, "?last=day": time.Second, "traces": time.Second, "traces?since=30d": time.Second, "traces?since=&sort=latency": time.Second, "traces?since=7d&sort=cost": time.Second,
		"traces?since=&sort=score": time.Second, "traces?since=&key=key_48&sort=cost": time.Second, "traces?since=&field=plan%3Dnone": time.Second, "traces?since=&" + url.Values{"metadata": {"user=u123456"}}.Encode(): time.Second,
		"traces/" + list.Traces[0].ID: time.Second, "conversations/c77": time.Second,
	} {
		var all []time.Duration
		size := 0
		for range 5 {
			began := time.Now()
			size = len(g.do(http.MethodGet, "/console/"+page, "", session).ok(t).body)
			all = append(all, time.Since(began))
		}
		slices.Sort(all)
		t.Logf("%-40s %v (%v to %v), %d bytes", page, all[2].Round(100*time.Microsecond), all[0].Round(100*time.Microsecond), all[4].Round(100*time.Microsecond), size)
		if all[2] > most {
			t.Errorf("%q takes %v, want at most %v", page, all[2], most)
		}
	}
}

func copyStore(t *testing.T, from, to string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal"} {
		source, err := os.Open(from + suffix)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		target, err := os.Create(to + suffix)
		if err == nil {
			_, err = io.Copy(target, source)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, _ = source.Close(), target.Close()
	}
}
