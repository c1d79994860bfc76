package configpath

import (
	"os"
	"path/filepath"
	"testing"
)

func TestResolve(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.FromSlash
	for _, test := range []struct{ file, path, want string }{
		{"Caddyfile", "definitions", filepath.Join(here, "definitions")},
		{"Caddyfile", "./definitions", filepath.Join(here, "definitions")},
		{"conf/Caddyfile", "../definitions", filepath.Join(here, "definitions")},
		// The standard input and a Caddyfile that the admin API is sent have no
		// folder of their own.
		{"-", "definitions", filepath.Join(here, "definitions")},
		{filepath.Join(here, "a", "Caddyfile"), "b/c.db", filepath.Join(here, "a", "b", "c.db")},
		{"Caddyfile", filepath.Join(here, "x"), filepath.Join(here, "x")},
		{"conf/Caddyfile", "/srv/definitions", "/srv/definitions"},
		{"conf/Caddyfile", "{env.HOME}/definitions", "{env.HOME}/definitions"},
		{"conf/Caddyfile", "stages/{env.STAGE}", filepath.Join(here, "conf", "stages", "{env.STAGE}")},
		{"a{b}/Caddyfile", "c/{env.STAGE}", filepath.Join(here, `a\{b\}`, "c", "{env.STAGE}")},
	} {
		if got, err := Resolve(at(test.file), at(test.path)); err != nil || got != at(test.want) {
			t.Errorf("%s in %s is %q, want %q; %v", test.path, test.file, got, test.want, err)
		}
	}
}
