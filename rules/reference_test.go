package rules

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cespare/xxhash/v2"
)

// The reference evaluator: rows as closures over plain values, made together
// with the text of the table and sharing no code with the engine. A value is
// a string, float64, bool, time.Time, []string or nil when missing.
type (
	refContext map[string]any
	refTest    func(v any) bool
	refRow     struct {
		id     string
		tests  map[string]refTest
		within func(now time.Time) bool
		asks   []refAsk
		split  func(c refContext, now time.Time) (s refSplit, ok bool)
		value  string
	}
	// refSplit is the result of a split for a unit: without an arm it passes it
	// on.
	refSplit struct {
		field, arm, outcome string
		bucket, share       int
		note                string // of a guard
	}
	// refTable is a table that others may ask for a value.
	refTable struct {
		name  string
		rows  []refRow
		table *Table
	}
	refAsk struct {
		table *refTable
		value string
	}
)

// matches reports whether all conditions of the row but its prerequisites hold.
func (r *refRow) matches(c refContext, now time.Time) bool {
	if r.within != nil && !r.within(now) {
		return false
	}
	for field, test := range r.tests {
		if field == "segment" {
			if !test(c) {
				return false
			}
			continue
		}
		if !test(c[field]) {
			return false
		}
	}
	return true
}

func (r *refRow) answer(c refContext, now time.Time) (string, bool) {
	if !r.matches(c, now) {
		return "", false
	}
	for _, a := range r.asks {
		if a.table.answer(c, now) != a.value {
			return "", false
		}
	}
	if r.split == nil {
		return r.value, true
	}
	s, ok := r.split(c, now)
	return s.outcome, ok && s.arm != ""
}

// answer is the value of the first row that matches.
func (r *refTable) answer(c refContext, now time.Time) string {
	for i := range r.rows {
		if v, ok := r.rows[i].answer(c, now); ok {
			return v
		}
	}
	return "default"
}

// on lifts a test of a value to one that a missing field never meets.
func on[T any](test func(T) bool) refTest {
	return func(v any) bool {
		t, ok := v.(T)
		return ok && test(t)
	}
}

// generator makes random tables and contexts.
type generator struct {
	*rand.Rand
	// literal leaves patterns out, so that columns are indexed by hashing, and
	// has more values and longer lists.
	literal bool
	// long has some contexts have a text that patterns don't look at.
	long bool
	// pattern is set when a cell with a pattern is made: one for which long
	// values are missing.
	pattern *bool
	// rich has tables with ramps, computed fields and the tables that they ask.
	rich  bool
	asked []*refTable
	// aware has tables that read fields of the gateway.
	aware bool
	// guards has tables with guarded splits.
	guards bool
}

// refLong is a text that patterns don't look at.
var refLong = strings.Repeat("a", 8<<10) + "b"

// withoutLong is a test for which long values are missing.
func withoutLong(test refTest) refTest {
	return func(v any) bool {
		switch long := v.(type) {
		case string:
			if len(long) > 8<<10 {
				return test(nil)
			}
		case []string:
			if slices.ContainsFunc(long, func(s string) bool { return len(s) > 8<<10 }) {
				return test(nil)
			}
		}
		return test(v)
	}
}

func pick[T any](g generator, from []T) T { return from[g.IntN(len(from))] }

const referenceModel = `
fields:
  plan:   { type: string }
  city:   { type: string, ignore_case: true }
  locale: { type: string, match: language-range }
  seats:  { type: number }
  beta:   { type: boolean }
  since:  { type: date }
  app:    { type: string, format: semver }
  ip:     { type: string, format: ip }
  tags:   { type: list }
computed:
  many: seats >= 5
  who:  plan + "/" + locale
segments:
  few:  [ { seats: ..2 }, { beta: true } ]
  paid: [ { plan: [pro, team] } ]
`

