// Package trace is the model of what Cadenza records: ids that any node of a
// fleet can verify without I/O, the records of answers and of the metrics
// reported on them, and the deliveries by which sinks are given both.
package trace
