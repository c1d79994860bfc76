package caddymodule_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// revisionsStored waits until the store has n sets of a workspace's definitions. It takes none
// that another one follows too soon.
func revisionsStored(t *testing.T, address, workspace string, n int) {
	t.Helper()
	eventually(t, fmt.Sprint(n, " revisions are stored"), func() bool {
		_, answer := callAdmin(t, "GET", address, "/cadenza/revisions?workspace="+workspace, "")
		list, _ := answer["revisions"].([]any)
		return len(list) == n
	})
}

// TestAdminRevisions lists the served revisions, and asks for their files.
func TestAdminRevisions(t *testing.T) {
	g, address := startAdmin(t)
	list := func() []any {
		status, answer := callAdmin(t, "GET", address, "/cadenza/revisions?workspace=one", "")
		if status != http.StatusOK || answer["workspace"] != "one" {
			t.Fatalf("%d %v", status, answer)
		}
		return answer["revisions"].([]any)
	}
	eventually(t, "the first revision is stored", func() bool { return len(list()) == 1 })
	first := list()[0].(map[string]any)["revision"].(string)
	g.write("one/prompts/hello.yaml", "messages: [ { role: user, content: \"Hello again\" } ]\n")
	eventually(t, "the second is", func() bool { return len(list()) == 2 })
	all := list()
	newest, oldest := all[0].(map[string]any), all[1].(map[string]any)
	if oldest["revision"] != first || oldest["latest"] != false || newest["latest"] != true || newest["revision"] == first {
		t.Errorf("%v", all)
	}
	if served, err := time.Parse(time.RFC3339, oldest["served"].(string)); err != nil || time.Since(served) > time.Minute || oldest["first_seen"].(string) > oldest["served"].(string) {
		t.Errorf("%v: %v", oldest, err)
	}
	status, answer := callAdmin(t, "GET", address, "/cadenza/revisions/"+first[:4]+"?workspace=one", "")
	files, _ := answer["files"].([]any)
	if status != http.StatusOK || answer["revision"] != first || len(files) != 3 {
		t.Fatalf("%d %v", status, answer)
	}
	context, hello := files[0].(map[string]any), files[1].(map[string]any)
	if context["path"] != "context.yaml" || !strings.HasPrefix(context["content"].(string), "on_type_mismatch: reject\nfields:") {
		t.Errorf("%v", context)
	}
	if sum := sha256.Sum256([]byte(hello["content"].(string))); hello["path"] != "prompts/hello.yaml" || hello["sha256"] != hex.EncodeToString(sum[:]) {
		t.Errorf("%v", hello)
	}
	for path, want := range map[string]int{
		"/cadenza/revisions":                             http.StatusBadRequest, // the workspace is missing
		"/cadenza/revisions?workspace=none":              http.StatusNotFound,
		"/cadenza/revisions?workspace=one&limit=1":       http.StatusBadRequest,
		"/cadenza/revisions/?workspace=one":              http.StatusBadRequest,
		"/cadenza/revisions/abc?workspace=one":           http.StatusBadRequest,
		"/cadenza/revisions/000000000000?workspace=one":  http.StatusNotFound,
		"/cadenza/revisions/" + first + "?workspace=two": http.StatusNotFound,
	} {
		if status, answer := callAdmin(t, "GET", address, path, ""); status != want || answer["error"] == "" {
			t.Errorf("%s: %d %v, not %d", path, status, answer, want)
		}
	}
	// An edit of a comment makes no new revision, but is stored.
	const commented = "# greets twice\nmessages: [ { role: user, content: \"Hello again\" } ]\n"
	g.write("one/prompts/hello.yaml", commented)
	eventually(t, "the comment is stored", func() bool {
		_, answer := callAdmin(t, "GET", address, "/cadenza/revisions/"+newest["revision"].(string)+"?workspace=one", "")
		files, _ := answer["files"].([]any)
		return len(files) == 3 && files[1].(map[string]any)["content"] == commented
	})
	if all := list(); len(all) != 2 {
		t.Errorf("%v", all)
	}
	// Revisions that are not stored are marked.
	_, answer = callAdmin(t, "GET", address, "/cadenza/revisions/000000000000?workspace=one", "")
	text, _ := answer["error"].(string)
	if kept := []string{newest["revision"].(string), first}; !strings.Contains(text, "caddy cadenza revisions") || !strings.Contains(text, kept[0]) || strings.Index(text, kept[0]) > strings.Index(text, kept[1]) {
		t.Errorf("%s", text)
	}
	if status, _ := callAdmin(t, "POST", address, "/cadenza/revisions?workspace=one", ""); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", status)
	}
}
