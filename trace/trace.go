// Package trace has the data model of Cadenza's records: ids that any node of a
// fleet can verify without I/O, the records of answers and of the metrics
// reported on them, and the deliveries that sinks receive.
package trace
