package adminapi

import (
	"net/url"
	"strings"
	"testing"
)

// TestAuditHasNoValueOfACaller notes a query with each parameter that a caller's value may
// be in.
func TestAuditHasNoValueOfACaller(t *testing.T) {
	w := &Workspace{Hash: func(string) string { return "hash" }}
	for _, name := range []string{"conversation_id", "chain_id", "decision", MetadataParameter + "user", InputParameter + "customer"} {
		if got := w.hashedQuery(url.Values{name: {"Ada"}, "key": {"support"}}); strings.Contains(got, "Ada") || !strings.Contains(got, name+"=hash") || !strings.Contains(got, "key=support") {
			t.Errorf("%s: %s", name, got)
		}
	}
}