var (
	genPlans    = []string{"pro", "team", "free", "protest", "a", "ab", "ba", "b", "x y", "any", "10..20", "*"}
	genCities   = []string{"Gent", "GENT", "gent", "Aalst", "aalst", "Ä", "ä"}
	genLocales  = []string{"nl", "nl-BE", "nl-NL", "fr", "fr-BE", "NL-be", "n", "nlx", "en-GB-x-a"}
	genVersions = []string{"1.0.0", "1.2.3", "1.2.4", "1.10.0", "2.0.0-rc.1", "2.0.0-rc.2", "2.0.0-rc.10", "2.0.0", "2.0.1", "10.0.0"}
	genIPs      = []string{"10.0.0.1", "10.1.0.1", "10.255.255.255", "11.0.0.0", "192.168.1.1", "::1", "2001:db8::5", "0.0.0.0"}
	genNetworks = []string{"10.0.0.0/8", "10.0.0.0/16", "0.0.0.0/0", "192.168.1.1/32", "2001:db8::/32", "::/0"}
	genTags     = []string{"a", "b", "ab", "employee", "beta-1", "beta-2"}
)

// values adds to a pool of texts in literal mode.
func (g generator) values(pool []string) []string {
	if !g.literal {
		return pool
	}
	pool = slices.Clone(pool)
	for i := range 40 {
		pool = append(pool, fmt.Sprint("t", i))
	}
	return pool
}

// context makes a random context: its JSON and its values.
func (g generator) context() (string, refContext) {
	c := make(refContext)
	var members []string
	add := func(name, json string, v any) {
		if g.IntN(5) > 0 {
			c[name] = v
			members = append(members, fmt.Sprintf("%q:%s", name, json))
		}
	}
	plan := pick(g, g.values(genPlans))
	if g.long && g.IntN(20) == 0 {
		plan = refLong
	}
	add("plan", strconv.Quote(plan), plan)
	city := pick(g, genCities)
	add("city", strconv.Quote(city), city)
	locale := pick(g, genLocales)
	add("locale", strconv.Quote(locale), locale)
	seats := float64(g.IntN(24)-4) / 2
	add("seats", strconv.FormatFloat(seats, 'g', -1, 64), seats)
	beta := g.IntN(2) == 0
	add("beta", strconv.FormatBool(beta), beta)
	since := time.Date(2026, 1, 1+g.IntN(6), 6*g.IntN(4), 0, 0, 0, time.UTC)
	add("since", strconv.Quote(since.Format(time.RFC3339)), since)
	app := pick(g, genVersions)
	add("app", strconv.Quote(app), app)
	ip := pick(g, genIPs)
	add("ip", strconv.Quote(ip), netip.MustParseAddr(ip))
	tags := make([]string, 1+g.IntN(4))
	if g.literal && g.IntN(2) == 0 {
		tags = make([]string, 1+g.IntN(2*maxElements))
	}
	for i := range tags {
		tags[i] = pick(g, g.values(genTags))
	}
	if g.long && g.IntN(20) == 0 {
		tags[0] = refLong
	}
	add("tags", strings.ReplaceAll(fmt.Sprintf("%q", tags), " ", ","), tags)
	if seats, ok := c["seats"].(float64); ok {
		c["many"] = seats >= 5
	}
	if c["plan"] != nil && c["locale"] != nil {
		c["who"] = plan + "/" + locale
	}
	members = append(members, `"unknown":1`)
	g.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return "{" + strings.Join(members, ",") + "}", c
}

