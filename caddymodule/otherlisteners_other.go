//go:build !linux

package caddymodule

// checkOtherListeners finds nothing: only Linux shows what other processes listen on.
func checkOtherListeners([]string) error { return nil }
