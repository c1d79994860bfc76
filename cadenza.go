// Package cadenza links all of Cadenza's Caddy modules into a Caddy build. It
// is the path to give to xcaddy:
//
//	xcaddy build --with github.com/cadenza-gateway/cadenza
//
// A build that wants only some of the modules names their packages instead,
// such as github.com/cadenza-gateway/cadenza/caddymodule and one of
// github.com/cadenza-gateway/cadenza/providers/….
package cadenza

import (
	_ "github.com/cadenza-gateway/cadenza/caddymodule"
	_ "github.com/cadenza-gateway/cadenza/providers/anthropic"
	_ "github.com/cadenza-gateway/cadenza/providers/azure"
	_ "github.com/cadenza-gateway/cadenza/providers/canned"
	_ "github.com/cadenza-gateway/cadenza/providers/gemini"
	_ "github.com/cadenza-gateway/cadenza/providers/openai"
	_ "github.com/cadenza-gateway/cadenza/sinks/jsonlines"
	_ "github.com/cadenza-gateway/cadenza/sinks/postgres"
)
