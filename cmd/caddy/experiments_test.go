package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// buildSimulate builds examples/simulate and returns its program.
func buildSimulate(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "simulate")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../examples/simulate").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return program
}

// simulate plays customers against the gateway, and returns what the command says.
func (p *process) simulate(program string, arguments ...string) (output string, err error) {
	cmd := exec.CommandContext(p.t.Context(), program, append([]string{"-address", p.url}, arguments...)...)
	cmd.Env = p.environ
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// TestSimulate plays customers against the running example. Playing the same ones again says
// the same and reports nothing new, others are other customers, and a wrong key is said.
func TestSimulate(t *testing.T) {
	t.Parallel()
	program, data := buildSimulate(t), t.TempDir()
	p := newProcess(t, data)
	p.start()
	said := regexp.MustCompile(`checkout: (\d+) customers saw it, (\d+) were heard of, (\d+) paid`)
	var outputs []string
	for round, arguments := range [][]string{{"-customers", "50"}, {"-customers", "50"}, {"-customers", "50", "-seed", "7"}} {
		output, err := p.simulate(program, arguments...)
		arms := said.FindAllStringSubmatch(output, -1)
		if err != nil || len(arms) != 2 || !strings.Contains(output, "caddy cadenza experiment new_checkout") {
			t.Fatalf("%v: %v\n%s", arguments, err, output)
		}
		var sums [3]int
		for _, arm := range arms {
			for i := range sums {
				n, _ := strconv.Atoi(arm[1+i])
				sums[i] += n
			}
		}
		if shown, heard, paid := sums[0], sums[1], sums[2]; shown != 50 || heard >= shown || paid >= heard || paid < 10 {
			t.Errorf("%v:\n%s", arguments, output)
		}
		outputs = append(outputs, output)
		if round == 0 {
			continue
		}
		want := sums[1]
		if round == 2 {
			first := said.FindAllStringSubmatch(outputs[0], -1)
			for _, arm := range first {
				n, _ := strconv.Atoi(arm[2])
				want += n
			}
		}
		if rows := gatewaytest.Rows(t, gatewaytest.Database(t, filepath.Join(data, "cadenza.db")), "unit_reports"); rows != want {
			t.Errorf("%v: %d reports are stored, want %d", arguments, rows, want)
		}
	}
	if outputs[0] != outputs[1] || outputs[0] == outputs[2] {
		t.Errorf("the same customers, and others:\n%s", strings.Join(outputs, "\n"))
	}
	p.environ = append(p.environ, "CADENZA_API_KEY=another-key-0001")
	if output, err := p.simulate(program, "-customers", "1"); err == nil || !strings.Contains(output, "401") {
		t.Errorf("with another key: %v\n%s", err, output)
	}
}

// TestExperimentsPage does what docs/experiments.md does with the running example, from its
// definition to the readout.
func TestExperimentsPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/experiments.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	definition, err := os.ReadFile("../../examples/definitions/experiments/new_checkout.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(page, "```yaml\n# experiments/new_checkout.yaml\n")
	if shown, _, _ = strings.Cut(shown, "```"); shown == "" || !strings.HasSuffix(string(definition), "\n"+shown) {
		t.Errorf("the page has another experiment than the example:\n%s", shown)
	}
	program := buildSimulate(t)
	p := newProcess(t, t.TempDir())
	p.start()
	ran := 0
	for _, block := range regexp.MustCompile("(?s)```text\n\\$ (.*?)\n(.*?)```").FindAllStringSubmatch(page, -1) {
		command, shown := block[1], block[2]
		ran++
		switch arguments := strings.Fields(command)[1:]; {
		case command == "go run ./examples/simulate":
			output, err := p.simulate(program)
			if err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			if diff := cmp.Diff(shown, strings.ReplaceAll(output, p.url, "http://localhost:8080")); diff != "" {
				t.Errorf("%s: docs/experiments.md (-) and the command (+):\n%s", command, diff)
			}
		case arguments[1] == "check":
			if code, output := p.do(arguments...); code != 0 || !strings.HasSuffix(shownOfExperiments.ReplaceAllString(output, "…"), shownOfExperiments.ReplaceAllString(shown, "…")) {
				t.Errorf("%s: docs/experiments.md has %s, the command %d\n%s", command, shown, code, output)
			}
		default:
			want, got := shownOfExperiments.ReplaceAllString(shown, "…"), ""
			defer func() {
				if diff := cmp.Diff(want, got); t.Failed() {
					t.Logf("%s: docs/experiments.md (-) and the command (+):\n%s", command, diff)
				}
			}()
			p.eventually("the readout is that of docs/experiments.md", func() bool {
				_, output := p.do(append(arguments, "--address", p.admin)...)
				got = shownOfExperiments.ReplaceAllString(output, "…")
				return got == want
			})
		}
	}
	if ran != 3 {
		t.Errorf("%d commands of the page ran", ran)
	}
}

// shownOfExperiments has what differs from one run to the next.
var shownOfExperiments = regexp.MustCompile(`20\d\d-\d\d-\d\d([T ][0-9:.]+(Z| UTC))?|revision [0-9a-f]{12}`)

// do runs a command to its end, and returns its status and what it writes to its output.
func (p *process) do(arguments ...string) (code int, output string) {
	cmd := exec.CommandContext(p.t.Context(), p.program[0], append(p.program[1:len(p.program):len(p.program)], arguments...)...)
	cmd.Dir, cmd.Env = p.root, p.environ
	text, err := cmd.Output()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		p.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}
