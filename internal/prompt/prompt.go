// Package prompt compiles message templates with {{variables}} and renders them
// in a single pass: a value can neither add a message nor change a role, and
// its content is never interpreted again.
package prompt

import "fmt"

// MaxRendered is how many bytes all rendered messages of one prompt may have before
// they are escaped. The size of a request is bounded, but a template may repeat a
// variable any number of times.
const MaxRendered = 2 << 20

// TooLargeError is the error for messages that would exceed MaxRendered or MaxMedia.
type TooLargeError struct {
	Size  int  // bytes
	Media bool // of a variable that exceeds MaxMedia
}

// Error returns how large the messages would be.
func (e *TooLargeError) Error() string {
	if e.Media {
		return fmt.Sprintf("the images, sounds and files of variables would have %d bytes, at most %d are allowed: send smaller ones", e.Size, MaxMedia)
	}
	return fmt.Sprintf("the rendered messages would have %d bytes, at most %d are allowed: send shorter variables", e.Size, MaxRendered)
}

// MaxMedia is how many bytes the addresses and data that variables bring into one prompt
// may have: images, sounds and files, which don't count as text.
const MaxMedia = 64 << 20

// InvalidError is the error for a variable that the prompt uses as an address or
// data and that is neither.
type InvalidError struct {
	Name   string
	Reason string // the end of a sentence
}

// Error describes the mistake in the variable.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("the variable %q %s", e.Name, e.Reason)
}

// MissingError is the error for a required variable that a request did not supply.
type MissingError struct {
	Name string
}

// Error returns the name of the variable.
func (e *MissingError) Error() string {
	return fmt.Sprintf("the required variable %q is missing: send it under variables", e.Name)
}
