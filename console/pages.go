package console

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/trace"
)

//go:embed templates static
var files embed.FS

var templates = template.Must(template.New("").Funcs(words).ParseFS(files, "templates/*.html"))

// page is a kind of page.
type page struct {
	Path     string // below /console/; a path that ends in a slash takes an id
	Title    string
	group    string // of the navigation; empty: the page is not in it
	template string
	build    func(*visit) (any, error)
	posts    bool // the page has a form that changes something: build is called for POST, too
}

// pages are all pages, in the order of the navigation.
var pages = []page{
	{"", "Now", "Look", "now.html", buildNow, false},
	{"traces", "Traces", "Look", "traces.html", buildTraces, false},
	{"traces/", "Trace", "", "trace.html", buildTrace, true},
	{"conversations/", "Conversation", "", "conversation.html", buildConversation, false},
	{"find", "Find", "", "find.html", buildFind, false},
	{"refused", "Refused", "Look", "refused.html", buildRefused, false},
	{"definitions", "Definitions", "Decide", "definitions.html", buildDefinitions, false},
	{"edit", "Edit", "", "edit.html", buildEdit, true},
	{"plan", "Plan", "", "plan.html", buildPlan, true},
	{"definitions/", "Definition", "", "definition.html", buildDefinition, false},
	{"try", "Try it", "Decide", "try.html", buildTry, false},
	{"playground", "Playground", "Decide", "playground.html", buildPlayground, true},
	{"experiments", "Experiments", "Decide", "experiments.html", buildExperiments, false},
	{"experiments/", "Experiment", "", "experiment.html", buildExperiment, false},
	{"rollouts", "Rollouts", "Decide", "rollouts.html", buildRollouts, false},
	{"rollouts/", "Rollout", "", "rollout.html", buildRollout, true},
	{"revisions", "Revisions", "Decide", "revisions.html", buildRevisions, false},
	{"costs", "Costs", "Spend", "costs.html", buildCosts, false},
	{"limits", "Limits", "Spend", "limits.html", buildLimits, false},
	{"models", "Models", "Spend", "models.html", buildModels, false},
	{"keys", "Keys", "Operate", "keys.html", buildKeys, true},
	{"erase", "Erase and export", "Operate", "erase.html", buildErase, true},
	{"audit", "Audit", "Operate", "audit.html", buildAudit, false},
}

// visit is a request for a page.
type visit struct {
	ctx     context.Context
	Visitor *gateway.Visitor
	Status  *adminapi.Status
	Now     time.Time
	site    string // the address of the host that the visitor asked
	query   url.Values
	form    url.Values   // of a POST; nil: the page is only looked at
	to      string       // a path of the console to go to in place of the page, if it is set
	id      string       // what follows the page's path
	Title   string       // of the page, or another
	Command string       // the command that shows the same
	Link    string       // of the view: the page's address, unless that doesn't show it again
	kept    *keptAnswers // of all visitors

	file, text string // a file to download in place of the page, if it has a name
}

// spanOf returns how far back a page looks: the visitor's word, or a default.
func (v *visit) spanOf(name, usual string) string {
	return cmp.Or(strings.TrimSpace(v.query.Get(name)), usual)
}

// ask asks the API in the visitor's name.
func (v *visit) ask(path string, query url.Values, answer any) error {
	return v.send(http.MethodGet, path, query, nil, answer)
}

// send asks the API in the visitor's name to change something, such as what answers are kept
// of. body becomes JSON.
func (v *visit) send(method, path string, query url.Values, body, answer any) error {
	if method != http.MethodGet {
		v.kept.forget()
	}
	return adminapi.Ask(v.ctx, v.Visitor, method, path, query, body, answer)
}

// refused returns why the API refuses what a visitor asked for, and an error of another kind.
// What needs another role is no matter of what was asked.
func refused(err error) (problem string, other error) {
	if refusal, ok := errors.AsType[*adminapi.AskError](err); ok && refusal.Status < 500 && refusal.Status != http.StatusForbidden {
		return refusal.Message, nil
	}
	return "", err
}

