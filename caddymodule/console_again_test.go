package caddymodule_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/edit"
)

// again asks to serve a revision again, with a query such as ?dry_run=true.
func (g *gateway) again(session http.Header, revision, query, base string, answer any) int {
	g.t.Helper()
	body := `{"base":"` + base + `"}`
	if base == "" { // as a review needs none
		body = ""
	}
	a := g.do("POST", "/console/api/revisions/"+revision+query, body, session)
	if err := json.Unmarshal(a.body, answer); err != nil {
		g.t.Fatalf("%d %s", a.status, a.body)
	}
	return a.status
}

// editedRevisions edits two files and adds a third by the API. It returns the revision before
// these edits, with its files, and the one after them.
func editedRevisions(t *testing.T, g *gateway, session http.Header) (old, now string, files map[string]string) {
	t.Helper()
	var saved adminapi.Saved
	if status := g.edit(session, "edit", edit.Edit{Action: "text", File: "remoteconfigs/first.yaml", Text: "type: boolean\ndefault: true\n"}, &saved); status != 200 || saved.Problem != "" {
		t.Fatalf("%d %+v", status, saved)
	}
	listed := func(revision string) {
		t.Helper()
		eventually(t, revision+" is stored", func() bool {
			return strings.Contains(string(g.do("GET", "/console/api/revisions", "", session).ok(t).body), revision)
		})
	}
	old = saved.Revision
	listed(old)
	checkout := "remoteconfigs/checkout.yaml"
	files = map[string]string{limitsFile: g.read(limitsFile), checkout: g.read(checkout)}
	for _, e := range []edit.Edit{
		g.value(6, 7, "staging"),
		{Action: "text", File: checkout, Base: edit.Hash([]byte(files[checkout])), Text: files[checkout] + "# a comment\n"},
		{Action: "text", File: "remoteconfigs/new.yaml", Text: "type: boolean\ndefault: true\n"},
	} {
		if status := g.edit(session, "edit", e, &saved); status != 200 || saved.Problem != "" {
			t.Fatalf("%s: %d %+v", e.File, status, saved)
		}
	}
	listed(saved.Revision)
	return old, saved.Revision, files
}

// restored checks that the files are those before the edits.
func restored(t *testing.T, g *gateway, files map[string]string) {
	t.Helper()
	for file, content := range files {
		if g.read(file) != content {
			t.Errorf("%s is %q, was %q", file, g.read(file), content)
		}
	}
	if _, err := os.Stat(filepath.Join(g.dir, "definitions/remoteconfigs/new.yaml")); err == nil {
		t.Error("the new file is still there")
	}
}

// TestConsoleServesAgain serves an earlier revision again by the API, and finds who made
// each.
func TestConsoleServesAgain(t *testing.T) {
	g := startConsoleSite(t)
	admin := g.signIn("our_admin")
	old, now, files := editedRevisions(t, g, g.signIn("our_editor"))
	var review adminapi.Review
	if status := g.again(admin, old[:6], "?dry_run=true", "", &review); status != 200 || !review.OK || review.File != old || review.Comparison.New != old || review.Comparison.Old != now {
		t.Fatalf("%d %+v", status, review)
	}
	if strings.Count(review.Patch, "diff --git") != 3 || !strings.Contains(review.Patch, "-# a comment") {
		t.Errorf("the patch is %s", review.Patch)
	}
	// A comment changes no revision, but the patch.
	g.write("definitions/"+limitsFile, g.read(limitsFile)+"# theirs\n")
	var conflict adminapi.Conflict
	if status := g.again(admin, old, "", review.Base, &conflict); status != http.StatusConflict || conflict.Base == review.Base || !strings.Contains(conflict.Error, "changed meanwhile") || !strings.Contains(g.read(limitsFile), "# theirs") {
		t.Errorf("after an edit of somebody else: %d %+v", status, conflict)
	}
	var saved adminapi.Saved
	if status := g.again(admin, old, "", conflict.Base, &saved); status != 200 || saved.Problem != "" || saved.Revision != old || saved.Base != "" {
		t.Fatalf("%d %+v", status, saved)
	}
	restored(t, g, files)
	for revision, says := range map[string]string{old: "has the files of revision", "none": "the store has no revision none"} {
		var refused struct{ Error string }
		if status := g.again(admin, revision, "", "other", &refused); status < 400 || status >= 500 || !strings.Contains(refused.Error, says) {
			t.Errorf("%s: %d %s", revision, status, refused.Error)
		}
	}
	by := make(map[string]string)
	eventually(t, "the revision is stored again", func() bool {
		var listed adminapi.Revisions
		if err := json.Unmarshal(g.do("GET", "/console/api/revisions", "", admin).ok(t).body, &listed); err != nil {
			t.Fatal(err)
		}
		for _, r := range listed.Revisions {
			by[r.Revision] = r.EditedBy
		}
		return listed.Revisions[0].Revision == old
	})
	if by[old] != "our_admin" || by[now] != "our_editor" {
		t.Errorf("%s was made by %q, %s by %q", old, by[old], now, by[now])
	}
	audit := string(g.do("GET", "/console/api/audit?action=edit", "", admin).ok(t).body)
	if !strings.Contains(audit, `"subject":"`+old+`","before":"revision `+now+`","after":"served again by files, revision `+old+`"`) {
		t.Errorf("the audit is %s", audit)
	}
}

