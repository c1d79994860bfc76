package main

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestProofOfAnOldTrace asks for a decision from before an edit: its proof, its
// definitions as a directory, and their differences from the current ones.
func TestProofOfAnOldTrace(t *testing.T) {
	t.Parallel()
	n := newBadNight(t)
	const table = "type: string\ndefault: none\nrules: [ { id: paid, when: { plan: pro }, value: "
	first := "# why first\r\n" + table + "first } ]\ndescription: said of first\ntests: [ { context: { plan: pro }, value: first } ]\n"
	n.write("definitions/remoteconfigs/c.yaml", first)
	n.write("definitions/prompts/below/more.json", `{ "provider": "canned", "model": "m",  "messages": [ { "role": "user", "content": "more" } ] }`)
	n.startWith(n.caddyfile)
	ask := func(value string) (id string) {
		t.Helper()
		body := n.answers("/v1/remoteconfigs", `{"keys":["c"],"context":{"plan":"pro"}}`, `"value":"`+value+`"`)
		return regexp.MustCompile(`"trace_id":"([^"]+)"`).FindStringSubmatch(body)[1]
	}
	// do runs a command until it exits as wanted, because records are stored after
	// their answers.
	do := func(want int, arguments ...string) (output string) {
		t.Helper()
		n.eventually(fmt.Sprintf("%s exits with %d", arguments, want), func() bool {
			var code int
			code, output = n.do(append([]string{"cadenza"}, arguments...)...)
			return code == want
		})
		return output
	}
	old := ask("first")
	n.write("definitions/remoteconfigs/c.yaml", table+"second } ]\n")
	ask("second")

	proof := do(0, "prove", old)
	revision := regexp.MustCompile(`revision ([0-9a-f]{12})`).FindStringSubmatch(proof)
	if revision == nil || !strings.Contains(proof, "decided       paid (match)") || !strings.Contains(proof, "result        same") {
		t.Fatalf("%s", proof)
	}
	if all := do(0, "prove", "--key", "c", "--since", "1h", "--limit", "1000"); !strings.Contains(all, " 0 differ, 0 can't say") {
		t.Errorf("all traces: %s", all)
	}

	then := filepath.Join(n.dir, "then")
	if output := do(0, "checkout", revision[1][:6], then); !strings.Contains(output, "is revision "+revision[1]) {
		t.Errorf("%s", output)
	}
	for _, name := range []string{"context.yaml", "prompts/p.yaml", "prompts/below/more.json", "remoteconfigs/c.yaml"} {
		want, err := os.ReadFile(filepath.Join(n.dir, "definitions", name))
		if err != nil {
			t.Fatal(err)
		}
		if name == "remoteconfigs/c.yaml" {
			want = []byte(first)
		}
		if got, err := os.ReadFile(filepath.Join(then, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
	past := "revision:" + revision[1][:6]
	for _, test := range []struct {
		arguments []string
		code      int
		want      string
	}{
		{[]string{"check", past}, 0, "1 test (revision " + revision[1] + ")"},
		{[]string{"eval", past, "c", "--context", "{plan: pro}"}, 0, `"first"`},
		{[]string{"diff", past, then}, 0, "no difference (revision " + revision[1] + ")"},
		{[]string{"check", "revision:000000000000"}, 1, "the store has no revision 000000000000"},
		{[]string{"eval", "revision:000000000000", "c"}, 1, revision[1] + "  served "},
		{[]string{"diff", past, "revision:000000000000"}, 1, revision[1] + "  served "},
		{[]string{"checkout", "000000000000", then}, 1, revision[1] + "  served "},
	} {
		own := &process{t: t, program: n.program, environ: n.environ}
		own.run(append(append([]string{"cadenza"}, test.arguments...), "--address", n.admin)...)
		<-own.exited
		if output := own.output.String(); own.command.ProcessState.ExitCode() != test.code || !strings.Contains(output, test.want) {
			t.Errorf("%s: %s", test.arguments, output)
		}
	}
	diff := &process{t: t, program: n.program, environ: n.environ}
	diff.run("cadenza", "diff", then, filepath.Join(n.dir, "definitions"))
	<-diff.exited
	if output := diff.output.String(); !strings.Contains(output, `"first" (paid)`) || !strings.Contains(output, `"second" (paid)`) || strings.Contains(output, "prompt") {
		t.Errorf("%s", output)
	}

	if output := do(0, "export", "--verify"); !strings.Contains(output, " valid, 0 changed, 0 without a seal, 0 under other trace keys") {
		t.Errorf("%s", output)
	}

	// A changed record does not pass, even if the definitions would decide so.
	db, err := sql.Open("sqlite", "file:"+n.store()+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	id := strings.ToUpper(strings.ReplaceAll(old, "-", ""))
	if _, err := db.Exec("UPDATE traces SET decision_id = randomblob(16), time_ms = time_ms + 1 WHERE hex(id) = ?", id); err != nil {
		t.Fatal(err)
	}
	if output := do(1, "prove", old); !strings.Contains(output, "decided       paid (match)") || !strings.Contains(output, "the record was changed after it was made") {
		t.Errorf("%s", output)
	}
	if output := do(1, "export", "--verify"); !strings.Contains(output, old+"  remoteconfig c  changed\n") || !strings.Contains(output, " valid, 1 changed, 0 without a seal") {
		t.Errorf("%s", output)
	}
	if _, err := db.Exec("UPDATE traces SET reason = 'default', matched_row = NULL WHERE hex(id) = ?", id); err != nil {
		t.Fatal(err)
	}
	if output := do(1, "prove", old); !strings.Contains(output, "the definitions decide paid (match), and recorded is the default") {
		t.Errorf("%s", output)
	}
}
