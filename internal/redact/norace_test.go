//go:build !race

package redact

const slow = 1
