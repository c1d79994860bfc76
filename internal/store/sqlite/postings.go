package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// Postings are lists of the ids of the traces of one key, of one API key, or of some
// conversations or chains that requests name in their metadata, so that these are
// found although no index has the key. The task that counts the statistics writes
// the lists too, of the traces that it passed. An id in a list promises nothing: its
// trace may have been deleted, or written again and so be in several lists. Readers
// look each id up.
//
// There may be as many conversations as traces, and then a list of each would cost
// more than an index. So a list has all conversations whose names have the same
// 8-bit hash: a 256th of the traces that have any. It keeps no name that an erasure
// would have to find.
//
// No list crosses an hour of ids. The lists that may have an id are then those
// that end in its hour, and need no second index.
//
// Why no index: with 1,000 keys, two indexes, on (workspace, key, id) and
// (workspace, api_key, id), raise what an evaluation costs to record from 16.2 to
// 34.2 µs of CPU (+111 %) and what a row costs to commit from 14.6 to 32.5 µs
// (+123 %); with one key by 17 % and 26 %. BenchmarkFindingByKey repeats the
// comparison, and docs/adr/0003-posting-lists.md has the decision.

const (
	// postingsCursor is the name of the postings' row among the cursors.
	postingsCursor = "postings"

	// maxPosted is how many ids a list has at most: what a page has to read of a
	// key that is in every trace.
	maxPosted = 1024

	// worthPosting is how many traces are posted at once at least: where there
	// are many keys, writing a list costs more than what is in it. Fewer are read
	// with each list of traces, which bounds them by maxUnposted.
	worthPosting = 4096
	maxUnposted  = 40_000

	// What one transaction writes and deletes, in lists: the recorder's writer
	// waits for it.
	postLists   = 256
	expireLists = 128
)

// postedField is what the traces of a list have in common.
type postedField int64

const (
	postedKey postedField = iota
	postedAPIKey
	postedConversation
	postedChain
)

// postedName is the value of the lists of a conversation or a chain.
func postedName(name string) string {
	hash := fnv.New32a()
	_, _ = io.WriteString(hash, name)
	return fmt.Sprintf("%02x", byte(hash.Sum32()))
}

// listName is what the traces of a list have in common, and its value.
type listName struct {
	workspace string
	field     postedField
	value     string
}

// postings are ids in the order of the rows.
type postings map[listName]*[]trace.ID

// of returns the list of a value, nil for a value that is absent, or where
// nothing is posted.
func (p postings) of(name listName) *[]trace.ID {
	if p == nil || name.value == "" {
		return nil
	}
	ids := p[name]
	if ids == nil {
		ids = new([]trace.ID)
		p[name] = ids
	}
	return ids
}

// addNamed puts a trace into the lists of the conversation and the chain that are in
// the array of requestNames.
func (p postings) addNamed(workspace string, id trace.ID, array string) {
	var names [2]any
	if json.Unmarshal([]byte(array), &names) != nil {
		return
	}
	for i, field := range []postedField{postedConversation, postedChain} {
		if name, ok := names[i].(string); ok {
			ids := p.of(listName{workspace, field, postedName(name)})
			*ids = append(*ids, id)
		}
	}
}

const (
	insertPosting = "INSERT OR REPLACE INTO postings (workspace, field, value, last, written, first, ids) VALUES (?, ?, ?, ?, ?, ?, ?)"

	windowSQL = `
SELECT last, ids FROM postings
WHERE workspace = ? AND field = ? AND value = ? AND last >= ? AND last < ? AND first < ? ORDER BY last DESC`

	nextListSQL = `
SELECT workspace, field, value FROM postings WHERE (workspace, field, value) > (?, ?, ?) ORDER BY workspace, field, value LIMIT 1`
)

// posting is what was read and is not written: the lists of the traces after
// the cursor until a seq, and perhaps of others too, which does no harm.
type posting struct {
	lists       postings
	from, until int64
}

// rows is about how many traces are not written.
func (p *posting) rows() (n int) {
	for name, ids := range p.lists {
		if name.field == postedKey {
			n += len(*ids)
		}
	}
	return n
}

