// Package prompt compiles message templates with {{variables}} and renders
// them in a single pass: a value can neither add a message nor change a role,
// and what it contains is never interpreted again.
package prompt

import "fmt"

// MaxRendered is how many bytes the rendered messages of one prompt may have,
// all together, before they are escaped. A request is bounded by itself, but a
// template may repeat a variable as often as it likes.
const MaxRendered = 2 << 20

// TooLargeError is a rendering that would exceed MaxRendered.
type TooLargeError struct {
	Size int // bytes
}

// Error says how large the messages would be.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the rendered messages would have %d bytes, at most %d are allowed: send shorter variables", e.Size, MaxRendered)
}

// MissingError is a required variable that a request did not supply.
type MissingError struct {
	Name string
}

// Error names the variable.
func (e *MissingError) Error() string {
	return fmt.Sprintf("the required variable %q is missing: send it under variables", e.Name)
}
