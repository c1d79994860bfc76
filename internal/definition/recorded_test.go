package definition

import (
	"strings"
	"testing"
	"time"
)

func TestRecord(t *testing.T) {
	t.Parallel()
	const config, prompt = "type: number\ndefault: 1\n", "messages: [ { role: user, content: hi } ]\n"
	load := func(members string) *Snapshot {
		return mustLoad(t, workspace(t, map[string]string{"remoteconfigs/c.yaml": config + members, "prompts/p.yaml": prompt + members}))
	}
	versions := map[string]bool{}
	for _, test := range []struct {
		members string
		window  time.Duration
		same    bool // as without members
	}{
		{"", 0, false},
		{"record: every\n", 0, true},
		{"record: exposures\n", 24 * time.Hour, false},
		{"record: exposures\nwindow: 1m\n", time.Minute, false},
		{"record: exposures\nwindow: 720h\n", 30 * 24 * time.Hour, false},
	} {
		s := load(test.members)
		for _, d := range s.Definitions {
			if d.Window != test.window || versions[d.Version] != test.same {
				t.Errorf("%s%s: window %s, the version of another: %v", test.members, d.Kind.Noun, d.Window, versions[d.Version])
			}
			versions[d.Version] = true
		}
	}
	for members, want := range map[string]string{
		"record: all\n":                     "record must be",
		"window: 1h\n":                      "window needs record: exposures",
		"record: every\nwindow: 1h\n":       "window needs record: exposures",
		"record: exposures\nwindow: 59s\n":  "window must be a duration from 1m to 720h such as 1m30s, 2h or 24h",
		"record: exposures\nwindow: 721h\n": "window must be a duration from 1m to 720h",
		"record: exposures\nwindow: 30d\n":  "window must be a duration from 1m to 720h",
	} {
		_, err := Load(workspace(t, map[string]string{"remoteconfigs/c.yaml": config + members, "prompts/p.yaml": prompt + members}))
		if err == nil || strings.Count(err.Error(), want) != 2 {
			t.Errorf("%s%v, want %s for both", members, err, want)
		}
	}
	if _, err := Load(workspace(t, map[string]string{"prompts/p.yaml": prompt, "endpoints/e.yaml": "prompt: p\nrecord: exposures\n"})); err == nil {
		t.Error("an endpoint takes record")
	}
}
