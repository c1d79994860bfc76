package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/exposure"
	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// countSize is the size of a count in the table counted, in bytes.
	countSize = 24

	// countsInRow is how many counts a row of that table has at most.
	countsInRow = 4096

	// A fold reads rows until it has some foldCounts counts, which bounds its memory; so do
	// answers. It adds those of foldTraces traces in one transaction, which bounds how long
	// the recorder's writer waits for it: some 10 ms.
	foldCounts = 16384
	foldTraces = 2048
)

// keepCounts stores the counts of a batch as they came: one row costs less than a look at
// each trace, and they are many.
func keepCounts(writer *native, counts []recorder.Count) error {
	return pack(counts, func(workspace string, packed []byte) error {
		return writer.execute(keepCountsSQL, textValue(workspace), blobValue(packed))
	})
}

const keepCountsSQL = "INSERT INTO counted (workspace, counts) VALUES (?, ?)"

// pack calls keep with each row for counts.
func pack(counts []recorder.Count, keep func(workspace string, packed []byte) error) error {
	for len(counts) > 0 {
		workspace := counts[0].Workspace
		var packed []byte
		for len(counts) > 0 && counts[0].Workspace == workspace && len(packed) < countSize*countsInRow {
			c := &counts[0]
			packed = append(packed, c.Trace[:]...)
			packed = binary.BigEndian.AppendUint32(packed, c.Minute)
			packed = binary.BigEndian.AppendUint32(packed, c.Answers)
			counts = counts[1:]
		}
		if err := keep(workspace, packed); err != nil {
			return err
		}
	}
	return nil
}

// countedOn is a minute in which answers were counted on a trace.
type countedOn struct {
	workspace string
	trace     trace.ID
	minute    uint32
}

// countedRows are the first rows of the table counted, of one workspace or of all.
type countedRows struct {
	last    int64 // seq of the last row; 0: there is none
	answers map[countedOn]int64
	left    int64            // about how many counts are in further rows
	rest    []recorder.Count // of these rows, for the next fold
}

// readCounted reads rows until they have foldCounts counts.
func readCounted(ctx context.Context, db querier, workspace string) (c countedRows, err error) {
	c.answers = map[countedOn]int64{}
	_, err = collect(ctx, db, func(scan func(...any) error) (_ struct{}, err error) {
		var seq int64
		var of string
		var packed sql.RawBytes
		if err := scan(&seq, &of, &packed); err != nil {
			return struct{}{}, err
		}
		if len(c.answers) >= foldCounts {
			c.left += int64(len(packed) / countSize)
			return struct{}{}, nil
		}
		c.last = seq
		for ; len(packed) >= countSize; packed = packed[countSize:] {
			c.answers[countedOn{of, trace.ID(packed[:16]), binary.BigEndian.Uint32(packed[16:])}] += int64(binary.BigEndian.Uint32(packed[20:]))
		}
		return struct{}{}, nil
	}, "SELECT seq, workspace, counts FROM counted WHERE ?1 IN ('', workspace) ORDER BY seq", workspace)
	return c, err
}

