package sqlite

import (
	"cmp"
	"context"
	"database/sql"
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

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// DefaultCostRows is how many rows an answer has without Top.
	DefaultCostRows = 100

	// MaxCostRows is how many rows an answer has at most. The costs of what has no
	// row are summed as others.
	MaxCostRows = 10_000

	// maxCostGroups is how many groups are counted at once: some 30 MB. A member
	// of metadata may have millions of values. Where there are more, the traces are
	// read twice: the first time to find which groups may be among the rows.
	maxCostGroups = 100_000

	// costBuckets is what the groups are summed in where there are too many. The
	// second pass counts the groups of those that cost the most: a quarter as many as
	// there may be groups, which leaves room for those that share one.
	costBuckets = 1 << 20

	// maxCostName is how much of a name or a value a group has, in bytes.
	maxCostName = 256

	// costWindow is how many traces are read at once.
	costWindow = 8192
)

// CostParts are the names of what costs are summed by, but for metadata.NAME.
var CostParts = []string{"workspace", "key", "variant", "endpoint_variant", "api_key", "provider", "model", "day"}

// costColumns are the columns of the parts that a trace has one of.
var costColumns = map[string]string{
	"workspace": "workspace", "key": "key", "variant": "variant", "endpoint_variant": "endpoint_variant", "api_key": "api_key",
}

// costMetadata is the prefix of a part that is a member of the metadata.
const costMetadata = "metadata."

// CostQuery asks for costs.
type CostQuery struct {
	// Filter selects calls of endpoints, by all but its workspace and its kind. Its
	// provider and model select attempts of theirs.
	Filter trace.Filter
	// By is what each row is of: some of CostParts, or metadata.NAME, the value of
	// a top-level member of the calls' metadata.
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
	Rows []CostRow `json:"rows"` // by day, then those that cost the most first

	// Others is the sum of what has no row; nil: all has. OtherRows is how many rows
	// that would be; 0: it is not known.
	Others    *CostSums `json:"others,omitempty"`
	OtherRows int       `json:"other_rows,omitempty"`

	Total CostSums `json:"total"`
}

// CostRow is what the calls or the attempts of one group cost.
type CostRow struct {
	By map[string]string `json:"by"` // a part that they don't have is absent
	CostSums
}

// CostSums are sums over attempts. All are paid for, also those that did not answer.
type CostSums struct {
	// Calls are those with an attempt that counts here and, of the calls that made
	// none, all. CachedAnswers and Interrupted are of the latter: a cache answered,
	// or the process ended during the call, whose cost is not known.
	Calls         int64 `json:"calls"`
	CachedAnswers int64 `json:"cached_answers,omitempty"`
	Interrupted   int64 `json:"interrupted,omitempty"`

	Attempts   int64 `json:"attempts"`
	Unanswered int64 `json:"unanswered,omitempty"` // failed, were cancelled, or lost to a hedge
	// Unpriced attempts used tokens, and have no cost: their model had no price.
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

	// ReportedCost is what providers said themselves where that is not what the
	// price list says, and ListCost what the same attempts cost by the list.
	ReportedCost float64 `json:"reported_cost_usd,omitempty"`
	ListCost     float64 `json:"list_cost_usd,omitempty"`
}

// Unknown reports whether there is a cost that is not known.
func (s *CostSums) Unknown() bool { return s.Unpriced+s.Interrupted > 0 }

// weight orders groups: by their cost and, where they have none, by what they used.
func (s *CostSums) weight() float64 {
	return s.Cost + 1e-9*float64(s.PromptTokens+s.CompletionTokens) + 1e-12*float64(s.Attempts+s.Calls)
}

// Add adds the sums of others.
func (s *CostSums) Add(o *CostSums) {
	s.Calls += o.Calls
	s.sum(o)
}

// sum is Add but for the calls.
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

// SumCosts sums what the calls of endpoints cost, from the traces: the statistics
// have no attempts. It reads a little at a time, so that it blocks no checkpoint and
// no writer, and takes some 3 s of a processor for a million calls.
func SumCosts(ctx context.Context, of []CostSource, q CostQuery) (Costs, error) {
	if err := q.Validate(); err != nil {
		return Costs{}, err
	}
	return newCostSummer(&q, maxCostGroups).run(ctx, of)
}

// run reads the traces, twice where there are too many groups.
func (s *costSummer) run(ctx context.Context, of []CostSource) (Costs, error) {
	if err := s.readAll(ctx, of); err != nil {
		return Costs{}, err
	}
	if s.buckets != nil {
		s = s.again()
		if err := s.readAll(ctx, of); err != nil {
			return Costs{}, err
		}
	}
	return s.costs(), nil
}

