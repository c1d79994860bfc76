package caddymodule_test

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkRemoteConfigsOfHundredKeys has metadata that the redactor has much to
// look at: what is done once for a request must not be done once for each key.
func BenchmarkRemoteConfigsOfHundredKeys(b *testing.B) {
	files, keys := hundredConfigs()
	benchmarkFiles(b, files, "/v1/remoteconfigs", `{"keys":`+keys+`,"metadata":{"tokens":"`+strings.Repeat("4111 1111 1111 1111 ", 700)+`"}}`)
}

// hundredConfigs are configurations, and the list of their keys.
func hundredConfigs() (files map[string]string, keys string) {
	files = make(map[string]string)
	list := make([]string, 100)
	for n := range list {
		list[n] = fmt.Sprintf(`"c%d"`, n)
		files[fmt.Sprintf("definitions/remoteconfigs/c%d.yaml", n)] = "type: number\ndefault: 1\n"
	}
	return files, "[" + strings.Join(list, ",") + "]"
}
