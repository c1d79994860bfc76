package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// maxRefusalRows is the number of rows of refusals in an hour of a workspace, after
	// which new subjects share recorder.OtherSubjects.
	maxRefusalRows = 1000

	// MaxRefusals is the most rows of an answer: those with the greatest counts.
	MaxRefusals = 1000
)

// The bound is checked before the row is written, so that a subject that has a row keeps
// it.
var keepRefusalSQL = `
WITH room(has) AS (SELECT ?8 = '' OR EXISTS (
	SELECT 1 FROM refusals WHERE workspace = ?1 AND hour = ?2 AND api_key = ?3 AND route = ?4 AND status = ?5
	AND code = ?6 AND limit_name = ?7 AND subject = ?8 AND key = ?9
) OR (SELECT count(*) FROM refusals WHERE workspace = ?1 AND hour = ?2) < ` + fmt.Sprint(maxRefusalRows) + `)
INSERT INTO refusals SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, iif(has, ?8, '` + recorder.OtherSubjects + `'), ?9, ?10, ?11, ?12 FROM room WHERE true` + addRefusals

// addRefusals adds to an existing row.
var addRefusals = `
ON CONFLICT DO UPDATE SET count = count + excluded.count, last_ms = max(last_ms, excluded.last_ms), examples = (
	SELECT json_group_array(json(value)) FROM (
		SELECT value FROM json_each(excluded.examples) UNION ALL SELECT value FROM json_each(refusals.examples) LIMIT ` + fmt.Sprint(recorder.MaxRefusalExamples) + `
	)
)`

// keepRefusal adds to the refusals of an hour.
func keepRefusal(writer *native, r *recorder.Refusal) error {
	examples, err := json.Marshal(r.Examples)
	if err != nil {
		return err
	}
	return writer.execute(keepRefusalSQL, textValue(r.Workspace), integerValue(r.Hour.Unix()), textValue(r.APIKey), textValue(r.Route),
		integerValue(int64(r.Status)), textValue(r.Code), textValue(r.Limit), textValue(r.Subject), textValue(r.Key),
		integerValue(r.Count), integerValue(r.Last.UnixMilli()), textValue(string(examples)))
}

const deleteRefusalsSQL = "DELETE FROM refusals WHERE hour < ?"

// forgetRefusals removes the value that an erasure names from the refusals, which count as
// refusals of other subjects, and from the peaks of limits.
func (e *erasure) forgetRefusals(ctx context.Context) error {
	value := e.selector.ConversationID
	if e.selector.MetadataName != "" || e.selector.Unit != "" {
		value = e.selector.MetadataValue + e.selector.UnitValue // one of them
		var text string
		if json.Unmarshal([]byte(value), &text) == nil {
			value = text
		}
	}
	if value == "" {
		return nil
	}
	quoted, err := json.Marshal(value)
	if err != nil {
		return err
	}
	inside := string(quoted[1 : len(quoted)-1])
	return e.transact(ctx, func(tx *sql.Tx) error {
		for _, query := range []string{
			"UPDATE refusals SET examples = '[]' WHERE workspace = ?1 AND (subject = ?2 OR instr(examples, ?3))",
			`INSERT INTO refusals SELECT workspace, hour, api_key, route, status, code, limit_name, '` + recorder.OtherSubjects + `', key, count, last_ms, examples
FROM refusals WHERE workspace = ?1 AND subject = ?2 AND ?3 <> ''` + addRefusals,
			"DELETE FROM refusals WHERE workspace = ?1 AND subject = ?2 AND ?3 <> ''",
			"DELETE FROM limit_peaks WHERE workspace = ?1 AND subject = ?2 AND ?3 <> ''",
		} {
			if _, err := tx.ExecContext(ctx, query, e.selector.Workspace, value, inside); err != nil {
				return err
			}
		}
		return nil
	})
}

// RefusalRow counts requests that were refused alike.
type RefusalRow struct {
	APIKey   string                    `json:"api_key"`
	Route    string                    `json:"route"`
	Status   int                       `json:"status"`
	Code     string                    `json:"code"`
	Limit    string                    `json:"limit,omitempty"`
	Subject  string                    `json:"subject,omitempty"` // "*": several
	Key      string                    `json:"key,omitempty"`     // of the requested definition
	Count    int64                     `json:"count"`
	Last     time.Time                 `json:"last"`
	Examples []recorder.RefusalExample `json:"examples,omitempty"` // of the last hour, the newest first
}

// RefusalQuery selects refusals: by the workspace, the times, the API key, the key and the
// code of a filter, which count in whole hours, and by a limit and a subject of limits.
type RefusalQuery struct {
	trace.Filter
	Limit   string
	Subject *string
}

// RefusalHour counts the refusals of an hour.
type RefusalHour struct {
	Start time.Time `json:"start"`
	Count int64     `json:"count"`
}

const chosenRefusals = ` FROM refusals
WHERE workspace = ?1 AND hour BETWEEN ?2 AND ?3 AND (?4 = '' OR api_key = ?4) AND (?5 = '' OR key = ?5)
AND (?6 = '' OR code = ?6) AND (?7 = '' OR limit_name = ?7) AND (?8 IS NULL OR limit_name <> '' AND subject = ?8)`

func (q *RefusalQuery) args() []any {
	since, until := int64(0), int64(1<<62)
	if !q.Since.IsZero() {
		since = q.Since.Unix() / 3600 * 3600
	}
	if !q.Until.IsZero() {
		until = q.Until.Add(-time.Nanosecond).Unix()
	}
	return []any{q.Workspace, since, until, q.APIKey, q.Key, q.Code, q.Limit, q.Subject}
}

// Refusals returns refused requests: at most MaxRefusals rows, the greatest counts first.
func (r *Reader) Refusals(ctx context.Context, q *RefusalQuery) ([]RefusalRow, error) {
	// SQLite takes the other columns from the row with the maximum.
	// https://www.sqlite.org/lang_select.html#bareagg
	return collect(ctx, r.db, func(scan func(...any) error) (row RefusalRow, err error) {
		var last int64
		var examples []byte
		if err = scan(&row.APIKey, &row.Route, &row.Status, &row.Code, &row.Limit, &row.Subject, &row.Key, &row.Count, &last, &examples); err != nil {
			return row, err
		}
		row.Last = time.UnixMilli(last).UTC()
		return row, json.Unmarshal(examples, &row.Examples)
	}, `
SELECT api_key, route, status, code, limit_name, subject, key, sum(count) AS total, max(last_ms), examples`+chosenRefusals+`
GROUP BY api_key, route, status, code, limit_name, subject, key
ORDER BY total DESC, api_key, route, status, code, limit_name, subject, key LIMIT ?9`, append(q.args(), MaxRefusals)...)
}

// RefusalHours returns the hours that have refusals, by time.
func (r *Reader) RefusalHours(ctx context.Context, q *RefusalQuery) ([]RefusalHour, error) {
	return collect(ctx, r.db, func(scan func(...any) error) (hour RefusalHour, err error) {
		var start int64
		err = scan(&start, &hour.Count)
		hour.Start = time.Unix(start, 0).UTC()
		return hour, err
	}, "SELECT hour, sum(count)"+chosenRefusals+" GROUP BY hour ORDER BY hour", q.args()...)
}
