package definition

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// hardWork is a workspace whose tests take many seconds: each looks for its row
// among many regular expressions.
func hardWork() map[string]string {
	var b strings.Builder
	b.WriteString("type: string\ndefault: x\ncolumns: [s, value]\nmatrix:\n")
	for i := range 300 {
		fmt.Fprintf(&b, "  - [/(a|b|ab)*c%d$/, x]\n", i)
	}
	b.WriteString("tests:\n  - &t { context: { s: " + strings.Repeat("ab", 2000) + " }, value: x, rule: default }\n")
	b.WriteString(strings.Repeat("  - *t\n", 300))
	return map[string]string{
		"context.yaml":            "fields: { s: { type: string } }\n",
		"remoteconfigs/a.yaml":    "type: string\ndefault: x\n",
		"remoteconfigs/hard.yaml": b.String(),
	}
}

// A loading that takes too long is given up and says what takes so long; the
// last good set stays, and the next loading is as any other.
func TestLoadTimeout(t *testing.T) {
	easy := map[string]string{"context.yaml": "fields: { s: { type: string } }\n", "remoteconfigs/hard.yaml": "type: string\ndefault: x\n"}
	dir := workspace(t, easy)
	s := opened(t, dir)
	first := s.Snapshot()
	for name, text := range hardWork() {
		write(t, filepath.Join(dir, name), text)
	}
	s.read = func(ctx context.Context, dir string, m *memory, _ ...Configuration) (*Snapshot, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // the tests begin long before
		defer cancel()
		return loadAgain(ctx, dir, m)
	}
	begun := time.Now()
	err := s.Reload()
	took := time.Since(begun)
	if _, ok := errors.AsType[*document.MultiError](err); !ok {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{filepath.Join("remoteconfigs", "hard.yaml") + ":1:1: loading the definitions was given up after ", ": running these tests took longest, ", "A loading may take 10s"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	// All of it takes longer.
	if took > 10*time.Second {
		t.Errorf("it ends after %v", took)
	}
	if s.Snapshot() != first || !errors.Is(s.LastError(), err) {
		t.Errorf("the last good set is not served, or the error is %v", s.LastError())
	}
	s.read = loadAgain
	write(t, filepath.Join(dir, "remoteconfigs/hard.yaml"), "type: string\ndefault: y\n")
	if err := s.Reload(); err != nil || string(s.Snapshot().RemoteConfigs["hard"].Default()) != `"y"` {
		t.Errorf("after it: %v", err)
	}
}

// Each step of a loading ends early when the loading is to end.
func TestEveryStepEndsEarly(t *testing.T) {
	files := hardWork()
	files["prompts/p.yaml"], files["endpoints/e.yaml"] = simple, "prompt: p\n"
	dir := workspace(t, files)
	full, err := Load(workspace(t, map[string]string{"prompts/p.yaml": simple}))
	if err != nil || full == nil {
		t.Fatal(err)
	}
	var errs document.Errors
	d := readDirectory(dir, &errs)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var m memory
	s, err := compile(ctx, d, &m, 2, nil, &errs)
	if s != nil || !errors.Is(err, context.Canceled) || m.files != nil {
		t.Errorf("%v, %v, %d files remembered", s, err, len(m.files))
	}
}

// Closing a workspace does not wait for the running load, nor for the
// turn of a loading, and that is no news.
func TestCloseEndsLoading(t *testing.T) {
	dir := workspace(t, map[string]string{"remoteconfigs/a.yaml": "type: string\ndefault: x\n"})
	for _, waiting := range []bool{false, true} {
		s, err := Open(dir)
		must(t, err)
		s.Subscribe(func(_ *Snapshot, err error) { t.Errorf("told of %v", err) }, nil)
		entered := make(chan struct{})
		s.read = func(ctx context.Context, dir string, m *memory, _ ...Configuration) (*Snapshot, error) {
			close(entered)
			if waiting {
				return loadAgain(ctx, dir, m)
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		done := func() {}
		if waiting {
			if done, err = turn(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		result := make(chan error, 1)
		go func() { result <- s.Reload() }()
		<-entered
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		select {
		case err := <-result:
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("the loading goes on")
		}
		done()
		if s.LastError() != nil {
			t.Error(s.LastError())
		}
	}
}

// One workspace of a process is loaded at a time.
func TestOneLoadingAtATime(t *testing.T) {
	dir := workspace(t, map[string]string{"remoteconfigs/a.yaml": "type: string\ndefault: x\n"})
	done, err := turn(t.Context())
	must(t, err)
	loaded := make(chan error, 1)
	go func() {
		_, err := Load(dir)
		loaded <- err
	}()
	select {
	case err := <-loaded:
		t.Errorf("loaded beside another: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	done()
	if err := <-loaded; err != nil {
		t.Error(err)
	}
}

// A large loading returns its memory, in the background.
func TestMemoryIsGivenBack(t *testing.T) {
	before := allocated()
	giveBack(before)
	if givingBack.Load() {
		t.Error("memory is given back after a small loading")
	}
	for range largeLoad >> 20 {
		ballast = make([]byte, 1<<20)
	}
	ballast = nil
	giveBack(before)
	for begun := time.Now(); givingBack.Load(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatal("memory is not given back in a minute")
		}
	}
}

var ballast []byte // a value that the compiler may not leave out

// The values of a workspace's definitions are counted to the last one, and
// again from the memory.
func TestCeilingsOfWorkspace(t *testing.T) {
	if raceEnabled {
		t.Skip("files of megabytes")
	}
	list := func(n int) string { return "type: list\ndefault: [" + strings.Repeat("1,", n-1) + "1]\n" }
	// A file has two values and keys for each member except the items.
	const each = 250_000
	dir := t.TempDir()
	for i := range MaxNodes / each {
		write(t, filepath.Join(dir, fmt.Sprintf("remoteconfigs/c%d.yaml", i)), list(each-5))
	}
	var m memory
	s, err := loadAgain(t.Context(), dir, &m)
	must(t, err)
	if nodes, _ := m.files["remoteconfigs/c0.yaml"].node.Size(); nodes != each {
		t.Fatalf("%d values and keys", nodes)
	}
	write(t, filepath.Join(dir, "remoteconfigs/more.yaml"), "type: list\ndefault: []\n")
	for range 2 {
		_, err := loadAgain(t.Context(), dir, &m)
		if err == nil || !strings.Contains(err.Error(), "the definitions have more than 2000000 values and keys together") {
			t.Errorf("got %v", err)
		}
	}
	must(t, os.Remove(filepath.Join(dir, "remoteconfigs/more.yaml")))
	if again, err := loadAgain(t.Context(), dir, &m); err != nil || again.Revision != s.Revision {
		t.Errorf("%v", err)
	}
}

// A definition that is written out has at most 16 MiB.
func TestCeilingOfContent(t *testing.T) {
	if raceEnabled {
		t.Skip("files of megabytes")
	}
	load := func(files map[string]string) error {
		_, err := Load(workspace(t, files))
		return err
	}
	// 12 MiB in a file, and 4 MiB by aliases.
	texts := func(extra int) map[string]string {
		return map[string]string{"remoteconfigs/c.yaml": "type: list\ndefault:\n  - &a " + strings.Repeat("x", 3_040_000) + "\n  - *a\n" + strings.Repeat("  - "+strings.Repeat("y", 3_040_000)+"\n", 3) +
			"  - &b \"" + strings.Repeat(`\u0001`, extra) + "\"\n" + strings.Repeat("  - *b\n", 5)}
	}
	if err := load(texts(40_000)); err != nil {
		t.Error(err)
	}
	if err := load(texts(50_000)); err == nil || !strings.Contains(err.Error(), "when it is written out, at most 16 MiB are possible") {
		t.Errorf("got %.300v", err)
	}
	prompt := func(variants int) map[string]string {
		s := "default: a\nvariants:\n  a: { messages: [ { role: user, content: " + strings.Repeat("x", 1<<20-1000) + " } ] }\n"
		for i := range variants - 1 {
			s += fmt.Sprintf("  b%d: { extends: a }\n", i)
		}
		return map[string]string{"prompts/p.yaml": s}
	}
	if err := load(prompt(16)); err != nil {
		t.Error(err)
	}
	if err := load(prompt(17)); err == nil || !strings.Contains(err.Error(), "p.yaml:19:3: the variants have more than 16 MiB together") {
		t.Errorf("got %v", err)
	}
	patches := func(rows int) map[string]string {
		return map[string]string{"remoteconfigs/c.yaml": "type: object\nmerge: default\ndefault: { text: " + strings.Repeat("x", 1<<20-1000) + " }\nrules:\n" +
			strings.Repeat("  - value: { a: 1 }\n", rows)}
	}
	if err := load(patches(16)); err != nil {
		t.Error(err)
	}
	if err := load(patches(17)); err == nil || !strings.Contains(err.Error(), "c.yaml:21:12: the values have more than 16 MiB together") {
		t.Errorf("got %v", err)
	}
}
