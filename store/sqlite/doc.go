// Package sqlite keeps traces, metrics and versions of definitions in one
// SQLite file, through modernc.org/sqlite: no cgo, no server.
//
// The file is in WAL mode. One connection writes, in transactions of many rows;
// others only read. A transaction with metrics is committed with
// synchronous=FULL, which syncs the log to stable storage before the commit
// returns, and with it everything committed before. Any other is committed with
// synchronous=NORMAL, which leaves it with the operating system: it survives
// the death of the process, and that of the machine from the next sync on.
package sqlite
