package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestQueriesOfTheManual runs the queries of the page on storage.
func TestQueriesOfTheManual(t *testing.T) {
	page, err := os.ReadFile("../../../docs/storage.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## Reading the file\n")
	block := regexp.MustCompile("(?s)```sql\n(.*?)```").FindStringSubmatch(section)
	if !found || block == nil {
		t.Fatal("the page has no queries of the file")
	}
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	decision, traces, batch := decidedBatch(mustAuthority(t), time.Now())
	traces[0].Key = "support_reply"
	batch.Metrics = []*trace.Metrics{onDecision(decision, time.Now())}
	mustCommit(t, s, recorder.Batch{Records: batch.Records, Metrics: batch.Metrics})
	count, named := 0, 0
	for query := range strings.SplitSeq(block[1], ";\n") {
		if strings.TrimSpace(query) == "" {
			continue
		}
		rows, err := s.Reader.db.QueryContext(t.Context(), query)
		if err != nil {
			t.Errorf("%v:\n%s", err, query)
			continue
		}
		columns, _ := rows.Columns()
		for rows.Next() {
			if strings.Join(columns, " ") == "arm version name count mean" {
				named++
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Error(err)
		}
		count++
	}
	if count < 8 || named != 1 {
		t.Errorf("%d queries, %d named values", count, named)
	}
}
