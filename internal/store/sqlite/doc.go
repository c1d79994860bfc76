// Package sqlite keeps traces, metrics and versions of definitions in one
// SQLite file, through modernc.org/sqlite: no cgo, no server.
//
// The file is in WAL mode. One connection writes, in transactions of many rows;
// others only read. A transaction with metrics is committed with
// synchronous=FULL, which syncs the log to stable storage before the commit
// returns, and with it everything committed before. Any other is committed with
// synchronous=NORMAL, which leaves it with the operating system: it survives
// the death of the process, and that of the machine from the next sync on.
//
// Each row has a seq that grows with each write of it and is never given out
// again. An [Outbox] follows the rows of a workspace by it, to bring them to a
// sink; [Erase] deletes what is about one person, down to the bytes of the file.
// Connections of one process take turns to write.
package sqlite
