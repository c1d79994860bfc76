package definition

import (
	"fmt"
	"strings"
	"testing"
)

// Of a kind of warning twenty are reported, and the number of the others;
// warnings of another kind are reported all the same.
func TestWarningsOfAKind(t *testing.T) {
	for _, strays := range []int{MaxWarnings, MaxWarnings + 1, 3000} {
		files := map[string]string{"readme": ""}
		for i := range strays {
			files[fmt.Sprintf("prompts/n%04d.txt", i)] = ""
		}
		for i := range 3 {
			files[fmt.Sprintf("prompts/p%d.yaml", i)] = "variables: { unused: { default: x } }\n" + simple
		}
		s := mustLoad(t, workspace(t, files))
		var told, more, others int
		for _, w := range s.Warnings {
			switch {
			case strings.HasPrefix(w.Message, "not read, definitions are"):
				told++
			case w.More > 0:
				more = w.More
				if want := fmt.Sprintf("… and %d more of this kind: not read, definitions are .yaml, .yml or .json files", more); w.Message != want || !strings.HasSuffix(w.Pos.File, "n0020.txt") {
					t.Errorf("got %s, want %s at the first that is left out", w, want)
				}
			case strings.HasPrefix(w.Message, "no message uses the variable"):
				others++
			default:
				t.Error(w)
			}
		}
		if told != MaxWarnings || more != strays-MaxWarnings || others != 3 {
			t.Errorf("of %d: %d and %d more, %d others", strays, told, more, others)
		}
		if n := CountWarnings(s.Warnings); n != strays+3 {
			t.Errorf("of %d: %d counted", strays, n)
		}
	}
}

// So it is with remarks.
func TestRemarksOfAKind(t *testing.T) {
	files := map[string]string{"context.yaml": "fields: { l: { type: list } }\n"}
	for i := range MaxWarnings + 5 {
		files[fmt.Sprintf("remoteconfigs/c%02d.yaml", i)] = "type: boolean\ndefault: false\nrules: [ { when: { l: { none: [a] } }, value: true } ]\n"
	}
	s := mustLoad(t, workspace(t, files))
	remarks := s.Remarks(testInstant, RemarkLists)
	if len(remarks) != MaxWarnings+1 || remarks[MaxWarnings].More != 5 || CountWarnings(remarks) != MaxWarnings+5 {
		t.Errorf("%d remarks: %v", len(remarks), remarks)
	}
}
