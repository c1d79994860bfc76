package dialect

import (
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
)

func TestOfCall(t *testing.T) {
	for _, c := range []providers.ToolCall{{ID: "c1", Opaque: "cdz1_a"}, {ID: "", Opaque: "a.b"}, {ID: "ü.\x00" + strings.Repeat("x", 100), Opaque: "."}} {
		data := OfCall(&c)
		if id, opaque, ok := CallOf(data); id != c.ID || opaque != c.Opaque || !ok {
			t.Errorf("%q: %q, %q, %v", data, id, opaque, ok)
		}
	}
	for _, data := range []string{"", "cdz1_a", "call_", "call_YzE", "call_YzE.", "call_!.a"} {
		if _, _, ok := CallOf(data); ok {
			t.Errorf("%q is taken for a call's data", data)
		}
	}
}
