package caddymodule_test

import (
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDamagedStoreInUse overwrites most of the store's file of a running gateway. All
// metrics acknowledged after the first read that detects it are found.
func TestDamagedStoreInUse(t *testing.T) {
	const copied = options + "sink file {dir}/copied.jsonl\n"
	g := startGateway(t, workspace, copied)
	address := adminOf(t, g, copied)
	const store = "data/cadenza.db"
	path := filepath.Join(g.dir, store)
	report := func(id string) {
		t.Helper()
		body := fmt.Sprintf(`{"trace_id":%q,"score":70,"metadata":{"text":%q}}`, id, strings.Repeat("x", 1000))
		g.post("/v1/metrics", body).ok(t, "metrics")
	}
	ask := func() string {
		t.Helper()
		a := g.post("/v1/prompts", `{"keys":["hello"]}`).ok(t, "prompts")
		return a.header.Get("Cadenza-Trace-Id")
	}
	var before []string
	for range 200 {
		before = append(before, ask())
		report(before[len(before)-1])
	}
	eventually(t, "the sink has everything", func() bool {
		found := lines(t, filepath.Join(g.dir, "copied.jsonl"))
		return len(found["trace"]) == len(before) && len(found["metrics"]) == len(before)
	})
	copyLog(t, path)
	overwriteFrom(t, path, 160<<10)

	met := false
	for _, id := range before {
		// 503, or 404 if the sink detected it first.
		if status, _ := callAdmin(t, "GET", address, "/cadenza/traces/"+id, ""); status != http.StatusOK {
			met = true
			break
		}
	}
	if !met {
		t.Fatal("the damage was not met")
	}
	var after []string
	for range 50 {
		after = append(after, ask())
		report(after[len(after)-1])
	}
	report(before[0]) // its id is still valid
	after = append(after, before[0])
	for _, id := range after {
		if found := g.metrics(store, id); len(found) != 1 {
			t.Errorf("%d reports on %s are stored", len(found), id)
		}
	}
	if status, answer := callAdmin(t, "GET", address, "/cadenza/traces/"+after[0], ""); status != http.StatusOK {
		t.Errorf("reading a new trace: %d %v", status, answer)
	}
	aside, err := filepath.Glob(path + ".corrupt-*Z")
	if err != nil || len(aside) != 1 {
		t.Fatalf("set aside: %q (%v)", aside, err)
	}
	if logs, err := os.ReadFile(g.logs); err != nil || !strings.Contains(string(logs), aside[0]) {
		t.Errorf("the log does not name %s (%v)", aside[0], err)
	}
	eventually(t, "the sink goes on with the new file", func() bool {
		return len(lines(t, filepath.Join(g.dir, "copied.jsonl"))["metrics"]) == len(before)+len(after)
	})
	g.site(copied, observed)
	want := fmt.Sprintf(`cadenza_store_set_aside_total{store=%q} 1`, path)
	if metrics := g.scrape(); !strings.Contains(metrics, want) {
		t.Errorf("the metrics have no %s", want)
	}
}

// copyLog moves the contents of a database's write-ahead log to its file.
func copyLog(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	eventually(t, "the log is copied", func() bool {
		var busy, length, copied int
		err := db.QueryRow("PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &length, &copied)
		return err == nil && busy == 0
	})
}

func overwriteFrom(t *testing.T, path string, offset int64) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() <= offset {
		t.Fatalf("the file has %d bytes", info.Size())
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	garbage := make([]byte, info.Size()-offset)
	rand.Read(garbage)
	if _, err := file.WriteAt(garbage, offset); err != nil {
		t.Fatal(err)
	}
}
