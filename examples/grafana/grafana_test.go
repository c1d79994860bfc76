// Package grafana tests the queries of the dashboard, of the rules for alerts and of the
// runbook: in Prometheus's own engine, against the series that a gateway has.
package grafana

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"go.yaml.in/yaml/v3"
)

// query is a query with its place.
type query struct {
	where, text string
	legend      string // of a panel
}

// rule is a rule for an alert.
type rule struct {
	Alert, Expr string
	For         string
	Annotations struct{ Summary string }
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal(read(t, "alerts.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) < 15 {
		t.Fatalf("%+v", file)
	}
	return file.Groups[0].Rules
}

// asked matches label_values(SELECTOR, LABEL).
var asked = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)

// queries returns all queries. The variables of the dashboard have their widest values.
func queries(t *testing.T) []query {
	t.Helper()
	var list []query
	for _, r := range rules(t) {
		list = append(list, query{where: r.Alert, text: r.Expr, legend: r.Annotations.Summary})
	}
	_, dashboards, found := strings.Cut(string(read(t, "../../docs/runbook.md")), "\n## Dashboards\n")
	if !found {
		t.Fatal("docs/runbook.md has no dashboards")
	}
	for _, m := range regexp.MustCompile("(?m)^\\| (.*?) \\| `([^`]+)` \\|$").FindAllStringSubmatch(dashboards, -1) {
		list = append(list, query{where: "runbook: " + m[1], text: m[2]})
	}

	var dashboard struct {
		Panels []struct {
			Type, Title string
			Targets     []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
		Annotations struct {
			List []struct{ Name, Expr, TitleFormat string }
		}
	}
	if err := json.Unmarshal(read(t, "dashboard.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, panel := range dashboard.Panels {
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("%s asks for nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			list = append(list, query{panel.Title, target.Expr, target.LegendFormat})
		}
	}
	for _, a := range dashboard.Annotations.List {
		list = append(list, query{a.Name, a.Expr, a.TitleFormat})
	}
	for _, v := range dashboard.Templating.List {
		if m := asked.FindStringSubmatch(v.Definition); m != nil {
			list = append(list, query{v.Name, "sum by (" + m[2] + ") (" + m[1] + ")", "{{" + m[2] + "}}"})
		}
	}
	if len(list) < 90 {
		t.Fatalf("%d queries", len(list))
	}
	variables := strings.NewReplacer("$__rate_interval", "5m", `"$workspace"`, `".*"`, `"$definition"`, `".*"`, `"$provider"`, `".*"`)
	for i := range list {
		list[i].text = variables.Replace(list[i].text)
	}
	return list
}

// scraped returns the series of testdata, by their text.
func scraped(t *testing.T) []labels.Labels {
	t.Helper()
	names, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatal(err)
	}
	var list []labels.Labels
	for _, name := range names {
		for lines := bufio.NewScanner(bytes.NewReader(read(t, name))); lines.Scan(); {
			list = append(list, series(t, lines.Text()))
		}
	}
	return append(list, series(t, `up{instance="gateway-1:9090",job="cadenza"}`))
}

var language = parser.NewParser(parser.Options{})

func series(t *testing.T, text string) labels.Labels {
	t.Helper()
	all, err := language.ParseMetric(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return all
}

// TestQueries has each query select series that a gateway exposes, by labels that they
// have, and answer with the labels that its legend shows.
func TestQueries(t *testing.T) {
	t.Parallel()
	all := scraped(t)
	codes := regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(string(read(t, "../../docs/http-api.md")), -1)
	var rising data
	for _, s := range all {
		values := make([]float64, 26*60)
		for minute := range values {
			values[minute] = float64(minute)
		}
		rising.add(s, values)
	}
	for _, q := range queries(t) {
		expression, err := language.ParseExpr(q.text)
		if err != nil {
			t.Errorf("%s: %s: %v", q.where, q.text, err)
			continue
		}
		var known []labels.Labels // what the query selects
		parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
			selector, ok := node.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			selected := all
			for _, m := range selector.LabelMatchers {
				if m.Name == "code" && slices.ContainsFunc(codes, func(code []string) bool { return m.Matches(code[1]) }) {
					continue // errors have series once there are some
				}
				selected = slices.DeleteFunc(slices.Clone(selected), func(s labels.Labels) bool {
					return !s.Has(m.Name) || !m.Matches(s.Get(m.Name))
				})
			}
			if len(selected) == 0 {
				t.Errorf("%s: no series is %s", q.where, selector)
			}
			known = append(known, selected...)
			return nil
		})
		parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
			if by, ok := node.(*parser.AggregateExpr); ok {
				for _, label := range by.Grouping {
					if !slices.ContainsFunc(known, func(s labels.Labels) bool { return s.Has(label) }) {
						t.Errorf("%s: %s: no series has the label %s", q.where, q.text, label)
					}
				}
			}
			return nil
		})
		result := rising.at(t, q.text, 25*time.Hour)
		for _, label := range regexp.MustCompile(`{{\s*(?:\$labels\.)?(\w+)\s*}}`).FindAllStringSubmatch(q.legend, -1) {
			if len(result) > 0 && !slices.ContainsFunc(result, func(s promql.Sample) bool { return s.Metric.Has(label[1]) }) {
				t.Errorf("%s: %s: the answer has no label %s", q.where, q.text, label[1])
			}
		}
	}
}