// Workspace returns the state of the visitor's workspace.
func (v *visit) Workspace() adminapi.WorkspaceStatus { return v.Status.Workspaces[v.Visitor.Workspace] }

// routes returns the paths of the console.
func (h *Handler) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET "+prefix+"static/", http.StripPrefix(prefix, http.HandlerFunc(serveStatic)))
	mux.HandleFunc("GET "+prefix+"sign-in", h.showSignIn)
	mux.HandleFunc("POST "+prefix+"sign-in", h.signIn)
	mux.HandleFunc("POST "+prefix+"sign-out", h.signOut)
	mux.HandleFunc(prefix+"api/", h.serveAPI)
	for i := range pages {
		p := &pages[i]
		pattern := prefix + p.Path
		switch {
		case p.Path == "":
			pattern += "{$}"
		case strings.HasSuffix(p.Path, "/"):
			pattern += "{id...}" // keys of definitions have slashes
		}
		serve := func(w http.ResponseWriter, r *http.Request) {
			adminapi.Aside(r, func() { h.servePage(w, r, p) })
		}
		mux.HandleFunc("GET "+pattern, serve)
		if p.posts {
			mux.HandleFunc("POST "+pattern, serve)
		}
	}
	mux.HandleFunc(prefix, func(w http.ResponseWriter, _ *http.Request) {
		h.write(w, http.StatusNotFound, "message.html", message{"There is no such page", "The first page is Now."})
	})
	return mux
}

// serveAPI answers a request below /console/api/ as the admin API answers it below
// /cadenza/, under the visitor's role.
func (h *Handler) serveAPI(w http.ResponseWriter, r *http.Request) {
	visitor := h.visitorOf(r)
	if visitor == nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":"sign in first, at /console/sign-in"}` + "\n"))
		return
	}
	adminapi.Aside(r, func() { adminapi.Serve(w, r, visitor, strings.TrimPrefix(r.URL.Path, prefix+"api/")) })
}

// frame is what surrounds each page.
type frame struct {
	*visit
	Path string // of the page
	Host string
	Edit string // the way of editing
	Main template.HTML
}

// SSO reports whether another server signed the visitor in.
func (f *frame) SSO() bool { return strings.HasPrefix(f.Visitor.Key, gateway.SSOPrefix) }

// group is a part of the navigation.
type group struct {
	Name  string
	Pages []*page
}

// pageTurn is held while a page is made. Callers need a processor that no page keeps, and
// adminapi.Aside adds one.
var pageTurn = make(chan struct{}, 1)

// takeTurn waits until the page before is made, and returns what ends the turn. It reports
// false if the visitor left meanwhile. Changes don't wait, nor does a plan, which may take
// long and is one of its workspace.
func takeTurn(r *http.Request) (end func(), ok bool) {
	if r.Method != http.MethodGet || r.URL.Path == prefix+"plan" {
		return func() {}, true
	}
	select {
	case pageTurn <- struct{}{}:
		return sync.OnceFunc(func() { <-pageTurn }), true
	case <-r.Context().Done():
		return nil, false
	}
}

