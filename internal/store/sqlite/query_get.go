package sqlite

import (
	"context"
	"errors"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// Get reads at most so many reports on a trace: anyone who has its id may send more
	// without end.
	getMetrics      = 1000
	getMetricsBytes = 4 << 20
)

// Details is a trace with its metrics and the versions of its definitions.
type Details struct {
	Record       *trace.Record   // nil: there are only metrics
	Metrics      []trace.Metrics // the first, in the order in which they were reported
	MetricsTotal int64           // the number of all metrics, not only Metrics
	Version      *StoredVersion  // of the definition that answered; nil: not stored
	Prompt       *StoredVersion  // of the prompt that an endpoint sent; nil: not stored
}

// Get returns a trace of the workspace with its details, or ErrNotFound. It returns the
// first thousand metrics at most, and no more than some megabytes of them; [Reader.Export]
// has them all.
func (r *Reader) Get(ctx context.Context, workspace string, id trace.ID) (*Details, error) {
	record, err := r.Trace(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		d := new(Details)
		if d.Metrics, d.MetricsTotal, err = r.firstMetrics(ctx, workspace, id, nil); err != nil {
			return nil, err
		}
		if len(d.Metrics) == 0 {
			return nil, ErrNotFound
		}
		return d, nil
	case err != nil:
		return nil, err
	case record.Workspace != workspace:
		return nil, ErrNotFound
	}
	return r.Around(ctx, record)
}

// keptVersion returns the same as Version, but nil for one that is not stored.
func (r *Reader) keptVersion(ctx context.Context, workspace string, kind trace.Kind, key, version string) (*StoredVersion, error) {
	v, err := r.Version(ctx, workspace, kind, key, version)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return v, err
}

// firstMetrics reads the first metrics of a trace, and counts all.
func (r *Reader) firstMetrics(ctx context.Context, workspace string, id trace.ID, record *trace.Record) (first []trace.Metrics, total int64, err error) {
	size := 0
	more, err := r.eachReport(ctx, workspace, id, record, func(m trace.Metrics) bool {
		if len(first) == getMetrics || size >= getMetricsBytes {
			return false
		}
		first = append(first, m)
		size += m.Size()
		return true
	})
	if err != nil || !more {
		return first, int64(len(first)), err
	}
	// All reports on a trace are of its workspace. To check that, SQLite would have to read
	// them; to count, it reads only the index.
	var decision []byte
	if record != nil && !record.Decision.IsZero() {
		decision = record.Decision[:]
	}
	total, err = queryInt(ctx, r.db, "SELECT count(*) FROM metrics WHERE trace_id IN (?, ?)", id[:], decision)
	return first, max(total, int64(len(first))), err
}
