package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/kind"
)

// An event is what a row means to an experiment.
type event struct {
	unit     string
	class    class
	fellBack bool
	at       int64 // Unix time in milliseconds
	arm      string
	shares   *shares
	numbers  []measured
}

// class says when the numbers of an event count.
type class uint8

const (
	ignored  class = iota
	exposes        // the unit to an arm, and they count
	follows        // of an exposed unit
	reported       // on the unit: they count after its exposure, or to its past
	precedes       // the start: the split answered before, and no unit has a past
)

// measured is a number of an event.
type measured struct {
	place int
	value float64
}

// shares are the parts of all units that arms had at an instant.
type shares struct {
	exact map[string]float64
	about string
}

// traceColumns are the members of a trace t that experiments read, in few columns.
const traceColumns = `t.seq, t.time_ms, t.splits,
	concat_ws(char(31), t.workspace, t.kind, t.key, coalesce(t.version, ''), coalesce(t.prompt, ''), coalesce(t.prompt_version, '')),
	t.read_versions,
	(t.code IS NOT NULL) + 2 * (t.kind = 'endpoint')
		+ 4 * CASE WHEN t.code IS NULL AND t.kind = 'endpoint' AND (instr(t.attempts, '},{') > 0 OR instr(t.notes, '"skipped ') > 0) THEN ` + fellBack + ` ELSE 0 END
		+ 8 * coalesce(t.latency_us, 0),
	CASE WHEN coalesce(t.first_token_us, t.total_tokens, t.cost) IS NOT NULL THEN json_array(t.first_token_us, t.total_tokens, t.cost) END`

// ofExperiments is a condition on the traces that may be of an experiment.
const ofExperiments = "t.splits IS NOT NULL AND t.state = 'ended' AND " + ofApps

// traceRow is a row of traceColumns.
type traceRow struct {
	seq, at                             sql.NullInt64
	splits, names, read, flags, numbers any
}

func (r *traceRow) targets() []any {
	return []any{&r.seq, &r.at, &r.splits, &r.names, &r.read, &r.flags, &r.numbers}
}

// splitOf names the row of a definition whose splits an experiment reads.
type splitOf struct{ workspace, definition, rule string }

// eventReader makes events of rows.
type eventReader struct {
	db      querier // another connection than that of the rows
	of      map[splitOf][]*tracked
	parser  fastjson.Parser
	reports fastjson.Parser
	shares  map[string]*shares
	arms    map[string]string // one string of each arm
	answers map[[6]string]string
}

// rememberedAtOnce bounds what a reader remembers of versions and of shares.
const rememberedAtOnce = 4096

// each calls f with each experiment to which a trace means something, and what.
func (e *eventReader) each(ctx context.Context, r *traceRow, f func(x *tracked, ev event, answers string) error) error {
	text, _ := r.splits.(string)
	list, err := e.parser.Parse(text)
	if err != nil {
		return nil // another program wrote it
	}
	names, _ := r.names.(string)
	part := strings.SplitN(names, nameSeparator, 6)
	if len(part) < 6 {
		return nil
	}
	var seen []*tracked
	for _, split := range list.GetArray() {
		of := split.Get("experiment")
		for _, x := range e.of[splitOf{part[0], string(of.GetStringBytes("definition")), string(of.GetStringBytes("rule"))}] {
			if slices.Contains(seen, x) {
				continue
			}
			ev := e.eventOf(x, r.at.Int64, split)
			if ev.class == ignored {
				continue
			}
			seen = append(seen, x)
			answers := ""
			if ev.class == exposes {
				if answers, err = e.answersOf(ctx, x, r, part); err != nil {
					return err
				}
			}
			if err := f(x, ev, answers); err != nil {
				return err
			}
		}
	}
	return nil
}

// eventOf returns what a split of a trace means to its experiment, without numbers.
func (e *eventReader) eventOf(x *tracked, at int64, split *fastjson.Value) event {
	ev := event{at: at, unit: string(split.GetStringBytes("unit"))}
	if at < x.past || !compares(split) {
		return ev
	}
	if at < x.start {
		ev.class = precedes
		return ev
	}
	arm := split.GetStringBytes("arm")
	passedOn := x.plan().Control == experiment.PassedOn
	if len(arm) == 0 && !passedOn {
		return ev // it is in no arm of the experiment
	}
	ev.class = follows
	if at < x.end {
		ev.class = exposes
	}
	if ev.arm = experiment.PassedOn; len(arm) > 0 {
		known := false
		if ev.arm, known = e.arms[string(arm)]; !known {
			ev.arm = string(arm)
			e.arms[ev.arm] = ev.arm
		}
	}
	ev.shares = e.sharesOf(x, split, ev.arm, passedOn)
	return ev
}