// catchUp reads some of the traces up to counted that were counted and not posted:
// by an earlier version, by another process, or by one that ended before it wrote
// their lists.
func (p *posting) catchUp(ctx context.Context, on querier, counted int64) (behind bool, err error) {
	cursor, err := queryInt(ctx, on, "SELECT traces FROM cursors WHERE sink = ?", postingsCursor)
	if err != nil {
		return false, err
	}
	if p.lists == nil || p.from != cursor {
		*p = posting{lists: postings{}, from: cursor, until: cursor}
	}
	if p.until >= counted {
		return false, nil
	}
	until, err := endOfRows(ctx, on, "traces", p.until, statsRows)
	if err != nil {
		return false, err
	}
	// What is counted here is counted already.
	p.until, err = tallies{}.countTraces(ctx, on, p.until, min(until, counted), math.MaxInt, clauses{}, p.lists)
	return true, err
}

// writePostings writes what was read, a few lists in each transaction, and moves
// the cursor in the last one. If it is interrupted, or another process moved the
// cursor, some lists are written twice. Readers drop duplicates.
func (k *statsKeeper) writePostings(ctx context.Context) error {
	names := slices.Collect(maps.Keys(k.posting.lists))
	for done := false; !done; {
		some := names[:min(len(names), postLists)]
		names = names[len(some):]
		done = len(names) == 0
		if err := k.writeLists(ctx, some, done); err != nil {
			return err
		}
	}
	k.posting.written()
	return nil
}

// written forgets what was written. Up to postLists lists keep their memory: they
// need it again.
func (p *posting) written() {
	p.from = p.until
	if len(p.lists) > postLists {
		p.lists = postings{}
	}
	for _, ids := range p.lists {
		*ids = (*ids)[:0]
	}
}

