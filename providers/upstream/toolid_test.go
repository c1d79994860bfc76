package upstream

import (
	"strings"
	"testing"
)

func TestToolID(t *testing.T) {
	long := strings.Repeat("x", 64)
	for _, id := range []string{"toolu_01T1x1fJ34qAmk2tNTrN7Up6", "call-1", "AZaz09_-", long} {
		if got := ToolID(id); got != id {
			t.Errorf("%q became %q", id, got)
		}
	}
	seen := map[string]string{}
	for _, id := range []string{"", long + "x", "functions.f:0", "functions_f:0", "a b", "ä", "a@", "a[", "a`", "a{", "a/", "a:"} {
		got := ToolID(id)
		if len(got) != len("call_")+32 || ToolID(got) != got || ToolID(id) != got || seen[got] != "" {
			t.Errorf("%q became %q, as did %q", id, got, seen[got])
		}
		seen[got] = id
	}
}
