package command_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// A report shows twenty warnings of a kind and the number of the rest, for people
// and for machines, and counts them all.
func TestCheckCountsWarnings(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, "remoteconfigs/c.yaml", "type: boolean\ndefault: true\n")
	for i := range 25 {
		writeFiles(t, dir, fmt.Sprintf("prompts/n%02d.txt", i), "")
	}
	r := command(t, "check", dir)
	if r.err != nil || strings.Count(r.out, "warning") != 20+1+1 || !strings.Contains(r.out, "… and 5 more of this kind: not read, ") || !strings.Contains(r.out, ", 25 warnings (") {
		t.Errorf("%v: %s", r.err, r.out)
	}
	var report struct {
		Warnings []struct{ More int }
	}
	if r := command(t, "check", "--json", dir); json.Unmarshal([]byte(r.out), &report) != nil || len(report.Warnings) != 21 || report.Warnings[20].More != 5 {
		t.Errorf("%+v", report)
	}
	if r := command(t, "check", "--strict", dir); r.err == nil || !strings.Contains(r.err.Error(), "25 warnings") {
		t.Errorf("%v", r.err)
	}
}
