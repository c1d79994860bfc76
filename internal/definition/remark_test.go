package definition

import (
	"strings"
	"testing"
)

// What decoding remarks on is a warning of the set, also where nothing was
// decoded anew.
func TestRemarksAreWarnings(t *testing.T) {
	dir := workspace(t, map[string]string{
		"context.yaml":         "fields: { plan: { type: string } }\nsegments: { pros: [ { plan: \"pro*\" } ] }\n",
		"remoteconfigs/c.yaml": "type: string\ndefault: x\ncolumns: [plan, value]\nmatrix: [[\"/^v[0-9]+$/\", y]]\n",
		"remoteconfigs/d.yaml": "type: string\ndefault: x\n",
	})
	s := opened(t, dir)
	for range 3 {
		var texts []string
		for _, w := range s.Snapshot().Warnings {
			if strings.Contains(w.Message, "because it is quoted") {
				texts = append(texts, strings.TrimPrefix(w.Pos.String(), dir+"/"))
			}
		}
		if got, want := strings.Join(texts, " "), "context.yaml:2:29 remoteconfigs/c.yaml:4:11"; got != want {
			t.Fatalf("warnings at %s, want %s", got, want)
		}
		write(t, dir+"/remoteconfigs/d.yaml", "type: string\ndefault: y\n")
		must(t, s.Reload())
	}
}