// TestConsoleServesAgainByGit makes one commit of all files, in the work tree or for a branch.
func TestConsoleServesAgainByGit(t *testing.T) {
	g := startInRepository(t, "edit files\ncommit")
	git(t, g.dir, "reset", "--hard")
	admin := g.signIn("our_admin")
	old, now, files := editedRevisions(t, g, admin)
	var review adminapi.Review
	var saved adminapi.Saved
	serve := func() {
		t.Helper()
		if status := g.again(admin, old, "?dry_run=true", "", &review); status != 200 {
			t.Fatalf("%d %+v", status, review)
		}
		if status := g.again(admin, old, "", review.Base, &saved); status != 200 || saved.Problem != "" {
			t.Fatalf("%d %+v", status, saved)
		}
	}
	if err := g.loadText(g.consoleSite("edit branch")); err != nil {
		t.Fatal(err)
	}
	serve()
	remote := filepath.Join(g.dir, "remote.git")
	if got := git(t, remote, "log", "-1", "--format=%an: %s", "--stat", saved.Pushed.Branch); !strings.HasPrefix(got, "our_admin: Serve revision "+old+" again") || !strings.Contains(got, "3 files changed") || !strings.HasPrefix(saved.Pushed.Branch, "cadenza/our_admin-"+old+"-") {
		t.Errorf("the branch %s: %s", saved.Pushed.Branch, got)
	}
	if got := g.do("GET", "/console/api/status", "", admin).ok(t); !strings.Contains(string(got.body), now) {
		t.Errorf("a branch is served: %s", got.body)
	}
	if err := g.loadText(g.consoleSite("edit files\ncommit")); err != nil {
		t.Fatal(err)
	}
	serve()
	if got := git(t, g.dir, "log", "-1", "--format=%H: %s", "--stat"); !strings.HasPrefix(got, saved.Commit+": Serve revision") || !strings.Contains(got, "3 files changed") {
		t.Errorf("the commit: %s", got)
	}
	restored(t, g, files)
}

// TestConsoleServesAgainPages does the same in the pages, without JavaScript.
func TestConsoleServesAgainPages(t *testing.T) {
	g := startConsoleSite(t)
	admin, editor := g.signIn("our_admin"), g.signIn("our_editor")
	old, now, files := editedRevisions(t, g, editor)
	for _, test := range []struct {
		session http.Header
		says    string
	}{{admin, `<button name="step" value="review">Review serving ` + old + ` again`}, {editor, "needs <b>admin</b>"}} {
		page := string(g.do("GET", "/console/revisions?from="+old+"&to="+now, "", test.session).ok(t).body)
		if !strings.Contains(page, test.says) || !strings.Contains(page, "<td>our_editor</td>") {
			t.Errorf("the page lacks %q: %s", test.says, page)
		}
	}
	form := func(session http.Header, step, base string) answer {
		t.Helper()
		header := session.Clone()
		header.Set("Content-Type", "application/x-www-form-urlencoded")
		return g.do("POST", "/console/edit", url.Values{"action": {"again"}, "to": {old}, "base": {base}, "step": {step}}.Encode(), header)
	}
	shows := func(a answer, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if page := string(a.body); a.status != 200 || !strings.Contains(page, part) || strings.Contains(page, `name="file" value="`+old) {
				t.Errorf("%d, lacks %q: %s", a.status, part, page)
			}
		}
	}
	if a := form(editor, "review", ""); a.status != http.StatusForbidden {
		t.Errorf("as an editor: %d", a.status)
	}
	a := form(admin, "review", "")
	shows(a, "Before saving", "the files become those of "+old, "-# a comment", "whose answer changes", "new</b>: removed", "Writes the files of", "/console/revisions")
	_, base, _ := strings.Cut(string(a.body), `name="base" value="`)
	base, _, _ = strings.Cut(base, `"`)
	shows(form(admin, "save", "another"), "changed meanwhile", "Review it again")
	if a := form(admin, "patch", ""); a.header.Get("Content-Disposition") != "attachment; filename="+old+".patch" || strings.Count(string(a.body), "diff --git") != 3 {
		t.Errorf("the patch: %v %s", a.header, a.body)
	}
	shows(form(admin, "save", base), "Saved", "Revision <code>"+old)
	restored(t, g, files)
}
