package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
)

const (
	// maxPeakRows is the number of subjects with a peak in an hour of a limit.
	maxPeakRows = 100

	// MaxPeaks is the most rows of an answer.
	MaxPeaks = 10_000
)

// A subject that has a row keeps it.
var keepPeakSQL = `
INSERT INTO limit_peaks SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 WHERE EXISTS (
	SELECT 1 FROM limit_peaks WHERE workspace = ?1 AND hour = ?2 AND limit_name = ?3 AND subject = ?4
) OR (SELECT count(*) FROM limit_peaks WHERE workspace = ?1 AND hour = ?2 AND limit_name = ?3) < ` + fmt.Sprint(maxPeakRows) + `
ON CONFLICT DO UPDATE SET percent = excluded.percent, measure = excluded.measure, ceiling = excluded.ceiling, used = excluded.used
	WHERE excluded.percent > percent OR excluded.percent = percent AND excluded.used > used`

// keepPeak keeps a peak if it is above that of its hour.
func keepPeak(writer *native, p *recorder.Peak) error {
	return writer.execute(keepPeakSQL, textValue(p.Workspace), integerValue(p.Hour*3600), textValue(p.Limit), textValue(p.Subject),
		integerValue(int64(p.Percent)), textValue(p.Measure), textValue(p.Ceiling), realValue(p.Used))
}

const deletePeaksSQL = "DELETE FROM limit_peaks WHERE hour < ?"

// PeakQuery asks for peaks. Only the workspace is required.
type PeakQuery struct {
	Workspace    string
	Since, Until time.Time // whole hours that these are in
	Limit        string
	Subject      *string
}

// PeakRow is the largest share of a limit that a subject used in an hour.
type PeakRow struct {
	Limit   string    `json:"limit"`
	Subject string    `json:"subject"`
	Hour    time.Time `json:"hour"`
	Percent int       `json:"percent"`
	Measure string    `json:"measure"` // of the ceiling of which the share was the largest
	Ceiling string    `json:"ceiling"` // as it was configured then
	Used    float64   `json:"used"`
}

// Peaks returns peaks by limit, subject and hour: the latest hours, at most MaxPeaks rows.
func (r *Reader) Peaks(ctx context.Context, q PeakQuery) ([]PeakRow, error) {
	since, until := int64(0), int64(1<<62)
	if !q.Since.IsZero() {
		since = q.Since.Unix() / 3600 * 3600
	}
	if !q.Until.IsZero() {
		until = q.Until.Add(-time.Nanosecond).Unix()
	}
	rows, err := collect(ctx, r.db, func(scan func(...any) error) (row PeakRow, err error) {
		var hour int64
		err = scan(&row.Limit, &row.Subject, &hour, &row.Percent, &row.Measure, &row.Ceiling, &row.Used)
		row.Hour = time.Unix(hour, 0).UTC()
		return row, err
	}, `
SELECT * FROM (
	SELECT limit_name, subject, hour, percent, measure, ceiling, used FROM limit_peaks
	WHERE workspace = ?1 AND hour BETWEEN ?2 AND ?3 AND (?4 = '' OR limit_name = ?4) AND (?5 IS NULL OR subject = ?5)
	ORDER BY hour DESC LIMIT ?6
) ORDER BY limit_name, subject, hour`, q.Workspace, since, until, q.Limit, q.Subject, MaxPeaks)
	if rows == nil {
		rows = []PeakRow{}
	}
	return rows, err
}
