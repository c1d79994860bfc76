package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// longest is how long a test binary may take without a mutant.
	longest = 10 * time.Minute
	// usualPatience is added to five times that for a run with a mutant.
	usualPatience = 10 * time.Second
)

// runner tries mutants one after another, because their tests use all cores.
type runner struct {
	root     string
	out      io.Writer
	patience time.Duration

	temporary string              // directory
	on        map[int]*mutant     // the mutants that are compiled in, by number
	binaries  map[string]string   // test binaries with them, by the package's directory
	sound     map[string]baseline // by directory and arguments
}

// baseline is the outcome of some tests without a mutant.
type baseline struct {
	skip  string // tests that fail
	tests bool   // others pass
	took  time.Duration
}

// run tries the mutants and returns those that no test notices.
func (r *runner) run(ctx context.Context, mutants []*mutant) (unkilled []*mutant, err error) {
	if r.temporary, err = os.MkdirTemp("", "mutation"); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(r.temporary) }()
	r.on, r.binaries, r.sound = make(map[int]*mutant), make(map[string]string), make(map[string]baseline)
	for i, m := range mutants {
		if switchable(m.function) {
			r.on[i+1] = m
		}
	}
	bad, err := r.compile(ctx)
	if err != nil {
		return nil, err
	}
	tried := 0
	for i, m := range mutants {
		if _, ok := bad[i+1]; ok && m.generated() {
			continue // such as a - for the + of strings
		}
		tried++
		began := time.Now()
		verdict, killed := "does not compile: "+bad[i+1], false
		if bad[i+1] == "" {
			verdict, killed = r.try(ctx, i+1, m)
		}
		if ctx.Err() != nil {
			return nil, errors.New("interrupted")
		}
		fmt.Fprintf(r.out, "%d/%d\t%s\t%s\t%.1fs\n", i+1, len(mutants), strings.Join(strings.Fields(verdict), " "), m, time.Since(began).Seconds())
		if !killed {
			unkilled = append(unkilled, m)
		}
	}
	fmt.Fprintf(r.out, "killed %d of %d\n", tried-len(unkilled), tried)
	return unkilled, nil
}

var compilerError = regexp.MustCompile(`(?m)mutant(\d+):\d+.*$`)

// compile removes the mutants that do not compile from r.on, and returns the compiler's
// errors by their numbers.
func (r *runner) compile(ctx context.Context) (map[int]string, error) {
	bad := make(map[int]string)
	for {
		flag, err := r.write("all.json", overlay(r.on))
		if err != nil || len(r.on) == 0 {
			return bad, err
		}
		dirs := make(map[string]bool)
		for _, m := range r.on {
			dirs["./"+m.dir] = true
		}
		arguments := []string{"build", "-gcflags=-e", "-o=" + os.DevNull, flag}
		printed, err := r.command(ctx, r.root, "go", slices.AppendSeq(arguments, maps.Keys(dirs))...).CombinedOutput()
		if err == nil {
			return bad, nil
		}
		errs := compilerError.FindAllStringSubmatch(string(printed), -1)
		for _, e := range errs {
			number, _ := strconv.Atoi(e[1])
			bad[number] = e[0]
			delete(r.on, number)
		}
		if len(errs) == 0 {
			return nil, fmt.Errorf("go build: %w\n%s", err, printed)
		}
	}
}

