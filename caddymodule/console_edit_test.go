package caddymodule_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/edit"
)

// limitsFile is the file that the tests edit. The values production and pro of its table
// begin at 6:7 and 6:19.
const limitsFile = "remoteconfigs/limits.yaml"

// read returns a file of the gateway's definitions.
func (g *gateway) read(file string) string {
	g.t.Helper()
	data, err := os.ReadFile(filepath.Join(g.dir, "definitions", file))
	if err != nil {
		g.t.Fatal(err)
	}
	return string(data)
}

// edit sends an edit to a route of the console's API.
func (g *gateway) edit(session http.Header, route string, e edit.Edit, answer any) int {
	g.t.Helper()
	body, err := json.Marshal(e)
	if err != nil {
		g.t.Fatal(err)
	}
	a := g.do("POST", "/console/api/"+route, string(body), session)
	if err := json.Unmarshal(a.body, answer); err != nil {
		g.t.Fatalf("%d %s", a.status, a.body)
	}
	return a.status
}

// served returns the answer of a remote configuration for a context.
func (g *gateway) served(key, context string) string {
	g.t.Helper()
	return string(g.post("/v1/remoteconfigs", `{"keys":["`+key+`"],"context":`+context+`}`).ok(g.t).body)
}

// value returns an edit of a value of limitsFile as it is now.
func (g *gateway) value(line, column int, text string) edit.Edit {
	return edit.Edit{Action: "value", File: limitsFile, Base: edit.Hash([]byte(g.read(limitsFile))), Line: line, Column: column, Text: text}
}