// request makes a random request: its context, the state of the gateway, and the
// values of both. A context may have members that look like the gateway's fields.
func (g generator) request() (string, *fakeGateway, refContext) {
	if !g.aware {
		text, c := g.context()
		if !g.guards {
			return text, nil, c
		}
		known := &fakeGateway{rollouts: make(map[string]int)}
		for _, name := range refRollouts {
			if g.IntN(4) > 0 {
				share := pick(g, []int{0, 1000, g.IntN(50_001), 50_000, 100_000})
				known.rollouts[strings.TrimPrefix(name, "rollout.")], c[name] = share, share
			}
		}
		return text, known, c
	}
	text, c := "{}", make(refContext)
	if g.IntN(4) > 0 {
		text, c = g.context()
		text = strings.TrimSuffix(text, "}") + fmt.Sprintf(`,"budget.day":%d,"health.a/m":"down","budget":{"day":%d},"health":{"a/m":"up"}}`, g.IntN(120), g.IntN(120))
	}
	known := &fakeGateway{budgets: make(map[string]int), down: make(map[string]bool)}
	if g.IntN(5) > 0 {
		percent := g.IntN(120)
		known.budgets["day"], c["budget.day"] = percent, float64(percent)
	}
	if g.IntN(5) > 0 {
		down := g.IntN(2) == 0
		known.down["a/m"], c["health.a/m"] = down, map[bool]string{true: "down", false: "up"}[down]
	}
	return text, known, c
}

// leaf makes a single condition on a field.
func (g generator) leaf(field string) (string, refTest) {
	switch field {
	case "budget.day":
		lo := float64(g.IntN(120))
		if g.IntN(2) == 0 {
			return fmt.Sprint(lo, ".."), on(func(f float64) bool { return f >= lo })
		}
		return fmt.Sprint("..<", lo+1), on(func(f float64) bool { return f < lo+1 })
	case "health.a/m":
		want := pick(g, []string{"up", "down"})
		return want, on(func(s string) bool { return s == want })
	case "plan":
		return g.textLeaf(genPlans, func(s string) string { return s })
	case "city":
		return g.textLeaf(genCities, strings.ToLower)
	case "locale":
		r := strings.TrimSuffix(pick(g, genLocales), "-x-a")
		return r, on(func(s string) bool {
			s, r := strings.ToLower(s), strings.ToLower(r)
			return s == r || strings.HasPrefix(s, r+"-")
		})
	case "seats":
		lo := float64(g.IntN(20)-4) / 2
		hi := lo + float64(1+g.IntN(8))/2
		text := func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
		switch g.IntN(5) {
		case 0:
			return text(lo), on(func(f float64) bool { return f == lo })
		case 1:
			return text(lo) + "..", on(func(f float64) bool { return f >= lo })
		case 2:
			return ".." + text(hi), on(func(f float64) bool { return f <= hi })
		case 3:
			return text(lo) + "..<" + text(hi), on(func(f float64) bool { return f >= lo && f < hi })
		}
		return text(lo) + ".." + text(hi), on(func(f float64) bool { return f >= lo && f <= hi })
	case "beta", "many":
		want := g.IntN(2) == 0
		return strconv.FormatBool(want), on(func(b bool) bool { return b == want })
	case "since":
		day := time.Date(2026, 1, 1+g.IntN(6), 0, 0, 0, 0, time.UTC)
		text := day.Format(time.DateOnly)
		switch g.IntN(3) {
		case 0:
			return text, on(func(t time.Time) bool { return !t.Before(day) && t.Before(day.AddDate(0, 0, 1)) })
		case 1:
			return ".." + text, on(func(t time.Time) bool { return t.Before(day.AddDate(0, 0, 1)) })
		}
		return `"` + text + `T12:00:00Z.."`, on(func(t time.Time) bool { return !t.Before(day.Add(12 * time.Hour)) })
	case "app":
		want := semver.MustParse(pick(g, genVersions))
		if g.IntN(2) == 0 {
			return want.String(), on(func(s string) bool { return semver.MustParse(s).Equal(want) })
		}
		return want.String() + "..", on(func(s string) bool { return semver.MustParse(s).Compare(want) >= 0 })
	case "ip":
		if g.IntN(2) == 0 {
			want := pick(g, genIPs)
			return strconv.Quote(want), on(func(a netip.Addr) bool { return a == netip.MustParseAddr(want) })
		}
		network := pick(g, genNetworks)
		return strconv.Quote(network), on(func(a netip.Addr) bool { return netip.MustParsePrefix(network).Contains(a) })
	}
	if g.IntN(5) == 0 {
		n := 1 + g.IntN(3)
		return fmt.Sprintf("{ size: %d.. }", n), on(func(l []string) bool { return len(l) >= n })
	}
	text, element := g.textLeaf(genTags, func(s string) string { return s })
	return text, on(func(l []string) bool { return slices.ContainsFunc(l, func(s string) bool { return element(s) }) })
}

