package definition

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

func TestParallel(t *testing.T) {
	var errs document.Errors
	l := &loader{errs: &errs, ctx: t.Context(), workers: 4}
	nowhere := func(int) document.Position { return document.Position{} }
	l.parallel("", 100, nowhere, func(i int, errs *document.Errors) {
		errs.AddAt(document.Position{File: "f", Line: 1, Column: 1}, "%03d", i)
	})
	var want strings.Builder
	for i := range 100 {
		fmt.Fprintf(&want, "f:1:1: %03d\n", i)
	}
	if got := errs.Err().Error() + "\n"; got != want.String() {
		t.Error(got)
	}
	l.parallel("", 0, nil, nil)
	defer func() {
		if p := recover(); p == nil || !strings.HasPrefix(fmt.Sprint(p), "seven") {
			t.Errorf("recovered %v", p)
		}
	}()
	l.parallel("", 20, nowhere, func(i int, _ *document.Errors) {
		if i == 7 {
			panic("seven")
		}
	})
}
