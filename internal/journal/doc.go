// Package journal stores records in files, so that they outlive a process that is killed.
// Before Wait returns, the operating system has the record. It is not synced: a power cut
// may lose the last ones.
//
// # Turns
//
// A journal has two files and appends to one of them. When that one has grown, the journal
// appends to the other, and the state appends all its records again, a part at a time. Once
// that is synced, its head says that it is whole, and the first file is emptied:
//
//	limits           limits-2
//	3, whole                     is appended to
//	3, whole         4           the state and others append
//	                 4, whole
//
// A process that starts reads the newest file, and before it the other one if the newest is
// not whole. The last record of a thing counts. A file that is not whole, because the
// process died or a write failed, is continued after its records.
//
// # Form
//
// A file is a head and frames. The head has a mark with the number of the format, whether
// the file is whole, its generation, and a seed. A frame has the first bytes of the seed,
// the length of a record, its sum under the seed, and the record. Bytes between frames are
// skipped. Content that looks like a frame is none, as callers do not know the seed. A file
// of another format stays as it is.
//
// # Disks that hang
//
// One goroutine does all work on the files. Callers wait for it at most 20 ms. Once the
// disk has hung for a second, they do not wait until it answers.
package journal
