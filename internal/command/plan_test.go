package command

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
)

// planOf makes the plan of an edit of proving's definitions over two decisions, of which one
// is answered otherwise.
func planOf(t *testing.T) *inspect.Plan {
	t.Helper()
	load := func(change string) *definition.Snapshot {
		s, err := definition.Load(planFolder(t, change))
		must(t, err)
		return s
	}
	old, next := load("value: 2"), load("value: 3")
	planner := inspect.NewPlanner(func(string) (*definition.Snapshot, error) { return old, nil }, nil, next, inspect.PlanOptions{})
	for i, plan := range []string{"pro", "free"} {
		traced := &inspect.Traced{TraceID: fmt.Sprintf("0199a001-0000-8600-8000-00000000000%d", i), Time: time.Date(2026, 11, 22, 9, 30, i, 0, time.UTC), APIKey: "app", Kind: "remoteconfig", Key: "limit",
			Revision: old.Revision, Inputs: json.RawMessage(`{"plan":"` + plan + `"}`), Decided: inspect.Decided{Reason: "default"}}
		if i == 0 {
			traced.Decided = inspect.Decided{Reason: "match", Row: "paid"}
		}
		must(t, planner.Add(traced, 1))
	}
	return planner.Report()
}

// planFolder returns a folder with the definitions, and limit's value changed.
func planFolder(t *testing.T, value string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range provingFiles {
		if name == "remoteconfigs/limit.yaml" {
			text = strings.Replace(text, "value: 2", value, 1)
		}
		name = filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	return dir
}

// TestPlanGolden asks a gateway that notes what it gets.
func TestPlanGolden(t *testing.T) {
	plan := planOf(t)
	var out bytes.Buffer
	line := func(w io.Writer, l adminapi.PlanLine) { must(t, json.NewEncoder(w).Encode(l)) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(&out, "%s %s %s\n", r.Method, r.URL, r.Header.Get("Content-Type"))
		archive := tar.NewReader(r.Body)
		for h, err := archive.Next(); err == nil; h, err = archive.Next() {
			fmt.Fprintf(&out, "  %s\n", h.Name)
		}
		switch r.URL.Query().Get("replay") {
		case "1h":
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":"no decisions were recorded since 2026-11-22T08:30:00Z"}`)
		case "2h":
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"error":"the gateway would not serve these definitions:\nprompts/a.yaml:2:3: there is no provider","errors":[]}`)
		case "3h":
			line(w, adminapi.PlanLine{Progress: &adminapi.PlanProgress{Seen: 2048, Of: 10_000}, Plan: plan})
			line(w, adminapi.PlanLine{Error: "the traces can't be read"})
		case "5h":
			line(w, adminapi.PlanLine{Error: "the traces can't be read"})
		case "4h":
			line(w, adminapi.PlanLine{Progress: &adminapi.PlanProgress{Seen: 2048, Of: 10_000}, Plan: plan})
		default:
			line(w, adminapi.PlanLine{Progress: &adminapi.PlanProgress{Seen: 2048, Of: 10_000}, Plan: plan})
			line(w, adminapi.PlanLine{Plan: plan})
		}
	}))
	defer server.Close()
	dir, old, broken, empty := planFolder(t, "value: 3"), planFolder(t, "value: 2"), planFolder(t, "valeu: 3"), t.TempDir()
	for _, arguments := range []string{"DIR", "DIR -w shop --replay 30d --format markdown", "DIR --against OLD --format json", "DIR --against served --fail-over 50%", "DIR --fail-over 49.9%", "DIR --replay 1h", "DIR --replay 2h", "DIR --replay 3h",
		"DIR --replay 4h", "DIR --replay 5h", "DIR --fail-over 0%", "BROKEN", "DIR --against BROKEN", "DIR --format html", "DIR --fail-over 5", "DIR --fail-over -1%", "DIR --fail-over NaN%", "EMPTY", "DIR --against EMPTY", "DIR/none"} {
		fmt.Fprintf(&out, "$ plan %s\n", arguments)
		given := strings.NewReplacer("DIR", dir, "OLD", old, "BROKEN", broken, "EMPTY", empty).Replace(arguments)
		all := append([]string{"plan", "--address", server.Listener.Addr().String()}, strings.Fields(given)...)
		fmt.Fprintf(&out, "status %d\n\n", statusOf(gatewayCommand(t.Context(), &out, &out, all...)))
	}
	var asText, asMarkdown strings.Builder
	must(t, plan.Text(&asText))
	must(t, plan.Markdown(&asMarkdown))
	asJSON, err := json.MarshalIndent(plan, "", "  ")
	must(t, err)
	text := strings.NewReplacer(asText.String(), "(the plan as text)\n", asMarkdown.String(), "(the plan as Markdown)\n", string(asJSON), "(the plan as JSON)", dir, "DIR", old, "OLD", broken, "BROKEN", empty, "EMPTY").Replace(out.String())
	holdGolden(t, "plan", text)
}

// interruptedAnswer is an answer of one line, whose reader presses Ctrl-C when it wants more.
type interruptedAnswer struct {
	t      *testing.T
	line   []byte
	closed chan struct{}
}

func (a *interruptedAnswer) Read(p []byte) (int, error) {
	if n := copy(p, a.line); n > 0 {
		a.line = a.line[n:]
		return n, nil
	}
	self, err := os.FindProcess(os.Getpid())
	must(a.t, err)
	must(a.t, self.Signal(os.Interrupt))
	<-a.closed
	return 0, io.ErrClosedPipe
}

func (a *interruptedAnswer) Close() error {
	select {
	case <-a.closed:
	default:
		close(a.closed)
	}
	return nil
}

// TestPlanInterrupted presses Ctrl-C: the plan so far is shown, and the command fails.
func TestPlanInterrupted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process sends itself no Ctrl-C there")
	}
	line, err := json.Marshal(adminapi.PlanLine{Progress: &adminapi.PlanProgress{Seen: 2048, Of: 10_000}, Plan: planOf(t)})
	must(t, err)
	for _, lines := range [][]byte{append(line, '\n'), nil} {
		plan, err := readPlan(planCommandWith(t), &interruptedAnswer{t, lines, make(chan struct{})})
		want := "interrupted before anything was seen"
		if lines != nil {
			want = "interrupted before all was seen: this is the plan of 2,048 of 10,000 traces"
		}
		if (plan != nil) != (lines != nil) || err == nil || err.Error() != want {
			t.Errorf("%+v, %v", plan, err)
		}
	}
	if plan, err := readPlan(planCommandWith(t), io.NopCloser(strings.NewReader("{"))); plan != nil || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%+v, %v", plan, err)
	}
}

func planCommandWith(t *testing.T) *cobra.Command {
	cmd := planCommand()
	cmd.SetContext(t.Context())
	return cmd
}
