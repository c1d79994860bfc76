package httpmodule_test

import (
	"encoding/json"
	"fmt"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
)

// A module with an option of its own. Its Provision calls Prepare and Serve.
func ExampleUnmarshal() {
	type Module struct {
		httpmodule.Options

		// The project to bill.
		Project string `json:"project,omitempty"`
	}
	for _, block := range []string{
		"acme {\n api_key {env.ACME_API_KEY}\n project p-1\n allow_private\n}",
		"acme {\n poject p-1\n}",
	} {
		var m Module
		if err := httpmodule.Unmarshal(caddyfile.NewTestDispenser(block), &m); err != nil {
			fmt.Println(err)
			continue
		}
		text, err := json.Marshal(m)
		fmt.Println(string(text), err)
	}
	// Output:
	// {"api_key":"{env.ACME_API_KEY}","allow_private":true,"project":"p-1"} <nil>
	// unrecognized acme provider option "poject", did you mean "project"?, at Testfile:2
}
