package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// importing is an admin API that keeps each event once, and refuses values that are texts.
type importing struct {
	mu     sync.Mutex
	down   bool
	sizes  []int // of the batches
	events map[string]string
}

func (s *importing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method != http.MethodPost || r.URL.Path != "/cadenza/reports" || s.down && len(s.sizes) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"error":"the reports could not be stored"}`)
		return
	}
	var results []string
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		var report struct {
			Unit    map[string]string `json:"unit"`
			Time    string            `json:"time"`
			EventID string            `json:"event_id"`
			Values  map[string]any    `json:"values"`
		}
		if err := json.Unmarshal(lines.Bytes(), &report); err != nil {
			results = append(results, `{"error":{"message":"`+err.Error()+`"}}`)
			continue
		}
		bad := ""
		for name, value := range report.Values {
			if _, ok := value.(string); ok {
				bad = name
			}
		}
		_, known := s.events[report.EventID]
		switch {
		case bad != "":
			results = append(results, `{"error":{"message":"values.`+bad+` must be a number"}}`)
		case known:
			results = append(results, `{"ok":true,"repeated":true}`)
		default:
			s.events[report.EventID] = fmt.Sprint(report.Unit, " ", report.Time, " ", report.Values)
			results = append(results, `{"ok":true}`)
		}
	}
	s.sizes = append(s.sizes, len(results))
	fmt.Fprintf(w, `{"results":[%s],"failed":0}`, strings.Join(results, ","))
}

// importFile runs the command on a file of this content.
func (s *importing) importFile(t *testing.T, content string) (out, errors string, err error) {
	t.Helper()
	server := httptest.NewServer(s)
	defer server.Close()
	file := filepath.Join(t.TempDir(), "reports.csv")
	must(t, os.WriteFile(file, []byte(content), 0o600))
	var stdout, stderr bytes.Buffer
	err = gatewayCommand(t.Context(), &stdout, &stderr, "import-reports", file, "--address", server.Listener.Addr().String())
	named, _, _ := strings.Cut(stderr.String(), "Error: ")
	return stdout.String(), strings.ReplaceAll(named, file, "FILE"), err
}

func TestImportReports(t *testing.T) {
	t.Parallel()
	s := &importing{events: map[string]string{}}
	const content = "\ufeff\"time\",customer_id,event_id,paid,amount\r\n" +
		"2026-11-28T09:30:00Z,c-7,e-1,1,42.50\r\n" +
		"2020-01-31 12:00:00.5+01,\"c-\"\"8\"\"\",e-2,,-3\n" +
		"2026-11-28 09:30:00 UTC,c-9,e-1,1,1\n" +
		"2026-11-28,c-9,e-3,1,1\n" +
		"2026-11-28T09:30:00Z,c-9,e-4,yes,1\n" +
		"2026-11-28T09:30:00Z,c-9,e-5\n" +
		"2026-11-28T09:30:00Z,c-9,e-6, 1 ,\n" +
		"2026-11-28T09:30:00Z, ,e-7,1,\n" +
		"2026-11-28T09:30:00Z,J\xf6rg,e-8,1,\n"
	out, named, err := s.importFile(t, content)
	if want := "3 reports stored, 1 were stored before, 5 refused\n"; out != want || err == nil || err.Error() != "5 rows refused" {
		t.Errorf("%q, %v, want %q", out, err, want)
	}
	wantNamed := []string{
		`FILE:5: time is "2026-11-28", and must be an instant with its zone, such as 2026-01-31T12:00:00Z`,
		`FILE:7: it has 3 cells, the first line 5`,
		`FILE:9: customer_id is empty, and must have the unit`,
		`FILE:10: the cell of customer_id is not UTF-8: export the file as UTF-8`,
		`FILE:6: values.paid must be a number`,
	}
	if diff := cmp.Diff(wantNamed, strings.Split(strings.TrimSpace(named), "\n")); diff != "" {
		t.Error(diff)
	}
	want := map[string]string{
		"e-1": "map[customer_id:c-7] 2026-11-28T09:30:00Z map[amount:42.5 paid:1]",
		"e-2": `map[customer_id:c-"8"] 2020-01-31T11:00:00.5Z map[amount:-3]`,
		"e-6": "map[customer_id:c-9] 2026-11-28T09:30:00Z map[paid:1]",
	}
	if diff := cmp.Diff(want, s.events); diff != "" {
		t.Error(diff)
	}
}

// TestImportReportsAgain has the gateway go away after the first batch of a file without ids
// of events. The same command goes on from there, also past a blank line and a cell of
// several lines.
func TestImportReportsAgain(t *testing.T) {
	t.Parallel()
	s := &importing{events: map[string]string{}, down: true}
	var file strings.Builder
	file.WriteString("customer_id,time,n\n")
	for i := range 2500 {
		if i == 1200 {
			file.WriteString("\n\"c\n1200\",2026-11-28T09:30:00Z,1\n")
			continue
		}
		fmt.Fprintf(&file, "c,2026-11-28T09:30:00Z,1\n")
	}
	out, _, err := s.importFile(t, file.String())
	if out != "" || err == nil || !strings.Contains(err.Error(), "1000 reports stored, 0 were stored before, 0 refused so far: run the same again to go on") {
		t.Errorf("%q, %v", out, err)
	}
	s.down = false
	for _, want := range []string{"1500 reports stored, 1000 were stored before, 0 refused\n", "0 reports stored, 2500 were stored before, 0 refused\n"} {
		if out, _, err := s.importFile(t, file.String()); out != want || err != nil {
			t.Errorf("%q, %v; want %q", out, err, want)
		}
	}
	if out, _, err := s.importFile(t, file.String()+"c,2026-11-28T09:30:00Z,1\n"); out != "2501 reports stored, 0 were stored before, 0 refused\n" || err != nil {
		t.Errorf("another file: %q, %v", out, err)
	}
	if diff := cmp.Diff([]int{1000, 1000, 1000, 500, 1000, 1000, 500, 1000, 1000, 501}, s.sizes); diff != "" {
		t.Error(diff)
	}
}

// TestImportReportsStops has a quote out of place in a row. What follows may be read as what
// it is not.
func TestImportReportsStops(t *testing.T) {
	t.Parallel()
	for row, why := range map[string]string{
		"a\"b,2020-01-01T00:00:00Z,1":       `bare " in non-quoted-field`,
		"\"a\"b,2020-01-01T00:00:00Z,1":     `extraneous or missing " in quoted-field`,
		"ab,\"2020-01-01\"T00:00:00Z,1":     `extraneous or missing " in quoted-field`,
		"\"c,2020-01-01T00:00:00Z,1\nd,e,f": `extraneous or missing " in quoted-field`,
	} {
		s := &importing{events: map[string]string{}}
		out, named, err := s.importFile(t, "customer_id,time,n\nc-7,2020-01-01T00:00:00Z,1\n"+row+"\nc-8,2020-01-01T00:00:00Z,1\n")
		if out != "1 report stored, 0 were stored before, 1 refused\n" || named != "FILE:3: "+why+"\n" ||
			err == nil || !strings.HasPrefix(err.Error(), "the import stopped at line 3: ") {
			t.Errorf("%q: %q, %q, %v", row, out, named, err)
		}
	}
}

func TestImportReportsRefusesFiles(t *testing.T) {
	t.Parallel()
	s := &importing{events: map[string]string{}}
	for content, want := range map[string]string{
		"":                            "must name the columns",
		"customer_id,n\n":             "time is missing: when",
		"customer_id;time;n\n":        "time is missing: columns must be separated by commas",
		"customer_id\ttime\tn\n":      "time is missing: columns must be separated by commas",
		"\"customer_id\";\"time\"\n":  "must name the columns, separated by commas: parse error",
		"J\xf6rg,time,n\n":            "the first line is not UTF-8",
		"time,event_id\n":             "lack a field",
		"time,customer_id\n":          "lack a field",
		"time,customer_id,event_id\n": "lack a field",
		"time,customer_id,a b\n":      `"a b" can't name`,
		"time,customer_id,n,n\n":      `"n" can't name`,
		"time,customer_id,\n":         `"" can't name`,
	} {
		if out, _, err := s.importFile(t, content); out != "" || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v; want %s", content, out, err, want)
		}
	}
	if len(s.sizes) > 0 {
		t.Errorf("batches %v were sent", s.sizes)
	}
}