// costSummer sums the costs of groups.
type costSummer struct {
	q         *CostQuery
	perTrace  []bool // by part of q.By: it is one of the trace, and not of an attempt
	groups    map[string]*costGroup
	most      int       // groups
	others    costGroup // what no group has
	total     costGroup
	trace     int64 // the number of the one that is read
	seed      maphash.Seed
	buckets   []float64 // nil: there are not too many groups
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
	trace int64 // the last that was counted as a call
}

func (g *costGroup) add(trace int64, sums *CostSums) {
	if g.trace != trace {
		g.trace = trace
		g.Calls++
	}
	g.sum(sums)
}

// costAttempt is what is read of an attempt.
type costAttempt struct {
	provider, model     string
	failed, estimated   bool
	free                bool
	started             int64
	prompt, completion  int64
	cached, write, hour int64
	reasoning, searches int64
	cost, list          float64
}

// missingPart is a part that a trace or an attempt does not have.
const missingPart = "\x00"

func newCostSummer(q *CostQuery, most int) *costSummer {
	s := &costSummer{q: q, most: most, groups: map[string]*costGroup{}, seed: maphash.MakeSeed(), parts: make([]string, len(q.By))}
	for _, part := range q.By {
		s.perTrace = append(s.perTrace, part != "provider" && part != "model" && part != "day")
	}
	return s
}

// again returns the summer of the second pass, which knows the groups of the buckets
// that cost the most.
func (s *costSummer) again() *costSummer {
	sorted := slices.Clone(s.buckets)
	slices.Sort(sorted)
	first := len(sorted) - max(s.most/4, 1)
	least := sorted[first]
	above, _ := slices.BinarySearch(sorted, math.Nextafter(least, math.Inf(1)))
	ties := above - first
	next := newCostSummer(s.q, s.most)
	next.seed = s.seed
	next.candidate = make([]bool, costBuckets)
	for i, sum := range s.buckets {
		tie := sum == least && ties > 0
		if tie {
			ties--
		}
		next.candidate[i] = tie || sum > least
	}
	return next
}

func (s *costSummer) readAll(ctx context.Context, of []CostSource) error {
	for _, source := range of {
		if err := s.read(ctx, source); err != nil {
			return err
		}
	}
	return nil
}

// read reads the traces of a workspace.
func (s *costSummer) read(ctx context.Context, of CostSource) error {
	f := s.q.Filter
	f.Workspace, f.Kind = of.Workspace, trace.KindEndpoint
	f.Provider, f.Model = "", "" // of attempts
	if err := f.Validate(); err != nil {
		return err
	}
	where, err := conditions(&f)
	if err != nil {
		return err
	}
	sources := listSources{index: sourceOf(&f), order: oldestFirst}
	if err := sources.post(ctx, of.Reader.db, &f, where); err != nil {
		return err
	}
	end, start := bounds(&f, trace.ID{})
	limit := before(end)
	columns := s.columns()
	for from, more := before(start), true; more; {
		next, err := sources.furthest(ctx, of.Reader.db, from, limit, costWindow)
		if err != nil {
			return err
		}
		from, more = next.end, next.more
		query, args := next.query(columns, where, costWindow)
		if query == "" {
			continue
		}
		if err := s.readRows(ctx, of.Reader.db, query, args); err != nil {
			return err
		}
	}
	return nil
}