// write writes the files of an overlay, and returns the go command's flag for it.
func (r *runner) write(name string, files map[string][]byte) (string, error) {
	replace := make(map[string]string)
	dir, err := os.MkdirTemp(r.temporary, "overlay")
	if err != nil {
		return "", err
	}
	for path, text := range files {
		replace[path] = filepath.Join(dir, strconv.Itoa(len(replace))+".go")
		if err := os.WriteFile(replace[path], text, 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name = filepath.Join(r.temporary, name)
	return "-overlay=" + name, os.WriteFile(name, text, 0o600)
}

// try runs a mutant's tests with its change. It returns the verdict, and reports whether
// the mutant was killed.
func (r *runner) try(ctx context.Context, number int, m *mutant) (verdict string, killed bool) {
	survived := "SURVIVED"
	for _, dir := range m.tests {
		sound, err := r.baseline(ctx, m, dir)
		if err != nil {
			return err.Error(), false
		}
		if !sound.tests {
			survived = "no test passes without it in " + dir
			continue
		}
		binary := r.binaries[dir]
		if r.on[number] == nil {
			flag, err := r.write("one.json", map[string][]byte{m.file.path: m.file.with(m)})
			if err != nil {
				return err.Error(), false
			}
			binary = filepath.Join(r.temporary, "one.test")
			if err := r.build(ctx, dir, binary, flag); err != nil {
				return "does not compile: " + err.Error(), false
			}
		}
		arguments := append(m.arguments(), "-test.failfast", "-test.skip="+sound.skip)
		if failed := r.test(ctx, binary, dir, number, 5*sound.took+r.patience, arguments...).failed; len(failed) > 0 {
			return "killed by " + failed[len(failed)-1], true
		}
	}
	return survived, false
}

// arguments returns which tests of a package run for a mutant. There are many
// generated ones: the longest tests are left out.
func (m *mutant) arguments() []string {
	return []string{"-test.run=" + m.pattern, "-test.short=" + strconv.FormatBool(m.generated())}
}

// baseline runs a mutant's tests in one directory without any mutant.
func (r *runner) baseline(ctx context.Context, m *mutant, dir string) (baseline, error) {
	key := dir + " " + strings.Join(m.arguments(), " ")
	sound, known := r.sound[key]
	if known {
		return sound, nil
	}
	if r.binaries[dir] == "" {
		binary := filepath.Join(r.temporary, strings.ReplaceAll(dir, "/", "-")+".test")
		if err := r.build(ctx, dir, binary, "-overlay="+filepath.Join(r.temporary, "all.json")); err != nil {
			return baseline{}, err
		}
		r.binaries[dir] = binary
	}
	for {
		began := time.Now()
		result := r.test(ctx, r.binaries[dir], dir, 0, longest, append(m.arguments(), "-test.skip="+sound.skip)...)
		sound.tests, sound.took = result.ran && len(result.failed) == 0, time.Since(began)
		if len(result.failed) == 0 || sound.skip != "" {
			r.sound[key] = sound
			return sound, nil
		}
		// Such as a test that counts allocations.
		fmt.Fprintf(r.out, "%s: red without a mutant, so left out: %s\n", dir, strings.Join(result.failed, ", "))
		for i, name := range result.failed {
			result.failed[i], _, _ = strings.Cut(name, "/")
		}
		sound.skip = "^(" + strings.Join(result.failed, "|") + ")$"
	}
}

func (r *runner) build(ctx context.Context, dir, binary, overlay string) error {
	// Vet would refuse code that a mutant makes unreachable or useless.
	if out, err := r.command(ctx, r.root, "go", "test", "-c", "-vet=off", overlay, "-o", binary, "./"+dir).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// result is the result of a test binary.
type result struct {
	ran    bool     // some test ran
	failed []string // the tests that failed, or another end
}

var failure = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)

// test runs a test binary with the mutant of a number, 0 for none.
func (r *runner) test(ctx context.Context, binary, dir string, number int, timeout time.Duration, arguments ...string) result {
	// This timeout is for binaries that do not heed their own.
	ctx, cancel := context.WithTimeout(ctx, timeout+r.patience)
	defer cancel()
	command := r.command(ctx, filepath.Join(r.root, dir), binary, append(arguments, "-test.timeout="+timeout.String())...)
	command.Env = append(command.Environ(), variable+"="+strconv.Itoa(number))
	printed, err := command.CombinedOutput()
	read := result{ran: !bytes.Contains(printed, []byte("testing: warning: no tests to run"))}
	if err == nil {
		return read
	}
	for _, line := range failure.FindAllSubmatch(printed, -1) {
		read.failed = append(read.failed, string(line[1]))
	}
	switch {
	case bytes.Contains(printed, []byte("panic: test timed out")) || ctx.Err() != nil:
		read.failed = append(read.failed, fmt.Sprintf("a timeout after %s", timeout))
	case len(read.failed) == 0:
		read.failed = append(read.failed, "the end of the test binary")
	}
	return read
}

func (r *runner) command(ctx context.Context, dir, name string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir = dir
	command.WaitDelay = 10 * time.Second
	return command
}
