package definition

import (
	"strings"
	"testing"
)

// TestClient reads the mark of configurations that are public. It is a part of the
// definition's version, so that what a client key reads is told by the version.
func TestClient(t *testing.T) {
	t.Parallel()
	const text = "type: boolean\ndefault: false\n"
	s, err := Load(workspace(t, map[string]string{
		"remoteconfigs/none.yaml": text, "remoteconfigs/null.yaml": text + "client: ~\n", "remoteconfigs/no.yaml": text + "client: false\n",
		"remoteconfigs/yes.yaml": text + "client: true\n",
	}))
	must(t, err)
	version := s.RemoteConfigs["none"].Version
	for key, client := range map[string]bool{"none": false, "null": false, "no": false, "yes": true} {
		if c := s.RemoteConfigs[key]; c.Client() != client || (c.Version == version) == client {
			t.Errorf("%s: %t, version %s beside %s", key, c.Client(), c.Version, version)
		}
	}
	for file, want := range map[string]string{
		"remoteconfigs/a.yaml": "remoteconfigs/a.yaml:3:9: client must be true or false",
		"endpoints/a.yaml":     `unknown member "client"`,
		"prompts/a.yaml":       `unknown member "client"`,
	} {
		more := map[string]string{"remoteconfigs/a.yaml": text}[file] + "client: yes\n"
		if _, err := Load(workspace(t, map[string]string{file: more})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", file, err, want)
		}
	}
}
