package caddymodule_test

import (
	"strings"
	"testing"
)

// TestStoreModule loads stores whose JSON names a module, no module, and a module that
// does not exist.
func TestStoreModule(t *testing.T) {
	g := startGateway(t, workspace, options)
	const adapted = `"store":{"module":"sqlite",`
	if text := adapt(g.caddyfile(options)); !strings.Contains(strings.Join(strings.Fields(text), ""), adapted) {
		t.Fatalf("the Caddyfile adapts to no %s:\n%s", adapted, text)
	}
	if err := g.loadJSON(options, adapted, `"store":{`); err != nil {
		t.Errorf("without a module: %v", err)
	}
	err := g.loadJSON(options, adapted, `"store":{"module":"bolt",`)
	if err == nil || !strings.Contains(err.Error(), `store "bolt" is not known: the store is sqlite`) {
		t.Errorf("with another module: %v", err)
	}
}
