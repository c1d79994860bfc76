package definition

import (
	"testing"
)

// TestContextsOfTests holds that a test whose context no request is meant to send
// fails, although the default that it expects is the answer.
func TestContextsOfTests(t *testing.T) {
	files := map[string]string{
		"context.yaml": "fields:\n  language: { type: string, values: [nl, en] }\n  basket: { type: number, path: shop.basket }\n  a.b: { type: string }\n",
		"prompts/p.yaml": "messages: [ { role: user, content: x } ]\ntests:\n" +
			"  - { context: { langage: nl }, variant: p }\n" +
			"  - { context: { langage: nl }, unchecked_context: true, variant: p }\n" +
			"  - { context: { langage: nl }, unchecked_context: yes, variant: p }\n",
		"remoteconfigs/c.yaml": "type: boolean\ndefault: true\ntests:\n" +
			"  - { context: { language: de }, value: true }\n" +
			"  - { context: { shop: { basket: twenty, x: 1 } }, value: true }\n" +
			"  - { context: { shop: { x: 1 } }, value: true }\n" +
			"  - { context: { a.b: [1, 2] }, value: true }\n" +
			"  - { context: { language: de, other: 1 }, unchecked_context: true, value: true }\n" +
			"  - { context: { language: nl }, unchecked_context: false, value: true }\n",
	}
	dir := workspace(t, files)
	_, err := Load(dir)
	wantErrors(t, dir, err,
		`prompts/p.yaml:3:18: context.langage is not a field of the data model: did you mean "language"? (unchecked_context: true allows it)`,
		`prompts/p.yaml:5:52: unchecked_context must be true or false, this is "yes": write true`,
		`remoteconfigs/c.yaml:4:28: context.language must be one of nl, en, this is "de" (unchecked_context: true allows it)`,
		`remoteconfigs/c.yaml:5:34: context.shop.basket must be a number, this is "twenty" (unchecked_context: true allows it)`,
		`remoteconfigs/c.yaml:6:26: context.shop.x is not a field of the data model (known: language, shop.basket, a.b) (unchecked_context: true allows it)`,
		`remoteconfigs/c.yaml:7:23: context.a.b must be text, this is a list (unchecked_context: true allows it)`,
	)
}