// data are series with their values at each minute. A value below 0 is none.
type data []storage.Series

func (d *data) add(all labels.Labels, values []float64) {
	var samples []chunks.Sample
	for minute, value := range values {
		if value >= 0 {
			samples = append(samples, sample{int64(minute) * 60_000, value})
		}
	}
	*d = append(*d, storage.NewListSeries(all, samples))
}

// sample is a chunks.Sample: a value at a time in milliseconds.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                    { return s.at }
func (sample) ST() int64                     { return 0 }
func (s sample) F() float64                  { return s.value }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample         { return s }

var engine = promql.NewEngine(promql.EngineOpts{MaxSamples: 10_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: language})

// at returns what a query answers at a time of the data.
func (d data) at(t *testing.T, text string, at time.Duration) promql.Vector {
	t.Helper()
	store := &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			found := &selected{next: -1}
			for _, s := range d {
				if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Labels().Get(m.Name)) }) {
					found.all = append(found.all, s)
				}
			}
			return found
		},
	}}
	q, err := engine.NewInstantQuery(t.Context(), store, nil, text, time.Unix(0, 0).Add(at))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer q.Close()
	vector, err := q.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return slices.Clone(vector)
}

// selected is a storage.SeriesSet.
type selected struct {
	all  data
	next int
}

func (s *selected) Next() bool                      { s.next++; return s.next < len(s.all) }
func (s *selected) At() storage.Series              { return s.all[s.next] }
func (*selected) Err() error                        { return nil }
func (*selected) Warnings() annotations.Annotations { return nil }

