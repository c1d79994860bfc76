//go:build race

package redact

// slow is how much slower the race detector makes the code.
const slow = 20
