#!/bin/sh
# Builds ./caddy: Caddy with Cadenza from this checkout. Arguments go to
# `xcaddy build` as they are (--with another/module, for one). Where xcaddy is
# not on the PATH, the same binary is built from ./cmd/caddy. XCADDY_GO_BUILD_FLAGS
# replaces the flags of the build, as with xcaddy.
set -eu
cd "$(dirname "$0")"

# The version xcaddy gets is the one this module is tested with.
caddy_version=$(go list -m -f '{{.Version}}' github.com/caddyserver/caddy/v2)
output=${CADENZA_OUTPUT:-./caddy}

if command -v xcaddy >/dev/null 2>&1; then
	xcaddy build "$caddy_version" --output "$output" \
		--with github.com/cadenza-gateway/cadenza@v0.0.0=. "$@"
else
	if [ $# -gt 0 ]; then
		echo "xcaddy.sh: '$*' needs xcaddy on the PATH: https://github.com/caddyserver/xcaddy" >&2
		exit 1
	fi
	# As xcaddy does: static, stripped, without the databases of the CA that
	# the standard distribution leaves out too.
	# shellcheck disable=SC2086 # several flags
	CGO_ENABLED=0 go build ${XCADDY_GO_BUILD_FLAGS:--trimpath -ldflags=-s} \
		-tags nobadger,nomysql,nopgx -o "$output" ./cmd/caddy
fi

# A build that links is not yet a build that has the modules.
"$output" list-modules | grep -q '^http.handlers.cadenza$'
echo "$output: Caddy $caddy_version with Cadenza"
