package postgres_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// testExamples runs the queries of the manual's pages.
func testExamples(t *testing.T, dsn string) {
	sink := newSink(t, dsn)
	defer sink.Close()
	resume(t, sink, trace.Position{})
	d := &trace.Delivery{Position: trace.Position{Traces: 1}}
	for i, arm := range []string{"nl", "en"} {
		n := byte(i + 1)
		d.Records = append(d.Records, &trace.Record{
			ID: trace.ID{n}, Decision: trace.ID{8, n}, Time: time.Now(), Workspace: "w", Kind: trace.KindPrompt, Key: "support_reply", Version: "v", Arm: arm,
			Splits: []byte(`[{"experiment":{"definition":"prompts/support_reply","rule":"dutch"},"arm":"` + arm + `","unit":"u"},{"experiment":{"definition":"prompts/support_reply"},"unit":"u"}]`),
		})
		d.Metrics = append(d.Metrics,
			&trace.Metrics{UUID: [16]byte{n, 1}, TraceID: trace.ID{n}, Time: time.Now(), Workspace: "w", Score: new(float64(10 * n))},
			&trace.Metrics{UUID: [16]byte{n, 2}, Decision: trace.ID{8, n}, Time: time.Now(), Workspace: "w", Score: new(float64(20 * n)), Values: []byte(`{"resolved":0.5}`)})
	}
	for i, after := range []time.Duration{-time.Hour, time.Hour, time.Hour} { // the first is not counted
		d.Metrics = append(d.Metrics, &trace.Metrics{
			UUID: [16]byte{9, byte(i)}, TraceID: trace.ID{9, byte(i)}, Time: time.Now(), Workspace: "w",
			UnitField: "customer_id", Unit: "u", Happened: time.Now().Add(after), Values: []byte(`{"amount":21.25}`),
		})
	}
	deliver(t, sink, d)
	var manual []byte
	for _, page := range []string{"storage.md", "decisions.md"} {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		manual = append(manual, text...)
	}
	var rows []string
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(manual), -1) {
		for query := range strings.SplitSeq(block[1], ";") {
			if !strings.Contains(query, "cadenza.") {
				continue
			}
			var text string
			queryRow(t, dsn, "SELECT coalesce(string_agg(to_jsonb(q)::text, E'\\n'), '') FROM ("+query+") AS q", &text)
			rows = append(rows, text)
		}
	}
	if want := []string{
		"",
		`{"arm": "en", "score": 30, "reports": 2, "version": "v", "resolved": 0.5, "deviation": null}` + "\n" +
			`{"arm": "nl", "score": 15, "reports": 2, "version": "v", "resolved": 0.5, "deviation": null}`,
		`{"arms": ["en", "nl"], "unit": "u", "definition": "prompts/support_reply"}`,
		`{"arm": "en", "amount": 42.50, "customers": 1}` + "\n" + `{"arm": "nl", "amount": 42.50, "customers": 1}`,
		`{"arm": "en", "resolved": 0.500, "customers": 1, "deviation": null}` + "\n" +
			`{"arm": "nl", "resolved": 0.500, "customers": 1, "deviation": null}`,
	}; !slices.Equal(rows, want) {
		t.Errorf("%q, want %q", rows, want)
	}
}