// columns are those of readRows: what each trace has, and the parts that are of
// traces.
func (s *costSummer) columns() string {
	list := "time_ms, (state = 'interrupted') + 2 * (cached IS NOT NULL), cost, attempts"
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

func (s *costSummer) readRows(ctx context.Context, on querier, query string, args []any) (err error) {
	rows, err := on.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	row, into := make([]any, len(names)), make([]any, len(names)) // as the driver has them
	for i := range row {
		into[i] = &row[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		s.trace++
		s.readParts(row[4:])
		millis, _ := row[0].(int64)
		flags, _ := row[1].(int64)
		cost, _ := row[2].(float64)
		attempts, _ := row[3].(string)
		s.readAttempts(attempts, cost)
		s.count(millis, flags)
	}
	return rows.Err()
}

// readParts reads the parts that are of the trace.
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

// metadataName returns the value of a member of metadata as the name of a group. The
// number 7 and the text "7" are one, as for a filter.
func metadataName(v *fastjson.Value) string {
	switch v.Type() {
	case fastjson.TypeNull:
		return missingPart
	case fastjson.TypeString:
		return cutName(string(v.GetStringBytes()))
	}
	return cutName(string(v.MarshalTo(nil)))
}

// cutName cuts a name that is too long, and takes what separates names out of it.
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

// readAttempts reads the attempts of a trace that cost so much. Attempts of an earlier
// version have no cost of their own: they share that of the trace by their tokens.
func (s *costSummer) readAttempts(text string, cost float64) {
	s.attempts = s.attempts[:0]
	if text == "" {
		return
	}
	list, err := s.parser.Parse(text)
	if err != nil {
		return // another program wrote it
	}
	elements, _ := list.Array()
	var tokens int64
	own := cost == 0
	for _, element := range elements {
		object, err := element.Object()
		if err != nil {
			continue
		}
		var a costAttempt
		object.Visit(a.set)
		s.attempts = append(s.attempts, a)
		tokens += a.prompt + a.completion
		own = own || a.cost != 0 || a.free
	}
	if own || tokens == 0 {
		return
	}
	for i := range s.attempts {
		a := &s.attempts[i]
		a.cost = cost * float64(a.prompt+a.completion) / float64(tokens)
	}
}

// set sets a member of an attempt, by its name in the store.
func (a *costAttempt) set(name []byte, v *fastjson.Value) {
	switch string(name) {
	case "provider":
		a.provider = string(v.GetStringBytes())
	case "model":
		a.model = string(v.GetStringBytes())
	case "code":
		a.failed = len(v.GetStringBytes()) > 0
	case "estimated":
		a.estimated = v.GetBool()
	case "free":
		a.free = v.GetBool()
	case "started_ns":
		a.started = v.GetInt64()
	case "prompt_tokens":
		a.prompt = v.GetInt64()
	case "completion_tokens":
		a.completion = v.GetInt64()
	case "cached_tokens":
		a.cached = v.GetInt64()
	case "cache_write_tokens":
		a.write = v.GetInt64()
	case "cache_write_hour_tokens":
		a.hour = v.GetInt64()
	case "reasoning_tokens":
		a.reasoning = v.GetInt64()
	case "web_searches":
		a.searches = v.GetInt64()
	case "cost_usd":
		a.cost = v.GetFloat64()
	case "list_cost_usd":
		a.list = v.GetFloat64()
	}
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
		s.add(a.provider, a.model, millis+a.started/int64(time.Millisecond), a.sums())
	}
}

// sums are those of one attempt.
func (a *costAttempt) sums() *CostSums {
	tokens := a.prompt + a.completion
	sums := &CostSums{
		Attempts: 1, PromptTokens: a.prompt, CachedTokens: a.cached, CacheWriteTokens: a.write, CacheWriteHourTokens: a.hour,
		CompletionTokens: a.completion, ReasoningTokens: a.reasoning, WebSearches: a.searches, Cost: a.cost,
	}
	if a.failed {
		sums.Unanswered, sums.UnansweredCost = 1, a.cost
	}
	if a.estimated {
		sums.EstimatedTokens, sums.EstimatedCost = tokens, a.cost
	}
	if a.list != 0 {
		sums.ReportedCost, sums.ListCost = a.cost, a.list
	}
	if tokens > 0 && a.cost == 0 && !a.free {
		sums.Unpriced, sums.UnpricedTokens = 1, tokens
	}
	return sums
}

// add adds to the group of the trace's parts, and those of an attempt.
func (s *costSummer) add(provider, model string, millis int64, sums *CostSums) {
	s.total.add(s.trace, sums)
	if g := s.group(provider, model, millis); g != nil {
		g.add(s.trace, sums)
		return
	}
	s.others.add(s.trace, sums)
	if s.buckets != nil {
		s.buckets[s.bucket(s.name)] += sums.weight()
	}
}

// group returns the group of the trace's parts, and those of an attempt, or nil where
// it is not counted by itself.
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
		default:
			s.name = append(s.name, s.parts[i]...)
		}
	}
	g := s.groups[string(s.name)]
	switch {
	case g != nil:
		return g
	case s.buckets != nil, s.candidate != nil && (!s.candidate[s.bucket(s.name)] || len(s.groups) >= 2*s.most):
		return nil
	case s.candidate == nil && len(s.groups) >= s.most:
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

// Workspaces returns the names of the workspaces whose traces the file has.
func (r *Reader) Workspaces(ctx context.Context) ([]string, error) {
	return collect(ctx, r.db, func(scan func(...any) error) (name string, err error) { return name, scan(&name) }, `
SELECT workspace FROM stats_series
UNION SELECT workspace FROM traces WHERE seq > (SELECT traces FROM cursors WHERE sink = ?) ORDER BY workspace`, statsCursor)
}

// Oldest returns the time of the oldest trace, zero where there is none.
func (r *Reader) Oldest(ctx context.Context) (time.Time, error) {
	id, err := scanID(r.db.QueryRowContext(ctx, "SELECT id FROM traces ORDER BY id LIMIT 1").Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	return id.Time(), err
}