// names returns the series of the traces, as seriesColumns joins them. A trace that was
// deleted has none.
func (c *countedRows) names(ctx context.Context, db querier) (map[trace.ID]string, error) {
	names := make(map[trace.ID]string, len(c.answers))
	for on := range c.answers {
		names[on.trace] = ""
	}
	for part := range slices.Chunk(slices.SortedFunc(maps.Keys(names), compareIDs), MaxPage) {
		var packed []byte
		for i := range part {
			packed = append(packed, part[i][:]...)
		}
		if _, err := collect(ctx, db, func(scan func(...any) error) (_ struct{}, err error) {
			var id trace.ID
			var of string
			err = scan(into{&id}, &of)
			names[id] = of
			return struct{}{}, err
		}, "SELECT t.id, "+seriesColumns+" FROM traces AS t INDEXED BY sqlite_autoindex_traces_1 WHERE t.id IN ("+packedIDs+")", packed, len(packed)); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// countAnswers counts the answers that were counted on traces and are in no statistics yet,
// at their own times in the series of these traces. An answer on a trace that was deleted
// counts as a report on one does, under no key. It returns about how many remain.
func (t tallies) countAnswers(ctx context.Context, db querier, workspace string) (left int64, err error) {
	c, err := readCounted(ctx, db, workspace)
	if err == nil {
		err = t.addAnswers(ctx, db, &c)
	}
	return c.left, err
}

func (t tallies) addAnswers(ctx context.Context, db querier, c *countedRows) error {
	names, err := c.names(ctx, db)
	if err != nil {
		return err
	}
	for on, answers := range c.answers {
		s := series{workspace: on.workspace, kind: on.trace.Kind().String()}
		if names[on.trace] != "" {
			s = namesOf(names[on.trace])
		}
		millis := int64(on.minute) * minuteMillis
		minute := minuteSlot(s.workspace, millis)
		if t[minute] == nil {
			t[minute] = new(tally)
		}
		t[minute].traces += answers
		t.at(s, millis).traces += answers
	}
	return nil
}

// leave leaves the counts on the traces beyond the first foldTraces to the next fold.
func (c *countedRows) leave() {
	traces := make(map[trace.ID]bool)
	for on, answers := range c.answers {
		if !traces[on.trace] && len(traces) >= foldTraces {
			delete(c.answers, on)
			c.rest = append(c.rest, recorder.Count{Count: exposure.Count{Trace: on.trace, Minute: on.minute, Answers: uint32(answers)}, Workspace: on.workspace})
			continue
		}
		traces[on.trace] = true
	}
	slices.SortFunc(c.rest, func(a, b recorder.Count) int { return strings.Compare(a.Workspace, b.Workspace) })
}

// fold adds the answers that were counted to the statistics and to their traces.
func (k *statsKeeper) fold(ctx context.Context, s *Store) error {
	for {
		before, counted, answers, err := k.gatherAnswers(ctx)
		if err != nil || answers.last == 0 {
			return err
		}
		if err := k.storeAnswers(ctx, before, counted, &answers); err != nil {
			return err
		}
		s.written.Store(true)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(statsPause):
		}
	}
}

// gatherAnswers reads the first rows, and the stored counts of the slots that they fall
// into, without a lock.
func (k *statsKeeper) gatherAnswers(ctx context.Context) (before progress, counted tallies, answers countedRows, err error) {
	tx, err := beginRead(ctx, k.db)
	if err != nil {
		return before, nil, answers, err
	}
	defer func() { err = errors.Join(err, endRead(tx)) }()
	if before, err = statsProgress(ctx, tx); err != nil {
		return before, nil, answers, err
	}
	k.forgetSwept(before)
	if answers, err = readCounted(ctx, tx, ""); err != nil || answers.last == 0 {
		return before, nil, answers, err
	}
	answers.leave()
	counted = tallies{}
	if err := counted.addAnswers(ctx, tx, &answers); err != nil {
		return before, nil, answers, err
	}
	return before, counted, answers, k.addStored(ctx, tx, counted)
}

// exposuresSQL adds to the answers of traces. A trace that was deleted gets none.
const exposuresSQL = `
INSERT OR REPLACE INTO exposures (trace_id, workspace, answers, last_ms)
SELECT t.id, t.workspace, (j.value ->> 1) + coalesce(e.answers, 0), max(j.value ->> 2, coalesce(e.last_ms, 0))
FROM json_each(?) AS j CROSS JOIN traces AS t INDEXED BY sqlite_autoindex_traces_1 ON t.id = unhex(j.value ->> 0)
LEFT JOIN exposures AS e ON e.trace_id = t.id`

// storeAnswers deletes the rows and writes what they add up to.
func (k *statsKeeper) storeAnswers(ctx context.Context, before progress, counted tallies, answers *countedRows) error {
	list, err := answers.list()
	if err != nil {
		return err
	}
	fresh := map[series]int64{}
	err = k.transact(ctx, func(tx *sql.Tx) error {
		after := before
		after.folded++
		if moved, err := before.move(ctx, tx, after); err != nil || !moved {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM counted WHERE seq <= ?", answers.last); err != nil {
			return err
		}
		if err := pack(answers.rest, func(workspace string, packed []byte) error {
			_, err := tx.ExecContext(ctx, keepCountsSQL, workspace, packed)
			return err
		}); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, exposuresSQL, list); err != nil {
			return err
		}
		return k.write(ctx, tx, counted, fresh)
	})
	if err == nil {
		maps.Copy(k.series, fresh)
	}
	return err
}

// list returns the traces, each with its answers and the time of the last, as JSON.
func (c *countedRows) list() (string, error) {
	type sum struct {
		answers int64
		last    uint32
	}
	sums := make(map[trace.ID]sum, len(c.answers))
	for on, answers := range c.answers {
		before := sums[on.trace]
		sums[on.trace] = sum{before.answers + answers, max(before.last, on.minute)}
	}
	list := make([][3]any, 0, len(sums))
	for _, id := range slices.SortedFunc(maps.Keys(sums), compareIDs) {
		list = append(list, [3]any{hex.EncodeToString(id[:]), sums[id].answers, int64(sums[id].last) * minuteMillis})
	}
	encoded, err := json.Marshal(list)
	return string(encoded), err
}
