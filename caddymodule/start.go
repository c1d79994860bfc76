package caddymodule

import (
	"fmt"
	"os"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/internal/command"
	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// startsAnyway reports whether a configuration that is provisioned now starts with
// definitions that are invalid, where the store holds others: it is that of `caddy
// run`, and Cadenza does not run yet. A reload fails, and leaves what runs alone. So
// does `caddy validate`, which never starts, and a program that has Caddy built in.
func startsAnyway() bool {
	running, err := caddy.ActiveContext().AppIfConfigured("cadenza")
	return called("run") && (err != nil || running == nil)
}

// called reports which of Caddy's commands the process is. `caddy start` starts a `caddy
// run`. Tests replace it.
var called = command.Called

// checkReload loads the definitions of a directory where the process is `caddy reload`.
// An edit of them changes no configuration, and one that is unchanged Caddy does not
// pass on: nothing would be checked, and the command would succeed. What this process
// can't see, such as the directory of a gateway on another machine, it leaves to the
// gateway.
func checkReload(definitions string) error {
	if !called("reload") {
		return nil
	}
	dir, err := resolvePath(definitions)
	if err != nil {
		return nil
	}
	if _, err := os.ReadDir(dir); err != nil {
		return nil
	}
	if _, err := definition.Load(dir); err != nil {
		return fmt.Errorf("definitions %s:\n%w", definitions, visible.Error(err))
	}
	return nil
}
