module example.com/cadenza-acme

go 1.26.0

require (
	github.com/cadenza-gateway/cadenza v0.0.0
	github.com/caddyserver/caddy/v2 v2.11.9
	github.com/valyala/fastjson v1.6.10
)

replace github.com/cadenza-gateway/cadenza => ../..