// textLeaf makes a condition on text.
func (g generator) textLeaf(values []string, norm func(string) string) (string, refTest) {
	v := pick(g, g.values(values))
	if g.literal {
		return "{ is: " + strconv.Quote(v) + " }", on(func(s string) bool { return norm(s) == norm(v) })
	}
	part := string([]rune(v)[:1])
	if strings.ContainsAny(part, "*1") {
		part = "a"
	}
	switch g.IntN(8) {
	case 0:
		return part + "*", on(func(s string) bool { return strings.HasPrefix(norm(s), norm(part)) })
	case 1:
		return strconv.Quote("*" + part), on(func(s string) bool { return strings.HasSuffix(norm(s), norm(part)) })
	case 2:
		*g.pattern = true
		return strconv.Quote("*" + part + "*"), on(func(s string) bool { return strings.Contains(norm(s), norm(part)) })
	case 3:
		*g.pattern = true
		re := regexp.MustCompile("^" + norm(part) + ".")
		return "/^" + part + "./", on(func(s string) bool { return re.MatchString(norm(s)) })
	}
	return "{ is: " + strconv.Quote(v) + " }", on(func(s string) bool { return norm(s) == norm(v) })
}

// cell makes a condition on a field, nested at most depth levels.
func (g generator) cell(field string, depth int) (string, refTest) {
	switch n := g.IntN(12); {
	case n == 0:
		return "missing", func(v any) bool { return v == nil }
	case n == 1:
		return "present", func(v any) bool { return v != nil }
	case n <= 3 && depth > 0:
		var texts []string
		var tests []refTest
		for range 1 + g.IntN(3) {
			text, test := g.cell(field, depth-1)
			texts, tests = append(texts, text), append(tests, test)
		}
		list := "[" + strings.Join(texts, ", ") + "]"
		if n == 2 {
			return list, func(v any) bool {
				return slices.ContainsFunc(tests, func(t refTest) bool { return t(v) })
			}
		}
		return "{ all: " + list + " }", func(v any) bool {
			return !slices.ContainsFunc(tests, func(t refTest) bool { return !t(v) })
		}
	case n <= 5:
		// The negation of a test on a value; a missing field meets neither.
		text, test := g.leaf(field)
		return "{ not: " + text + " }", func(v any) bool { return v != nil && !test(v) }
	}
	return g.leaf(field)
}

// simplifies reports whether compiling may leave out a part of a cell: one that
// others make needless.
func simplifies(cell string) bool {
	return strings.Contains(cell, "present") || strings.Contains(cell, "missing") || strings.Contains(cell, "all:") ||
		strings.HasPrefix(cell, "[") && strings.Contains(cell, "not:")
}

