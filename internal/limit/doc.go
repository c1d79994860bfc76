// Package limit bounds how much callers use: requests, tokens and money in a window of
// time, and calls in flight. What a call may use at most is set aside before it begins,
// and what it did use is counted when it ends, so calls at the same time never exceed a
// limit together.
//
// # Example
//
// A limit of 5 dollars a day by API key, of which ada has used 4.80. Two calls of hers
// come at the same time, and each may cost 0.15 at most.
//
//	call  asks for  used  set aside      answer
//	1     0.15      4.80  0 + 0.15       goes on: 4.95 of 5
//	2     0.15      4.80  0.15           refused: 5.10 would be more than 5
//	1     ends at 0.02 → used 4.82, set aside 0
//	2     again     4.82  0 + 0.15       goes on: 4.97 of 5
//
// The refusal has no time to wait for: call 1 may end at any moment. Had 4.90 been
// used, only the next day would have brought room, and RetryAfter would say so.
//
// # Counters
//
// A counter belongs to a workspace, the name of a limit, a subject, a measure and a
// window. A limit that is configured otherwise goes on with the counters that it has:
// a ceiling that is raised or lowered applies to what is counted already. A ceiling
// with a window that had no counter begins with what the present shorter window within
// it has counted. A counter whose ceiling was removed stays until its window ends.
//
// A call counts in the windows in which its amounts were set aside. A clock that is
// set back by up to the length of a window does not give the window's budget twice:
// the later window goes on. If it is set back further, what is used moves to the
// present window, so that no subject waits for a time that was a mistake.
//
// # State
//
// A limiter with a path keeps its counters in a file. What a call sets aside is with the
// operating system before Reserve returns. A process that is killed has then counted
// all that its calls had set aside, and nothing stays set aside when the file is opened
// again. What a call used is written with the next reservation, 10 ms later at most, and
// at once where it is more than was set aside: a crash in between counts the call in
// full. See docs/storage.md. The test
//
//	CADENZA_FULL=1 go test ./internal/limit -run MustHold -v
//
// ends a million calls by cancels, time-outs, panics and crashes, and checks each
// counter after each crash.
//
// # Fleet
//
// Limiters of several processes share the limits of a workspace by a Ledger. Of each
// counter a limiter spends what the ledger has granted it, a lease at a time, and asks
// for more in the background. Until the ledger has answered, a counter has one lease on
// credit, which the next exchange books whether or not the ceiling has room for it. So N
// processes exceed a ceiling by N leases at most. A lease is a 20th of the ceiling, or
// what the largest call sets aside.
//
// An exchange whose answer was lost is made again before any other, by its id and with
// the same claims. A ledger books it once, and grants again what it did.
//
// A call that fits in the lease never waits. One that does not, as in a burst on a small
// ceiling, waits until the ledger has answered, which is then asked for what all such
// calls need together: mostly some milliseconds, 200 at most. Where the ledger is away
// or slow, the call is refused at once.
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
// write of some 90 bytes; neither allocates. A subject takes some 200 bytes with one
// window and 64 for each further one, 112 more for each that is shared, and nothing while
// it is not used. A longer one than 64 bytes is kept by its beginning and a hash. All
// subjects together take no more than Options.MaxMemory: beyond it new ones of a limit
// share one counter.
package limit
