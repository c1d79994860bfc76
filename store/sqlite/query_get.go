package sqlite

import (
	"context"
	"errors"

	"github.com/cadenza-gateway/cadenza/trace"
)

// Details is all that the store holds of one trace.
type Details struct {
	Record  *trace.Record   // nil: there are only metrics
	Metrics []trace.Metrics // in the order in which they were reported
	Version *StoredVersion  // of the definition that answered; nil: it is not kept
}

// Get returns what the store holds of a trace of the workspace, or ErrNotFound.
func (r *Reader) Get(ctx context.Context, workspace string, id trace.ID) (*Details, error) {
	var d Details
	var err error
	if d.Record, err = r.Trace(ctx, id); err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	if d.Metrics, err = r.MetricsFor(ctx, id); err != nil {
		return nil, err
	}
	switch {
	case d.Record != nil && d.Record.Workspace != workspace,
		d.Record == nil && (len(d.Metrics) == 0 || d.Metrics[0].Workspace != workspace):
		return nil, ErrNotFound
	case d.Record == nil || d.Record.Version == "":
		return &d, nil
	}
	record := d.Record
	d.Version, err = r.Version(ctx, workspace, record.Kind, record.Key, record.Version)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	return &d, nil
}
