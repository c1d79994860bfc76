package command

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/visible"
	"github.com/cadenza-gateway/cadenza/trace"
)

// holdGolden compares a text with testdata/name.golden.
func holdGolden(t *testing.T, name, got string) {
	t.Helper()
	golden := filepath.Join("testdata", name+".golden")
	if flag.Lookup("update").Value.String() == "true" {
		must(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

// holdWidth holds that no line is wider than a terminal.
func holdWidth(t *testing.T, text string, width int) {
	t.Helper()
	for line := range strings.Lines(text) {
		if got := visible.Width(strings.TrimSuffix(line, "\n")); got > width {
			t.Errorf("%d columns on a terminal of %d: %s", got, width, line)
		}
	}
}

// TestTracesFitATerminal lists traces on terminals of several widths, in the year of the
// traces: of another one the table says which.
func TestTracesFitATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)))
		tracesFitATerminal(t)
	})
}

func tracesFitATerminal(t *testing.T) {
	// Ids of one millisecond differ in their counter, and in the check behind it.
	wide := strings.NewReplacer("support_chat", "support/very_long_name_of_an_endpoint", "gpt-4o", "一个很长的模型的名称一个很长的模型的名称", "01990001-0000", "01990002-abcd")
	counted := func(text, counter string) json.RawMessage {
		return json.RawMessage(strings.Replace(text, "8000-0000", "8000-"+counter, 1))
	}
	for _, width := range []int{80, 81, 100, 120, 250} {
		var out bytes.Buffer
		list := traceList{}
		for _, batch := range [][]json.RawMessage{
			{counted(endpointTrace, "0003"), counted(failedTrace, "0002"), counted(startedTrace, "0001")},
			{json.RawMessage(wide.Replace(endpointTrace))},
			{counted(endpointTrace, "0004")},
		} {
			must(t, list.writeTable(styles{width: width}, &out, batch))
		}
		holdWidth(t, out.String(), width)
		if width == 80 || width == 100 || width == 250 {
			holdGolden(t, fmt.Sprintf("traces_width_%d", width), out.String())
		}
		prefixes := map[string]bool{}
		for line := range strings.Lines(out.String()) {
			prefixes[strings.Fields(line)[0]] = true
		}
		if want := (map[string]bool{
			"id": true, "019900010000820080000003": true, "019900010000820080000002": true, "019900010000820080000001": true,
			"01990002abcd820080000000": true, "019900010000820080000004": true,
		}); !maps.Equal(prefixes, want) {
			t.Errorf("on %d columns, the lines begin with %v", width, prefixes)
		}
	}
}

// TestADecisionFitsATerminal shows a decision on terminals of two widths.
func TestADecisionFitsATerminal(t *testing.T) {
	for _, width := range []int{80, 140} {
		var story shownStory
		text := `{"decision_id":"01990001-0000-8a00-8000-000400000001","traces":[` + decidedTrace + `,` + besideIt + `,` + callIt + `]}`
		must(t, json.Unmarshal([]byte(strings.ReplaceAll(text, "new_checkout", "new_checkout_page")), &story))
		var out bytes.Buffer
		story.write(&out, styles{width: width}, "")
		holdWidth(t, out.String(), width)
		holdGolden(t, fmt.Sprintf("decision_width_%d", width), out.String())
	}
}

// TestListsLeaveOutWhatIsEmpty lists configurations, which have no model, and then
// an answer of an endpoint, for which the head comes again.
func TestListsLeaveOutWhatIsEmpty(t *testing.T) {
	var out bytes.Buffer
	var list traceList
	for _, text := range []string{startedTrace, endpointTrace} {
		must(t, list.writeTable(styles{width: 200}, &out, []json.RawMessage{json.RawMessage(text)}))
	}
	var lines [][]string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Fields(line))
	}
	if diff := cmp.Diff([]string{"id", "UTC", "kind", "key", "row", "status", "latency"}, lines[0]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"id", "UTC", "kind", "key", "row", "arm", "status", "model", "latency", "tokens", "cost"}, lines[2]); diff != "" || len(lines) != 4 {
		t.Errorf("%d lines, the head is %s", len(lines), diff)
	}
}

