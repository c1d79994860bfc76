package caddymodule_test

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

func TestUniqueMembers(t *testing.T) {
	for text, unique := range map[string]bool{
		`{"a":1,"b":{"a":[{"a":1},{"a":2}]}}` + "\n": true,
		`{"a":1,"a":1}`:         false,
		`{"b":[{"a":1,"a":2}]}`: false,
		`{"a":1} {"a":1}`:       false,
		`{"a":`:                 false,
	} {
		if err := gatewaytest.UniqueMembers([]byte(text)); (err == nil) != unique {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestLogsOfWhatGoesWrong starts a gateway with a damaged store and a broken sink, breaks
// its statistics, its definitions and an endpoint, and checks that all of it is logged.
// checkLogs checks the lines when the test ends.
func TestLogsOfWhatGoesWrong(t *testing.T) {
	files := single()
	files["data/cadenza.db"] = strings.Repeat("this is no database ", 1000)
	files["nowhere"] = "a file, where a sink wants a directory"
	g := startGateway(t, files, options+"sink file {dir}/nowhere/traces.jsonl\n")
	logged := func(part string) {
		t.Helper()
		eventually(t, "the log says "+part, func() bool {
			logs, err := os.ReadFile(g.logs)
			return err == nil && bytes.Contains(logs, []byte(part))
		})
	}
	logged("the trace store is damaged")
	logged("not delivered to a sink")
	g.post("/v1/endpoints", ask("q?", false))
	logged("an endpoint failed")
	g.write("definitions/prompts/reply.yaml", "nonsense: true\n")
	logged("nonsense")

	db, err := sql.Open("sqlite", filepath.Join(g.dir, "data/cadenza.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("PRAGMA busy_timeout = 5000; ALTER TABLE stats RENAME TO elsewhere"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the statistics fail", func() bool {
		g.post("/v1/prompts", `{"keys":["hello"]}`)
		logs, err := os.ReadFile(g.logs)
		return err == nil && bytes.Contains(logs, []byte("not counted for the statistics"))
	})
}
