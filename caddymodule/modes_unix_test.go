//go:build unix

package caddymodule_test

import (
	"maps"
	"path/filepath"
	"testing"
)

// TestFilesThatOthersCanReadAreWarnedOf starts with a store and a sink file of mode 0644.
func TestFilesThatOthersCanReadAreWarnedOf(t *testing.T) {
	files := map[string]string{"data/cadenza.db": "", "out.jsonl": ""}
	maps.Copy(files, workspace)
	g := startGateway(t, files, options+"sink file {dir}/out.jsonl\n")
	g.post("/v1/prompts", `{"keys":["hello"]}`)
	store := filepath.Join(g.dir, "data", "cadenza.db")
	for _, command := range []string{"chmod 600 " + store, "chmod 600 " + filepath.Join(g.dir, "out.jsonl")} {
		eventually(t, "the log says "+command, g.said(command))
	}
}
