package gateway_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestChangesAreLogged edits definitions: the log line of each set names the changes.
func TestChangesAreLogged(t *testing.T) {
	t.Parallel()
	g := startGateway(t, sound(), options)
	logged := func(fields string) {
		t.Helper()
		eventually(t, fields, g.said(`"remoteconfigs":`+fields+"}\n"))
	}
	logged(`2,"warnings":0`)

	g.write("definitions/remoteconfigs/checkout.yaml", "type: boolean\ndefault: true\n")
	logged(`2,"warnings":0,"changed":["remoteconfig checkout"]`)

	// A deployment replaces the whole directory.
	served, next := filepath.Join(g.dir, "definitions"), filepath.Join(g.dir, "next")
	if err := os.CopyFS(next, os.DirFS(served)); err != nil {
		t.Fatal(err)
	}
	g.write("next/context.yaml", workspace["definitions/context.yaml"]+"  more: { type: string }\n")
	g.write("next/prompts/fresh.yaml", "messages: [ { role: user, content: Hi } ]\n")
	if err := errors.Join(os.Remove(filepath.Join(next, "remoteconfigs/checkout.yaml")), os.Rename(served, served+".last"), os.Rename(next, served)); err != nil {
		t.Fatal(err)
	}
	logged(`1,"warnings":0,"added":["prompt fresh"],"changed":["context.yaml"],"removed":["remoteconfig checkout"]`)

	// Many changes are counted, not listed.
	for i := range 25 {
		g.write(fmt.Sprintf("many/c%02d.yaml", i), "type: boolean\ndefault: true\n")
	}
	if err := os.Rename(filepath.Join(g.dir, "many"), filepath.Join(g.dir, "definitions/remoteconfigs/many")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "25 are added", g.said(`many/c19","and 5 more"]}`))

	// Serving the same set after a mistake is no change.
	g.write("definitions/prompts/fresh.yaml", "mesages: []\n")
	eventually(t, "a mistake", g.said("fresh.yaml"))
	g.write("definitions/prompts/fresh.yaml", "messages: [ { role: user, content: Hi } ]\n")
	logged(`26,"warnings":0`)
}
