package caddymodule_test

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateScrape = flag.Bool("update-scrape", false, "write examples/grafana/testdata/scrape.txt")

// exposed matches a series of the text format, without a timestamp.
var exposed = regexp.MustCompile(`^(cadenza_\w+)(?:\{(.*)\})? \S+$`)

// TestMetricsPage compares docs/metrics.md with the metrics of a gateway with all features, by
// name and label. It also checks that examples/grafana/testdata/scrape.txt, which tests of the
// dashboard and of the alerts query, is a scrape of such a gateway.
func TestMetricsPage(t *testing.T) {
	u := newUpstream(t, func(n int64, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		completion(w, "Hello!")
	})
	files := maps.Clone(workspace)
	files["definitions/endpoints/chat.yaml"] = strings.Replace(files["definitions/endpoints/chat.yaml"], "canned", "canned, model: last", 1)
	options := fakeProvider(u.URL) + "sink file {dir}/copied.jsonl\nlimit fair {\nrequests 100/1m\n}\nprice canned/last 0 0 {\nshutdown 2027-01-14\n}\n"
	g := startGateway(t, files, options)
	g.site(options, "cadenza /v1/*\nmetrics /metrics\n")
	g.post("/v1/endpoints", ask("?", false)).ok(t)
	g.post("/v1/prompts", `{"keys":["nothing"]}`)
	g.do("POST", "/v1/prompts", `{}`, nil)

	// A source of bundles excludes the directory that this gateway has: see TestBundle.
	labels := map[string]string{"cadenza_definitions_source_age_seconds": "workspace"}
	var scrape strings.Builder
	for line := range strings.Lines(string(g.do("GET", "/metrics", "", nil).body)) {
		line = strings.ReplaceAll(strings.TrimSpace(line), g.dir, "/var/lib/cadenza")
		line = regexp.MustCompile(`127.0.0.1:\d+`).ReplaceAllString(line, "api.example.com")
		m := exposed.FindStringSubmatch(line)
		if m == nil || strings.Contains(m[2], `workspace=""`) && !strings.Contains(m[2], `code="invalid_api_key",definition="",route="prompts"`) {
			continue // other tests had refusals
		}
		var own []string
		for _, label := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(m[2], -1) {
			if label[1] != "le" {
				own = append(own, label[1])
			}
		}
		slices.Sort(own)
		name := m[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if family, part := strings.CutSuffix(name, suffix); part && strings.HasSuffix(family, "_seconds") {
				name = family
			}
		}
		labels[name] = strings.Join(own, ", ")
		if !strings.Contains(m[2], `,le="`) || strings.Contains(m[2], `,le="+Inf"`) {
			fmt.Fprintf(&scrape, "%s{%s}\n", m[1], m[2])
		}
	}

	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `(cadenza_\\w+)` \\| (.*?)\\| ").FindAllStringSubmatch(string(page), -1) {
		if _, twice := documented[row[1]]; twice {
			t.Errorf("docs/metrics.md has %s twice", row[1])
		}
		own := strings.Split(strings.TrimSpace(row[2]), ", ")
		slices.Sort(own)
		documented[row[1]] = strings.Join(own, ", ")
	}
	if diff := cmp.Diff(documented, labels); diff != "" {
		t.Errorf("metrics and labels of docs/metrics.md (-) and of a gateway (+):\n%s", diff)
	}

	const golden = "../examples/grafana/testdata/scrape.txt"
	if *updateScrape {
		if err := os.WriteFile(golden, []byte(scrape.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), scrape.String()); diff != "" {
		t.Errorf("series of %s (-) and of a gateway (+), -update-scrape writes it:\n%s", golden, diff)
	}
}