// table makes the text of a random table as rules, and its reference.
func (g generator) table(rows int) (string, []refRow) {
	g.pattern = new(bool)
	fields := []string{"plan", "city", "locale", "seats", "beta", "since", "app", "ip", "tags"}
	units := []string{"plan", "seats"}
	if g.rich {
		fields, units = append(fields, "many"), append(units, "who")
	}
	if g.aware {
		fields = append(fields, "budget.day", "health.a/m")
	}
	g.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	fields = fields[:1+g.IntN(len(fields))]
	cells, plain := 2, 5 // of 3 and of 6: how many rows have a cell and no split
	if g.rich {
		cells, plain = 1, 2 // so that much is consulted
	}
	var text strings.Builder
	text.WriteString("rules:\n")
	refs := make([]refRow, rows)
	for i := range refs {
		ref := &refs[i]
		ref.id, ref.tests = fmt.Sprint("r", i), make(map[string]refTest)
		ref.value = fmt.Sprint("v", i)
		var when []string
		for _, f := range fields {
			if g.IntN(3) < cells {
				*g.pattern = false
				cell, test := g.cell(f, 2)
				// Compiling may leave a pattern out: all values meet [present, /a/],
				// and none meets the first part of [{ all: [missing, /a/] }, b].
				for g.long && *g.pattern && simplifies(cell) {
					*g.pattern = false
					cell, test = g.cell(f, 2)
				}
				if *g.pattern {
					test = withoutLong(test)
				}
				when = append(when, f+": "+cell)
				ref.tests[f] = test
			}
		}
		if g.IntN(6) == 0 {
			cell, test := g.segment()
			when = append(when, "segment: "+cell)
			ref.tests["segment"] = test
		}
		if g.rich && len(g.asked) > 0 && g.IntN(3) == 0 {
			var cells []string
			for _, n := range g.Perm(len(g.asked))[:1+g.IntN(min(2, len(g.asked)))] {
				a := refAsk{g.asked[n], "default"}
				if rows := a.table.rows; len(rows) > 0 && g.IntN(3) > 0 {
					a.value = pick(g, rows).value
				}
				ref.asks, cells = append(ref.asks, a), append(cells, a.table.name+": "+a.value)
			}
			// Its place among the cells makes no difference.
			when = slices.Insert(when, g.IntN(len(when)+1), "config: { "+strings.Join(cells, ", ")+" }")
		}
		fmt.Fprintf(&text, "  - id: r%d\n    when: { %s }\n", i, strings.Join(when, ", "))
		if g.IntN(6) == 0 {
			from := time.Date(2026, 1, 1+g.IntN(5), 0, 0, 0, 0, time.UTC)
			days := g.IntN(3)
			fmt.Fprintf(&text, "    from: %s\n    until: %s\n", from.Format(time.RFC3339), from.AddDate(0, 0, days).Format(time.DateOnly))
			ref.within = func(now time.Time) bool {
				return !now.Before(from) && now.Before(from.AddDate(0, 0, days+1))
			}
		}
		if g.IntN(6) < plain {
			fmt.Fprintf(&text, "    value: %s\n", ref.value)
			continue
		}
		g.split(&text, ref, pick(g, units))
	}
	return text.String(), refs
}

// split makes the answer of a row with a split, a ramp or both.
func (g generator) split(text *strings.Builder, ref *refRow, by string) {
	if g.guards && g.IntN(2) == 0 {
		g.guard(text, ref, by)
		return
	}
	a, b, coverage := 1000*(1+g.IntN(50)), 1000*(1+g.IntN(50)), 1000*(1+g.IntN(100))
	covers := func(time.Time) int { return coverage }
	parts := [][2]int{{0, a}, {a, a + b}}
	arms, outcomes, name := []string{"1", "2"}, []string{ref.value + "-a", ref.value + "-b"}, ""
	of := fmt.Sprintf("by: %s, coverage: %d%%", by, coverage/1000)
	if g.rich && g.IntN(2) == 0 {
		arms[0], name = "blue", ", name: blue"
	}
	if g.rich && g.IntN(2) == 0 {
		from, to, hours := 1000*g.IntN(50), 1000*(50+g.IntN(51)), 1+g.IntN(100)
		start := time.Date(2026, 1, 1+g.IntN(5), 0, 0, 0, 0, time.UTC)
		fmt.Fprintf(text, "    ramp: { by: %s, from: %d%%, to: %d%%, start: %s, end: %s }\n",
			by, from/1000, to/1000, start.Format(time.RFC3339), start.Add(time.Duration(hours)*time.Hour).Format(time.RFC3339))
		covers = func(now time.Time) int {
			switch passed := int(now.Sub(start) / time.Second); {
			case passed < 0:
				return 0
			case passed >= 3600*hours:
				return to
			default:
				return from + (to-from)*passed/(3600*hours)
			}
		}
		of = "by: " + by
		if g.IntN(2) == 0 {
			of, parts, arms, outcomes = "", [][2]int{{0, 100_000}}, []string{"1"}, []string{ref.value}
			fmt.Fprintf(text, "    value: %s\n", ref.value)
		}
	}
	if of != "" {
		fmt.Fprintf(text, "    split: { %s, of: [ { value: %s, share: %d%%%s }, { value: %s, share: %d%% } ] }\n",
			of, outcomes[0], a/1000, name, outcomes[1], b/1000)
	}
	ref.split = func(c refContext, now time.Time) (refSplit, bool) {
		if c[by] == nil {
			return refSplit{}, false
		}
		s := refSplit{field: by, bucket: int(xxhash.Sum64String(fmt.Sprintf("flag\x00%s\x00%v", ref.id, c[by])) % 100_000)}
		for i, part := range parts {
			covered := (part[1] - part[0]) * covers(now) / 100_000
			if part[0] <= s.bucket && s.bucket < part[0]+covered {
				s.arm, s.outcome, s.share = arms[i], outcomes[i], covered
				break
			}
			s.share += covered
		}
		return s, true
	}
}