func (h *Handler) servePage(w http.ResponseWriter, r *http.Request, p *page) {
	visitor := h.visitorOf(r)
	if visitor == nil {
		setCookie(w, r, "") // of a session that ended
		http.Redirect(w, r, prefix+"sign-in?"+url.Values{"to": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
		return
	}
	v := &visit{ctx: r.Context(), Visitor: visitor, Status: new(adminapi.Status), Now: time.Now().UTC(), query: r.URL.Query(), id: r.PathValue("id"), Title: p.Title, Link: r.URL.RequestURI(), kept: &h.kept, site: "http://" + r.Host}
	if overHTTPS(r) {
		v.site = "https://" + r.Host
	}
	asCSV := v.query.Get(csvParameter)
	v.query.Del(csvParameter)
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, maxPost)
		if err := r.ParseForm(); err != nil {
			h.write(w, http.StatusBadRequest, "message.html", message{"The form can't be read", err.Error()})
			return
		}
		v.form = r.PostForm
	}
	endTurn, ok := takeTurn(r)
	if !ok {
		return
	}
	defer endTurn()
	err := v.ask("status", nil, v.Status)
	var body any
	if err == nil {
		body, err = p.build(v)
	}
	status, name := http.StatusOK, p.template
	switch {
	case err != nil && r.Context().Err() != nil:
		return // the visitor left
	case err != nil:
		status, name, body = http.StatusInternalServerError, "message", message{"This page can't be shown", err.Error()}
		if refusal, ok := errors.AsType[*adminapi.AskError](err); ok {
			status = refusal.Status
		} else {
			h.logger.Error("a page failed", zap.String("page", p.Path), zap.Error(err))
		}
	case v.to != "":
		http.Redirect(w, r, v.to, http.StatusSeeOther)
		return
	case v.file != "":
		endTurn() // a browser may read slowly
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		attach(w, v.file)
		_, _ = io.WriteString(w, v.text) // a browser that left has no use for the error
		return
	}
	main, ok := h.render(w, strings.TrimSuffix(name, ".html")+".main", body)
	if !ok {
		return
	}
	endTurn()
	if asCSV != "" && err == nil {
		h.serveCSV(w, cmp.Or(strings.Trim(p.Path, "/"), "now"), asCSV, main.Bytes())
		return
	}
	host, _ := os.Hostname()
	if d := v.Workspace().Definitions; d.Source != nil && strings.Contains(v.Command, d.Directory) {
		v.Command = "" // no command reads a bundle at its address
	}
	f := frame{visit: v, Path: p.Path, Host: host, Edit: h.Edit, Main: template.HTML(main.String())} //nolint:gosec // the template of the page made it
	// The address shows the same again, unless a form was sent.
	if v.form == nil {
		f.Main = withCSVLinks(string(f.Main), r.URL)
	}
	h.write(w, status, "frame.html", &f)
}

// attach has a browser keep an answer as a file.
func attach(w http.ResponseWriter, name string) {
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
}

// Groups returns the navigation.
func (f *frame) Groups() (groups []group) {
	for i := range pages {
		p := &pages[i]
		if p.group == "" {
			continue
		}
		if len(groups) == 0 || groups[len(groups)-1].Name != p.group {
			groups = append(groups, group{Name: p.group})
		}
		last := &groups[len(groups)-1]
		last.Pages = append(last.Pages, p)
	}
	return groups
}

// Here reports whether a page of the navigation is this one, or leads to it.
func (f *frame) Here(p *page) bool {
	return p.Path == strings.TrimSuffix(f.Path, "/") || p.Path == "definitions" && (f.Path == "edit" || f.Path == "plan")
}

// maxPost bounds the form of a page, in bytes.
const maxPost = 4 << 20

// message is a page that says one thing.
type message struct{ Title, Text string }

// render returns what a template makes of data. If it fails, render answers.
func (h *Handler) render(w http.ResponseWriter, name string, data any) (text bytes.Buffer, ok bool) {
	if err := templates.ExecuteTemplate(&text, name, data); err != nil {
		h.logger.Error("a page failed", zap.String("template", name), zap.Error(err))
		http.Error(w, "The page failed. The operator finds the reason in the gateway's log.", http.StatusInternalServerError)
		return text, false
	}
	return text, true
}

// write writes a template as an answer.
func (h *Handler) write(w http.ResponseWriter, status int, name string, data any) {
	body, ok := h.render(w, name, data)
	if !ok {
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // a browser that left has no use for the error
}

// serveStatic serves scripts and styles. They are part of the binary, so browsers may keep
// them for a while, and ask again by their time.
func serveStatic(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "private, max-age=300")
	http.ServeFileFS(w, r, files, r.URL.Path)
}

