// Package recorder takes records and metrics to a store.
//
// The recorder keeps two promises apart. Metrics are acknowledged only after
// the commit that holds them is on stable storage. The records of answers are
// written behind the caller's back, in groups, and a loss is counted. An
// upstream call is in between: its start record is handed to the operating
// system before the call is made, so that a crash leaves evidence of it.
package recorder
