package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// activeSink is a sink that a drain serves, and its position.
type activeSink struct {
	name, workspace string
	trace.Position
}

// awaits reports whether the sink has yet to get a row.
func (a *activeSink) awaits(t *table, r row) bool {
	return a.workspace == r.workspace && t.position(a.Position) < r.seq
}

// workspaceOf returns the workspace of a sink: its name is WORKSPACE/SINK.
func workspaceOf(sink string) string {
	return sink[:max(strings.LastIndexByte(sink, '/'), 0)]
}

func readSinks(ctx context.Context, db queryer, names []string) ([]activeSink, error) {
	sinks := make([]activeSink, 0, len(names))
	for _, name := range names {
		position, err := readCursor(ctx, db, name)
		if err != nil {
			return nil, err
		}
		sinks = append(sinks, activeSink{name: name, workspace: workspaceOf(name), Position: position})
	}
	return sinks, nil
}

// readCursor reads a sink's position, which is zero before its first delivery.
func readCursor(ctx context.Context, db queryer, sink string) (p trace.Position, err error) {
	err = db.QueryRowContext(ctx, "SELECT traces, metrics, versions, erasures, exposures FROM cursors WHERE sink = ?", sink).
		Scan(&p.Traces, &p.Metrics, &p.Versions, &p.Erasures, &p.Exposures)
	if errors.Is(err, sql.ErrNoRows) {
		return trace.Position{}, nil
	}
	return p, err
}

// forgetErasures deletes the erasures before a time that all sinks have taken, and all if
// there never was a sink: they have what was erased.
func forgetErasures(ctx context.Context, conn *sql.Conn, before time.Time, sinks []activeSink) error {
	const all = 1<<63 - 1
	taken := int64(all)
	for _, sink := range sinks {
		taken = min(taken, sink.Erasures)
	}
	_, err := conn.ExecContext(ctx, "DELETE FROM erasures WHERE (time_ms < ? OR ? AND NOT EXISTS (SELECT 1 FROM cursors WHERE instr(sink, '/'))) AND seq <= ?",
		before.UnixMilli(), len(sinks) == 0, taken)
	return err
}
