package command_test

import (
	"encoding/json"
	"encoding/xml"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// strange writes a workspace whose findings have all that a format must escape.
func strange(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	writeFiles(t, dir, append(brokenFiles, "prompts/a, b: 100%.yaml", "key: x\nmessages: [ { role: '<&\"]]>', content: x } ]\n", "prompts/n.txt", "")...)
	return dir
}

// TestSARIF holds the shape of SARIF 2.1.0: what its schema requires of the members
// that a report has.
func TestSARIF(t *testing.T) {
	for _, dir := range []string{strange(t), exampleDefinitions} {
		r := command(t, "check", "--format", "sarif", "--all", dir)
		var log struct {
			Schema  string `json:"$schema"`
			Version string
			Runs    []struct {
				Tool struct {
					Driver struct {
						Name  string
						Rules []struct{ ID string }
					}
				}
				ColumnKind string
				Results    []struct {
					RuleID    string
					RuleIndex int
					Level     string
					Message   struct{ Text string }
					Locations []struct {
						PhysicalLocation struct {
							ArtifactLocation struct{ URI string }
							Region           *struct{ StartLine, StartColumn int }
						}
					}
					Properties map[string]string
				}
			}
		}
		decoder := json.NewDecoder(strings.NewReader(r.out))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&log); err != nil {
			t.Fatalf("%v\n%s", err, r.out)
		}
		if log.Version != "2.1.0" || len(log.Runs) != 1 || log.Runs[0].Tool.Driver.Name == "" || log.Runs[0].ColumnKind != "unicodeCodePoints" {
			t.Fatalf("%+v", log)
		}
		run, wholeFile := log.Runs[0], 0
		for _, result := range run.Results {
			place := result.Locations[0].PhysicalLocation
			uri, err := url.Parse(place.ArtifactLocation.URI)
			must(t, err)
			if _, err := os.Stat(uri.Path); err != nil || uri.IsAbs() != filepath.IsAbs(dir) {
				t.Errorf("the URI %s: %v", place.ArtifactLocation.URI, err)
			}
			if place.Region == nil {
				wholeFile++
			} else if place.Region.StartLine < 1 || place.Region.StartColumn < 1 {
				t.Errorf("%+v", place.Region)
			}
			if run.Tool.Driver.Rules[result.RuleIndex].ID != result.RuleID || result.RuleID == "" || result.Message.Text == "" ||
				!slices.Contains([]string{"error", "warning", "note"}, result.Level) {
				t.Errorf("%+v", result)
			}
		}
		if dir != exampleDefinitions && (len(run.Results) != 6 || wholeFile != 1) {
			t.Errorf("%d results, %d for a whole file\n%s", len(run.Results), wholeFile, r.out)
		}
	}
}

// TestJUnit holds the elements and counts that CI systems read.
func TestJUnit(t *testing.T) {
	for dir, want := range map[string][2]int{strange(t): {7, 6}, exampleDefinitions: {0, 0}} {
		r := command(t, "check", "--format", "junit", dir)
		var report struct {
			XMLName  xml.Name `xml:"testsuites"`
			Tests    int      `xml:"tests,attr"`
			Failures int      `xml:"failures,attr"`
			Suite    struct {
				Tests    int `xml:"tests,attr"`
				Failures int `xml:"failures,attr"`
				Cases    []struct {
					Class   string `xml:"classname,attr"`
					Name    string `xml:"name,attr"`
					Failure *struct {
						Message string `xml:"message,attr"`
					} `xml:"failure"`
					Output string `xml:"system-out"`
				} `xml:"testcase"`
			} `xml:"testsuite"`
		}
		if err := xml.Unmarshal([]byte(r.out), &report); err != nil {
			t.Fatalf("%v\n%s", err, r.out)
		}
		failures, messages := 0, ""
		for _, c := range report.Suite.Cases {
			if c.Class == "" || c.Name == "" {
				t.Errorf("%+v", c)
			}
			if c.Failure != nil {
				failures++
				messages += c.Failure.Message
			}
		}
		if len(report.Suite.Cases) != report.Tests || report.Tests != report.Suite.Tests || failures != report.Failures || failures != report.Suite.Failures {
			t.Errorf("the counts are not those of the cases:\n%s", r.out)
		}
		if want[0] > 0 && (report.Tests != want[0] || failures != want[1] || !strings.Contains(messages, `<&\"]]>`)) {
			t.Errorf("%d cases, %d failures\n%s", report.Tests, failures, r.out)
		}
		if (r.err == nil) != (failures == 0) {
			t.Errorf("%d failures and the error %v", failures, r.err)
		}
	}
}

// TestGitHub holds that what ends a command or a property is escaped.
func TestGitHub(t *testing.T) {
	dir := strange(t)
	r := command(t, "check", "--format", "github", dir)
	if want := "::error file=" + filepath.ToSlash(dir) + "/prompts/a%2C b%3A 100%25.yaml,line=2,col=21,title=prompt::role must be one of"; !strings.Contains(r.out, want) {
		t.Errorf("lacks %s\n%s", want, r.out)
	}
	if want := "::warning file=" + filepath.ToSlash(dir) + "/prompts/n.txt,title=not-read::not read"; !strings.Contains(r.out, want) {
		t.Errorf("lacks %s\n%s", want, r.out)
	}
}

// TestCheckFile holds which workspace a file is in, and that what is elsewhere is
// counted alone.
func TestCheckFile(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, "ws/context.yaml", "fields: { a: string }\n", "ws/prompts/context.yaml", "messages: 7\n", "ws/prompts/prompts/deep/x.yaml", "messages: 8\n",
		"prompts/ws/contxt.yaml", "fields: { a: string }\n", "prompts/ws/remoteconfigs/x.yaml", "type: boolean\ndefault: true\ncolumns: [ a, value ]\nmatrix: []\n")
	t.Chdir(filepath.Join(dir, "ws", "prompts"))
	for _, test := range []struct {
		path, want string
		elsewhere  int
	}{
		{"context.yaml", "context.yaml", 1},
		{"prompts/deep/x.yaml", "prompts/deep/x.yaml", 1},
		{filepath.Join(dir, "ws/prompts/prompts/deep/x.yaml"), filepath.Join(dir, "ws/prompts/prompts/deep/x.yaml"), 1},
		{"../context.yaml", "", 2},
		{"../../prompts/ws/contxt.yaml", "../../prompts/ws/contxt.yaml", 0},
	} {
		if text := command(t, "check", test.path).out; (test.want != "") != strings.Contains(text, "\n    1 |") {
			t.Errorf("%s: the line:\n%s", test.path, text)
		}
		r := command(t, "check", "--json", test.path)
		var report struct {
			OK        bool
			Errors    []struct{ File string }
			Elsewhere int
		}
		if err := json.Unmarshal([]byte(r.out), &report); err != nil {
			t.Fatalf("%s: %v\n%s%s", test.path, err, r.out, r.errors)
		}
		want := 1
		if test.want == "" {
			want = 0
		}
		if len(report.Errors) != want || report.Elsewhere != test.elsewhere || report.OK != (want == 0) || (r.err == nil) != report.OK {
			t.Errorf("%s: %s", test.path, r.out)
		} else if want == 1 && report.Errors[0].File != test.want {
			t.Errorf("%s: the file is %s", test.path, report.Errors[0].File)
		}
	}
}
