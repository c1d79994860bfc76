package caddymodule_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checkLogs holds every line that a gateway logged to be an object that has each
// member once: strict readers refuse others.
func checkLogs(t testing.TB, path string) {
	t.Helper()
	logs, err := os.ReadFile(path)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
		return
	}
	for line := range bytes.Lines(logs) {
		if err := uniqueMembers(line); err != nil {
			t.Errorf("%v in the log line %s", err, line)
		}
	}
}

// uniqueMembers reads one JSON object, and fails where it, or one in it, has a
// member twice.
func uniqueMembers(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	var object func() error
	value := func() error {
		token, err := decoder.Token()
		if err != nil {
			return err
		}
		if token == json.Delim('{') || token == json.Delim('[') {
			return object()
		}
		return nil
	}
	object = func() error { // or a list, of which only the objects matter
		inObject := text[decoder.InputOffset()-1] == '{'
		seen := map[string]bool{}
		for decoder.More() {
			if inObject {
				name, err := decoder.Token()
				if err != nil {
					return err
				}
				if seen[name.(string)] {
					return fmt.Errorf("a second %q", name)
				}
				seen[name.(string)] = true
			}
			if err := value(); err != nil {
				return err
			}
		}
		_, err := decoder.Token()
		return err
	}
	if err := value(); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return fmt.Errorf("no end of the line: %v", err)
	}
	return nil
}

func TestUniqueMembers(t *testing.T) {
	for text, unique := range map[string]bool{
		`{"a":1,"b":{"a":[{"a":1},{"a":2}]}}` + "\n": true,
		`{"a":1,"a":1}`:         false,
		`{"b":[{"a":1,"a":2}]}`: false,
		`{"a":1} {"a":1}`:       false,
		`{"a":`:                 false,
	} {
		if err := uniqueMembers([]byte(text)); (err == nil) != unique {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestLogsOfWhatGoesWrong has a gateway begin with a damaged store and a broken
// sink, break its statistics, its definitions and an endpoint, and log all of it.
// checkLogs looks at the lines when the test ends.
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
		return err == nil && bytes.Contains(logs, []byte("counting traces for the statistics"))
	})
}
