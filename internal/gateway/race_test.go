//go:build race

package gateway_test

// fewer is how many times fewer requests are drawn with the race detector, in tests that
// make them one by one.
const fewer = 5
