package recorder

import "time"

// Availability is the present ability of the recorder to store.
type Availability uint8

// The states of a recorder.
const (
	Opening   Availability = iota // the store is being opened, for the first time or again
	Available                     // the last commit succeeded, or none was tried
	Failing                       // the last commit failed; it is tried again
	Closed
)

// String returns the state's name.
func (a Availability) String() string {
	switch a {
	case Available:
		return "available"
	case Failing:
		return "failing"
	case Closed:
		return "closed"
	}
	return "opening"
}

// Drops counts lost records by reason.
type Drops struct {
	QueueFull uint64 // more waited than the recorder may hold
	TooLarge  uint64 // one record was larger than MaxRecordSize without its content
	Failed    uint64 // the store panicked on it, or failed until the recorder closed
	Closed    uint64 // it came after Close
}

// Total is the sum of all reasons.
func (d Drops) Total() uint64 { return d.QueueFull + d.TooLarge + d.Failed + d.Closed }

// Stats is a recorder's account of itself. The counters only grow.
type Stats struct {
	Availability Availability
	Since        time.Time // when it became Available, or ceased to be; zero before Open
	LastError    string    // of opening, committing or maintaining; empty since the last success

	Queued      int // records, metrics, replies, versions, revisions and experiments that wait
	QueuedBytes int64

	Joined int // workspaces that have a part of the queue of their own

	Commits         uint64
	CommitFailures  uint64
	CommitTime      time.Duration // of all commits that succeeded, together
	Stored          uint64        // records, metrics, replies, versions, revisions and experiments in them
	MetricsRejected uint64        // metrics answered ErrUnavailable
	LateStarts      uint64        // upstream calls that went on before their start was written
	Panics          uint64        // of the store or of the recorder's goroutine

	// ContentLeftOut counts records that were kept without their content: with it
	// the record, or the request, was too large.
	ContentLeftOut uint64

	Drops      Drops            // of records, starts, versions, revisions and experiments
	Workspaces map[string]Drops // of each workspace that joined, or that has any
}

// Commit describes one commit to Options.OnCommit.
type Commit struct {
	Duration time.Duration
	Len      int  // items in the batch
	Durable  bool // whether it had to reach stable storage
	Err      error
}
