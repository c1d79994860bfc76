package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
)

// planKey is the API key of the pipeline that asks for plans.
const planKey = "a-key-of-the-pipeline-0001"

// shownOfPlan has what differs from one run to the next.
var shownOfPlan = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|20\d\d-\d\d-\d\dT[0-9:.]+Z|[A-Za-z0-9_-]{16}"`)

// TestPlanPage does what docs/plan.md does, from an edit to the comment on a pull request.
func TestPlanPage(t *testing.T) {
	for _, program := range []string{"curl", "tar", "sh"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	t.Parallel()
	text, err := os.ReadFile("../../docs/plan.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	n := newBadNight(t)
	for _, block := range regexp.MustCompile("(?s)```yaml\n# (\\S+)\n(.*?)```").FindAllStringSubmatch(page, -1) {
		name := "definitions/" + block[1]
		if rest, edited := strings.CutPrefix(block[1], "edited/"); edited {
			name = "edited/definitions/" + rest
		}
		n.write(name, block[2])
	}
	model, err := os.ReadFile(filepath.Join(n.dir, "definitions/context.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"definitions/prompts/p.yaml", "definitions/remoteconfigs/c.yaml"} {
		if err := os.Remove(filepath.Join(n.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	n.write("edited/definitions/context.yaml", string(model))
	caddyfile, err := os.ReadFile(n.caddyfile)
	if err != nil {
		t.Fatal(err)
	}
	n.write("Caddyfile", strings.NewReplacer("\tcadenza\n}", "\tcadenza_console\n\tcadenza\n}", "api_key app", "api_key pipeline {env.PIPELINE_KEY} {\n role editor\n}\napi_key app").Replace(string(caddyfile)))
	n.environ = append(n.environ, "PIPELINE_KEY="+planKey)
	n.startWith(n.caddyfile)
	edited := filepath.Join(n.dir, "edited/definitions")
	if code, output := n.do("cadenza", "plan", edited); code != 1 || !strings.Contains(output, "no decisions were recorded since") {
		t.Errorf("before the first decision: %d %s", code, output)
	}
	const asked = 400
	for i := range asked {
		context := fmt.Sprintf(`{"plan":%q,"seats":%d,"customer_id":"c-%d"}`, []string{"free", "pro"}[i%2], i%61, i%150)
		n.answers("/v1/remoteconfigs", `{"keys":["checkout"],"context":`+context+`}`, `"value":`)
	}
	var output string
	n.eventually("all decisions are stored", func() bool {
		var code int
		code, output = n.do("cadenza", "plan", edited, "--replay", "7d")
		return code == 0 && strings.Contains(output, fmt.Sprintf("%d recorded decisions", asked))
	})
	_, shown, _ := strings.Cut(page, "$ caddy cadenza plan ./edited --replay 7d\n")
	shown, _, _ = strings.Cut(shown, "```")
	alike := func(text string) string {
		var lines []string
		for line := range strings.Lines(shownOfPlan.ReplaceAllString(text, "…")) {
			if line = strings.Join(strings.Fields(line), " "); line != "" && !strings.HasPrefix(line, `{"level"`) && !strings.Contains(line, "the next day may differ") { // at midnight
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "\n")
	}
	if diff := cmp.Diff(alike(shown), alike(output)); diff != "" {
		t.Errorf("docs/plan.md (-) and the command (+):\n%s\n%s", diff, output)
	}
	if code, output := n.do("cadenza", "plan", edited, "--fail-over", "1%"); code != 1 || !strings.Contains(output, "are answered otherwise, more than 1%") {
		t.Errorf("%d %s", code, output)
	}

	// The steps of the workflow, with a gh that keeps the comment.
	workflow, err := os.ReadFile("../../examples/fleet/plan.yml")
	if err != nil {
		t.Fatal(err)
	}
	var steps struct {
		Jobs map[string]struct {
			Steps []struct{ Name, Run string }
		}
	}
	if err := yaml.Unmarshal(workflow, &steps); err != nil {
		t.Fatal(err)
	}
	n.write("bin/gh", "#!/bin/sh\ncase \"$*\" in *--jq*) cat gh.id; exit;; esac\necho \"$@\" > gh.args\nfor last; do :; done\ncp \"${last#body=@}\" gh.comment\n")
	n.write("edited/gh.id", "")
	if err := os.Chmod(filepath.Join(n.dir, "bin/gh"), 0o700); err != nil {
		t.Fatal(err)
	}
	run := func(in, script string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
		cmd.Dir = filepath.Join(n.dir, in)
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(n.dir, "bin")+":"+os.Getenv("PATH"), "RUNNER_TEMP="+n.dir, "CONSOLE="+n.url+"/console", "CONSOLE_KEY="+planKey, "PULL=7", "GITHUB_REPOSITORY=acme/shop")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	ran := 0
	for _, step := range steps.Jobs["plan"].Steps {
		if step.Run == "" {
			continue
		}
		ran++
		if out, err := run("edited", step.Run); err != nil {
			t.Fatalf("%s: %v\n%s", step.Name, err, out)
		}
	}
	comment, err := os.ReadFile(filepath.Join(n.dir, "edited/gh.comment"))
	arguments, _ := os.ReadFile(filepath.Join(n.dir, "edited/gh.args"))
	if err != nil || ran != 2 || !strings.HasPrefix(string(arguments), "api --silent repos/acme/shop/issues/7/comments -F body=@") {
		t.Fatalf("%v, %d steps, gh %s", err, ran, arguments)
	}
	_, shown, _ = strings.Cut(page, "```markdown\n")
	shown, _, _ = strings.Cut(shown, "```")
	if diff := cmp.Diff(alike(shown), alike(strings.TrimPrefix(string(comment), "<!-- caddy cadenza plan -->\n"))); diff != "" {
		t.Errorf("docs/plan.md (-) and the comment (+):\n%s\n%s", diff, comment)
	}
	n.write("edited/gh.id", "41\n42\n")
	out, err := run("edited", steps.Jobs["plan"].Steps[2].Run)
	if arguments, _ = os.ReadFile(filepath.Join(n.dir, "edited/gh.args")); err != nil || !strings.HasPrefix(string(arguments), "api --silent -X PATCH repos/acme/shop/issues/comments/42 -F body=@") {
		t.Errorf("the next push: %v %s, gh %s", err, out, arguments)
	}
	if !strings.HasPrefix(string(comment), "<!-- caddy cadenza plan -->\n") || !strings.Contains(string(comment), "### plan") || !strings.Contains(string(comment), `plan="pro"`) || strings.Contains(string(comment), "seats") || strings.Contains(string(comment), "hash") {
		t.Errorf("the comment: %s", comment)
	}
	n.write("edited/definitions/remoteconfigs/checkout.yaml", "type: strng\n")
	if out, err := run("edited", steps.Jobs["plan"].Steps[1].Run); err == nil || !strings.Contains(out, "remoteconfigs/checkout.yaml:1:") {
		t.Errorf("a mistake: %v\n%s", err, out)
	}
	if code, output := n.do("cadenza", "plan", edited); code != 1 || !strings.Contains(output, "strng") {
		t.Errorf("a mistake: %d %s", code, output)
	}
}
