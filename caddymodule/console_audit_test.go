package caddymodule_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
)

// audit returns the entries of a query, the oldest first, each in a line.
func (g *gateway) audit(session http.Header, query string) (lines []string) {
	g.t.Helper()
	var answer adminapi.Audit
	if err := json.Unmarshal(g.do("GET", "/console/api/audit?"+query, "", session).ok(g.t).body, &answer); err != nil {
		g.t.Fatal(err)
	}
	for _, e := range answer.Entries {
		if e.Time.IsZero() || e.Workspace != answer.Workspace {
			g.t.Errorf("%+v", e)
		}
		line := fmt.Sprintf("%s %s %s %s %s>%s", e.By, e.Role, e.Action, e.Subject, e.Before, e.After)
		lines = append([]string{strings.TrimRight(line, " >")}, lines...)
	}
	return lines
}

// expectAudit compares the entries of a query with the wanted ones.
func (g *gateway) expectAudit(session http.Header, query string, want ...string) {
	g.t.Helper()
	got := g.audit(session, query)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		g.t.Errorf("the audit of %q has\n%s\nwant\n%s", query, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// localAdmin makes a request of the admin API at a socket.
func localAdmin(t *testing.T, socket, method, path string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	request, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d", method, path, response.StatusCode)
	}
}

// TestConsoleAudit does everything that is noted, and much that isn't.
func TestConsoleAudit(t *testing.T) {
	g, text := consoleSite(t, "edit files")
	local := filepath.Join(t.TempDir(), "admin.sock")
	text = strings.NewReplacer("admin off", "admin unix/"+local, "\tcadenza_console {", "\tvars client_ip 192.0.2.7\n\tcadenza_console {").Replace(text)
	if err := g.loadText(text); err != nil {
		t.Fatal(err)
	}
	const person = "person-8842"
	id := g.post("/v1/prompts", `{"keys":["reply"],"variables":{"question":"Is this private?"},"metadata":{"user":"`+person+`"}}`).ok(t).header.Get("Cadenza-Trace-Id")
	stored(g, id)
	bare := g.post("/v1/remoteconfigs", `{"keys":["checkout"]}`).ok(t).header.Get("Cadenza-Decision-Id")
	g.do("POST", "/console/sign-in", "key=no-key-of-anybody", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}})
	viewer, editor, admin := g.signIn("our_viewer"), g.signIn("our_editor"), g.signIn("our_admin")
	g.expectAudit(admin, "", "  sign_in_refused no valid API key with a role",
		"our_viewer viewer sign_in", "our_editor editor sign_in", "our_admin admin sign_in")

	if a := g.do("GET", "/console/api/audit", "", admin).ok(t); strings.Count(string(a.body), `"from":"192.0.2.7"`) != 4 {
		t.Errorf("addresses: %s", a.body)
	}

	// Looks at content, and at none.
	for _, path := range []string{"api/traces/" + id, "traces/" + id, "api/traces", "api/traces/" + bare, "api/stats", "audit"} {
		g.do("GET", "/console/"+path, "", viewer)
		g.do("GET", "/console/"+path, "", editor)
	}
	localAdmin(t, local, "GET", "/cadenza/traces/"+id)
	look := "our_editor editor look " + id
	g.expectAudit(admin, "action=look", look, look)
	g.expectAudit(admin, "by=our_viewer", "our_viewer viewer sign_in")

	g.do("GET", "/console/api/export?metadata.user="+person+"&key=reply", "", admin).ok(t)
	g.do("DELETE", "/console/api/traces?metadata.user="+person+"&dry_run=true", "", admin).ok(t)
	g.do("DELETE", "/console/api/traces?metadata.user="+person, "", admin).ok(t)
	localAdmin(t, local, "DELETE", "/cadenza/traces?workspace=default&metadata.user="+person)
	lines := g.audit(admin, "since=1h")
	exported, erased, again := lines[len(lines)-3], lines[len(lines)-2], lines[len(lines)-1]
	_, hash, found := strings.Cut(erased, "metadata.user=")
	hash, _, _ = strings.Cut(hash, " ")
	if !found || len(hash) != 16 {
		t.Fatalf("no hash of the value: %s", erased)
	}
	if want := "our_admin admin export traces key=reply&metadata.user=" + hash; exported != want {
		t.Errorf("%q, want %q", exported, want)
	}
	if want := "our_admin admin erase metadata.user=" + hash + " >1 traces, 0 metrics and 0 replies erased"; erased != want {
		t.Errorf("%q, want %q", erased, want)
	}
	if want := "  erase metadata.user=" + hash + " >0 traces, 0 metrics and 0 replies erased"; again != want {
		t.Errorf("%q, want %q", again, want)
	}
	for _, path := range []string{"api/audit", "api/audit?format=jsonl", "audit"} {
		body := string(g.do("GET", "/console/"+path, "", admin).ok(t).body)
		if strings.Contains(body, person) || !strings.Contains(body, hash) {
			t.Errorf("%s has the erased value, or lacks its hash: %s", path, body)
		}
	}

	// Pages, and the export of the audit.
	all := len(g.audit(admin, "limit=1000"))
	var page adminapi.Audit
	if err := json.Unmarshal(g.do("GET", "/console/api/audit?limit=2", "", admin).ok(t).body, &page); err != nil || len(page.Entries) != 2 || page.Next == 0 {
		t.Fatalf("%+v, %v", page, err)
	}
	if rest := g.audit(admin, fmt.Sprintf("before=%d", page.Next)); len(rest) != all-2 {
		t.Errorf("%d entries before the last two of %d", len(rest), all)
	}
	export := g.do("GET", "/console/api/audit?format=jsonl", "", admin).ok(t)
	if n := strings.Count(string(export.body), "\n"); n != all+1 || !strings.Contains(string(export.body), `"subject":"audit"`) {
		t.Errorf("%d lines of %d entries and the export itself: %s", n, all, export.body)
	}
	for query, problem := range map[string]string{"limit=0": "limit must be", "before=x": "before must be", "format=csv": "format must be", "since=x": "since must be", "who=x": "there is no parameter"} {
		if a := g.do("GET", "/console/api/audit?"+query, "", admin); a.status != http.StatusBadRequest || !strings.Contains(string(a.body), problem) {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
	g.do("POST", "/console/sign-out", "", viewer)
	g.expectAudit(admin, "by=our_viewer&action=sign_out", "our_viewer viewer sign_out")

	// Who left has done it nevertheless.
	left, leave := context.WithCancel(t.Context())
	leave()
	adminapi.Audited(left, &gw.Visitor{Workspace: "default", Key: "gone"}, "look", "x")
	g.expectAudit(admin, "by=gone", "gone  look x")

	// Another workspace has the refused sign-in, and its own.
	theirs := g.signIn("their_admin")
	g.expectAudit(theirs, "", "  sign_in_refused no valid API key with a role", "their_admin admin sign_in")
	for path, shows := range map[string]string{"audit": "Export as JSON lines", "audit?since=x": "since must be a time", "audit?by=nobody": "passes these filters", "audit?" + url.Values{"action": {"look"}}.Encode(): id} {
		if a := g.do("GET", "/console/"+path, "", admin).ok(t); !strings.Contains(string(a.body), shows) {
			t.Errorf("%s lacks %q: %s", path, shows, a.body)
		}
	}
	if a := g.do("GET", "/console/audit", "", editor); a.status != http.StatusForbidden || !strings.Contains(string(a.body), "needs the role admin") {
		t.Errorf("an editor's page: %d %s", a.status, a.body)
	}
}