// compares reports whether a trace came to the split, and to arms that are compared.
func compares(split *fastjson.Value) bool {
	for _, name := range []string{"consulted", "compared"} {
		if v := split.Get(name); v != nil && v.Type() == fastjson.TypeFalse {
			return false
		}
	}
	return true
}

// sharesOf returns the shares that a split had.
func (e *eventReader) sharesOf(x *tracked, split *fastjson.Value, arm string, passedOn bool) *shares {
	key := strconv.FormatBool(passedOn)
	all := split.GetObject("arms")
	if all != nil {
		key = string(split.Get("arms").MarshalTo([]byte(key)))
	} else {
		key += string(split.Get("share").MarshalTo([]byte(arm)))
		if arm == experiment.PassedOn && len(x.plan().Arms) > 0 {
			arm = x.plan().Arms[0] // a split of one arm has no list
			key += arm
		}
	}
	if s := e.shares[key]; s != nil {
		return s
	}
	s, rest := &shares{exact: map[string]float64{}}, 1.0
	if all != nil {
		all.Visit(func(name []byte, share *fastjson.Value) { s.exact[string(name)], _ = share.Float64() })
	} else {
		s.exact[arm] = split.GetFloat64("share")
	}
	about := map[string]string{}
	for name, share := range s.exact {
		rest -= share
		about[name] = strconv.FormatFloat(share, 'g', 2, 64)
	}
	if passedOn {
		s.exact[experiment.PassedOn] = max(rest, 0)
	}
	text, _ := json.Marshal(about)
	s.about = string(text)
	if len(e.shares) >= rememberedAtOnce {
		clear(e.shares)
	}
	e.shares[key] = s
	return s
}

// answersOf returns the name of what the arms answered with when a trace was made, empty if
// it is not known.
func (e *eventReader) answersOf(ctx context.Context, x *tracked, r *traceRow, part []string) (string, error) {
	on, rule := x.plan().On, x.plan().Rule
	folder, key, _ := strings.Cut(on, "/")
	of := kind.InFolder(folder)
	if of == nil {
		return "", nil
	}
	version := ""
	switch {
	case part[1] == of.String() && part[2] == key:
		version = part[3]
	case of == kind.Prompt && part[4] == key && part[5] != "":
		version = part[5]
	default:
		read, _ := r.read.(string)
		version = fastjson.GetString([]byte(read), on)
	}
	if version == "" {
		return "", nil
	}
	control := x.plan().Control
	name := [6]string{x.workspace, of.String(), key, version, rule, control}
	if known, ok := e.answers[name]; ok {
		return known, nil
	}
	var content []byte
	err := e.db.QueryRowContext(ctx, "SELECT content FROM versions WHERE workspace = ? AND kind = ? AND key = ? AND version = ?",
		x.workspace, of.String(), key, version).Scan(&content)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil // it may come
	}
	if err != nil {
		return "", err
	}
	answers, _ := experiment.Answers(content, rule, control)
	if len(e.answers) >= rememberedAtOnce {
		clear(e.answers)
	}
	e.answers[name] = answers
	return answers, nil
}

// measures adds what the gateway measured of a trace to an event.
func (r *traceRow) measures(x *tracked, ev *event) {
	flags, _ := r.flags.(int64)
	failed, call, latency := flags&1, flags&2 != 0, flags/8
	ev.fellBack = flags&4 != 0
	var more [3]*float64
	if text, ok := r.numbers.(string); ok {
		_ = json.Unmarshal([]byte(text), &more)
	}
	for place := range x.numbers {
		n := &x.numbers[place]
		known, value := call, 0.0
		switch n.Measure {
		case experiment.Error:
			value = float64(failed)
		case experiment.Fallback:
			value = float64(flags & 4 / 4)
		case experiment.Latency:
			known, value = call && latency > 0 && n.over > 0, above(latency, n.over)
		case experiment.FirstToken:
			if known = more[0] != nil && n.over > 0; known {
				value = above(int64(*more[0]), n.over)
			}
		case experiment.Tokens:
			value = orZero(more[1])
		case experiment.Cost:
			value = orZero(more[2])
		default:
			continue
		}
		if known {
			ev.numbers = append(ev.numbers, measured{place, value})
		}
	}
}

