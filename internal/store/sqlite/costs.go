package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/store/histogram"
	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// DefaultCostRows is the number of rows of an answer if Top is 0.
	DefaultCostRows = 100

	// MaxCostRows is the most rows of an answer. The costs of other groups are summed as
	// Others.
	MaxCostRows = 10_000

	// maxCostGroups bounds the groups that are counted at once: some 30 MB. A member of
	// metadata may have millions of values. If there are more groups, the traces are read
	// twice, the first time to find the groups that may get a row.
	maxCostGroups = 100_000

	// costBuckets is the number of hash buckets in which the first pass sums groups if they
	// are too many. The second pass counts the groups of the buckets that cost the most, at
	// most maxCostGroups/4 buckets, as several groups may share one.
	costBuckets = 1 << 20

	// maxCostName bounds the name or value of a group, in bytes.
	maxCostName = 256

	// costWindow is the number of traces that are read at once.
	costWindow = 8192

	// costScans is how many windows are read without asking the terms for their traces,
	// after one where most were calls: that would take as long as reading them.
	costScans = 15
)

// CostParts are the names of the parts that costs are summed by, except metadata.NAME.
var CostParts = []string{"workspace", "key", "variant", "endpoint_variant", "version", "api_key", "provider", "model", "day"}

// costColumns are the columns of the parts of which a trace has one value.
var costColumns = map[string]string{
	"workspace": "workspace", "key": "key", "variant": "variant", "endpoint_variant": "endpoint_variant", "api_key": "api_key",
	"version": ofTraces(countedVersion), // with that of the prompt
}

// costMetadata is the prefix of a part that is a member of the metadata.
const costMetadata = "metadata."

// CostQuery asks for costs.
type CostQuery struct {
	// Filter selects calls of endpoints; its workspace and kind are ignored. Its provider
	// and model select attempts of these calls.
	Filter trace.Filter
	// By names the parts that rows are summed by: some of CostParts, or metadata.NAME for
	// the value of a top-level member of the calls' metadata.
	By  []string
	Top int // the number of rows; 0: DefaultCostRows
}

// Validate refuses an unknown part, and a number of rows out of bounds.
func (q *CostQuery) Validate() error {
	for i, part := range q.By {
		name, isMember := strings.CutPrefix(part, costMetadata)
		switch {
		case isMember && name == "", !isMember && !slices.Contains(CostParts, part):
			return fmt.Errorf("costs are by %s or metadata.NAME, or several of them with commas between; this is %q", strings.Join(CostParts, ", "), part)
		case slices.Contains(q.By[:i], part):
			return fmt.Errorf("costs are by %s once", part)
		}
	}
	if q.Top < 0 || q.Top > MaxCostRows {
		return fmt.Errorf("costs have 1 to %d rows, this is %d", MaxCostRows, q.Top)
	}
	return nil
}

// CostSource is a workspace of a store.
type CostSource struct {
	Reader    *Reader
	Workspace string
}

// Costs is the answer to a CostQuery.
type Costs struct {
	Rows []CostRow `json:"rows"` // by day, then by cost, the highest first

	// Others is the sum of the groups without a row; nil: all have one. OtherRows is the
	// number of these groups; 0: it is not known.
	Others    *CostSums `json:"others,omitempty"`
	OtherRows int       `json:"other_rows,omitempty"`

	Total CostSums `json:"total"`
}

// CostRow is the cost of the calls or attempts of one group.
type CostRow struct {
	By map[string]string `json:"by"` // a part that the calls don't have is absent
	CostSums
}

