package sqlite

import (
	"context"
	"errors"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// What Get reads of the reports on a trace: anyone who has its id may send
	// more without end.
	getMetrics      = 1000
	getMetricsBytes = 4 << 20
)

// Details is what the store holds of one trace.
type Details struct {
	Record       *trace.Record   // nil: there are only metrics
	Metrics      []trace.Metrics // the first, in the order in which they were reported
	MetricsTotal int64           // of all, also those that are not among Metrics
	Version      *StoredVersion  // of the definition that answered; nil: it is not kept
	Prompt       *StoredVersion  // of the prompt that an endpoint sent; nil: it is not kept
}

// Get returns what the store holds of a trace of the workspace, or ErrNotFound.
// Of its metrics it returns the first thousand at most, and no more than some
// megabytes of them; [Reader.Export] has them all.
func (r *Reader) Get(ctx context.Context, workspace string, id trace.ID) (*Details, error) {
	var d Details
	var err error
	if d.Record, err = r.Trace(ctx, id); err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	if d.Record != nil && d.Record.Workspace != workspace {
		return nil, ErrNotFound
	}
	if d.Metrics, d.MetricsTotal, err = r.firstMetrics(ctx, workspace, id, d.Record); err != nil {
		return nil, err
	}
	switch {
	case d.Record == nil && len(d.Metrics) == 0:
		return nil, ErrNotFound
	case d.Record == nil || d.Record.Version == "":
		return &d, nil
	}
	record := d.Record
	if d.Version, err = r.keptVersion(ctx, workspace, record.Kind, record.Key, record.Version); err != nil {
		return nil, err
	}
	if record.PromptVersion != "" {
		d.Prompt, err = r.keptVersion(ctx, workspace, trace.KindPrompt, record.Prompt, record.PromptVersion)
	}
	return &d, err
}

// keptVersion is Version, with nil for one that is not kept.
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
		size += reportSize(&m)
		return true
	})
	if err != nil || !more {
		return first, int64(len(first)), err
	}
	// All reports on a trace are of its workspace. To look would take reading
	// them, where the index alone can count.
	var decision []byte
	if record != nil && !record.Decision.IsZero() {
		decision = record.Decision[:]
	}
	total, err = queryInt(ctx, r.db, "SELECT count(*) FROM metrics WHERE trace_id IN (?, ?)", id[:], decision)
	return first, max(total, int64(len(first))), err
}
