package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// maxDeliveryBytes is about how many bytes of content one delivery has.
	maxDeliveryBytes = 4 << 20

	// deliveryScan bounds the rows of each table that one delivery looks at to find some of
	// its workspace.
	deliveryScan = 20_000
)

// Outbox yields one workspace's rows in the order in which they were written, for one sink.
// Its connections are not those that the Store writes with.
//
// Pending may be called concurrently with the other methods, which are for one
// goroutine. They fail with recorder.ErrBroken when the file was replaced: close
// the outbox and open it again.
type Outbox struct {
	path            string
	file            os.FileInfo // of the file that was opened
	workspace, sink string
	storeID         [16]byte
	reader, writer  *sql.DB
}

// OpenOutbox opens the outbox of a sink, whose name must be WORKSPACE/NAME. It
// fails if the file is missing or no store yet. Try again then: the Store makes the
// file.
func OpenOutbox(ctx context.Context, path, workspace, sink string) (_ *Outbox, err error) {
	if workspaceOf(sink) != workspace || workspace == "" {
		return nil, fmt.Errorf("the sink %q must be named %s/NAME, for its workspace", sink, workspace)
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	o := &Outbox{path: path, workspace: workspace, sink: sink}
	if err := o.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("outbox of the trace store %s: %w", path, classify(err)), o.Close())
	}
	return o, nil
}

func (o *Outbox) open(ctx context.Context) (err error) {
	if o.file, err = os.Stat(o.path); err != nil {
		return err // and SQLite makes no file
	}
	if o.reader, err = openDatabase(readerDSN(o.path), 2); err != nil {
		return err
	}
	if o.writer, err = openDatabase(secondWriterDSN(o.path), 1); err != nil {
		return err
	}
	if err := checkFormat(ctx, o.writer); err != nil {
		return err
	}
	if _, err := o.writer.ExecContext(ctx, textsSchema); err != nil {
		return err
	}
	var id []byte
	if err := o.reader.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'store_id'").Scan(&id); err != nil {
		return fmt.Errorf("reading the store's id: %w", err)
	}
	copy(o.storeID[:], id)
	return o.usable() // the same file as at first
}

// makeStoreID gives the store an id unless it has one. A sink's database distinguishes the
// rows of stores by it.
func makeStoreID(ctx context.Context, conn *sql.Conn) error {
	fresh := make([]byte, len(Outbox{}.storeID))
	rand.Read(fresh)
	_, err := conn.ExecContext(ctx, "INSERT INTO meta (name, value) VALUES ('store_id', ?) ON CONFLICT DO NOTHING", fresh)
	return err
}

// usable fails if the file at the path is not the one that was opened.
func (o *Outbox) usable() error { return sameFile(o.path, o.file) }

// StoreID returns the id that the store got when it was made.
func (o *Outbox) StoreID() [16]byte { return o.storeID }

// Position returns the stored position of the sink. A new sink is at zero: it also gets the
// rows that were stored before.
func (o *Outbox) Position(ctx context.Context) (trace.Position, error) {
	if err := o.usable(); err != nil {
		return trace.Position{}, err
	}
	p, err := readCursor(ctx, o.reader, o.sink)
	return p, classify(err)
}

// Advance moves the sink's position, also back, to redeliver rows that the sink lost. It
// fails with trace.ErrMoved if the stored position is not from.
func (o *Outbox) Advance(ctx context.Context, from, to trace.Position) error {
	if err := o.usable(); err != nil {
		return err
	}
	query := `UPDATE cursors SET traces = ?2, metrics = ?3, versions = ?4, erasures = ?5, exposures = ?6
WHERE sink = ?1 AND traces = ?7 AND metrics = ?8 AND versions = ?9 AND erasures = ?10 AND exposures = ?11`
	if from == (trace.Position{}) { // or the sink has no position yet
		query = `INSERT INTO cursors (sink, traces, metrics, versions, erasures, exposures) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (sink) DO UPDATE SET traces = ?2, metrics = ?3, versions = ?4, erasures = ?5, exposures = ?6
WHERE traces = ?7 AND metrics = ?8 AND versions = ?9 AND erasures = ?10 AND exposures = ?11`
	}
	turn := turnOf(o.path)
	turn.Lock()
	result, err := o.writer.ExecContext(ctx, query, o.sink, to.Traces, to.Metrics, to.Versions, to.Erasures, to.Exposures,
		from.Traces, from.Metrics, from.Versions, from.Erasures, from.Exposures)
	turn.Unlock()
	if err != nil {
		return classify(err)
	}
	moved, err := result.RowsAffected()
	if err == nil && moved == 0 {
		err = fmt.Errorf("outbox of %s: %w", o.sink, trace.ErrMoved)
	}
	return err
}

