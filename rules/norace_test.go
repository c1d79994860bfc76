//go:build !race

package rules

import "testing"

const raceEnabled = false

func alone(*testing.T) {}
