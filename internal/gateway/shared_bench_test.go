package gateway_test

import (
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// BenchmarkRemoteConfigsOfHundredKeys has metadata that is slow to redact, which must be
// done once for a request, not once for each key.
func BenchmarkRemoteConfigsOfHundredKeys(b *testing.B) {
	files, keys := gatewaytest.HundredConfigs()
	benchmarkFiles(b, files, "/v1/remoteconfigs", `{"keys":`+keys+`,"metadata":{"tokens":"`+strings.Repeat("4111 1111 1111 1111 ", 700)+`"}}`)
}
