package sqlite

import (
	"bytes"
	"math"
	"slices"
	"sync"

	"github.com/cadenza-gateway/cadenza/trace"
)

// The writer counts the traces of a batch while it has them in memory, once they are
// committed: reading the rows back costs as much as writing them. The keeper of the
// statistics stores what was counted, and moves the cursor over it. The cursor alone
// says what is counted. A run of rows that begins elsewhere is of no use, and rows
// that no run has are read: those of another process, of one that ended before they
// were stored, and those of runs that were dropped.
//
//	cursor   runs               the keeper
//	100      (100, 400]         stores the run; the cursor moves to 400
//	400      (500, 600]         reads 401 to 500
//	500      (450, 500]         drops the run: another keeper has counted it

// runsKept is how many runs wait at most, before the oldest is dropped. Each has up to statsRows traces.
const runsKept = 8

// run is what was counted of the rows of traces from a seq, exclusive, to a seq.
type run struct {
	from, until int64
	counted     tallies
	lists       postings
	groups      map[traceNames]*fedGroup
	last        *fedGroup // most traces are of the group of the one before
}

// traceNames are what the traces of a group have in common.
type traceNames struct {
	slot
	apiKey string
}

// fedGroup is a traceGroup and its names.
type fedGroup struct {
	names traceNames
	traceGroup
}

// feed is the runs that wait for the keeper.
type feed struct {
	mu    sync.Mutex
	runs  []*run
	names *statement // of requestNamesSQL
}

// add counts records that were committed, of the seqs after from until until.
func (f *feed) add(records []*trace.Record, from, until int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.open(from)
	r.until = until
	for _, record := range records {
		if err := f.addRecord(r, record); err != nil {
			f.runs = f.runs[:len(f.runs)-1] // the keeper reads these
			return
		}
	}
}

// open returns the last run where rows after from go on with it, or begins another.
func (f *feed) open(from int64) *run {
	if n := len(f.runs); n > 0 {
		if last := f.runs[n-1]; last.until == from && last.until-last.from < statsRows && len(last.counted) < statsSlots {
			return last
		}
		if n == runsKept {
			f.runs = slices.Delete(f.runs, 0, 1)
		}
	}
	r := &run{from: from, counted: tallies{}, lists: postings{}, groups: map[traceNames]*fedGroup{}}
	f.runs = append(f.runs, r)
	return r
}

func (f *feed) addRecord(to *run, r *trace.Record) error {
	g := to.group(r)
	if g.key != nil {
		*g.key = append(*g.key, r.ID)
	}
	if g.apiKey != nil {
		*g.apiKey = append(*g.apiKey, r.ID)
	}
	if err := f.addNamed(to.lists, r); err != nil {
		return err
	}
	if r.State != trace.StateEnded {
		return nil // it is posted, and not counted
	}
	if g.tally == nil {
		g.tally = new(tally)
		if counted := to.counted[g.names.slot]; counted != nil { // of another API key
			g.tally = counted
		}
		to.counted[g.names.slot] = g.tally
	}
	g.tally.addRecord(r)
	return nil
}

// group returns the group of a record.
func (to *run) group(r *trace.Record) *fedGroup {
	names := traceNames{slot{seriesOf(r), 1, r.Time.UnixMilli() / hourMillis}, r.APIKey}
	if to.last != nil && to.last.names == names {
		return to.last
	}
	g := to.groups[names]
	if g == nil {
		g = &fedGroup{names, traceGroup{
			workspace: r.Workspace,
			key:       to.lists.of(listName{r.Workspace, postedKey, r.Key}),
			apiKey:    to.lists.of(listName{r.Workspace, postedAPIKey, r.APIKey}),
		}}
		to.groups[names] = g
	}
	to.last = g
	return g
}

// seriesOf is what variantColumn and seriesColumns are of a row.
func seriesOf(r *trace.Record) series {
	variant := r.Variant
	if variant == "" && r.Kind == trace.KindRemoteConfig {
		if variant = r.Row; variant == "" {
			variant = "default"
		}
	}
	return series{r.Workspace, r.Kind.String(), r.Key, variant, r.Version, r.Arm}
}

// addRecord counts a trace that ended, as countRows does its row.
func (t *tally) addRecord(r *trace.Record) {
	t.traces++
	if r.Code != "" {
		t.errors++
	}
	if r.Cached {
		t.cached++
	}
	if place := slices.Index(trace.FinishReasons, r.FinishReason); place >= 0 {
		t.finished[place]++
	}
	if latency := r.Latency.Microseconds(); latency > 0 {
		t.latency.Observe(float64(latency))
	}
	if first := r.FirstToken.Microseconds(); first != 0 {
		t.firstToken.Observe(float64(first))
	}
	if r.HasUsage {
		t.promptTokens += r.PromptTokens
		t.completionTokens += r.CompletionTokens
		t.totalTokens += r.TotalTokens
	}
	t.cost += r.Cost
}

// requestNamesSQL is requestNames of a metadata. SQLite reads it here too: so lists
// have what queries look for, whatever JSON it is.
const requestNamesSQL = `SELECT CASE WHEN json_valid(?1) THEN json_array(?1 ->> '$.conversation_id', ?1 ->> '$.chain_id') END`

// addNamed puts a trace into the lists of what its request names.
func (f *feed) addNamed(lists postings, r *trace.Record) error {
	metadata := r.Metadata
	if r.Shared != nil {
		metadata = r.Shared.Metadata
	}
	if !bytes.Contains(metadata, []byte(`"conversation_id"`)) && !bytes.Contains(metadata, []byte(`"chain_id"`)) {
		return nil
	}
	defer f.names.reset()
	if err := f.names.bindAll(content(metadata)); err != nil {
		return err
	}
	if _, err := f.names.step(); err != nil {
		return err
	}
	lists.addNamed(r.Workspace, r.ID, string(f.names.bytes(0)))
	return nil
}

// next takes the run that begins at the cursor. Where there is none, rows are to be
// read until bound, at which the next one begins. It drops runs before the cursor.
func (f *feed) next(cursor int64) (_ *run, bound int64) {
	if f == nil {
		return nil, math.MaxInt64
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.runs) > 0 {
		r := f.runs[0]
		if r.from > cursor {
			return nil, r.from
		}
		f.runs = slices.Delete(f.runs, 0, 1)
		if r.from == cursor {
			return r, r.until
		}
	}
	return nil, math.MaxInt64
}

// merge adds the lists of another.
func (p postings) merge(other postings) {
	for name, ids := range other {
		into := p.of(name)
		*into = append(*into, *ids...)
	}
}
