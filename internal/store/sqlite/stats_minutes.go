package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	minuteMillis = int64(time.Minute / time.Millisecond)

	// minutesKept is how long the minutes of a workspace are kept: until after the same
	// hour of the next week.
	minutesKept = 8 * 24 * time.Hour
)

// minuteSlot is the minute of a workspace: all of its traces, and of its calls of models
// how long they took. Its hours are 0, and its start is in minutes since 1970.
func minuteSlot(workspace string, millis int64) slot {
	return slot{series{workspace: workspace}, 0, millis / minuteMillis}
}

// minuteTally finds the tallies of minutes for rows that come about in order of time.
type minuteTally struct {
	tallies
	since     int64 // Unix time in milliseconds of the first that is kept
	minute    int64
	workspace string // with the separator behind it
	last      *tally
}

// at returns the tally of a row's minute, nil for one that is not kept. names is the series
// of the row as one text.
func (m *minuteTally) at(names string, millis int64) *tally {
	if millis < m.since {
		return nil
	}
	if m.last == nil || m.minute != millis/minuteMillis || !strings.HasPrefix(names, m.workspace) {
		workspace, _, _ := strings.Cut(names, nameSeparator)
		key := minuteSlot(workspace, millis)
		if m.tallies[key] == nil {
			m.tallies[key] = new(tally)
		}
		m.minute, m.workspace, m.last = key.start, workspace+nameSeparator, m.tallies[key]
	}
	return m.last
}

// isCall reports whether the row is the call of a model.
func (m *minuteTally) isCall(names string) bool {
	return strings.HasPrefix(names[len(m.workspace):], "endpoint"+nameSeparator)
}

// minutes returns the counts of a workspace by the minute, for the whole minutes that
// contain the bounds of the query.
func (q *StatsQuery) minutes(ctx context.Context, db querier) (Stats, error) {
	since, until := q.Since.UnixMilli()/minuteMillis, (q.Until.UnixMilli()+minuteMillis-1)/minuteMillis
	found := tallies{}
	if _, err := collect(ctx, db, func(scan func(...any) error) (_ struct{}, err error) {
		key := slot{series: series{workspace: q.Workspace}}
		t := new(tally)
		if err := t.scan(scan, &key.start); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, found.add(key, t)
	}, fmt.Sprintf(`SELECT h.start, %s FROM stats AS h WHERE h.hours = 0 AND h.start >= ? AND h.start < ? AND h.series =
(SELECT id FROM stats_series WHERE workspace = ? AND kind = '' AND key = '' AND variant = '' AND version = '' AND arm = '') ORDER BY h.start`, readColumns),
		since, until, q.Workspace); err != nil {
		return Stats{}, err
	}
	counted, pending, err := q.countTail(ctx, db)
	if err != nil {
		return Stats{}, err
	}
	for key, t := range counted {
		if key.hours == 0 && key.start >= since && key.start < until {
			if err := found.add(key, t); err != nil {
				return Stats{}, err
			}
		}
	}
	return Stats{Rows: rowsOf(found, q.Interval), Pending: pending}, nil
}

// expireMinutes deletes the minutes that are no longer kept.
func (k *statsKeeper) expireMinutes(ctx context.Context, now time.Time) error {
	ids, err := collect(ctx, k.db, func(scan func(...any) error) (id int64, err error) { return id, scan(&id) }, "SELECT id FROM stats_series WHERE kind = ''")
	for _, id := range ids {
		err = errors.Join(err, k.deleteSlots(ctx, id, 0, now.Add(-minutesKept).UnixMilli()/minuteMillis))
	}
	return err
}
