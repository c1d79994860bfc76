package sqlite

import (
	"math"
	"slices"
	"strconv"
	"sync"
	"unsafe"

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

// runsKept is how many runs wait at most, before the oldest is dropped. Each has
// about statsRows traces.
const runsKept = 8

// run is what was counted of the rows of traces from a seq, exclusive, to a seq, and
// what is posted of them.
type run struct {
	from, until int64
	counted     tallies
	posting     posting
	erased      int64 // how many deletions of erasures had been before the rows were written
	groups      map[traceNames]*fedGroup
	last        *fedGroup // most traces are of the group of the one before
	others      map[otherNames]*postedNames
	lastOther   otherNames
	lastNames   *postedNames // of lastOther
}

// traceNames are what the traces of a group have in common.
type traceNames struct {
	slot
	apiKey string
}

// otherNames are what is posted of a trace beside its group's names.
type otherNames struct {
	workspace, revision                                                 string
	status                                                              int
	provider, model, code, finishReason, promptVersion, endpointVariant string
}

// fedGroup is a traceGroup and its names.
type fedGroup struct {
	names traceNames
	traceGroup
}

// feed is the runs that wait for the keeper.
type feed struct {
	mu   sync.Mutex
	runs []*run
}

// add counts records that were committed with the seqs after from until until, in
// their order. erased is read in their transaction, by erasedSQL.
func (f *feed) add(records []*trace.Record, from, until, erased int64) {
	if until-from != int64(len(records)) {
		return // the keeper reads them
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.open(from, erased)
	r.until = until
	for n, record := range records {
		r.add(from+int64(n)+1, record)
	}
}

// open returns the last run where rows after from go on with it, or begins another.
func (f *feed) open(from, erased int64) *run {
	if n := len(f.runs); n > 0 {
		if last := f.runs[n-1]; last.until == from && last.erased == erased && last.until-last.from < statsRows && len(last.counted) < statsSlots {
			return last
		}
		if n == runsKept {
			f.runs = slices.Delete(f.runs, 0, 1)
		}
	}
	r := &run{
		from: from, counted: tallies{}, posting: posting{blocks: map[int64]*postedBlock{}}, erased: erased,
		groups: map[traceNames]*fedGroup{}, others: map[otherNames]*postedNames{},
	}
	f.runs = append(f.runs, r)
	return r
}

func (to *run) add(seq int64, r *trace.Record) {
	g := to.group(r)
	metadata := r.Metadata
	if r.Shared != nil {
		metadata = r.Shared.Metadata
	}
	// Nothing keeps the text: what is posted of it are hashes.
	text := unsafe.String(unsafe.SliceData(metadata), len(metadata))
	to.posting.add(seq, r.ID, r.Workspace, text, g.posted, to.other(r))
	if r.State != trace.StateEnded {
		return // it is posted, and not counted
	}
	if g.tally == nil {
		g.tally = new(tally)
		if counted := to.counted[g.names.slot]; counted != nil { // of another API key
			g.tally = counted
		}
		to.counted[g.names.slot] = g.tally
	}
	g.tally.addRecord(r)
}

// group returns the group of a record.
func (to *run) group(r *trace.Record) *fedGroup {
	names := traceNames{slot{seriesOf(r), 1, r.Time.UnixMilli() / hourMillis}, r.APIKey}
	if to.last != nil && to.last.names == names {
		return to.last
	}
	g := to.groups[names]
	if g == nil {
		of := names.series
		g = &fedGroup{names, traceGroup{
			workspace: r.Workspace,
			posted: namesOfValues(r.Workspace, seriesFields,
				of.workspace, of.kind, of.key, r.APIKey, of.version, of.arm, of.variant),
		}}
		to.groups[names] = g
	}
	to.last = g
	return g
}

// other returns the terms of what else is posted of a record, as postedColumns has it.
func (to *run) other(r *trace.Record) *postedNames {
	names := otherNames{
		r.Workspace, r.Revision, r.Status, r.Provider, r.Model, r.Code, r.FinishReason, r.PromptVersion, r.EndpointVariant,
	}
	if to.lastNames == nil || to.lastOther != names {
		n := to.others[names]
		if n == nil {
			status := ""
			if r.Status != 0 {
				status = strconv.Itoa(r.Status)
			}
			n = namesOfValues(r.Workspace, otherFields,
				r.Revision, status, r.Provider, r.Model, r.Code, r.FinishReason, r.PromptVersion, r.EndpointVariant)
			to.others[names] = n
		}
		to.lastOther, to.lastNames = names, n
	}
	return to.lastNames
}

// seriesOf is what variantColumn and seriesColumns are of a row.
func seriesOf(r *trace.Record) series {
	variant := r.Variant
	if variant == "" && r.Kind == trace.KindRemoteConfig {
		if variant = r.Row; variant == "" {
			variant = "default"
		}
	}
	version := r.Version
	if r.Kind == trace.KindEndpoint && r.PromptVersion != "" {
		version += "/" + r.PromptVersion
	}
	return series{r.Workspace, r.Kind.String(), r.Key, variant, version, r.Arm}
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
