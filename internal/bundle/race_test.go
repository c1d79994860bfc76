//go:build race

package bundle

// fewer is how many times fewer bundles are drawn with the race detector, which makes each
// take ten times as long.
const fewer = 10
