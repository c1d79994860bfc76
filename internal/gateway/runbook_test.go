package gateway_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v4"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
)

// runbook returns docs/runbook.md, and its sections by their headings.
func runbook(t *testing.T) (page string, headings []string, sections map[string]string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	page, sections = string(text), map[string]string{}
	for _, part := range strings.Split(page, "\n## ")[1:] {
		heading, section, _ := strings.Cut(part, "\n")
		headings = append(headings, heading)
		sections[heading] = section
	}
	return page, headings, sections
}

// TestRunbookHasAllConditions checks that the runbook has a section for each condition,
// in their order, which says where it is visible.
func TestRunbookHasAllConditions(t *testing.T) {
	t.Parallel()
	_, headings, sections := runbook(t)
	code := regexp.MustCompile(`^[a-z]+_[a-z_]+$`)
	headings = slices.DeleteFunc(headings, func(heading string) bool { return !code.MatchString(heading) })
	if diff := cmp.Diff(gw.ConditionCodes, headings); diff != "" {
		t.Errorf("conditions (-) and sections of docs/runbook.md (+):\n%s", diff)
	}
	for _, heading := range headings {
		for _, row := range []string{"| log | `", "| metrics | `cadenza_", "| callers | "} {
			if !strings.Contains(sections[heading], row) {
				t.Errorf("%s has no row %q", heading, row)
			}
		}
	}
}

// TestRunbookQuotesTheLog checks that the code has each log message that the runbook quotes.
func TestRunbookQuotesTheLog(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	for _, root := range []string{"../../caddymodule", "../../providers", "../../sinks", ".."} {
		err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.Contains(filepath.ToSlash(name), "/mutation/") {
				return err
			}
			text, err := os.ReadFile(name)
			code.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	page, _, _ := runbook(t)
	quoted := 0
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "| log |") && !strings.Contains(line, "the log line") && !strings.Contains(line, "set aside") {
			continue
		}
		for _, message := range regexp.MustCompile("`([a-zA-Z]+ [^`]+)`").FindAllStringSubmatch(line, -1) {
			if strings.HasPrefix(message[1], "caddy ") {
				continue // a command
			}
			if quoted++; !strings.Contains(code.String(), `"`+message[1]+`"`) {
				t.Errorf("no code logs %q", message[1])
			}
		}
	}
	if quoted < 18 {
		t.Errorf("%d messages", quoted)
	}
}

// series matches the name of a metric, with the labels of a query.
var series = regexp.MustCompile(`\b(cadenza_[a-z_]+)(?:\{([^}]*)\})?`)

// TestAlertsAskForMetrics checks that the rules for alerts and the queries of the runbook
// use existing metrics, and that the rules cover every condition.
func TestAlertsAskForMetrics(t *testing.T) {
	t.Parallel()
	labels := map[string]string{}
	described := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)
	for _, collector := range gw.NewProcess().Collectors() {
		descs := make(chan *prometheus.Desc)
		go func() {
			collector.Describe(descs)
			close(descs)
		}()
		for desc := range descs {
			m := described.FindStringSubmatch(desc.String())
			labels[m[1]] = "," + m[2] + ","
		}
	}
	ask := func(where, query string) {
		t.Helper()
		for _, m := range series.FindAllStringSubmatch(query, -1) {
			name := strings.TrimSuffix(m[1], "_bucket")
			known, registered := labels[name]
			if !registered {
				t.Errorf("%s: there is no metric %s", where, name)
			}
			for _, label := range regexp.MustCompile(`(\w+)[!=]`).FindAllStringSubmatch(m[2], -1) {
				if !strings.Contains(known, ","+label[1]+",") {
					t.Errorf("%s: %s has no label %s", where, name, label[1])
				}
			}
			for _, by := range regexp.MustCompile(`by \(([^)]*)\)`).FindAllStringSubmatch(query, -1) {
				for label := range strings.SplitSeq(by[1], ", ") {
					if label != "le" && !strings.Contains(known, ","+label+",") {
						t.Errorf("%s: %s has no label %s", where, name, label)
					}
				}
			}
		}
	}

	page, headings, _ := runbook(t)
	ask("docs/runbook.md", regexp.MustCompile(`by \([^)]*\)`).ReplaceAllString(page, ""))
	_, dashboards, _ := strings.Cut(page, "\n## Dashboards\n")
	for _, query := range regexp.MustCompile("\\| `([^`]+)` \\|").FindAllStringSubmatch(dashboards, -1) {
		ask("docs/runbook.md: "+query[1], query[1])
	}

	text, err := os.ReadFile("../../examples/grafana/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Labels      struct{ Severity string }
				Annotations struct{ Summary, Runbook string }
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	covered := map[string]bool{}
	for _, rule := range file.Groups[0].Rules {
		ask(rule.Alert, rule.Expr)
		if !strings.Contains(rule.Expr, "cadenza") || rule.Labels.Severity != "page" && rule.Labels.Severity != "ticket" || rule.Annotations.Summary == "" {
			t.Errorf("incomplete: %+v", rule)
		}
		section, _ := strings.CutPrefix(rule.Annotations.Runbook, "docs/runbook.md#")
		covered[section] = true
		if !slices.ContainsFunc(headings, func(heading string) bool {
			return strings.ReplaceAll(strings.ToLower(heading), " ", "-") == section
		}) {
			t.Errorf("%s: the runbook has no section %s", rule.Alert, section)
		}
	}
	for _, code := range gw.ConditionCodes {
		if !covered[code] {
			t.Errorf("no rule is about %s", code)
		}
	}
}