func TestUniquePrefix(t *testing.T) {
	id := func(text string) trace.ID {
		id, ok := trace.ParseID(text)
		if !ok {
			t.Fatal(text)
		}
		return id
	}
	a := id("01990001-0000-8200-8000-000000000001")
	for name, test := range map[string]struct {
		ids  []trace.ID
		want int
	}{
		"none":             {nil, 12},
		"one":              {[]trace.ID{a}, 12},
		"the same twice":   {[]trace.ID{a, a}, 12},
		"other times":      {[]trace.ID{a, id("01990001-0001-8200-8000-000000000001")}, 12},
		"another kind":     {[]trace.ID{a, id("01990002-0000-8200-8000-000000000001"), id("01990001-0000-8400-8000-000000000001")}, 14},
		"the same request": {[]trace.ID{id("01990001-0000-8200-8000-000300000001"), a, id("01990001-0000-8200-8000-000200000001")}, 24},
		"the last digit":   {[]trace.ID{a, id("01990001-0000-8200-8000-000000000002")}, 32},
	} {
		if got := uniquePrefix(test.ids); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

func TestShortTime(t *testing.T) {
	now := time.Date(2026, 11, 22, 0, 30, 0, 0, time.FixedZone("", 3600)) // 23:30 UTC of the day before
	for text, want := range map[string]string{
		"2026-11-21T08:09:10.123Z":  "08:09:10",
		"2026-11-22T00:10:00+01:00": "23:10:00",
		"2026-11-20T08:09:10Z":      "11-20 08:09:10",
		"2025-11-21T08:09:10Z":      "2025-11-21 08:09",
	} {
		at, err := time.Parse(time.RFC3339, text)
		if got := shortTime(at, now); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	if got := shortTime(time.Time{}, now); got != "" {
		t.Errorf("no time: %s", got)
	}
}

// TestStatsFitATerminal holds that statistics name the columns that they leave
// out.
func TestStatsFitATerminal(t *testing.T) {
	var stats adminapi.Stats
	server := new(fakeGateway)
	must(t, json.Unmarshal([]byte(server.stats()), &stats))
	for _, width := range []int{0, 80, 120, 140, 250} {
		var out bytes.Buffer
		leftOut := writeStats(&out, styles{width: width}, &stats)
		if width > 0 {
			holdWidth(t, out.String(), width)
		}
		if width == 80 || width == 140 {
			var byArm adminapi.Stats
			must(t, json.Unmarshal([]byte(statsByArm), &byArm))
			var out bytes.Buffer
			names := writeStats(&out, styles{width: width}, &byArm)
			holdWidth(t, out.String(), width)
			holdGolden(t, fmt.Sprintf("stats_by_arm_width_%d", width), out.String()+strings.Join(names, ", ")+"\n")
		}
		if (len(leftOut) > 0) != (width > 0 && width < 250) {
			t.Errorf("on %d columns, left out: %v", width, leftOut)
		}
		for _, name := range leftOut {
			if strings.Contains(strings.SplitN(out.String(), "\n", 2)[0], "  "+name) {
				t.Errorf("%s is not left out", name)
			}
		}
		if width == 80 {
			holdGolden(t, "stats_width_80", out.String()+strings.Join(leftOut, ", ")+"\n")
		}
	}
}

// TestCostsFitATerminal shows costs on terminals: narrow ones lack columns, but never
// the cost, nor what is not known of it.
func TestCostsFitATerminal(t *testing.T) {
	var costs adminapi.Costs
	must(t, json.Unmarshal([]byte(costsByCustomer), &costs))
	for _, width := range []int{80, 120, 250} {
		var out bytes.Buffer
		leftOut := writeCosts(&out, styles{width: width}, &costs)
		holdWidth(t, out.String(), width)
		if !strings.Contains(out.String(), "$12.57 + ?") || (len(leftOut) > 0) != (width < 250) {
			t.Errorf("on %d columns, left out %v:\n%s", width, leftOut, &out)
		}
	}
}

// TestOnlyArm shows no arm on a terminal where it has the name of its key.
func TestOnlyArm(t *testing.T) {
	if row := (&shownTrace{adminapi.ListedTrace{Record: trace.Record{Key: "only", Arm: "only"}}}).row(styles{width: 80}, 12, time.Now()); row[armColumn].text != "" {
		t.Errorf("the arm of a prompt with one variant: %v", row)
	}
}
