package definition

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/rules"
)

const manual = "../../docs/definitions.md"

// TestManualLoads loads the definitions that the manual shows, and those of the page of
// rollouts. Their first line is the file's name.
func TestManualLoads(t *testing.T) {
	text, err := os.ReadFile(manual)
	must(t, err)
	rollouts, err := os.ReadFile("../../docs/rollouts.md")
	must(t, err)
	text = append(text, rollouts...)
	files := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)```yaml\n# (\\S+)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		files[m[1]] = m[2]
	}
	if len(files) < 7 || len(files) != strings.Count(string(text), "```yaml") {
		t.Fatalf("found %d files", len(files))
	}
	for _, m := range regexp.MustCompile("(?s)`(\\S+\\.csv)`:\n\n```csv\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		files[m[1]] = m[2]
	}
	s := mustLoad(t, workspace(t, files))
	for _, w := range s.Warnings {
		if w.Kind != "experiment-over" { // which is a matter of time
			t.Error(w)
		}
	}
	if len(s.Experiments) == 0 {
		t.Error("no experiment")
	}
}

// TestDecisionsPage compares the definitions of docs/decisions.md with those of the
// revision that its commands print, and answer its customer as it says.
func TestDecisionsPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/decisions.md")
	must(t, err)
	files := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)```yaml\n# ([^\\s:]+)[^\n]*\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		files[m[1]] = m[2]
	}
	s := mustLoad(t, workspace(t, files))
	shown := regexp.MustCompile(`(?m)(?:^Cadenza-Revision: |revision +|"revision": ")([0-9a-f]{12})`).FindAllStringSubmatch(string(text), -1)
	if len(shown) < 5 {
		t.Errorf("the page shows %d revisions", len(shown))
	}
	for _, m := range shown {
		if m[1] != s.Revision {
			t.Errorf("the page shows the revision %s, its definitions have %s", m[1], s.Revision)
		}
	}
	for key, c := range s.RemoteConfigs {
		if strings.Contains(string(text), "remoteconfigs/"+key+"  ") && !strings.Contains(string(text), "remoteconfigs/"+key+"  "+c.Version) {
			t.Errorf("the page shows another version of %s than %s", key, c.Version)
		}
	}
	b := bind(t, s, `{"locale":"nl-BE","plan":"pro","customer_id":"c-7"}`)
	variant, d := s.Prompts["support_reply"].Select(b)
	if variant.Key != "control" || d.Reason != rules.Split {
		t.Errorf("%s by %v", variant.Key, d)
	}
	var trail rules.Trail
	s.Prompts["support_reply"].Table().AppendTrail(&trail, b)
	value, d := s.RemoteConfigs["new_checkout"].Evaluate(b)
	s.RemoteConfigs["new_checkout"].Table().AppendTrail(&trail, b)
	if string(value) != "false" || len(trail.Splits) != 2 {
		t.Fatalf("%s, %v", value, trail.Splits)
	}
	for _, split := range trail.Splits {
		if bucket := fmt.Sprintf("bucket %d of 100000", split.Bucket); !strings.Contains(string(text), bucket) {
			t.Errorf("the page has no %s", bucket)
		}
	}
}

// TestManualIsComplete checks that every member is in the manual.
func TestManualIsComplete(t *testing.T) {
	text, err := os.ReadFile(manual)
	must(t, err)
	for _, member := range slices.Concat(commonMembers, recordMembers, promptMembers, variantMembers, policyMembers, endpointMembers, configMembers) {
		if !regexp.MustCompile("`" + member + "[`.:]").Match(text) {
			t.Errorf("the member %s is not described", member)
		}
	}
}

// TestManualsCellsCanBeWritten puts every cell that the manual shows into a
// row, as it stands there.
func TestManualsCellsCanBeWritten(t *testing.T) {
	text, err := os.ReadFile(manual)
	must(t, err)
	_, table, _ := strings.Cut(string(text), "| cell | matches |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	cells := 0
	for line := range strings.Lines(table) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(first, -1) {
			cells++
			var errs document.Errors
			document.Parse("cell", []byte("- [ a, "+m[1]+", 1 ]\n- when: { a: "+m[1]+", b: 1 }\n"), &errs)
			if err := errs.Err(); err != nil {
				t.Error(err)
			}
		}
	}
	if cells < 20 {
		t.Errorf("%d cells were found", cells)
	}
}
