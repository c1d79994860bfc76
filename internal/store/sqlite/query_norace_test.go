//go:build !race

package sqlite

import "testing"

const (
	raceEnabled = false
	fewer       = 1
)

func alone(*testing.T) {}
