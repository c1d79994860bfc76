//go:build !cadenza_noconsole

package cadenza

import _ "github.com/cadenza-gateway/cadenza/console"
