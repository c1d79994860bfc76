package cadenza_test

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestLinksInDocs follows the links of all pages to files of the repository and to
// their headings.
func TestLinksInDocs(t *testing.T) {
	pages := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md", "examples/*.md", "examples/grafana/*.md", "bench/*.md", "clients/*/*.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			pages[name] = regexp.MustCompile("(?s)```.*?```").ReplaceAllString(string(text), "")
		}
	}
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	links := 0
	for page, text := range pages {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			links++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s does not exist", page, m[1])
				continue
			}
			if anchor != "" && !anchors(pages[target])[anchor] {
				t.Errorf("%s: %s has no heading %s", page, target, anchor)
			}
		}
	}
	if links < 100 {
		t.Errorf("%d links", links)
	}
}

// TestPathsSayHowLongTheyTake holds the minutes of docs/README.md, at 200 words each,
// within a fifth or a minute.
func TestPathsSayHowLongTheyTake(t *testing.T) {
	index, err := os.ReadFile("docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| \[.*\]\((.*\.md)\) \| (\d+) \|`).FindAllStringSubmatch(string(index), -1)
	if len(rows) < 10 {
		t.Errorf("%d pages with their minutes", len(rows))
	}
	for _, row := range rows {
		text, err := os.ReadFile(filepath.Join("docs", row[1]))
		if err != nil {
			t.Fatal(err)
		}
		minutes := float64(len(strings.Fields(string(text)))) / 200
		if said, err := strconv.ParseFloat(row[2], 64); err != nil || math.Abs(said-minutes) > max(1, minutes/5) {
			t.Errorf("%s takes %.0f minutes, the page says %s", row[1], minutes, row[2])
		}
	}
}

// anchors returns the names by which GitHub links to a page's headings.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	dropped := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ +(.*)$`).FindAllStringSubmatch(text, -1) {
		name := strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")
		if names[name] {
			name += "-1" // of the second; there is no third
		}
		names[name] = true
	}
	return names
}
