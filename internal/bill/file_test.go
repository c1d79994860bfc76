package bill

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// TestParseLargeParts reads files that are no exports: what has to be in memory as one
// is bounded.
func TestParseLargeParts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a, ", 1<<20)
	for name, text := range map[string]string{
		"a line": long, "blanks and a line": strings.Repeat(" ", 2<<20) + "\n" + long, "an open quote": anthropicUsageCSV + "2026-11-01,\"claude," + long,
		"a text": `{"a":"` + long + `"}`, "a text of a result": `{"data":[{"results":[{"a":"` + long, "a time": `{"data":[{"start_time":"` + long + `"`,
	} {
		if e, err := Parse(strings.NewReader(text)); !errors.Is(err, errLargePart) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	// What is large in all is no matter.
	pad := strings.Repeat("p", 300)
	members := `{"also":[` + strings.Repeat(`{"a":"`+pad+`"},`, 10_000) + `{}],` + quietOpenAI[1:]
	results := strings.Replace(quietAnthropic, `[]`, `[`+strings.Repeat(`{"uncached_input_tokens":1,"workspace_id":"`+pad+`"},`, 10_000)+`{"uncached_input_tokens":1}]`, 1)
	rows := strings.SplitAfter(anthropicUsageCSV, "\n")[0] + strings.Repeat("2026-11-01,m,,"+pad+",,,1,,,,,,,\n", 10_000)
	for text, lines := range map[string]int{members: 0, results: 10_001, rows: 10_000} {
		e, err := Parse(strings.NewReader(text))
		if err != nil || e.Lines != lines {
			t.Errorf("%.80q: %+v, %v", text, e, err)
		}
	}
}

// TestParseBroken gives files that can't be read to their end.
func TestParseBroken(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, text := range exportsOfTests {
		for _, n := range []int{0, 2, len(text) / 2, len(text)} {
			e, err := Parse(io.MultiReader(strings.NewReader(text[:n]), iotest.ErrReader(broken)))
			if !errors.Is(err, broken) {
				t.Errorf("%d bytes of %s: %+v, %v", n, name, e, err)
			}
		}
	}
}

// TestParseHoldsNoLines holds that lines take no memory: when all of very many but the
// last are read, little more than their sum is there.
func TestParseHoldsNoLines(t *testing.T) {
	for name, part := range map[string][3]string{
		"JSON": {`{"data":[{"starting_at":"2026-11-01","results":[`, `{"uncached_input_tokens":%d,"model":"m"},`, `{"uncached_input_tokens":1,"model":"m"}]}]}`},
		"CSV":  {strings.SplitAfter(anthropicUsageCSV, "\n")[0], "2026-11-01,m,,,,,%d,,,,,,,\n", "2026-11-01,m,,,,,1,,,,,,,\n"},
	} {
		const lines = 50_000
		in, out := io.Pipe()
		var before, after runtime.MemStats
		go func() {
			defer out.Close()
			runtime.GC()
			runtime.ReadMemStats(&before)
			fmt.Fprint(out, part[0])
			for i := range lines - 1 {
				fmt.Fprintf(out, part[1], i)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			fmt.Fprint(out, part[2])
		}()
		e, err := Parse(in)
		if err != nil || e.Lines != lines || e.sums.list[0].Tokens[Input] != (lines-2)*(lines-1)/2+1 {
			t.Fatalf("%s: %+v, %v", name, e, err)
		}
		// Where lines are kept it is millions.
		if size := int64(after.HeapAlloc) - int64(before.HeapAlloc); size > 600_000 {
			t.Errorf("%s: %d lines hold %d bytes", name, lines, size)
		}
	}
}
