// Package recorder takes records and metrics to a store: through a bounded queue,
// by one writer, many in one transaction.
//
// It makes three promises. Metrics and replies are acknowledged only after the
// commit that holds them is on stable storage. Records of answers are written in
// the background; the recorder counts the ones that it loses. The start record of an
// upstream call is handed to the operating system before the call is made, so that
// a crash leaves evidence of the call.
package recorder
