package caddymodule

import "testing"

func TestSplitListenAddress(t *testing.T) {
	for address, want := range map[string][2]string{
		"":                        {"", ""},
		":8080":                   {"", "8080"},
		"8080":                    {"", "8080"},
		"127.0.0.1:8080":          {"127.0.0.1", "8080"},
		"http://127.0.0.1:8080":   {"127.0.0.1", "8080"},
		"[::1]:8080":              {"::1", "8080"},
		"localhost":               {"localhost", ""},
		"localhost:http":          {"localhost", "http"},
		"https://example.com":     {"", noListenAddress},
		":8080, example.com":      {"", noListenAddress},
		"127.0.0.1, example.com":  {"", noListenAddress},
		"a b:1":                   {"", noListenAddress},
		"http://example.com:80/a": {"", noListenAddress},
		"unix//run/cadenza.sock":  {"", noListenAddress},
	} {
		if host, port := splitListenAddress(address); host != want[0] || port != want[1] {
			t.Errorf("%q: %q and %q, want %q", address, host, port, want)
		}
	}
}
