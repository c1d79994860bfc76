// Package limit bounds how much callers use: requests, tokens and money in a window of
// time, and concurrent calls. Before a call begins, the limiter sets its maximum use aside;
// when the call ends, the limiter counts its actual use. So concurrent calls never exceed
// a limit together.
//
// # Example
//
// A limit of 5 dollars a day by API key; ada has used 4.80. She makes two calls at the
// same time, and each may cost 0.15 at most.
//
//	call  asks for  used  set aside      answer
//	1     0.15      4.80  0 + 0.15       goes on: 4.95 of 5
//	2     0.15      4.80  0.15           refused: 5.10 would be more than 5
//	1     ends at 0.02 → used 4.82, set aside 0
//	2     again     4.82  0 + 0.15       goes on: 4.97 of 5
//
// RetryAfter of the refusal is zero, because call 1 may end at any moment. If 4.90 had
// been used, call 2 could not pass before the next day, and RetryAfter would say so.
//
// # Counters
//
// A counter belongs to a workspace, the name of a limit, a subject, a measure and a
// window. If the configuration of a limit changes, the limit keeps its counters: a new
// ceiling applies to the amounts already counted. A ceiling with a new window starts with
// the count of the current shorter window inside it. A counter whose ceiling was removed
// stays until its window ends.
//
// A call counts in the windows in which its amounts were set aside. If the clock is set
// back by up to the length of a window, the later window continues, so that its budget
// is not given twice. If the clock is set back further, the used amount moves to the
// current window, so that no subject waits for a time that was a mistake.
//
// # State
//
// A limiter with a path keeps its counters in a journal. Reserve writes a reservation to
// the operating system before it returns. If the process is killed, the next process
// counts all reservations of the file as used, and none stays open. The actual use of a
// call is written with the next reservation, after 10 ms at the latest; at once if it is
// more than the reservation. A crash before that write counts the reservation in full.
// See docs/storage.md. The test
//
//	CADENZA_FULL=1 go test ./internal/limit -run MustHold -v
//
// ends a million calls by cancels, time-outs, panics and crashes, and checks each
// counter after each crash.
//
// # Fleet
//
// Limiters of several processes share the limits of a workspace through a Ledger. The
// ledger grants each limiter a part of each counter, one lease at a time; the limiter asks
// for more in the background. Until the ledger has answered, a counter has one lease on
// credit. The next exchange books this credit even if it exceeds the ceiling. So N
// processes exceed a ceiling by N leases at most. A lease is a 20th of the ceiling, or
// the amount of the largest call if that is more.
//
// If the answer to an exchange is lost, the limiter repeats the exchange before any other
// one, with the same id and claims. The ledger books it once, and answers the same grants.
//
// A call that fits in the lease never waits. A larger one, as in a burst on a small
// ceiling, waits until the ledger has answered: usually some milliseconds, 200 at most.
// One claim asks for the amounts of all waiting calls. If the ledger is unavailable or
// slow, the call is refused at once.
//
// Of 100 requests an hour a lease is 5. Two processes that begin at the same time:
//
//	process  use  on credit  ledger: taken  granted
//	a        3    3          3 + 5          5, so a may use 5 more
//	b        5    5          8 + 5 + 5      5
//	a        idle            18 - 5         returns the 5
//
// # Cost
//
// A call with one limit takes 0.2 µs in memory, and 3 µs with the file, which is one
// write of some 100 bytes; neither allocates. A subject takes some 200 bytes with one
// window, 64 for each further window, and 112 more for each shared counter; a subject
// without use takes none. A subject above 64 bytes is stored as its beginning and a hash.
// All subjects together take Options.MaxMemory at most: after that, the new subjects of a
// limit share one counter.
package limit
