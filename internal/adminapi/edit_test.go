package adminapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"syscall"
	"testing"

	"github.com/caddyserver/caddy/v2"

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

// TestEditErrors has edits fail by what the visitor sent, and by the gateway's own disk.
func TestEditErrors(t *testing.T) {
	for _, test := range []struct {
		err    error
		status int
	}{
		{errors.New("this changes nothing"), http.StatusBadRequest},
		{&fs.PathError{Op: "open", Path: "a", Err: syscall.ENOENT}, http.StatusNotFound},
		{&fs.PathError{Op: "open", Path: "a", Err: syscall.EACCES}, http.StatusInternalServerError},
		{&fs.PathError{Op: "open", Path: "a", Err: syscall.EROFS}, http.StatusInternalServerError},
		{fmt.Errorf("writing: %w", syscall.ENOSPC), http.StatusInternalServerError},
	} {
		answer, ok := errors.AsType[caddy.APIError](editError(test.err))
		if !ok || answer.HTTPStatus != test.status {
			t.Errorf("%v: %d, want %d", test.err, answer.HTTPStatus, test.status)
		}
	}
}
