package console

import (
	"bytes"
	"encoding/csv"
	"html/template"
	"net/url"
	"strings"
	"testing"
)

// TestTablesOf reads tables as a spreadsheet gets them.
func TestTablesOf(t *testing.T) {
	const page = `<section><h2>Costs</h2><table><caption>hidden</caption><thead><tr><th scope="col">key</th><td></td><th>cost</th><th>last</th></tr></thead>
<tbody><tr><th><a href="/x">a &lt;b&gt; &amp; "c", d</a></th><td><svg><rect/></svg></td><td><b><data value="1204.5">$1,204.50</data> + ?</b></td><td><time datetime="2026-11-28T14:41:00.000Z">14:41</time></td></tr>
<tr><th>=1+1
  two<br>lines<p>of</p><pre>text</pre></th><td></td><td>-3</td><td><details><summary>Why</summary><table><tr><td>inner</td></tr></table></details></td></tr>
<tr><td colspan="3">@all</td></tr></tbody></table></section><p>between</p><table><tr><td>second</td></tr></table><p>end</p>`
	tables := tablesOf([]byte(page))
	if len(tables) != 2 {
		t.Fatalf("%d tables", len(tables))
	}
	var b bytes.Buffer
	if err := tables[0].writeCSV(&b); err != nil {
		t.Fatal(err)
	}
	want := "key,cost,last\n\"a <b> & \"\"c\"\", d\",1204.5 + ?,2026-11-28T14:41:00.000Z\n'=1+1 two lines of text,-3,Why\n'@all,,\n"
	if b.String() != want {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
	linked := string(withCSVLinks(page, &url.URL{Path: "/console/a//b", RawPath: "/console/a%2F%2Fb", RawQuery: `by=a%22%3E&since=1d`}))
	if strings.Count(linked, `class="csv"`) != 2 || !strings.Contains(linked, `</table><p class="csv"><a href="/console/a%2F%2Fb?by=a%22%3E&amp;csv=2&amp;since=1d" download>`) || !strings.HasSuffix(linked, "<p>end</p>") {
		t.Error(linked)
	}
}

// TestCSVCell has cells that a spreadsheet could take for formulas.
func TestCSVCell(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain": "plain", "a=b": "a=b", "-3": "-3", "-0.00012": "-0.00012", "+1e9": "+1e9", "-1e999": "'-1e999",
		"=1": "'=1", "+a": "'+a", "-a": "'-a", "-": "'-", "-1+2": "'-1+2", "-1-cmd|' /C calc'!A0": "'-1-cmd|' /C calc'!A0", "@SUM(1)": "'@SUM(1)", "\t=1": "'\t=1", "\r=1": "'\r=1",
		"-Inf": "'-Inf", "+0x1p-2": "'+0x1p-2", "＝1": "'＝1", "é": "é",
	} {
		if got := csvCell(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// FuzzCSV has a recorded text in a cell: it is one cell of the CSV, and no formula.
func FuzzCSV(f *testing.F) {
	for _, text := range []string{"=1", "a,\"b\"\n", "</td><td>", "<table>", "-1", "\x00", "\u2028=1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var page bytes.Buffer
		if err := template.Must(template.New("").Parse("<table><tr><th>k</th><td>{{.}}.</td></tr></table>")).Execute(&page, text); err != nil {
			t.Fatal(err)
		}
		tables := tablesOf(page.Bytes())
		if len(tables) != 1 {
			t.Fatalf("%d tables of %s", len(tables), page.String())
		}
		var b bytes.Buffer
		if err := tables[0].writeCSV(&b); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(&b).ReadAll()
		if err != nil || len(rows) != 1 || len(rows[0]) != 2 || rows[0][0] != "k" {
			t.Fatalf("%q: %q, %v", text, rows, err)
		}
		if cell := rows[0][1]; cell != "" && strings.ContainsRune("=+@\t\r", rune(cell[0])) && strings.Trim(cell, "+-.0123456789eE") != "" {
			t.Errorf("%q: a formula %q", text, cell)
		}
	})
}
