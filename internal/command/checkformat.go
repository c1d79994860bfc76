package command

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// checkFormatNames are the formats of check. The first is the default.
var checkFormatNames = []string{"text", "json", "github", "sarif", "junit"}

// checkFormats write the report of check, by the name of the format.
var checkFormats = map[string]func(*cobra.Command, *check) error{
	"text": func(cmd *cobra.Command, c *check) error { return writeReport(cmd, nil, false, c.write) },
	"json": func(cmd *cobra.Command, c *check) error { return writeReport(cmd, c, true, nil) },
	"github": func(cmd *cobra.Command, c *check) error {
		_, err := cmd.OutOrStdout().Write(c.github())
		return err
	},
	"sarif": func(cmd *cobra.Command, c *check) error { return writeReport(cmd, c.sarif(), true, nil) },
	"junit": func(cmd *cobra.Command, c *check) error {
		text, err := c.junit()
		if err == nil {
			_, err = cmd.OutOrStdout().Write(text)
		}
		return err
	},
}

// levels yields the findings of a report, each with the format's word for its level.
func (c *check) levels(errors, warnings, remarks string) func(yield func(string, inspect.Finding) bool) {
	return func(yield func(string, inspect.Finding) bool) {
		for _, l := range []struct {
			level string
			list  []inspect.Finding
		}{{errors, c.Errors}, {warnings, c.Warnings}, {remarks, c.Remarks}} {
			for _, f := range l.list {
				if !yield(l.level, f) {
					return
				}
			}
		}
	}
}

// github returns the report as workflow commands, which GitHub shows at their lines.
// Paths must be relative to the repository. They are if the command runs in the
// repository with a relative path.
func (c *check) github() []byte {
	message := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	var b bytes.Buffer
	for level, f := range c.levels("error", "warning", "notice") {
		fmt.Fprintf(&b, "::%s file=%s", level, property.Replace(visible.Line(filepath.ToSlash(f.File))))
		if f.Line > 0 {
			fmt.Fprintf(&b, ",line=%d,col=%d", f.Line, f.Column)
		}
		fmt.Fprintf(&b, ",title=%s::%s\n", property.Replace(f.Rule), message.Replace(visible.Lines(f.Message)))
	}
	return b.Bytes()
}

// sarif returns the report in the format of static analysis tools, SARIF 2.1.0.
func (c *check) sarif() any {
	type object map[string]any
	results, rules := []object{}, []object{}
	numbers := make(map[string]int) // of rules
	for level, f := range c.levels("error", "warning", "note") {
		index, known := numbers[f.Rule]
		if !known {
			index = len(rules)
			numbers[f.Rule] = index
			rules = append(rules, object{"id": f.Rule})
		}
		place := object{"artifactLocation": object{"uri": fileURI(f.File)}}
		if f.Line > 0 {
			place["region"] = object{"startLine": f.Line, "startColumn": f.Column}
		}
		result := object{
			"ruleId": f.Rule, "ruleIndex": index, "level": level,
			"message": object{"text": f.Message}, "locations": []object{{"physicalLocation": place}},
		}
		if f.Suggestion != "" {
			result["properties"] = object{"suggestion": f.Suggestion}
		}
		results = append(results, result)
	}
	return object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{{
			"tool":       object{"driver": object{"name": "cadenza", "rules": rules}},
			"columnKind": "unicodeCodePoints", "results": results,
		}},
	}
}

// fileURI returns a file's path as a URI, which is relative if the path is.
func fileURI(path string) string {
	u := url.URL{Path: filepath.ToSlash(path)}
	if filepath.IsAbs(path) {
		u.Scheme = "file"
		if !strings.HasPrefix(u.Path, "/") { // a drive
			u.Path = "/" + u.Path
		}
	}
	return u.String()
}

// The elements of JUnit's reports that CI systems read.
type (
	junitSuites struct {
		XMLName  xml.Name   `xml:"testsuites"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Suite    junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Failure *junitFailure `xml:"failure,omitempty"`
		Output  string        `xml:"system-out,omitempty"`
	}
	junitFailure struct {
		Type    string `xml:"type,attr"`
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// junit returns the report as the results of tests: the workspace is a test, and so
// is each finding. A finding that fails the check is a failure. JUnit has no warnings, so
// the other findings pass and have their text as output.
func (c *check) junit() ([]byte, error) {
	suite := junitSuite{Name: "cadenza check", Cases: []junitCase{{Class: visible.Line(c.target), Name: "check"}}}
	if !c.OK {
		suite.Cases[0].Failure = &junitFailure{"check", c.counts(), c.counts()}
	}
	for level, f := range c.levels("error", "warning", "remark") {
		place := visible.Line(f.File)
		if f.Line > 0 {
			place = fmt.Sprintf("%s:%d:%d", place, f.Line, f.Column)
		}
		text := fmt.Sprintf("%s: %s: %s", place, level, visible.Lines(f.Message))
		one := junitCase{Class: visible.Line(f.File), Name: f.Rule + " " + place}
		if level == "error" || level == "warning" && c.strict {
			one.Failure = &junitFailure{f.Rule, visible.Lines(f.Message), text}
		} else {
			one.Output = text
		}
		suite.Cases = append(suite.Cases, one)
	}
	suite.Tests = len(suite.Cases)
	for _, one := range suite.Cases {
		if one.Failure != nil {
			suite.Failures++
		}
	}
	text, err := xml.MarshalIndent(junitSuites{Tests: suite.Tests, Failures: suite.Failures, Suite: suite}, "", "  ")
	return append([]byte(xml.Header), append(text, '\n')...), err
}
