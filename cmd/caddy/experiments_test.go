package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

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