// refRollouts are the fields of guards.
var refRollouts = func() (names []string) {
	for i := range 150 {
		names = append(names, fmt.Sprint("rollout.remoteconfigs/flag/r", i))
	}
	return names
}()

// guard makes the answer of a row with a guarded split.
func (g generator) guard(text *strings.Builder, ref *refRow, by string) {
	value, name := ref.value, "rollout.remoteconfigs/flag/"+ref.id
	fmt.Fprintf(text, "    split: { by: %s, guard: { new: %s-a, control: %s-b } }\n", by, value, value)
	ref.split = func(c refContext, _ time.Time) (refSplit, bool) {
		if c[by] == nil {
			return refSplit{}, false
		}
		s := refSplit{field: by, bucket: int(xxhash.Sum64String(fmt.Sprintf("flag\x00%s\x00%v", ref.id, c[by])) % 100_000)}
		share, known := c[name].(int)
		if known {
			s.note = " row 7"
		}
		s.arm, s.outcome, s.share = "control", value+"-b", share
		switch {
		case share == 100_000:
			s.arm, s.outcome, s.note = "new", value+"-a", s.note+" uncompared"
		case s.bucket < share:
			s.arm, s.outcome = "new", value+"-a"
		case s.bucket < 50_000 || s.bucket >= 50_000+share:
			s.share, s.note = 100_000-2*share, s.note+" uncompared"
		}
		return s, true
	}
}

// segment makes a condition on segments.
func (g generator) segment() (string, refTest) {
	few := func(c refContext) bool {
		seats, ok := c["seats"].(float64)
		return ok && seats <= 2 || c["beta"] == true
	}
	paid := func(c refContext) bool { return c["plan"] == "pro" || c["plan"] == "team" }
	switch g.IntN(4) {
	case 0:
		return "few", on(few)
	case 1:
		return "not paid", on(func(c refContext) bool { return !paid(c) })
	case 2:
		return "[few, paid]", on(func(c refContext) bool { return few(c) || paid(c) })
	}
	return "{ all: [few], none: [paid] }", on(func(c refContext) bool { return few(c) && !paid(c) })
}

