package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cadenza-gateway/cadenza/trace"
)

// maxReaders bounds how many queries run at once.
const maxReaders = 4

// Reader reads a store's file, also while another process writes to it. Its
// methods may be called concurrently.
type Reader struct {
	db   *sql.DB
	path string
	file os.FileInfo // nil if there was none

	whole string // the columns of whole records

	// termsFirst makes lists begin with the index of terms, and not with the newest traces,
	// to test it in small stores.
	termsFirst bool
}

// OpenReader opens the file of a store to read it. It neither makes nor changes the file.
func OpenReader(ctx context.Context, path string) (*Reader, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	r, err := openReader(path)
	if err != nil {
		return nil, err
	}
	if err := checkFormat(ctx, r.db); err != nil {
		return nil, errors.Join(fmt.Errorf("trace store %s: %w", path, err), r.Close())
	}
	if hasTexts, err := queryInt(ctx, r.db, "SELECT count(*) FROM sqlite_schema WHERE name = 'whole_messages'"); err == nil && hasTexts == 0 {
		r.whole = strings.Replace(wholeList, wholeMessages, "messages", 1) // no gateway has opened it since there are texts
	}
	return r, nil
}

func openReader(path string) (*Reader, error) {
	db, err := openDatabase(readerDSN(path), maxReaders)
	if err != nil {
		return nil, err
	}
	file, _ := os.Stat(path)
	return &Reader{db: db, path: path, file: file, whole: wholeList}, nil
}

// Close closes the reader's connections.
func (r *Reader) Close() error { return r.db.Close() }

// Check verifies the whole file, its indexes included, and returns the damage it finds.
// https://www.sqlite.org/pragma.html#pragma_integrity_check
func (r *Reader) Check(ctx context.Context) error { return r.verify(ctx, "integrity_check") }

// selectMetrics selects the reports on a trace and on its decision, whose id is NULL if
// there is none. Both come in order, so nothing is sorted.
var selectMetrics = func() string {
	const one = "SELECT seq, %s FROM metrics INDEXED BY metrics_trace_id WHERE trace_id = ?%d AND workspace = ?3"
	return fmt.Sprintf(one+" UNION ALL "+one+" ORDER BY seq", metricsList, 1, metricsList, 2)
}()

// Trace returns the record of a trace, or ErrNotFound. The record is the caller's. Its
// times have the precision of the store.
func (r *Reader) Trace(ctx context.Context, id trace.ID) (*trace.Record, error) {
	record, err := scanWhole(r.db.QueryRowContext(ctx, "SELECT "+r.whole+" FROM traces WHERE id = ?", id[:]).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	return record, err
}

// MetricsFor returns all metrics of a trace in the order they were reported, without a
// bound; [Reader.Get] bounds them.
func (r *Reader) MetricsFor(ctx context.Context, id trace.ID) (all []trace.Metrics, err error) {
	record, err := r.Trace(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return collect(ctx, r.db, scanReport, "SELECT "+metricsList+" FROM metrics WHERE trace_id = ? ORDER BY seq", id[:])
	}
	if err != nil {
		return nil, err
	}
	_, err = r.eachReport(ctx, record.Workspace, id, record, func(m trace.Metrics) bool {
		all = append(all, m)
		return true
	})
	return all, err
}

// eachReport calls yield with each report on a trace, as the trace shows it, until yield
// returns false, and reports whether it did. record is nil if only reports are stored.
func (r *Reader) eachReport(ctx context.Context, workspace string, id trace.ID, record *trace.Record, yield func(trace.Metrics) bool) (stopped bool, err error) {
	var decision []byte
	if record != nil && !record.Decision.IsZero() {
		decision = record.Decision[:]
	}
	rows, err := r.db.QueryContext(ctx, selectMetrics, id[:], decision, workspace)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var seq int64
		m, err := scanMetrics(rows.Scan, &seq)
		if err != nil {
			return false, err
		}
		shows := true
		if m.TraceID.IsZero() && record != nil {
			m, shows = reduced(m, record.Kind)
		}
		if shows && !yield(m) {
			return true, nil
		}
	}
	return false, rows.Err()
}

func scanReport(scan func(...any) error) (trace.Metrics, error) { return scanMetrics(scan) }

// scanMetrics reads a row into first and metrics, whose columns are metricsList.
func scanMetrics(scan func(...any) error, first ...any) (m trace.Metrics, err error) {
	err = scanFields(scan, trace.MetricsFields, &m, first)
	if m.TraceID == m.Decision {
		m.TraceID = trace.ID{} // it is on all traces of the decision
	}
	return m, err
}

// StoredVersion is a version of a definition as the store keeps it.
type StoredVersion struct {
	trace.Version
	Ordinal int64 // 1 for the key's first version; for display only
}

// Version returns a version of a definition, or ErrNotFound.
func (r *Reader) Version(ctx context.Context, workspace string, kind trace.Kind, key, version string) (*StoredVersion, error) {
	v := StoredVersion{Version: trace.Version{Workspace: workspace, Kind: kind, Key: key, Version: version}}
	err := r.db.QueryRowContext(ctx,
		"SELECT ordinal, first_seen_ms, content FROM versions WHERE workspace = ? AND kind = ? AND key = ? AND version = ?",
		workspace, kind.String(), key, version).Scan(&v.Ordinal, into{&v.Time}, &v.Content)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// listedVersions bounds the versions of one definition in a list, and listedContent the
// content, in bytes, that a version in a list has.
const (
	listedVersions = 100
	listedContent  = 64 << 10
)

// Versions returns the versions of a definition that are stored, the newest first, 100 at
// most. Those with a large content have none: Version has it.
func (r *Reader) Versions(ctx context.Context, workspace string, kind trace.Kind, key string) ([]StoredVersion, error) {
	return collect(ctx, r.db, func(scan func(...any) error) (StoredVersion, error) {
		v := StoredVersion{Version: trace.Version{Workspace: workspace, Kind: kind, Key: key}}
		err := scan(&v.Version.Version, &v.Ordinal, into{&v.Time}, &v.Content)
		return v, err
	}, `
SELECT version, ordinal, first_seen_ms, CASE WHEN length(content) <= ? THEN content END
FROM versions WHERE workspace = ? AND kind = ? AND key = ? ORDER BY seq DESC LIMIT ?`, listedContent, workspace, kind.String(), key, listedVersions)
}
