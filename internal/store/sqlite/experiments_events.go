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
	t.first_token_us, t.total_tokens, t.cost`

// traceWidth is the number of traceColumns, reportWidth that of reportColumns.
const (
	traceWidth  = 9
	reportWidth = 2
)

// ofExperiments is a condition on the traces that may be of an experiment.
const ofExperiments = "t.splits IS NOT NULL AND t.state = 'ended' AND " + ofApps

// traceRow is a row of traceColumns. Its texts last until the next row is read.
type traceRow struct {
	seq, at, flags      int64 // 0, if there is no trace
	splits, names, read []byte
	firstToken          float64 // in microseconds
	streamed            bool    // firstToken is known
	tokens, cost        float64 // 0 if they are not known
}

// traceOf returns the row of traceColumns whose first column has an index.
func traceOf(row *statement, first int) traceRow {
	r := traceRow{seq: row.integer(first)}
	if r.seq == 0 {
		return r
	}
	r.at, r.splits, r.names, r.read, r.flags = row.integer(first+1), row.view(first+2), row.view(first+3), row.view(first+4), row.integer(first+5)
	r.firstToken, r.streamed = row.real(first + 6)
	r.tokens, _ = row.real(first + 7)
	r.cost, _ = row.real(first + 8)
	return r
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

	names string   // of the last trace
	parts []string // of names
	seen  []*tracked
	key   []byte // of shares
}

// rememberedAtOnce bounds what a reader remembers of versions and of shares.
const rememberedAtOnce = 4096

// each calls f with each experiment to which a trace means something, and what.
func (e *eventReader) each(ctx context.Context, r *traceRow, f func(x *tracked, ev event, answers string) error) error {
	list, err := e.parser.ParseBytes(r.splits)
	if err != nil {
		return nil // another program wrote it
	}
	if string(r.names) != e.names {
		e.names = string(r.names)
		e.parts = strings.SplitN(e.names, nameSeparator, 6)
	}
	if len(e.parts) < 6 {
		return nil
	}
	e.seen = e.seen[:0]
	for _, split := range list.GetArray() {
		of := split.Get("experiment")
		for _, x := range e.of[splitOf{e.parts[0], string(of.GetStringBytes("definition")), string(of.GetStringBytes("rule"))}] {
			if slices.Contains(e.seen, x) {
				continue
			}
			ev := e.eventOf(x, r.at, split)
			if ev.class == ignored {
				continue
			}
			e.seen = append(e.seen, x)
			answers := ""
			if ev.class == exposes {
				if answers, err = e.answersOf(ctx, x, r, e.parts); err != nil {
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
	e.key = strconv.AppendBool(e.key[:0], passedOn)
	all := split.GetObject("arms")
	if all != nil {
		e.key = split.Get("arms").MarshalTo(e.key)
	} else {
		e.key = split.Get("share").MarshalTo(append(e.key, arm...))
		if arm == experiment.PassedOn && len(x.plan().Arms) > 0 {
			arm = x.plan().Arms[0] // a split of one arm has no list
			e.key = append(e.key, arm...)
		}
	}
	if s := e.shares[string(e.key)]; s != nil {
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
	e.shares[string(e.key)] = s
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
		version = fastjson.GetString(r.read, on)
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
	failed, call, latency := r.flags&1, r.flags&2 != 0, r.flags/8
	ev.fellBack = r.flags&4 != 0
	for place := range x.numbers {
		n := &x.numbers[place]
		known, value := call, 0.0
		switch n.Measure {
		case experiment.Error:
			value = float64(failed)
		case experiment.Fallback:
			value = float64(r.flags & 4 / 4)
		case experiment.Latency:
			known, value = call && latency > 0 && n.over > 0, above(latency, n.over)
		case experiment.FirstToken:
			known, value = r.streamed && n.over > 0, above(int64(r.firstToken), n.over)
		case experiment.Tokens:
			value = r.tokens
		case experiment.Cost:
			value = r.cost
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

// reportRow is what a report says. Its text lasts until the next row is read.
type reportRow struct {
	score  float64
	scored bool
	values []byte
}

// reportOf returns the row of reportColumns whose first column has an index.
func reportOf(row *statement, first int) (r reportRow) {
	r.score, r.scored = row.real(first)
	r.values = row.view(first + 1)
	return r
}

const reportColumns = "m.score, m.named_values"

// measures adds what was reported to an event.
func (r *reportRow) measures(parser *fastjson.Parser, x *tracked, ev *event) {
	var values *fastjson.Value
	if len(r.values) > 0 {
		values, _ = parser.ParseBytes(r.values) // another program may have written it
	}
	for place := range x.numbers {
		n := &x.numbers[place]
		if n.Measure == experiment.Score && r.scored {
			ev.numbers = append(ev.numbers, measured{place, r.score})
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

// unitReportQuery selects the reports on a unit.
const unitReportQuery = "SELECT m.happened_ms, " + reportColumns + `
FROM metrics AS m INDEXED BY metrics_unit WHERE m.workspace = ? AND m.unit_field = ? AND m.unit = ? AND m.happened_ms >= ? AND m.seq <= ?`

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
