package main

import (
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/freeport"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// footprintRequests is how many requests are compared. In each, a pool may have been emptied
// and the gateway may checkpoint, count statistics or look for edits.
const footprintRequests = 8

// TestFunctionsOfARequest counts the functions of this module that one request of the
// example runs until its trace is stored, as far as each of several such requests runs them:
// others come by chance. It has ceilings for the same reason as lines:
// docs/adr/0012-complexity.md. Only `.ci/step footprint` runs it, because building a
// gateway that counts takes a minute. With -v it prints the functions.
func TestFunctionsOfARequest(t *testing.T) {
	if os.Getenv("CADENZA_FOOTPRINT") == "" {
		t.Skip("CADENZA_FOOTPRINT is not set")
	}
	program := filepath.Join(t.TempDir(), "gateway")
	build := exec.CommandContext(t.Context(), "go", "build", "-cover", "-covermode=atomic", "-coverpkg=github.com/cadenza-gateway/cadenza/...", "-o", program, "./testdata/footprint")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	counters, data, control := t.TempDir(), t.TempDir(), freeport.Address(t)
	p := newProcess(t, data, "GOCOVERDIR="+counters, "FOOTPRINT_ADDRESS="+control)
	p.program = []string{program}
	p.start()
	tell := func(what string) {
		response, err := http.Get("http://" + control + "/" + what)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Fatalf("/%s: %s", what, response.Status)
		}
	}
	db := gatewaytest.Database(t, filepath.Join(data, "cadenza.db"))
	stored := func() (n int) {
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM traces").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}

	// Each body has a z, because the search for secrets begins at one, and the hashes of a trace
	// have one or not, by the key that the store makes.
	for _, test := range []struct {
		name, path, body          string
		maxFunctions, maxPackages int
	}{
		{"a boolean", "/v1/remoteconfigs", `{"keys":["new_checkout"],"context":{"environment":"production","plan":"pro","seats":20,"customer_id":"z-1"}}`, 340, 17},
		{"a prompt", "/v1/prompts", `{"keys":["support_reply"],"context":{"locale":"nl"},"variables":{"question":"Pizza?"}}`, 327, 17},
		{"a streamed call", "/v1/endpoints", `{"key":"support_chat","stream":true,"context":{"locale":"nl"},"variables":{"question":"Pizza?"}}`, 600, 29},
	} {
		t.Run(test.name, func(t *testing.T) {
			ask := func() {
				before := stored()
				status, _, answer, err := post(t.Context(), http.DefaultClient, p.url+test.path, test.body)
				if err != nil || status != http.StatusOK {
					t.Fatalf("%d %s %v", status, answer, err)
				}
				gatewaytest.Eventually(t, "the trace is stored", func() bool { return stored() > before })
			}
			ask()              // the first one creates objects that the others reuse
			var names []string // of all requests
			for i := range footprintRequests {
				tell("clear")
				ask()
				tell("write")
				ran := functionsOf(t, counters)
				if i == 0 {
					names = ran
				}
				names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(ran, name) })
			}
			if testing.Verbose() {
				t.Log(strings.Join(names, "\n"))
			}
			functions, packages := len(names), packagesOf(names)
			t.Logf("%s: %d functions in %d packages", test.name, functions, packages)
			if functions > test.maxFunctions || packages > test.maxPackages {
				t.Errorf("%s runs %d functions in %d packages; %d in %d is the ceiling: what could go?", test.name, functions, packages, test.maxFunctions, test.maxPackages)
			}
		})
	}
}

// functionsOf returns the functions of this module that ran, by file and name, and deletes
// the counters.
func functionsOf(t *testing.T, counters string) (names []string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "tool", "covdata", "func", "-i", counters).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		// github.com/…/trace/kind.go:24:	String	100.0%
		place, rest, found := strings.Cut(line, "\t")
		if !found || strings.HasPrefix(line, "total") || strings.HasSuffix(line, "\t0.0%\n") || strings.Contains(place, "/testdata/") {
			continue
		}
		function, _, _ := strings.Cut(strings.TrimSpace(rest), "\t") // the share of its lines that ran differs
		names = append(names, place+" "+function)
	}
	counted, err := filepath.Glob(filepath.Join(counters, "covcounters.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range counted {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// packagesOf returns the number of packages of functions.
func packagesOf(names []string) int {
	packages := make(map[string]bool)
	for _, name := range names {
		file, _, _ := strings.Cut(name, ":")
		packages[path.Dir(file)] = true
	}
	return len(packages)
}
