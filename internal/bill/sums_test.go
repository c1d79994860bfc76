package bill

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestParseManySums is about a file that has a model of its own in each line, or a day.
func TestParseManySums(t *testing.T) {
	t.Parallel()
	header := strings.SplitAfter(anthropicUsageCSV, "\n")[0]
	for name, test := range map[string]struct {
		begin, end string
		line       func(i int) string
		wrong      string // the line that is one too many
	}{
		"models": {header, "", func(i int) string { return fmt.Sprintf("2026-11-01,m%d,,,,,1,,,,,,,\n", i) }, fmt.Sprintf("line %d: ", maxSums+2)},
		"days": {header, "", func(i int) string {
			return time.Date(2000, 1, 1+i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly) + ",,,,,,,,,,,,,\n"
		}, fmt.Sprintf("line %d: ", maxSums+2)},
		"models of a bucket": {
			`{"data":[{"starting_at":"2026-11-01","results":[`, `{"model":"m0","uncached_input_tokens":1}]}]}`,
			func(i int) string { return fmt.Sprintf(`{"model":"m%d","uncached_input_tokens":1},`, i) }, "a result of 2026-11-01, after byte ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var text strings.Builder
			text.WriteString(test.begin)
			for i := range maxSums + 1 {
				text.WriteString(test.line(i))
			}
			text.WriteString(test.end)
			if e, err := Parse(strings.NewReader(text.String())); !errors.Is(err, errManySums) || !strings.HasPrefix(err.Error(), test.wrong) {
				t.Errorf("%+v, %v", e, err)
			}
		})
	}
}