// CostSums are sums over attempts. All are paid for, also failed ones.
type CostSums struct {
	// Calls counts the calls with an attempt in this group, and calls that made no attempt.
	// Of the latter, a cache answered CachedAnswers, and the process ended during
	// Interrupted, whose cost is not known.
	Calls         int64 `json:"calls"`
	CachedAnswers int64 `json:"cached_answers,omitempty"`
	Interrupted   int64 `json:"interrupted,omitempty"`

	Attempts   int64 `json:"attempts"`
	Unanswered int64 `json:"unanswered,omitempty"` // failed, cancelled, or lost to a hedge
	// Unpriced attempts used tokens, but have no cost: their model had no price.
	Unpriced       int64 `json:"unpriced,omitempty"`
	UnpricedTokens int64 `json:"unpriced_tokens,omitempty"`

	PromptTokens         int64 `json:"prompt_tokens"`
	CachedTokens         int64 `json:"cached_tokens,omitempty"`           // of the prompts'
	CacheWriteTokens     int64 `json:"cache_write_tokens,omitempty"`      // of the prompts'
	CacheWriteHourTokens int64 `json:"cache_write_hour_tokens,omitempty"` // of the prompts'
	CompletionTokens     int64 `json:"completion_tokens"`
	ReasoningTokens      int64 `json:"reasoning_tokens,omitempty"` // of the completions'
	EstimatedTokens      int64 `json:"estimated_tokens,omitempty"` // of all
	WebSearches          int64 `json:"web_searches,omitempty"`

	Cost           float64 `json:"cost_usd"`
	EstimatedCost  float64 `json:"estimated_cost_usd,omitempty"`  // of estimated tokens
	UnansweredCost float64 `json:"unanswered_cost_usd,omitempty"` // of attempts that did not answer

	// ReportedCost is the cost that providers reported if it differs from the price list,
	// and ListCost the cost of the same attempts by the list.
	ReportedCost float64 `json:"reported_cost_usd,omitempty"`
	ListCost     float64 `json:"list_cost_usd,omitempty"`
}

// Unknown reports whether the cost of a call or an attempt is not known.
func (s *CostSums) Unknown() bool { return s.Unpriced+s.Interrupted > 0 }

// weight orders groups by cost and, if they have none, by tokens, attempts and calls.
func (s *CostSums) weight() float64 {
	return s.Cost + 1e-9*float64(s.PromptTokens+s.CompletionTokens) + 1e-12*float64(s.Attempts+s.Calls)
}

// Add adds the sums of another group.
func (s *CostSums) Add(o *CostSums) {
	s.Calls += o.Calls
	s.sum(o)
}

// sum adds the sums of another group, except its calls.
func (s *CostSums) sum(o *CostSums) {
	s.CachedAnswers += o.CachedAnswers
	s.Interrupted += o.Interrupted
	s.Attempts += o.Attempts
	s.Unanswered += o.Unanswered
	s.Unpriced += o.Unpriced
	s.UnpricedTokens += o.UnpricedTokens
	s.PromptTokens += o.PromptTokens
	s.CachedTokens += o.CachedTokens
	s.CacheWriteTokens += o.CacheWriteTokens
	s.CacheWriteHourTokens += o.CacheWriteHourTokens
	s.CompletionTokens += o.CompletionTokens
	s.ReasoningTokens += o.ReasoningTokens
	s.EstimatedTokens += o.EstimatedTokens
	s.WebSearches += o.WebSearches
	s.Cost += o.Cost
	s.EstimatedCost += o.EstimatedCost
	s.UnansweredCost += o.UnansweredCost
	s.ReportedCost += o.ReportedCost
	s.ListCost += o.ListCost
}

// SumCosts sums the costs of the calls of endpoints. It reads the traces, as the statistics
// have no attempts, a little at a time, so that it blocks no checkpoint and no writer.
func SumCosts(ctx context.Context, sources []CostSource, q CostQuery) (Costs, error) {
	if err := q.Validate(); err != nil {
		return Costs{}, err
	}
	return newCostSummer(&q, maxCostGroups).run(ctx, sources)
}

// run reads the traces, twice if there are too many groups.
func (s *costSummer) run(ctx context.Context, sources []CostSource) (Costs, error) {
	if err := s.readAll(ctx, sources); err != nil {
		return Costs{}, err
	}
	if s.buckets != nil {
		s = s.again()
		if err := s.readAll(ctx, sources); err != nil {
			return Costs{}, err
		}
	}
	return s.costs(), nil
}

// costSummer sums the costs of groups.
type costSummer struct {
	q         *CostQuery
	perTrace  []bool // by part of q.By: whether it belongs to the trace, not to an attempt
	groups    map[string]*costGroup
	maxGroups int
	times     bool      // whether the durations of attempts are counted
	others    costGroup // of the groups that are not counted by themselves
	total     costGroup
	trace     int64 // the number of the trace that is read
	seed      maphash.Seed
	buckets   []float64 // nil unless there are too many groups
	candidate []bool    // by bucket; nil in the first pass
	parser    fastjson.Parser
	members   fastjson.Parser
	parts     []string // of the trace that is read
	name      []byte
	attempts  []costAttempt
}

// costGroup is the sums of a group.
type costGroup struct {
	CostSums
	trace int64 // the last trace that was counted as a call

	latency, firstToken histogram.Durations // of attempts that answered, if they are asked for
}