func (k *statsKeeper) writeLists(ctx context.Context, names []listName, last bool) (err error) {
	k.turn.Lock()
	defer k.turn.Unlock()
	tx, err := k.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if rollback := tx.Rollback(); !errors.Is(rollback, sql.ErrTxDone) {
			err = errors.Join(err, rollback)
		}
	}()
	insert := tx.StmtContext(ctx, k.post)
	for _, name := range names {
		if err := k.writeList(ctx, insert, name, *k.posting.lists[name]); err != nil {
			return err
		}
	}
	if last {
		if _, err := tx.ExecContext(ctx, "UPDATE cursors SET traces = ? WHERE sink = ? AND traces = ?",
			k.posting.until, postingsCursor, k.posting.from); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// writeList writes ids, by a statement of insertPosting.
func (k *statsKeeper) writeList(ctx context.Context, insert *sql.Stmt, name listName, ids []trace.ID) error {
	for ids = inOrder(ids); len(ids) > 0; {
		n := sameHour(ids)
		first, last := ids[0], ids[n-1]
		k.packed = pack(k.packed[:0], ids[:n])
		if _, err := insert.ExecContext(ctx, name.workspace, int64(name.field), name.value, last[:], k.posting.until, first[:], k.packed); err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}

// inOrder sorts ids, and drops those that are there twice.
func inOrder(ids []trace.ID) []trace.ID {
	slices.SortFunc(ids, compareIDs)
	return slices.Compact(ids)
}

func compareIDs(a, b trace.ID) int { return bytes.Compare(a[:], b[:]) }

// sameHour is how many of the ids make one list.
func sameHour(ids []trace.ID) int {
	end := endOfHour(ids[0])
	n, _ := slices.BinarySearchFunc(ids[:min(len(ids), maxPosted)], end, compareIDs)
	return max(n, 1)
}

// endOfHour is the least id of the hour after that of id.
func endOfHour(id trace.ID) trace.ID {
	hour := id.Time().UnixMilli() / hourMillis
	end := trace.FirstID(time.UnixMilli((hour + 1) * hourMillis))
	if compareIDs(end, id) <= 0 { // the last of all hours
		return lastID
	}
	return end
}

// postingSource is a list of traces by one of their fields, newest first.
type postingSource struct {
	name     listName
	kind     trace.Kind // 0: all
	unposted []trace.ID // those of no list yet
	reports  *source    // reports on traces that belong to the list too; nil: none do
}

// postingSources returns the lists of which each has every trace that the filter
// selects. It returns none if the filter asks for nothing that has lists, or if too
// many traces are not posted yet.
func postingSources(ctx context.Context, on querier, f *trace.Filter) (sources []postingSource, err error) {
	if !f.Decision.IsZero() {
		ids, err := readTracesOf(ctx, on, f.Decision)
		return []postingSource{{kind: f.Kind, unposted: ids}}, err
	}
	names := namedBy(f)
	apiKey := f.APIKey
	if strings.Contains(apiKey, nameSeparator) {
		apiKey = ""
	}
	if f.Key == "" && apiKey == "" && len(names) == 0 {
		return nil, nil
	}
	// What is posted after this was read is found in both places.
	var posted, greatest int64
	err = on.QueryRowContext(ctx, "SELECT traces, (SELECT coalesce(max(seq), 0) FROM traces) FROM cursors WHERE sink = ?", postingsCursor).
		Scan(&posted, &greatest)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil // the file of an earlier version, which is only read
	}
	if err != nil || greatest-posted > maxUnposted {
		return nil, err
	}
	unposted := func(where clauses) ([]trace.ID, error) {
		where.equal("workspace", f.Workspace)
		where.equal("key", f.Key)
		where.equal("api_key", f.APIKey)
		return collect(ctx, on, scanID, "SELECT id FROM traces NOT INDEXED WHERE seq > ? AND "+where.and(),
			slices.Concat([]any{posted}, where.args)...)
	}
	if f.Key != "" || apiKey != "" {
		tail, err := unposted(clauses{})
		if err != nil {
			return nil, err
		}
		for _, by := range []listName{{f.Workspace, postedKey, f.Key}, {f.Workspace, postedAPIKey, apiKey}} {
			if by.value != "" {
				sources = append(sources, postingSource{name: by, kind: f.Kind, unposted: tail})
			}
		}
	}
	for _, name := range names {
		own, err := name.own()
		if err != nil {
			return nil, err
		}
		tail, err := unposted(own)
		if err != nil {
			return nil, err
		}
		sources = append(sources, postingSource{
			name: listName{f.Workspace, name.posted, postedName(name.value)}, kind: f.Kind, unposted: tail, reports: new(name.reports()),
		})
	}
	return sources, nil
}

// window reads about the next count ids after from, newest first. They are all that
// there are until end, or until limit with more false.
func (p *postingSource) window(ctx context.Context, on querier, from, limit trace.ID, count int) (ids []trace.ID, end trace.ID, more bool, err error) {
	ids, end, more, err = p.postedWindow(ctx, on, from, limit, count)
	if err != nil || p.reports == nil {
		return ids, end, more, err
	}
	reported, reportedEnd, moreReported, err := p.reportedWindow(ctx, on, from, limit, count)
	if err != nil {
		return nil, end, false, err
	}
	if moreReported && (!more || compareIDs(reportedEnd, end) > 0) {
		end, more = reportedEnd, true
	}
	ids = newest(append(ids, reported...))
	known, _ := slices.BinarySearchFunc(ids, end, func(id, end trace.ID) int {
		if compareIDs(id, end) < 0 {
			return 1
		}
		return -1
	})
	return ids[:known], end, more, nil
}

// reportedWindow reads the ids of the traces on which there are reports, and of
// those on whose decision there are. A decision and its traces are of the same
// millisecond, so a window ends with a whole one: no report is apart from a trace.
func (p *postingSource) reportedWindow(ctx context.Context, on querier, from, limit trace.ID, count int) (ids []trace.ID, end trace.ID, more bool, err error) {
	to := from // after the decisions of the traces before from
	if first := trace.FirstID(from.Time()); first != from {
		to = trace.FirstID(from.Time().Add(time.Millisecond))
		if compareIDs(to, from) < 0 {
			to = lastID
		}
	}
	if end, more, err = p.reports.window(ctx, on, newestFirst, to, limit, count); err != nil {
		return nil, end, false, err
	}
	if more {
		end = trace.FirstID(end.Time())
	}
	reported, err := collect(ctx, on, scanID, fmt.Sprintf("SELECT DISTINCT trace_id FROM metrics INDEXED BY %s WHERE %s AND trace_id >= ? AND trace_id < ?",
		p.reports.index, p.reports.and()), slices.Concat(p.reports.args, []any{end[:], to[:]})...)
	if err != nil {
		return nil, end, false, err
	}
	for _, id := range reported {
		if !isDecision(id) {
			ids = p.take(ids, id, from, end)
			continue
		}
		decided, err := readTracesOf(ctx, on, id)
		if err != nil {
			return nil, end, false, err
		}
		for _, id := range decided {
			ids = p.take(ids, id, from, end)
		}
	}
	return ids, end, more, nil
}

// postedWindow reads the next count ids after from that are in the lists, or of
// traces that are not posted yet.
func (p *postingSource) postedWindow(ctx context.Context, on querier, from, limit trace.ID, count int) (ids []trace.ID, end trace.ID, more bool, err error) {
	for _, id := range p.unposted {
		ids = p.take(ids, id, from, limit)
	}
	if p.name.value == "" { // these are all
		return newest(ids), limit, false, nil
	}
	hour := endOfHour(from)
	rows, err := on.QueryContext(ctx, windowSQL,
		p.name.workspace, int64(p.name.field), p.name.value, limit[:], hour[:], from[:])
	if err != nil {
		return nil, end, false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for enough := count; rows.Next(); {
		var rawLast, packed sql.RawBytes
		if err := rows.Scan(&rawLast, &packed); err != nil {
			return nil, end, false, err
		}
		// What was not read yet is of this id at the latest.
		var last trace.ID
		copy(last[:], rawLast)
		if len(ids) >= enough {
			ids = newest(ids)
			if known, _ := slices.BinarySearchFunc(ids, last, laterFirst); known >= count {
				return ids[:count], ids[count-1], true, nil
			}
			enough = max(count, len(ids)+len(ids)/4) // lists may overlap by much: not after each of them
		}
		for id := range slices.Chunk(packed, len(trace.ID{})) {
			if len(id) == len(trace.ID{}) {
				ids = p.take(ids, trace.ID(id), from, limit)
			}
		}
	}
	if err := rows.Err(); err != nil {
		return nil, end, false, err
	}
	if ids = newest(ids); len(ids) > count {
		return ids[:count], ids[count-1], true, nil
	}
	return ids, limit, false, nil
}

// take appends an id that is in the window, and of the kind that is asked for.
func (p *postingSource) take(ids []trace.ID, id, from, limit trace.ID) []trace.ID {
	if compareIDs(id, from) >= 0 || compareIDs(id, limit) < 0 || p.kind != 0 && id.Kind() != p.kind {
		return ids
	}
	return append(ids, id)
}

func laterFirst(a, b trace.ID) int { return compareIDs(b, a) }

// newest sorts ids, newest first, and drops those that are there twice.
func newest(ids []trace.ID) []trace.ID {
	slices.SortFunc(ids, laterFirst)
	return slices.Compact(ids)
}

// readPosted returns the query of the columns of the traces of ids that meet the
// conditions, and its arguments.
func readPosted(columns string, d direction, ids []trace.ID, where clauses, limit int) (string, []any) {
	packed := pack(nil, ids)
	query := fmt.Sprintf(`
SELECT %s FROM traces INDEXED BY sqlite_autoindex_traces_1 WHERE id IN (
	WITH RECURSIVE place (at) AS (VALUES (1) UNION ALL SELECT at + 16 FROM place WHERE at + 16 < ?2)
	SELECT substr(?1, at, 16) FROM place
) AND %s ORDER BY id %s LIMIT ?`, columns, where.and(), d.order)
	return query, slices.Concat([]any{packed, len(packed)}, where.args, []any{limit})
}

func pack(into []byte, ids []trace.ID) []byte {
	for i := range ids {
		into = append(into, ids[i][:]...)
	}
	return into
}

// expirePostings deletes the lists that end before the oldest trace.
func (k *statsKeeper) expirePostings(ctx context.Context) error {
	const old = `
postings WHERE workspace = ?1 AND field = ?2 AND value = ?3 AND last < coalesce((SELECT min(id) FROM traces), x'ffffffffffffffffffffffffffffffff')`
	scan := func(scan func(...any) error) (name listName, err error) {
		return name, scan(&name.workspace, &name.field, &name.value)
	}
	for name := (listName{field: -1}); ; {
		next, err := collect(ctx, k.db, scan, nextListSQL, name.workspace, int64(name.field), name.value)
		if err != nil || len(next) == 0 {
			return err
		}
		name = next[0]
		args := []any{name.workspace, int64(name.field), name.value}
		for {
			some, err := queryInt(ctx, k.db, "SELECT EXISTS (SELECT 1 FROM "+old+")", args...)
			if err != nil {
				return err
			}
			if some == 0 { // known without a lock
				break
			}
			// The same transaction looks up the oldest trace: another process may
			// write lists too, and traces that began before all others.
			if err := k.execute(ctx, "DELETE FROM "+old+fmt.Sprintf(`
AND (last, written) IN (SELECT last, written FROM postings WHERE workspace = ?1 AND field = ?2 AND value = ?3 ORDER BY last LIMIT %d)`, expireLists), args...); err != nil {
				return err
			}
		}
	}
}
