// Command caddy is what xcaddy makes of Cadenza and this module.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "example.com/cadenza-acme"
	_ "github.com/cadenza-gateway/cadenza/caddymodule"
)

func main() {
	caddycmd.Main()
}
