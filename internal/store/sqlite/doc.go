// Package sqlite keeps traces, metrics and versions of definitions in one
// SQLite file, through modernc.org/sqlite: no cgo, no server.
//
// The file is in WAL mode (https://www.sqlite.org/wal.html). One connection writes, in
// transactions of many rows; others only read. A transaction with metrics is committed with
// synchronous=FULL, which syncs the log to stable storage before the commit returns,
// together with all earlier commits. Any other is committed with synchronous=NORMAL, which
// leaves it to the operating system: it survives a crash of the process, and one of the
// machine from the next sync on.
//
// Each row has a seq that grows with each write of it and is never used again. An [Outbox]
// follows the rows of a workspace by it, to deliver them to a sink; [Erase] deletes the
// rows about one person, down to the bytes of the file. Connections of one process take
// turns to write.
package sqlite