// TestConsoleEdits edits definitions by the API until the gateway serves them.
func TestConsoleEdits(t *testing.T) {
	g := startConsoleSite(t)
	session := g.signIn("our_editor")
	const staging = `{"environment":"staging","plan":"pro"}`
	before := g.read(limitsFile)
	if strings.Contains(g.served("limits", staging), `:600`) {
		t.Fatal("served before the edit")
	}

	var review adminapi.Review
	e := g.value(6, 7, "[production, staging]")
	if status := g.edit(session, "review", e, &review); status != 200 || !review.OK || review.Way != "files" || len(review.Errors) != 0 {
		t.Fatalf("%d %+v", status, review)
	}
	if c := review.Comparison; len(c.Definitions) != 1 || len(c.Definitions[0].Answers) == 0 || !strings.Contains(string(c.Definitions[0].Answers[0].Context), "staging") {
		t.Errorf("the answers that change: %+v", c)
	}
	if g.read(limitsFile) != before || strings.Contains(g.served("limits", staging), `:600`) {
		t.Fatal("a review changes something")
	}

	twice := edit.Edit{Action: "text", File: limitsFile, Base: e.Base, Text: before + "  - [ production, pro, { rpm: 1, burst: 1 } ]\n"}
	var warned adminapi.Review
	if status := g.edit(session, "review", twice, &warned); status != 200 || !warned.OK || len(warned.Warnings) != 1 || warned.Warnings[0].Line != 7 || len(warned.Comparison.Definitions[0].Answers) != 0 {
		t.Errorf("a row that is never reached: %d %+v", status, warned)
	}

	var saved adminapi.Saved
	if status := g.edit(session, "edit", e, &saved); status != 200 || saved.Problem != "" || saved.Revision != review.Comparison.New {
		t.Fatalf("%d %+v", status, saved)
	}
	if now := g.read(limitsFile); now != strings.Replace(before, "[ production", "[ [production, staging]", 1) || edit.Hash([]byte(now)) != saved.Base {
		t.Errorf("the file: %s", now)
	}
	if !strings.Contains(g.served("limits", staging), `:600`) {
		t.Error("the edit is not served")
	}

	var conflict adminapi.Conflict
	if status := g.edit(session, "edit", e, &conflict); status != http.StatusConflict || conflict.Now != g.read(limitsFile) || conflict.Yours != e.Text || conflict.Base != saved.Base {
		t.Errorf("an edit of what was there before: %d %+v", status, conflict)
	}

	now := g.read(limitsFile)
	var refused struct {
		Error  string
		Review adminapi.Review
	}
	if status := g.edit(session, "edit", g.value(6, 30, "nobody"), &refused); status != http.StatusUnprocessableEntity || len(refused.Review.Errors) != 1 {
		t.Fatalf("a value that the data model has not: %d %+v", status, refused)
	}
	if f := refused.Review.Errors[0]; f.Line != 6 || f.Column != 30 || !strings.Contains(refused.Error, "limits.yaml:6:30: ") || g.read(limitsFile) != now {
		t.Errorf("the finding is %+v in %q", f, refused.Error)
	}
	// Another file makes the set invalid: nothing is saved on top of that.
	g.write("definitions/remoteconfigs/broken.yaml", "type: [\n")
	if status := g.edit(session, "edit", g.value(6, 30, "free"), &refused); status != http.StatusUnprocessableEntity || g.read(limitsFile) != now {
		t.Errorf("with a broken file beside it: %d", status)
	}
	if err := os.Remove(filepath.Join(g.dir, "definitions/remoteconfigs/broken.yaml")); err != nil {
		t.Fatal(err)
	}

	for _, test := range []struct {
		e      edit.Edit
		status int
		says   string
	}{
		{edit.Edit{Action: "text", File: "remoteconfigs/new.yaml", Text: "type: string\ndefault: here\r\n"}, 200, "remoteconfigs/new.yaml"},
		{edit.Edit{Action: "text", File: "remoteconfigs/new.yaml", Text: "type: string\ndefault: there\n"}, 409, "was changed meanwhile"},
		{edit.Edit{Action: "rename", File: "remoteconfigs/new.yaml", Base: edit.Hash([]byte("type: string\ndefault: here\n")), To: limitsFile}, 400, "already"},
		{edit.Edit{Action: "rename", File: "remoteconfigs/new.yaml", Base: edit.Hash([]byte("type: string\ndefault: here\n")), To: "remoteconfigs/a/b.yaml"}, 200, "remoteconfigs/a/b.yaml"},
		{edit.Edit{Action: "delete", File: "remoteconfigs/a/b.yaml", Base: edit.Hash([]byte("type: string\ndefault: here\n"))}, 200, "remoteconfigs/a/b.yaml"},
		{edit.Edit{Action: "delete", File: "remoteconfigs/a/b.yaml", Base: "0"}, 409, "was changed meanwhile"},
		{edit.Edit{Action: "text", File: "../Caddyfile", Text: "x"}, 400, "can't be the name of a file"},
		{edit.Edit{Action: "shake", File: limitsFile, Base: edit.Hash([]byte(now))}, 400, "action must be"},
	} {
		var answer json.RawMessage
		if status := g.edit(session, "edit", test.e, &answer); status != test.status || !strings.Contains(string(answer), test.says) {
			t.Errorf("%+v: %d %s", test.e, status, answer)
		}
		key := strings.TrimSuffix(strings.TrimPrefix(test.e.To, "remoteconfigs/"), ".yaml")
		if test.e.Action == "rename" && test.status == 200 && !strings.Contains(g.served(key, "{}"), "here") {
			t.Errorf("%s is not served", key)
		}
	}
	if _, err := os.Stat(filepath.Join(g.dir, "definitions/remoteconfigs/a/b.yaml")); err == nil {
		t.Error("the deleted file is there")
	}
	if a := g.do("GET", "/console/api/edit?file=..%2Fs", "", session); a.status != 400 {
		t.Errorf("a file outside of the folder: %d %s", a.status, a.body)
	}
	if a := g.do("GET", "/console/api/edit?file=prompts/none.yaml", "", session); a.status != 404 {
		t.Errorf("no file: %d %s", a.status, a.body)
	}
}

// TestConsoleEditOff asks for edits where none are saved.
func TestConsoleEditOff(t *testing.T) {
	g, _ := consoleSite(t, "")
	session := g.signIn("our_admin")
	var review adminapi.Review
	if status := g.edit(session, "review", g.value(6, 7, "staging"), &review); status != 200 || review.Way != "off" || !strings.Contains(review.Patch, "+  - [ staging, pro") || !strings.Contains(review.Patch, "+++ b/"+limitsFile) {
		t.Errorf("%d %+v", status, review)
	}
	var refused struct{ Error string }
	if status := g.edit(session, "edit", g.value(6, 7, "staging"), &refused); status != http.StatusForbidden || !strings.Contains(refused.Error, "edit files") {
		t.Errorf("%d %s", status, refused.Error)
	}
	if status := g.again(session, "any", "", "", &refused); status != http.StatusForbidden || !strings.Contains(refused.Error, "edit files") {
		t.Errorf("a revision: %d %s", status, refused.Error)
	}
	for option, says := range map[string]string{"edit": "edit takes 1 argument", "edit on": "edit must be off, files or branch", "commit": "commit belongs to edit files", "commit now": "commit takes 0 arguments", "edit off x": "edit takes 1 argument", "edits": "the options are"} {
		text := strings.Replace(g.caddyfile(options), "\tcadenza\n}\n", "\tcadenza_console {\n"+option+"\n}\n\tcadenza\n}\n", 1)
		if err := loadCaddyfile(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", option, err)
		}
	}
}