func (g *costGroup) add(trace int64, sums *CostSums) {
	if g.trace != trace {
		g.trace = trace
		g.Calls++
	}
	g.sum(sums)
}

// costAttempt is an attempt, and its sums.
type costAttempt struct {
	provider, model string
	started         time.Duration // after the call
	latency         time.Duration
	firstToken      time.Duration // 0: no content came
	CostSums
}

// missingPart is a part that a trace or an attempt does not have.
const missingPart = "\x00"

func newCostSummer(q *CostQuery, maxGroups int) *costSummer {
	s := &costSummer{q: q, maxGroups: maxGroups, groups: map[string]*costGroup{}, seed: maphash.MakeSeed(), parts: make([]string, len(q.By))}
	for _, part := range q.By {
		s.perTrace = append(s.perTrace, part != "provider" && part != "model" && part != "day" && part != partHour)
	}
	return s
}

// again returns the summer of the second pass, which counts only the groups of the buckets
// that cost the most.
func (s *costSummer) again() *costSummer {
	sorted := slices.Clone(s.buckets)
	slices.Sort(sorted)
	first := len(sorted) - max(s.maxGroups/4, 1)
	cutoff := sorted[first]
	above, _ := slices.BinarySearch(sorted, math.Nextafter(cutoff, math.Inf(1)))
	ties := above - first
	next := newCostSummer(s.q, s.maxGroups)
	next.seed = s.seed
	next.candidate = make([]bool, costBuckets)
	for i, sum := range s.buckets {
		tie := sum == cutoff && ties > 0
		if tie {
			ties--
		}
		next.candidate[i] = tie || sum > cutoff
	}
	return next
}

func (s *costSummer) readAll(ctx context.Context, sources []CostSource) error {
	for _, source := range sources {
		if err := s.read(ctx, source); err != nil {
			return err
		}
	}
	return nil
}

// read reads the traces of a workspace.
func (s *costSummer) read(ctx context.Context, source CostSource) error {
	f := s.q.Filter
	f.Workspace, f.Kind = source.Workspace, trace.KindEndpoint
	f.Provider, f.Model = "", "" // of attempts
	return readWindows(ctx, source.Reader.db, &f, s.columns(), clauses{}, func(query string, args []any) error {
		return s.readRows(ctx, source.Reader.db, query, args)
	})
}

// readWindows calls read with a query for the columns of each window of the traces that a
// filter selects and that meet one more condition, if there is one, oldest first.
func readWindows(ctx context.Context, db querier, f *trace.Filter, columns string, more clauses, read func(query string, args []any) error) error {
	if err := f.Validate(); err != nil {
		return err
	}
	where, err := conditions(f)
	if err != nil {
		return err
	}
	where.add(more.and(), more.args...)
	sources := listSources{index: sourceOf(f), order: oldestFirst, scans: costScans}
	if err := sources.find(ctx, db, f); err != nil {
		return err
	}
	end, start := bounds(f, trace.ID{})
	limit := before(end)
	for cursor, more := before(start), true; more; {
		next, err := sources.furthest(ctx, db, cursor, limit, costWindow)
		if err != nil {
			return err
		}
		cursor, more = next.end, next.more
		query, args := next.query(columns, where, -1) // a window of milliseconds may have more than costWindow
		if query == "" {
			continue
		}
		if err := read(query, args); err != nil {
			return err
		}
	}
	return nil
}

// columns returns the columns for readRows: three of every trace, and the ones for the
// query's parts that belong to traces.
func (s *costSummer) columns() string {
	list := "time_ms, (state = 'interrupted') + 2 * (cached IS NOT NULL), attempts"
	metadata := false
	for _, part := range s.q.By {
		if column := costColumns[part]; column != "" {
			list += ", " + column
		}
		metadata = metadata || strings.HasPrefix(part, costMetadata)
	}
	if metadata {
		list += ", coalesce(metadata, CASE WHEN shared IS NOT NULL THEN (SELECT d.metadata FROM decisions AS d WHERE d.id = traces.decision_id) END)"
	}
	return list
}

