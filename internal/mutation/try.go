package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// try runs a mutant's tests with its change. It returns the line to print, and
// reports whether the mutant was killed.
func (r *runner) try(ctx context.Context, m *mutant, temporary string) (verdict string, killed bool) {
	file, content, err := m.apply(r.root)
	if err != nil {
		return "does not apply: " + err.Error(), false
	}
	changed := filepath.Join(temporary, "changed.go")
	overlay := filepath.Join(temporary, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	if err != nil {
		return err.Error(), false
	}
	for name, text := range map[string][]byte{changed: content, overlay: replace} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return err.Error(), false
		}
	}
	if out, err := r.command(ctx, "build", "-overlay", overlay, "./"+m.dir).CombinedOutput(); err != nil {
		return "does not compile: " + strings.TrimSpace(string(out)), false
	}
	if err := r.baseline(ctx, m); err != nil {
		return err.Error(), false
	}
	result := r.test(ctx, m, "-overlay", overlay)
	switch {
	case result.err == nil:
		return "SURVIVED " + strings.Join(m.testArguments(), " "), false
	case result.build:
		return "does not compile: " + result.output, false
	case result.failed == "":
		return "no test failed, but go test did: " + result.output, false
	}
	return "killed by " + result.failed, true
}

// baseline returns an error where the mutant's tests fail on the unchanged code,
// or where there are none. Results of earlier runs come from the go command's
// cache.
func (r *runner) baseline(ctx context.Context, m *mutant) error {
	key := strings.Join(m.testArguments(), " ")
	err, known := r.sound[key]
	if !known {
		switch result := r.test(ctx, m); {
		case result.err != nil:
			err = fmt.Errorf("its tests are red without it: %s %s", result.failed, result.output)
		case !result.ran:
			err = fmt.Errorf("no test runs: go test %s", key)
		}
		r.sound[key] = err
	}
	return err
}

// testArguments are what go test gets for the mutant.
func (m *mutant) testArguments() []string {
	// Vet would refuse code that a mutant makes unreachable or useless.
	arguments := []string{"-vet=off", "-failfast", "-timeout", m.timeout().String()}
	if m.Run != "" {
		arguments = append(arguments, "-run", m.Run)
	}
	for _, dir := range m.tests() {
		arguments = append(arguments, "./"+dir)
	}
	return arguments
}

// result is the result of go test.
type result struct {
	err    error
	ran    bool   // some test ran
	build  bool   // something did not build
	failed string // the first test that failed, or what ended the tests
	output string // the end of what was printed
}

// test runs the mutant's tests; the flags come first.
func (r *runner) test(ctx context.Context, m *mutant, flags ...string) result {
	// The test binaries have a timeout of their own. This one is for those that
	// do not heed it, and for the build: linking all of Caddy takes minutes.
	ctx, cancel := context.WithTimeout(ctx, time.Duration(len(m.tests()))*(m.timeout()+10*time.Minute))
	defer cancel()
	arguments := append(append([]string{"test", "-json"}, flags...), m.testArguments()...)
	command := r.command(ctx, arguments...)
	var printed bytes.Buffer
	command.Stdout, command.Stderr = &printed, &printed
	err := command.Run()
	read := readEvents(&printed)
	read.err = err
	return read
}

func (r *runner) command(ctx context.Context, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir = r.root
	// On an interrupt the go command stops its tests.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	return command
}

// readEvents reads the output of go test -json: an object on each line, and
// plain lines from the go command itself.
func readEvents(printed *bytes.Buffer) (read result) {
	const keep = 2000 // bytes of the output
	var output []byte
	var packageFailed string
	lines := bufio.NewScanner(printed)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var event struct{ Action, Package, Test, Output, FailedBuild string }
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			output = append(append(output, lines.Bytes()...), '\n')
			continue
		}
		output = append(output, event.Output...)
		switch event.Action {
		case "run":
			read.ran = true
		case "build-fail":
			read.build = true
		case "output":
			if text, ok := strings.CutPrefix(event.Output, "panic: test timed out"); ok && read.failed == "" {
				read.failed = "a timeout" + strings.TrimRight(text, "\n")
				if event.Test != "" {
					read.failed += " in " + event.Test
				}
			}
		case "fail":
			switch {
			case event.FailedBuild != "":
				read.build = true
			case event.Test == "":
				packageFailed = "the end of " + event.Package
			// The event of a subtest comes before its parent's.
			case read.failed == "":
				read.failed = event.Test
			}
		}
	}
	if read.failed == "" {
		// A crash outside a test, or of the whole binary.
		read.failed = packageFailed
	}
	read.output = string(bytes.TrimSpace(output[max(0, len(output)-keep):]))
	return read
}