// git runs git in a directory, with an author.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	cmd := exec.Command("git", append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "core.hooksPath=/dev/null", "-c", "init.defaultBranch=main", "-c", "advice.detachedHead=false"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// startInRepository starts a gateway whose definitions are in a repository with hooks that
// fail, a bare remote and another change that nobody has committed.
func startInRepository(t *testing.T, console string) *gateway {
	g, _ := consoleSite(t, console)
	remote := filepath.Join(g.dir, "remote.git")
	git(t, g.dir, "init", "--bare", remote)
	git(t, g.dir, "init", ".")
	git(t, g.dir, "add", "definitions")
	git(t, g.dir, "commit", "-m", "All")
	git(t, g.dir, "remote", "add", "origin", remote)
	git(t, g.dir, "push", "origin", "main")
	for _, hook := range []string{"pre-commit", "commit-msg", "prepare-commit-msg", "pre-push", "reference-transaction", "post-commit", "post-index-change"} {
		g.write(".git/hooks/"+hook, "#!/bin/sh\nexit 1\n")
		if err := os.Chmod(filepath.Join(g.dir, ".git/hooks", hook), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	g.write("remote.git/hooks/post-receive", "#!/bin/sh\necho 'Open a merge request:'\necho '  https://git.example.com/merge?from=1  '\n")
	if err := os.Chmod(filepath.Join(g.dir, "remote.git/hooks/post-receive"), 0o755); err != nil {
		t.Fatal(err)
	}
	git(t, g.dir, "config", "commit.gpgSign", "true")
	g.write("definitions/prompts/hello.yaml", g.read("prompts/hello.yaml")+"# not committed\n")
	g.write("definitions/remoteconfigs/staged.yaml", "type: boolean\ndefault: true\n")
	git(t, g.dir, "add", "definitions/remoteconfigs/staged.yaml")
	return g
}

// TestConsoleEditCommits saves edits as files, and commits each of them alone.
func TestConsoleEditCommits(t *testing.T) {
	g := startInRepository(t, "edit files\ncommit")
	session := g.signIn("our_editor")
	status := git(t, g.dir, "status", "--porcelain", "definitions")
	var saved adminapi.Saved
	if code := g.edit(session, "edit", g.value(6, 7, "staging"), &saved); code != 200 || saved.Problem != "" {
		t.Fatalf("%d %+v", code, saved)
	}
	if got := git(t, g.dir, "log", "-1", "--format=%H %an: %s", "--stat"); !strings.HasPrefix(got, saved.Commit+" our_editor: Edit remoteconfigs/limits.yaml") || !strings.Contains(got, "1 file changed") {
		t.Errorf("the last commit: %s", got)
	}
	if now := git(t, g.dir, "status", "--porcelain", "definitions"); now != status {
		t.Errorf("the state was %q, is %q", status, now)
	}
	for _, e := range []edit.Edit{
		{Action: "text", File: "remoteconfigs/a b é.yaml", Text: "key: a_b\ntype: boolean\ndefault: true\n"},
		{Action: "rename", File: "remoteconfigs/a b é.yaml", Base: edit.Hash([]byte("key: a_b\ntype: boolean\ndefault: true\n")), To: "remoteconfigs/-x.yaml"},
		{Action: "delete", File: "remoteconfigs/-x.yaml", Base: edit.Hash([]byte("key: a_b\ntype: boolean\ndefault: true\n"))},
	} {
		if code := g.edit(session, "edit", e, &saved); code != 200 || saved.Problem != "" {
			t.Fatalf("%s: %d %+v", e.Action, code, saved)
		}
		if now := git(t, g.dir, "status", "--porcelain", "definitions"); now != status {
			t.Errorf("after %s the state was %q, is %q", e.Action, status, now)
		}
	}
	var refused struct{ Error string }
	refuse := func(what string, e edit.Edit, says string) {
		t.Helper()
		before, head := g.read(limitsFile), git(t, g.dir, "rev-parse", "HEAD")
		if code := g.edit(session, "edit", e, &refused); code != 400 || !strings.Contains(refused.Error, says) {
			t.Errorf("%s: %d %s", what, code, refused.Error)
		}
		if g.read(limitsFile) != before || git(t, g.dir, "rev-parse", "HEAD") != head {
			t.Errorf("%s: something was written", what)
		}
	}
	hello := g.read("prompts/hello.yaml")
	refuse("a file with changes of others", edit.Edit{Action: "text", File: "prompts/hello.yaml", Base: edit.Hash([]byte(hello)), Text: hello + "# mine\n"}, "commit what was changed there first")
	g.write(".git/MERGE_HEAD", git(t, g.dir, "rev-parse", "HEAD")+"\n")
	refuse("in a merge", g.value(6, 7, "production"), "a merge is under way")
	if err := os.Remove(filepath.Join(g.dir, ".git/MERGE_HEAD")); err != nil {
		t.Fatal(err)
	}
	git(t, g.dir, "checkout", "--detach")
	refuse("with a detached head", g.value(6, 7, "production"), "is on no branch")
}

// TestConsoleEditBranch pushes an edit as a branch, which changes nothing here.
func TestConsoleEditBranch(t *testing.T) {
	g := startInRepository(t, "edit branch")
	session := g.signIn("our_editor")
	state := func() string {
		return git(t, g.dir, "status", "--porcelain") + git(t, g.dir, "for-each-ref", "refs/heads") + git(t, g.dir, "rev-parse", "HEAD") + g.read(limitsFile)
	}
	before := state()
	e := g.value(6, 7, "staging")
	var saved adminapi.Saved
	if code := g.edit(session, "edit", e, &saved); code != 200 || saved.Pushed == nil {
		t.Fatalf("%d %+v", code, saved)
	}
	if p := saved.Pushed; !strings.HasPrefix(p.Branch, "cadenza/our_editor-limits-") || p.Remote != "origin" || p.Link != "https://git.example.com/merge?from=1" {
		t.Errorf("%+v", p)
	}
	remote := filepath.Join(g.dir, "remote.git")
	if got := git(t, remote, "log", "-1", "--format=%an: %s %P", saved.Pushed.Branch); got != "our_editor: Edit remoteconfigs/limits.yaml "+git(t, g.dir, "rev-parse", "HEAD") {
		t.Errorf("the branch: %s", got)
	}
	if got := git(t, remote, "diff", "--stat", "main", saved.Pushed.Branch); !strings.Contains(got, "1 file changed, 1 insertion(+), 1 deletion(-)") {
		t.Errorf("the branch changes %s", got)
	}
	if after := state(); after != before {
		t.Errorf("the repository was %q, is %q", before, after)
	}
	git(t, remote, "update-ref", "refs/heads/"+saved.Pushed.Branch, "main")
	var refused struct{ Error string }
	if code := g.edit(session, "edit", e, &refused); code != 400 || !strings.Contains(refused.Error, "could not be pushed") {
		t.Errorf("a branch of somebody else: %d %s", code, refused.Error)
	}
	if git(t, remote, "rev-parse", saved.Pushed.Branch) != git(t, remote, "rev-parse", "main") {
		t.Error("a branch of somebody else was moved")
	}
	if after := state(); after != before {
		t.Errorf("a push that failed changes something: %s", after)
	}
}

// TestConsoleEditPages makes an edit in the pages, without JavaScript.
func TestConsoleEditPages(t *testing.T) {
	g := startConsoleSite(t)
	viewer, editor := g.signIn("our_viewer"), g.signIn("our_editor")
	open := func(session http.Header, query string) string {
		t.Helper()
		return string(g.do("GET", "/console/edit?"+query, "", session).ok(t, query).body)
	}
	form := func(e edit.Edit, step string) (int, http.Header, string) {
		t.Helper()
		values := url.Values{"action": {e.Action}, "file": {e.File}, "base": {e.Base}, "text": {e.Text}, "to": {e.To}, "line": {fmt.Sprint(e.Line)}, "column": {fmt.Sprint(e.Column)}, "step": {step}}
		header := editor.Clone()
		header.Set("Content-Type", "application/x-www-form-urlencoded")
		a := g.do("POST", "/console/edit", values.Encode(), header)
		if strings.Contains(string(a.body), "ZgotmplZ") {
			t.Errorf("a value that the template refuses: %s", a.body)
		}
		return a.status, a.header, string(a.body)
	}
	shows := func(what, page string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(page, part) {
				t.Errorf("%s lacks %q: %s", what, part, page)
			}
		}
	}
	shows("a viewer's page", open(viewer, "file="+limitsFile), "needs <b>editor</b>", "readonly", "burst: 10")
	shows("a value", open(editor, "file="+limitsFile+"&line=6&column=19"), "row 1, plan", `value="pro"`, "Values: free, pro", "The whole text")
	shows("no value", open(editor, "file="+limitsFile+"&line=6&column=20"), "no value of its own begins here", "Text of the file")
	for kind, text := range map[string]string{"prompt": "provider: fake", "endpoint": "prompt: hello", "remoteconfig": "type: boolean"} {
		page := open(editor, "new="+kind)
		shows("a new "+kind, page, text, kind+"s/new.yaml")
		_, page, _ = strings.Cut(page, `<textarea id="text"`)
		_, page, _ = strings.Cut(page, ">\n")
		page, _, _ = strings.Cut(page, "</textarea>")
		var review adminapi.Review
		text = strings.NewReplacer("&#34;", `"`, "&#39;", "'").Replace(page)
		if status := g.edit(editor, "review", edit.Edit{Action: "text", File: kind + "s/new.yaml", Text: text}, &review); status != 200 || !review.OK {
			t.Errorf("a new %s: %d %+v", kind, status, review.Errors)
		}
	}

	before := g.read(limitsFile)
	e := g.value(6, 7, "staging")
	status, _, page := form(e, "review")
	shows("the review", page, "Before saving", "<b>staging</b>", "What changes", "field.environment=staging", "Try it", "nothing is found", "edit files", "git apply limits.patch")
	if status != 200 || g.read(limitsFile) != before {
		t.Errorf("the review: %d", status)
	}
	if status, header, page := form(e, "patch"); status != 200 || header.Get("Content-Disposition") != "attachment; filename=limits.patch" || !strings.HasPrefix(page, "diff --git a/remoteconfigs/limits.yaml") {
		t.Errorf("the patch: %d %v %s", status, header, page)
	}
	_, _, page = form(g.value(6, 19, "nobody"), "save")
	shows("a broken edit", page, "Not yet.", "6:19", `aria-invalid="true"`, "disabled")
	_, _, page = form(e, "save")
	shows("the saved edit", page, "Saved", "is served")
	if g.read(limitsFile) != strings.Replace(before, "[ production", "[ staging", 1) {
		t.Errorf("the file: %s", g.read(limitsFile))
	}
	_, _, page = form(edit.Edit{Action: "text", File: limitsFile, Base: e.Base, Text: before + "# mine\n"}, "save")
	shows("a conflict", page, "Both texts", "[ staging", "# mine", "Review yours in place of the present file")
	_, _, page = form(edit.Edit{Action: "delete", File: "prompts/gone.yaml", Base: e.Base}, "review")
	shows("a file that is gone", page, "it is gone")
	_, _, page = form(edit.Edit{Action: "rename", File: limitsFile, Base: edit.Hash([]byte(g.read(limitsFile))), To: "remoteconfigs/quotas.yaml"}, "review")
	shows("another name", page, "becomes <code>remoteconfigs/quotas.yaml</code>", "limits</b>: removed", "quotas</b>: added")
	_, _, page = form(edit.Edit{Action: "rename", File: limitsFile, Base: edit.Hash([]byte(g.read(limitsFile))), To: "/etc/passwd"}, "review")
	shows("a name elsewhere", page, "be the name of a file")
}

// TestConsoleWords asks what may be written in files of each kind.
func TestConsoleWords(t *testing.T) {
	g := startConsoleSite(t)
	viewer := g.signIn("our_viewer")
	for _, test := range []struct{ file, key, lacks, value, known string }{
		{"prompts/new.yaml", "max_tokens", "fields", "provider", "fake"},
		{"remoteconfigs/a/b.yaml", "plan", "max_tokens", "config", "limits"},
		{"endpoints/chat.yaml", "fallback", "fields", "prompt", "hello"},
		{"context.yaml", "fields", "max_tokens", "type", "boolean"},
		{"context.json", "fields", "max_tokens", "type", "boolean"},
	} {
		var words adminapi.Words
		if err := json.Unmarshal(g.do("GET", "/console/api/words?file="+test.file, "", viewer).ok(t).body, &words); err != nil {
			t.Fatal(err)
		}
		_, has := words.Keys[test.key]
		_, lacks := words.Keys[test.lacks]
		if !has || lacks || !slices.Contains(words.Values[test.value], test.known) || !slices.IsSorted(words.Values[test.value]) {
			t.Errorf("%s: %+v", test.file, words)
		}
	}
}
