// Package prompt compiles message templates with {{variables}} and renders
// them in a single pass: a value can neither add a message nor change a role,
// and what it contains is never interpreted again.
package prompt

import "fmt"

// MaxRendered is how many bytes all rendered messages of one prompt may have before
// they are escaped. The size of a request is bounded, but a template may repeat a
// variable any number of times.
const MaxRendered = 2 << 20

// TooLargeError is the error for messages that would exceed MaxRendered.
type TooLargeError struct {
	Size int // bytes
}

// Error returns how large the messages would be.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the rendered messages would have %d bytes, at most %d are allowed: send shorter variables", e.Size, MaxRendered)
}

// MissingError is the error for a required variable that a request did not supply.
type MissingError struct {
	Name string
}

// Error returns the name of the variable.
func (e *MissingError) Error() string {
	return fmt.Sprintf("the required variable %q is missing: send it under variables", e.Name)
}
