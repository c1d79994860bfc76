// Package calls keeps the start records of running upstream calls in a journal. A
// record is with the operating system when the call is made. It is overwritten when
// the end of the call is stored. After a crash, the next process finds the remaining
// records.
package calls
