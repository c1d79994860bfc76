package adminapi

import (
	"context"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/gateway"
)

// TestEditing asks how edits are saved: by Caddy's admin address none are, whatever the
// console is set to.
func TestEditing(t *testing.T) {
	files := Editing{Way: "files", Commit: true}
	visitor := context.WithValue(t.Context(), visitorKey{}, &gateway.Visitor{Key: "eve"})
	for name, test := range map[string]struct {
		ctx    context.Context
		want   Editing
		author string
	}{
		"the admin address":                {t.Context(), Editing{Way: "off"}, ""},
		"a visitor":                        {WithEditing(visitor, files), files, "eve"},
		"a visitor, and nothing is set":    {visitor, Editing{Way: "off"}, "eve"},
		"no visitor, whatever the console": {WithEditing(t.Context(), files), Editing{Way: "off"}, ""},
	} {
		if got, author := editing(test.ctx); got != test.want || author != test.author {
			t.Errorf("%s: %+v by %q", name, got, author)
		}
	}
}
