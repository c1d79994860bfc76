package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	// nodeProject is the directory of the third-party clients that npm installs.
	nodeProject = "../../testdata/clients"
	// nodeRequired is the environment variable that makes a test fail, rather than
	// skip, if Node or a client is missing.
	nodeRequired = "CADENZA_REQUIRE_NODE"
	// oldestNode is the minimum version for the clients.
	oldestNode = 22
)

// missing skips a test that needs Node, or what it installs, or fails it where the
// environment says that these are required.
func missing(t *testing.T, format string, arguments ...any) {
	t.Helper()
	if os.Getenv(nodeRequired) != "" {
		t.Fatalf(format, arguments...)
	}
	t.Skipf(format+" (set "+nodeRequired+" to fail instead)", arguments...)
}

// node returns the program of Node and the absolute path of its project. It skips the
// test if one of them is missing.
func node(t *testing.T) (program, project string) {
	t.Helper()
	program = nodeProgram(t)
	project, err := filepath.Abs(nodeProject)
	if err != nil {
		t.Fatal(err)
	}
	// npm writes this file last.
	if _, err := os.Stat(filepath.Join(project, "node_modules/.package-lock.json")); err != nil {
		missing(t, "the clients are not installed: run npm ci in testdata/clients")
	}
	return program, project
}

// nodeProgram returns the program of Node. It skips the test if there is none, or an old
// one.
func nodeProgram(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("node")
	if err != nil {
		missing(t, "the clients of testdata need Node %d or later: %v", oldestNode, err)
	}
	said, err := exec.Command(program, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	version := strings.TrimSpace(string(said))
	major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	if n, err := strconv.Atoi(major); err != nil || n < oldestNode {
		missing(t, "the clients of testdata need Node %d or later, and %s is %s", oldestNode, program, version)
	}
	return program
}