// TestAlerts has rules fire when they should, and only then. Values are those of each
// minute; the last one stays until the end, after two hours.
func TestAlerts(t *testing.T) {
	t.Parallel()
	rising := func(by float64) []float64 {
		values := make([]float64, 120)
		for i := range values {
			values[i] = by * float64(i)
		}
		return values
	}
	const requests = `cadenza_requests_total{workspace="a",route="endpoints",definition="chat",`
	for _, test := range []struct {
		name, alert string
		series      map[string][]float64
		fires       bool
	}{
		{"a target that stays down", "CadenzaTargetDown", map[string][]float64{`cadenza_target_down{provider="x"}`: {1}}, true},
		{"a target that was down for two minutes", "CadenzaTargetDown", map[string][]float64{`cadenza_target_down{provider="x"}`: {0, 1, 1, 0}}, false},
		{"a model that ends in 20 days", "CadenzaModelEnds", map[string][]float64{`cadenza_model_shutdown_timestamp_seconds{model="x"}`: {20 * 86400}}, true},
		{"a model that ends in 40 days", "CadenzaModelEnds", map[string][]float64{`cadenza_model_shutdown_timestamp_seconds{model="x"}`: {40 * 86400}}, false},
		{"the first fault of a definition", "CadenzaFaults", map[string][]float64{requests + `code="internal"}`: {-1, -1, -1, -1, -1, 1}}, true},
		{"another fault", "CadenzaFaults", map[string][]float64{requests + `code="internal"}`: {7, 7, 7, 7, 7, 8}}, true},
		{"a fault of long ago", "CadenzaFaults", map[string][]float64{requests + `code="internal"}`: nil, requests + `code="ok"}`: {1}}, false},
		{"calls that fail", "CadenzaEndpointsFail", map[string][]float64{requests + `code="ok"}`: rising(9), requests + `code="upstream_error"}`: rising(1)}, true},
		{"calls of another API that fail", "CadenzaEndpointsFail", map[string][]float64{
			`cadenza_requests_total{route="chat",code="upstream_timeout"}`: rising(1), `cadenza_requests_total{route="chat",code="ok"}`: rising(9)}, true},
		{"mistakes of callers", "CadenzaEndpointsFail", map[string][]float64{requests + `code="ok"}`: rising(9), requests + `code="invalid_request"}`: rising(1)}, false},
		{"few calls that fail", "CadenzaEndpointsFail", map[string][]float64{requests + `code="ok"}`: rising(99), requests + `code="upstream_error"}`: rising(1)}, false},
		{"the last resort's answers", "CadenzaCannedAnswers", map[string][]float64{
			`cadenza_upstream_fallbacks_total{workspace="a",provider="canned"}`:                    rising(1),
			`cadenza_upstream_attempts_total{workspace="a",provider="canned",model="",class="ok"}`: rising(1),
			`cadenza_upstream_attempts_total{workspace="a",provider="x",model="y",class="ok"}`:     rising(9)}, true},
		{"few of these", "CadenzaCannedAnswers", map[string][]float64{
			`cadenza_upstream_fallbacks_total{workspace="a",provider="canned"}`:                rising(1),
			`cadenza_upstream_attempts_total{workspace="a",provider="x",model="y",class="ok"}`: rising(99)}, false},
		{"a slow model", "CadenzaModelSlow", map[string][]float64{
			`cadenza_upstream_duration_seconds_bucket{model="y",class="ok",le="60"}`:   rising(9),
			`cadenza_upstream_duration_seconds_bucket{model="y",class="ok",le="120"}`:  rising(10),
			`cadenza_upstream_duration_seconds_bucket{model="y",class="ok",le="+Inf"}`: rising(10)}, true},
		{"a quick model", "CadenzaModelSlow", map[string][]float64{
			`cadenza_upstream_duration_seconds_bucket{model="y",class="ok",le="60"}`:   rising(10),
			`cadenza_upstream_duration_seconds_bucket{model="y",class="ok",le="120"}`:  rising(10),
			`cadenza_upstream_duration_seconds_bucket{model="y",class="ok",le="+Inf"}`: rising(10)}, false},
		{"costs as usual", "CadenzaCostJumps", map[string][]float64{`cadenza_cost_usd_total{definition="chat"}`: rising(.01)}, false},
		{"strangers", "CadenzaUnauthorized", map[string][]float64{
			`cadenza_requests_total{workspace="",route="prompts",definition="",code="invalid_api_key"}`: rising(1), requests + `code="ok"}`: rising(1)}, true},
		{"records that are lost", "CadenzaRecordsLost", map[string][]float64{`cadenza_store_dropped_total{reason="queue_full"}`: rising(1)}, true},
		{"a sink an hour behind", "CadenzaSinkLags", map[string][]float64{`cadenza_sink_lag_seconds{sink="fleet"}`: {3601}}, true},
		{"a gateway that is gone", "CadenzaGone", map[string][]float64{`up{job="cadenza"}`: {0}}, true},
		{"the gateway of another job", "CadenzaGone", map[string][]float64{`up{job="other"}`: {0}}, false},
	} {
		all := rules(t)
		at := slices.IndexFunc(all, func(r rule) bool { return r.Alert == test.alert })
		if at < 0 {
			t.Fatalf("there is no rule %s", test.alert)
		}
		var d data
		for text, values := range test.series {
			for len(values) > 0 && len(values) < 120 {
				values = append(values, values[len(values)-1])
			}
			d.add(series(t, text), values)
		}
		if got := d.fires(t, all[at]); got != test.fires {
			t.Errorf("%s: %s fires: %t", test.name, test.alert, got)
		}
	}
}

// fires reports whether a rule fires within two hours.
func (d data) fires(t *testing.T, r rule) bool {
	t.Helper()
	var lasts time.Duration
	if r.For != "" {
		var err error
		if lasts, err = time.ParseDuration(r.For); err != nil {
			t.Fatal(err)
		}
	}
	active := time.Duration(-1)
	for at := time.Duration(0); at < 2*time.Hour; at += time.Minute {
		if len(d.at(t, r.Expr, at)) == 0 {
			active = -1
			continue
		}
		if active < 0 {
			active = at
		}
		if at-active >= lasts {
			return true
		}
	}
	return false
}