// checkAgainstReference compares every way to evaluate one random table with
// the reference on random contexts.
func checkAgainstReference(t *testing.T, seed uint64) {
	g := generator{Rand: rand.New(rand.NewPCG(seed, 0)), literal: seed%2 == 1, long: true, aware: seed%3 == 0, guards: seed%3 == 1}
	m := model(t, referenceModel, append([]string{"budget.day", "health.a/m"}, refRollouts...)...)
	text, refs := g.table(1 + g.IntN(pick(g, []int{3, 20, 150})))
	// A cell may contradict itself, which loading refuses: leave such rows be.
	text, refs = withoutContradictions(t, m, text, refs)
	tab := table(t, m, text)
	if len(tab.Rows()) != len(refs) {
		t.Fatalf("%d rows for %d", len(tab.Rows()), len(refs))
	}
	scan, indexed, tight, named := *tab, *tab, *tab, *tab
	scan.index, named.index = nil, nil
	indexed.index = newIndex(tab, columnBudget)
	tight.index = newIndex(tab, 8*indexed.index.words*6)
	named.named = newNamedRows(tab, 0)
	keys := make(map[string]string)
	for range 40 {
		json, gateway, c := g.request()
		now := time.Date(2026, 1, 1+g.IntN(7), g.IntN(24), 0, 0, 0, time.UTC)
		want := (&refTable{rows: refs}).answer(c, now)
		b := bindAt(t, m, json, now)
		b.SetGateway(gateway)
		if json == "{}" && !tab.ReadsGateway() {
			want = "default"
		}
		for name, tab := range map[string]*Table{"table": tab, "scan": &scan, "index": &indexed, "tight index": &tight, "named rows": &named} {
			if got := outcome(tab, tab.Evaluate(b)); got != want {
				t.Errorf("seed %d, %s: got %s, want %s at %s for %s\n%s", seed, name, got, want, now, json, text)
			}
		}
		e := tab.Explain(b)
		first := slices.IndexFunc(e.Rows, func(r RowExplanation) bool { return r.Matched })
		if e.Decision.Reason == NoContext {
			first = -1
		}
		if first != e.Decision.Row || outcome(tab, e.Decision) != want {
			t.Errorf("seed %d: explained as %s (row %d) instead of %s", seed, e, first, want)
		}
		if tab.ReadsGateway() {
			if tab.Cacheable(b) {
				t.Errorf("seed %d: a table that reads the gateway's fields is cached", seed)
			}
			continue
		}
		key := string(tab.AppendKey(nil, b))
		if other, ok := keys[key]; ok && other != want {
			t.Errorf("seed %d: %s and %s have the same key", seed, other, want)
		}
		keys[key] = want
		if t.Failed() {
			return
		}
	}
}

// alone leaves a test out with the race detector that decides by one goroutine, a great many
// times: it has nothing to find there.
func alone(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("one goroutine decides: it takes long and races with none")
	}
}

func TestAgainstReference(t *testing.T) {
	alone(t)
	seeds := uint64(200)
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		checkAgainstReference(t, seed)
		if t.Failed() {
			return
		}
	}
}

func FuzzAgainstReference(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(checkAgainstReference)
}

// withoutContradictions drops the rows that loading refuses because one of
// their cells can't match.
func withoutContradictions(t *testing.T, m *Model, text string, refs []refRow) (string, []refRow) {
	t.Helper()
	var errs document.Errors
	def := parseYAML(t, "flag.yaml", text)
	anything := func(*document.Node, *document.Node, *document.Errors) *Prerequisite {
		return &Prerequisite{Table: &Table{}}
	}
	DecodeTable(m, def, Options{Key: "flag", Config: anything}, &errs)
	bad := make(map[int]bool)
	for _, e := range errs.List() {
		if !strings.HasSuffix(e.Message, "never matches") {
			t.Fatalf("%v\n%s", e, text)
		}
		for i, item := range def.Get("rules").Items {
			if last := i+1 == len(refs); item.Pos.Line <= e.Pos.Line && (last || def.Get("rules").Items[i+1].Pos.Line > e.Pos.Line) {
				bad[i] = true
			}
		}
	}
	rows := strings.SplitAfter(text, "  - id:")
	out := rows[0]
	var kept []refRow
	for i, row := range rows[1:] {
		if !bad[i] {
			out += row
			kept = append(kept, refs[i])
		}
	}
	if len(kept) == 0 {
		return "rules: []", nil
	}
	return strings.TrimSuffix(out, "  - id:"), kept
}
