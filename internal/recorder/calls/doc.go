// Package calls keeps the start records of the upstream calls that are under way,
// in a file of slots. A start is one write at an offset, so it is with the
// operating system when the call is made. Its slots are cleared when the end of
// the call is stored. The next process finds what a crash left.
package calls