func (s *costSummer) readRows(ctx context.Context, db querier, query string, args []any) (err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	row, targets := make([]any, len(names)), make([]any, len(names)) // with the driver's types
	for i := range row {
		targets[i] = &row[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		s.trace++
		s.readParts(row[3:])
		millis, _ := row[0].(int64)
		flags, _ := row[1].(int64)
		attempts, _ := row[2].(string)
		s.readAttempts(attempts)
		s.count(millis, flags)
	}
	return rows.Err()
}

// readParts reads the parts that belong to the trace.
func (s *costSummer) readParts(row []any) {
	var metadata *fastjson.Value
	for i, part := range s.q.By {
		s.parts[i] = missingPart
		member, isMember := strings.CutPrefix(part, costMetadata)
		switch {
		case isMember && metadata == nil:
			text, _ := row[len(row)-1].(string)
			if metadata, _ = s.members.Parse(text); metadata == nil {
				metadata = new(fastjson.Value)
			}
			fallthrough
		case isMember:
			if v := metadata.Get(member); v != nil {
				s.parts[i] = metadataName(v)
			}
		case s.perTrace[i]:
			if text, _ := row[0].(string); text != "" {
				s.parts[i] = cutName(text)
			}
			row = row[1:]
		}
	}
}

// metadataName returns the value of a member of metadata as the name of a group. The number
// 7 and the text "7" are one group, as they are in a filter.
func metadataName(v *fastjson.Value) string {
	switch v.Type() {
	case fastjson.TypeNull:
		return missingPart
	case fastjson.TypeString:
		return cutName(string(v.GetStringBytes()))
	}
	return cutName(string(v.MarshalTo(nil)))
}

// cutName cuts a name that is too long, and replaces the separator of names with a space.
func cutName(name string) string {
	name = strings.ReplaceAll(name, nameSeparator, " ")
	if len(name) <= maxCostName {
		return name
	}
	end := maxCostName
	for end > 0 && !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end] + "…"
}

// readAttempts reads the attempts of a trace.
func (s *costSummer) readAttempts(text string) {
	s.attempts = s.attempts[:0]
	if text == "" {
		return
	}
	list, err := s.parser.Parse(text)
	if err != nil {
		return // another program wrote it
	}
	for _, element := range list.GetArray() {
		if element.Type() == fastjson.TypeObject {
			s.attempts = append(s.attempts, readCostAttempt(element))
		}
	}
}

// readCostAttempt reads an attempt, by the names that its members have in the store.
func readCostAttempt(v *fastjson.Value) costAttempt {
	a := costAttempt{
		provider: string(v.GetStringBytes("provider")), model: string(v.GetStringBytes("model")), started: time.Duration(v.GetInt64("started_ns")),
		latency: time.Duration(v.GetInt64("latency_ns")), firstToken: time.Duration(v.GetInt64("first_token_ns")),
		CostSums: CostSums{
			Attempts: 1, PromptTokens: v.GetInt64("prompt_tokens"), CachedTokens: v.GetInt64("cached_tokens"),
			CacheWriteTokens: v.GetInt64("cache_write_tokens"), CacheWriteHourTokens: v.GetInt64("cache_write_hour_tokens"),
			CompletionTokens: v.GetInt64("completion_tokens"), ReasoningTokens: v.GetInt64("reasoning_tokens"),
			WebSearches: v.GetInt64("web_searches"), Cost: v.GetFloat64("cost_usd"),
		},
	}
	tokens := a.PromptTokens + a.CompletionTokens
	if len(v.GetStringBytes("code")) > 0 {
		a.Unanswered, a.UnansweredCost = 1, a.Cost
	}
	if v.GetBool("estimated") {
		a.EstimatedTokens, a.EstimatedCost = tokens, a.Cost
	}
	if list := v.GetFloat64("list_cost_usd"); list != 0 {
		a.ReportedCost, a.ListCost = a.Cost, list
	}
	if tokens > 0 && a.Cost == 0 && !v.GetBool("free") {
		a.Unpriced, a.UnpricedTokens = 1, tokens
	}
	return a
}

// The flags of columns.
const (
	costInterrupted = 1 << iota
	costCached
)

// count counts the trace whose parts and attempts were read.
func (s *costSummer) count(millis, flags int64) {
	f := &s.q.Filter
	if len(s.attempts) == 0 {
		if f.Provider != "" || f.Model != "" {
			return
		}
		s.add("", "", millis, &CostSums{Interrupted: flags & costInterrupted, CachedAnswers: flags & costCached / costCached})
		return
	}
	for i := range s.attempts {
		a := &s.attempts[i]
		if f.Provider != "" && f.Provider != a.provider || f.Model != "" && f.Model != a.model {
			continue
		}
		g := s.add(a.provider, a.model, millis+a.started.Milliseconds(), &a.CostSums)
		if s.times && g != nil && a.Unanswered == 0 {
			g.latency.Observe(float64(a.latency) / float64(time.Microsecond))
			if a.firstToken > 0 {
				g.firstToken.Observe(float64(a.firstToken) / float64(time.Microsecond))
			}
		}
	}
}