// greatestSQL selects the greatest seq of each table. Each is found at once.
const greatestSQL = `
SELECT coalesce((SELECT max(seq) FROM traces), 0), coalesce((SELECT max(seq) FROM metrics), 0),
	coalesce((SELECT max(seq) FROM versions), 0), coalesce((SELECT max(seq) FROM erasures), 0),
	coalesce((SELECT max(seq) FROM exposures), 0)`

func readGreatest(ctx context.Context, db queryer) (p trace.Position, err error) {
	err = db.QueryRowContext(ctx, greatestSQL).Scan(&p.Traces, &p.Metrics, &p.Versions, &p.Erasures, &p.Exposures)
	return p, err
}

// Pending returns how far the sink is behind: about how many rows it has not taken,
// including rows of other workspaces, and the time of the oldest, zero if there is
// none.
func (o *Outbox) Pending(ctx context.Context) (rows int64, oldest time.Time, err error) {
	if err := o.usable(); err != nil {
		return 0, time.Time{}, err
	}
	rows, oldest, err = o.pending(ctx)
	return rows, oldest, classify(err)
}

func (o *Outbox) pending(ctx context.Context) (rows int64, oldest time.Time, err error) {
	position, err := readCursor(ctx, o.reader, o.sink)
	if err != nil {
		return 0, time.Time{}, err
	}
	greatest, err := readGreatest(ctx, o.reader)
	if err != nil {
		return 0, time.Time{}, err
	}
	for _, behind := range []int64{
		greatest.Traces - position.Traces, greatest.Metrics - position.Metrics,
		greatest.Versions - position.Versions, greatest.Erasures - position.Erasures,
		greatest.Exposures - position.Exposures,
	} {
		rows += max(behind, 0)
	}
	if rows == 0 {
		return 0, time.Time{}, nil
	}
	var millis sql.NullInt64
	err = o.reader.QueryRowContext(ctx, `
SELECT min(at) FROM (
	SELECT (SELECT time_ms FROM traces WHERE seq > ? ORDER BY seq LIMIT 1) AS at
	UNION ALL SELECT (SELECT time_ms FROM metrics WHERE seq > ? ORDER BY seq LIMIT 1)
	UNION ALL SELECT (SELECT first_seen_ms FROM versions WHERE seq > ? ORDER BY seq LIMIT 1)
	UNION ALL SELECT (SELECT time_ms FROM erasures WHERE seq > ? ORDER BY seq LIMIT 1)
	UNION ALL SELECT (SELECT last_ms FROM exposures WHERE seq > ? ORDER BY seq LIMIT 1))`,
		position.Traces, position.Metrics, position.Versions, position.Erasures, position.Exposures).Scan(&millis)
	if err == nil && millis.Valid {
		oldest = time.UnixMilli(millis.Int64)
	}
	return rows, oldest, err
}

// Close closes the outbox's connections.
func (o *Outbox) Close() error {
	var errs []error
	for _, db := range []*sql.DB{o.reader, o.writer} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// Next returns the rows after from: at most limit, and no more than some megabytes unless
// one row is larger. It returns nil if nothing is pending. The delivery may have no rows,
// if all it passed were of other workspaces.
func (o *Outbox) Next(ctx context.Context, from trace.Position, limit int) (*trace.Delivery, error) {
	if err := o.usable(); err != nil {
		return nil, err
	}
	d, err := o.next(ctx, from, limit)
	return d, classify(err)
}

func (o *Outbox) next(ctx context.Context, from trace.Position, limit int) (_ *trace.Delivery, err error) {
	// One transaction: otherwise a row that is deleted between two queries may seem to
	// belong to an earlier erasure.
	tx, err := beginRead(ctx, o.reader)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, endRead(tx)) }()
	to, err := readGreatest(ctx, tx)
	if err != nil {
		return nil, err
	}
	n := &gathering{Outbox: o, tx: tx, rows: max(limit, 1), bytes: maxDeliveryBytes}
	d := &n.delivery
	d.Position = from

	erasure, until, err := n.nextErasure(ctx, from.Erasures)
	if err != nil {
		return nil, err
	}
	if erasure == nil {
		until = to
	}
	if d.Position.Versions, err = n.versions(ctx, from.Versions, to.Versions); err != nil {
		return nil, err
	}
	if d.Position.Traces, err = n.records(ctx, from.Traces, until.Traces); err != nil {
		return nil, err
	}
	if d.Position.Metrics, err = n.metrics(ctx, from.Metrics, until.Metrics); err != nil {
		return nil, err
	}
	if d.Position.Exposures, err = n.exposures(ctx, from.Exposures, to.Exposures); err != nil {
		return nil, err
	}
	switch {
	case erasure == nil:
		d.Position.Erasures = max(from.Erasures, to.Erasures)
	case d.Position.Traces >= until.Traces && d.Position.Metrics >= until.Metrics:
		d.Erasures = append(d.Erasures, *erasure)
		d.Position.Erasures = until.Erasures
	}
	if d.Len() == 0 && d.Position == from {
		return nil, nil
	}
	return d, nil
}

