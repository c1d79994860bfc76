package command

import (
	"encoding/json"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/inspect"
)

// TestSplitOutcome says what a rollout made of a unit.
func TestSplitOutcome(t *testing.T) {
	for split, want := range map[string]string{
		`{"bucket":70,"share":0.2}`:                                                "bucket 70 of 100000, outside of the 20 % of all arms: passed on",
		`{"bucket":70,"arm":"new","share":0.01,"rollout":3}`:                       "bucket 70 of 100000, within the 1 % of arm new, by row 3 of its rollout",
		`{"bucket":7,"arm":"control","share":0.98,"rollout":3,"compared":false}`:   "bucket 7 of 100000, within the 98 % of arm control, by row 3 of its rollout, compared with nothing",
		`{"bucket":7,"arm":"control","share":1,"compared":false,"consulted":true}`: "bucket 7 of 100000, within the 100 % of arm control, compared with nothing",
	} {
		var s inspect.TracedSplit
		if err := json.Unmarshal([]byte(split), &s); err != nil {
			t.Fatal(err)
		}
		if got := splitOutcome(&s); got != want {
			t.Errorf("%s: %s", split, got)
		}
	}
}
