package rules

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/valyala/fastjson"
)

// doubling is a data model in which each computed field doubles the one before.
func doubling(levels int, first, operand string) string {
	var b strings.Builder
	b.WriteString("fields: { s: { type: string }, l: { type: list } }\ncomputed:\n  c0: \"" + first + "\"\n")
	for i := 1; i < levels; i++ {
		fmt.Fprintf(&b, "  c%d: \"%s\"\n", i, strings.ReplaceAll(operand, "C", fmt.Sprint("c", i-1)))
	}
	return b.String()
}

// Texts that computed fields make of each other have a ceiling: at load where
// even one character becomes too much, else in the request, which all computed
// fields share.
func TestCostOfTexts(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine computes texts of megabytes")
	}
	var errs document.Errors
	DecodeModel(parseYAML(t, "context.yaml", doubling(27, "s + s", "C + C")), nil, &errs)
	if got := mistakes(&errs); !strings.Contains(got, "steps even where every text and list has one character or element, at most 100000 are possible") {
		t.Errorf("27 levels: %s", shorten(got))
	}
	for name, text := range map[string]string{
		"texts":                 doubling(12, "s + s", "C + C"),
		"lists":                 doubling(40, strings.Repeat("l + ", 200)+"l", "C + C"),
		"texts of a loop":       doubling(10, "l.map(x, s)", "C.map(x, x + x)"),
		"comparisons":           doubling(300, "s + 'x'", "s + 'x' == s + 'y' ? 'a' : 'b'"),
		"lengths":               doubling(300, "s + 'x'", strings.TrimSuffix(strings.Repeat("size(s) + ", 50), " + ")+" > 0 ? 'a' : 'b'"),
		"numbers":               doubling(300, "s + 'x'", "present(s) && int(s) == 1 ? 'a' : 'b'"),
		"loops in each of them": doubling(300, "s", "l.all(x, l.all(y, x == y || x != y)) ? 'a' : 'b'"),
	} {
		t.Run(name, func(t *testing.T) {
			m := model(t, text)
			for _, size := range []int{3, 1 << 20} {
				list := fastjson.MustParse(fmt.Sprintf(`{"s":%q,"l":[%s"x"]}`, strings.Repeat("a", size), strings.Repeat(`"x",`, size/500)))
				var b Binding
				if err := m.Bind(&b, list, noon); err != nil {
					t.Fatal(err)
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for slot := m.declared; slot < len(m.fields); slot++ {
					b.resolve(int32(slot))
				}
				runtime.ReadMemStats(&after)
				if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 100 {
					t.Errorf("%d bytes: %d MiB allocated", size, took)
				}
				if b.computed > maxRequestCost+maxCost {
					t.Errorf("%d bytes: %d steps", size, b.computed)
				}
			}
		})
	}
}

// A field beyond the cost of a request counts as missing, with a note, and the
// next request begins again.
func TestComputedFieldsShareTheirWork(t *testing.T) {
	const loop = "l.all(x, l.all(y, x == y || x != y))"
	var b strings.Builder
	b.WriteString("fields: { l: { type: list } }\ncomputed:\n")
	for i := range 10 {
		fmt.Fprintf(&b, "  c%d: \"%s\"\n", i, loop)
	}
	m := model(t, b.String())
	// 100 elements are 10,000 turns, of some units each.
	context := fastjson.MustParse(`{"l":[` + strings.TrimSuffix(strings.Repeat(`"x",`, 100), ",") + `]}`)
	var binding Binding
	for range 2 {
		if err := m.Bind(&binding, context, noon); err != nil {
			t.Fatal(err)
		}
		there := 0
		for slot := m.declared; slot < len(m.fields); slot++ {
			if binding.resolve(int32(slot)); binding.values[slot].state == present {
				there++
			}
		}
		if there == 0 || there == 10 || len(binding.Notes()) != 10-there || binding.Notes()[0].Reason != NoteComputedFailed {
			t.Errorf("%d of 10 are there, %v", there, binding.Notes())
		}
	}
}

// An expression whose cost does not depend on the context is not counted in
// each request, which would take more than the expression; any other is.
func TestCountedExpressions(t *testing.T) {
	for expr, fixed := range map[string]bool{
		"s == 'a' && n > 10.0": true, "s.startsWith('abc')": true, "s in ['a', 'b', 'c']": true, "n * 2.0 + 1.0": true, "present(s)": true,
		"now > timestamp('2026-01-01T00:00:00Z')": true, "s == '' ? 1.0 : n": true,
		"s + 'x'": false, "s.matches('a+')": false, "'a' in l": false, "l.exists(x, x == 'a')": false, "size(s) > 3": false,
		"s == s": false, "s < t": false, "s.contains(t)": false, "int(s) > 3": false, "[s, t].exists(x, x == 'a')": true,
	} {
		m := model(t, "fields: { s: { type: string }, t: { type: string }, n: { type: number }, l: { type: list } }\ncomputed: { c: \""+expr+"\" }")
		if got := m.fields[m.declared].cost > 0; got != fixed {
			t.Errorf("%s: fixed %v, want %v", expr, got, fixed)
		}
	}
}
