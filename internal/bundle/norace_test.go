//go:build !race

package bundle

const fewer = 1