func above(microseconds, threshold int64) float64 {
	if microseconds > threshold {
		return 1
	}
	return 0
}

func orZero(x *float64) float64 {
	if x == nil {
		return 0
	}
	return *x
}

// reportRow is what a report says.
type reportRow struct {
	seq    int64
	score  sql.NullFloat64
	values any
}

func (r *reportRow) targets() []any { return []any{&r.seq, &r.score, &r.values} }

const reportColumns = "m.seq, m.score, m.named_values"

// measures adds what was reported to an event.
func (r *reportRow) measures(parser *fastjson.Parser, x *tracked, ev *event) {
	text, _ := r.values.(string)
	var values *fastjson.Value
	if text != "" {
		values, _ = parser.Parse(text) // another program may have written it
	}
	for place := range x.numbers {
		n := &x.numbers[place]
		if n.Measure == experiment.Score && r.score.Valid {
			ev.numbers = append(ev.numbers, measured{place, r.score.Float64})
		}
		if n.Value == "" || values == nil {
			continue
		}
		if value := values.Get(n.Value); value != nil && value.Type() == fastjson.TypeNumber {
			ev.numbers = append(ev.numbers, measured{place, value.GetFloat64()})
		}
	}
}

// traceQuery selects the traces of a range that may be of an experiment.
const traceQuery = "SELECT " + traceColumns + " FROM traces AS t NOT INDEXED WHERE t.seq > ? AND t.seq <= ? AND " + ofExperiments + " ORDER BY t.seq"

// earlierReports selects pairs of a trace of a range and a report on it, or on its decision,
// that was counted before.
const earlierReports = "SELECT " + traceColumns + ", " + reportColumns + `, t.decision_id, m.trace_id = t.decision_id
FROM traces AS t NOT INDEXED CROSS JOIN metrics AS m INDEXED BY metrics_trace_id ON m.trace_id IN (t.id, t.decision_id) AND m.workspace = t.workspace
WHERE t.seq > ? AND t.seq <= ? AND ` + ofExperiments + " AND m.seq <= ?"

// reportQuery selects the reports of a range, with the traces that they are on. Those on
// decisions and on units have none.
const reportQuery = "SELECT " + reportColumns + ", CASE WHEN " + ofDecision + " THEN m.decision_id END, m.workspace, m.unit_field, m.unit, m.happened_ms, " + traceColumns + `
FROM metrics AS m NOT INDEXED LEFT JOIN traces AS t INDEXED BY sqlite_autoindex_traces_1
	ON t.id = m.trace_id AND t.workspace = m.workspace AND m.unit IS NULL AND ` + ofExperiments + `
WHERE m.seq > ? AND m.seq <= ? AND coalesce(m.score, m.named_values) IS NOT NULL ORDER BY m.seq`

// decisionTraces selects the traces of a decision up to a seq, the first one first.
var decisionTraces = fmt.Sprintf("SELECT %s FROM traces AS t INDEXED BY sqlite_autoindex_traces_1 WHERE t.id IN (%s) AND %s AND t.seq <= ?%d ORDER BY t.seq",
	traceColumns, tracesOfDecision, ofExperiments, 2*len(kind.All)+2)

// unitReportQuery selects the reports on units of a JSON array.
const unitReportQuery = "SELECT j.value, m.happened_ms, " + reportColumns + `
FROM json_each(?) AS j CROSS JOIN metrics AS m INDEXED BY metrics_unit ON m.unit = j.value
WHERE m.workspace = ? AND m.unit_field = ? AND m.unit IS NOT NULL AND m.happened_ms >= ? AND m.seq <= ?`

// armOf returns the arm that a trace got of an experiment's split, if it came to that.
func (e *eventReader) armOf(x *tracked, splits string) (arm string, ok bool) {
	list, err := e.parser.Parse(splits)
	if err != nil {
		return "", false
	}
	for _, split := range list.GetArray() {
		of := split.Get("experiment")
		if string(of.GetStringBytes("definition")) != x.plan().On || string(of.GetStringBytes("rule")) != x.plan().Rule ||
			!compares(split) {
			continue
		}
		if arm = string(split.GetStringBytes("arm")); arm == "" {
			arm = experiment.PassedOn
		}
		return arm, true
	}
	return "", false
}
