//go:build !race

package gateway_test

const fewer = 1