// add adds to the group of the trace's parts and of an attempt's, and returns it; nil if it
// is not counted by itself.
func (s *costSummer) add(provider, model string, millis int64, sums *CostSums) *costGroup {
	s.total.add(s.trace, sums)
	if g := s.group(provider, model, millis); g != nil {
		g.add(s.trace, sums)
		return g
	}
	s.others.add(s.trace, sums)
	if s.buckets != nil {
		s.buckets[s.bucket(s.name)] += sums.weight()
	}
	return nil
}

// group returns the group of the trace's parts and of an attempt's, or nil if it is not
// counted by itself.
func (s *costSummer) group(provider, model string, millis int64) *costGroup {
	s.name = s.name[:0]
	for i, part := range s.q.By {
		if i > 0 {
			s.name = append(s.name, nameSeparator...)
		}
		switch part {
		case "provider":
			s.name = append(s.name, cmp.Or(cutName(provider), missingPart)...)
		case "model":
			s.name = append(s.name, cmp.Or(cutName(model), missingPart)...)
		case "day":
			s.name = time.UnixMilli(millis).UTC().AppendFormat(s.name, time.DateOnly)
		case partHour:
			s.name = time.UnixMilli(millis).UTC().Truncate(time.Hour).AppendFormat(s.name, time.RFC3339)
		default:
			s.name = append(s.name, s.parts[i]...)
		}
	}
	g := s.groups[string(s.name)]
	switch {
	case g != nil:
		return g
	case s.buckets != nil, s.candidate != nil && (!s.candidate[s.bucket(s.name)] || len(s.groups) >= 2*s.maxGroups):
		return nil
	case s.candidate == nil && len(s.groups) >= s.maxGroups:
		s.buckets = make([]float64, costBuckets)
		for name, g := range s.groups {
			s.buckets[s.bucket([]byte(name))] += g.weight()
		}
		clear(s.groups)
		return nil
	}
	g = new(costGroup)
	s.groups[string(s.name)] = g
	return g
}

func (s *costSummer) bucket(name []byte) int {
	return int(maphash.Bytes(s.seed, name) % costBuckets)
}

// costs returns the rows and the sums.
func (s *costSummer) costs() Costs {
	names := slices.Collect(maps.Keys(s.groups))
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.groups[b].weight(), s.groups[a].weight()), strings.Compare(a, b))
	})
	top := cmp.Or(s.q.Top, DefaultCostRows)
	others := s.others.CostSums
	for _, name := range names[min(top, len(names)):] {
		// A call of several groups counts in each of them.
		others.Add(&s.groups[name].CostSums)
	}
	answer := Costs{Rows: []CostRow{}, Total: s.total.CostSums}
	if others != (CostSums{}) {
		answer.Others = &others
		if s.candidate == nil {
			answer.OtherRows = len(names) - top
		}
	}
	for _, name := range names[:min(top, len(names))] {
		row := CostRow{By: map[string]string{}, CostSums: s.groups[name].CostSums}
		for i, part := range strings.SplitN(name, nameSeparator, len(s.q.By)) {
			if part != missingPart && len(s.q.By) > 0 {
				row.By[s.q.By[i]] = part
			}
		}
		answer.Rows = append(answer.Rows, row)
	}
	slices.SortStableFunc(answer.Rows, func(a, b CostRow) int { return strings.Compare(a.By["day"], b.By["day"]) })
	return answer
}

// Workspaces returns the names of the workspaces that have traces in the file.
func (r *Reader) Workspaces(ctx context.Context) ([]string, error) {
	return collect(ctx, r.db, func(scan func(...any) error) (name string, err error) { return name, scan(&name) }, `
SELECT workspace FROM stats_series
UNION SELECT workspace FROM traces WHERE seq > (SELECT traces FROM cursors WHERE sink = ?) ORDER BY workspace`, statsCursor)
}

// Oldest returns the time of the oldest trace, zero if there is none.
func (r *Reader) Oldest(ctx context.Context) (time.Time, error) {
	id, err := oldestTrace(ctx, r.db)
	if err != nil || id == lastID {
		return time.Time{}, err
	}
	return id.Time(), nil
}