// words are the functions of the templates.
var words = template.FuncMap{
	"time": func(t time.Time) template.HTML {
		if t.IsZero() {
			return ""
		}
		at := t.UTC()
		return template.HTML(fmt.Sprintf(`<time datetime="%s">%s</time>`, at.Format("2006-01-02T15:04:05.000Z"), at.Format("2006-01-02 15:04:05"))) //nolint:gosec // of numbers alone
	},
	"trouble": targetTrouble, "troubled": trouble, "outcome": outcome, "why": why,
	"members": adminapi.MembersOf, "membername": memberName, "plain": plain, "indented": indented,
	"amount": amountOf, "used": usedOf, "whose": whose, "chartwidth": chartWidth,
	"ago":     ago,
	"count":   func(n int64) template.HTML { return data(float64(n), count(n)) },
	"dollars": func(amount float64) template.HTML { return data(amount, dollars(amount)) },
	"took":    func(d time.Duration) template.HTML { return data(float64(d)/float64(time.Millisecond), took(d)) },
	"millis":  millis,
	"percent": tenth, "share": share, "relative": relative,
	"stateword": stateWord, "stateshape": stateShape, "reads": readsLink,
	"rolloutshape": rolloutShape, "rolloutword": rolloutWord, "rolloutlink": rolloutLink,
	"part":       func(x float64) template.HTML { return data(x, digits(100*x)+" %") },
	"buckets":    gateway.ShareText,
	"number":     func(x float64) template.HTML { return data(x, digits(x)) },
	"bytes":      func(n int64) string { return humanize.IBytes(uint64(max(n, 0))) },
	"join":       strings.Join,
	"list":       func(texts ...string) []string { return texts },
	"definition": definitionLink, "content": contentText,
	"text":   func(value json.RawMessage) string { return clipped(plain(value)) },
	"escape": url.PathEscape, // of a segment of a path
	"add":    func(a, b int) int { return a + b },
	// The first digits of an id are its time: traces of a moment differ in the last.
	"short": func(id trace.ID) template.HTML {
		text := id.String()
		return template.HTML(fmt.Sprintf(`<data value="%s">%s…%s</data>`, text, text[:8], text[len(text)-6:])) //nolint:gosec // of digits alone
	},
}

// millis returns a duration of so many milliseconds.
func millis(ms float64) template.HTML {
	return data(ms, took(time.Duration(ms*float64(time.Millisecond))))
}

// data returns a number as people read it, with the number itself for programs.
func data(number float64, text string) template.HTML {
	if text == "" {
		return ""
	}
	return template.HTML(fmt.Sprintf(`<data value="%s">%s</data>`, strconv.FormatFloat(number, 'f', -1, 64), template.HTMLEscapeString(text))) //nolint:gosec // escaped
}

// ago returns how long before now a time is, in one or two units.
func ago(now, t time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return ""
	case d < time.Minute:
		return strconv.Itoa(max(int(d/time.Second), 0)) + " s"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + " min"
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d/time.Hour), int(d%time.Hour/time.Minute))
	}
	return fmt.Sprintf("%d d %d h", int(d/(24*time.Hour)), int(d%(24*time.Hour)/time.Hour))
}

// count returns a number with commas between its thousands.
func count(n int64) string { return humanize.Comma(n) }

// dollars returns an amount with two decimals, or for less than a dollar three digits.
func dollars(amount float64) string {
	if amount >= 1 || amount <= -1 {
		return fmt.Sprintf("$%.2f", amount)
	}
	return "$" + strconv.FormatFloat(amount, 'g', 3, 64)
}

// took returns a duration in milliseconds or, from a second on, in seconds.
func took(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d < time.Second:
		return fmt.Sprintf("%.3g ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