// gathering is an unfinished delivery, and the rows and bytes that it can still take.
type gathering struct {
	*Outbox
	tx          *sql.Tx
	delivery    trace.Delivery
	rows, bytes int
}

// nextErasure returns the workspace's next erasure, and the position after it.
// No row that was written after an erasure may be delivered before it.
func (n *gathering) nextErasure(ctx context.Context, after int64) (*trace.Erasure, trace.Position, error) {
	var (
		e          = trace.Erasure{Selector: trace.Selector{Workspace: n.workspace}}
		position   trace.Position
		reportedOn []byte
	)
	err := n.tx.QueryRowContext(ctx, `
SELECT seq, time_ms, conversation_id, metadata_name, metadata_value, decision_id, reported_on, traces, metrics, unit_field, unit, unit_value
FROM erasures WHERE seq > ? AND workspace = ? ORDER BY seq LIMIT 1`, after, n.workspace).
		Scan(&position.Erasures, into{&e.Time}, into{&e.ConversationID}, into{&e.MetadataName}, into{&e.MetadataValue}, into{&e.Decision}, &reportedOn, &position.Traces, &position.Metrics,
			into{&e.UnitField}, into{&e.Unit}, into{&e.UnitValue})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, trace.Position{}, nil
	}
	for id := range slices.Chunk(reportedOn, len(e.Decision)) {
		e.ReportedOn = append(e.ReportedOn, trace.ID(id))
	}
	return &e, position, err
}

const versionList = "workspace, kind, key, version, first_seen_ms, content"

func (n *gathering) versions(ctx context.Context, from, to int64) (int64, error) {
	return n.gather(ctx, "versions", versionList, from, to, func(scan func(...any) error, seq *int64) (int, error) {
		var v trace.Version
		if err := scan(seq, &v.Workspace, into{&v.Kind}, &v.Key, &v.Version, into{&v.Time}, &v.Content); err != nil {
			return 0, err
		}
		n.delivery.Versions = append(n.delivery.Versions, v)
		return len(v.Content), nil
	})
}

func (n *gathering) records(ctx context.Context, from, to int64) (int64, error) {
	return n.gather(ctx, "traces", wholeList, from, to, func(scan func(...any) error, seq *int64) (int, error) {
		r, err := scanRecord(scan, true, seq)
		if err != nil {
			return 0, err
		}
		n.delivery.Records = append(n.delivery.Records, r)
		return r.Size(), nil
	})
}

func (n *gathering) metrics(ctx context.Context, from, to int64) (int64, error) {
	return n.gather(ctx, "metrics", metricsList, from, to, func(scan func(...any) error, seq *int64) (int, error) {
		m, err := scanMetrics(scan, seq)
		if err != nil {
			return 0, err
		}
		n.delivery.Metrics = append(n.delivery.Metrics, &m)
		return m.Size(), nil
	})
}

func (n *gathering) exposures(ctx context.Context, from, to int64) (int64, error) {
	return n.gather(ctx, "exposures", "trace_id, 1 + answers", from, to, func(scan func(...any) error, seq *int64) (int, error) {
		var e trace.Exposure
		err := scan(seq, into{&e.TraceID}, &e.Answers)
		n.delivery.Exposures = append(n.delivery.Exposures, e)
		return countSize, err
	})
}

// gather adds the workspace's rows of a table after from, up to and including to.
// It ends when the delivery is full, or after deliveryScan rows, and returns how
// far it got. add adds one row and returns the size of its content.
func (n *gathering) gather(ctx context.Context, table, columns string, from, to int64,
	add func(scan func(...any) error, seq *int64) (int, error),
) (reached int64, err error) {
	if n.rows == 0 || n.bytes <= 0 || to <= from {
		return from, nil
	}
	// The window of rows to look at.
	var window, looked int64
	err = n.tx.QueryRowContext(ctx, fmt.Sprintf(
		"SELECT coalesce(max(seq), 0), count(*) FROM (SELECT seq FROM %s WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?)", table),
		from, to, deliveryScan).Scan(&window, &looked)
	if err != nil {
		return from, err
	}
	if looked < deliveryScan {
		window = to // missing rows were deleted
	}
	rows, err := n.tx.QueryContext(ctx, fmt.Sprintf(
		"SELECT seq, %s FROM %s WHERE seq > ? AND seq <= ? AND workspace = ? ORDER BY seq LIMIT ?", columns, table),
		from, window, n.workspace, n.rows)
	if err != nil {
		return from, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	reached = from
	for n.rows > 0 && n.bytes > 0 {
		if !rows.Next() {
			// The window has no more rows of this workspace.
			return window, rows.Err()
		}
		size, err := add(rows.Scan, &reached)
		if err != nil {
			return from, err
		}
		n.rows--
		n.bytes -= size
	}
	return reached, nil
}
