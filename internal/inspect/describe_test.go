package inspect

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/kind"
)

var described = []string{
	"context.yaml", `
fields:
  plan:        { type: string, values: [free, pro] }
  tags:        { type: list }
  split:       { type: number }
  customer_id: { type: string }
`,
	"remoteconfigs/limits.yaml", `
description: How much.
type: number
default: 1
columns: [ id, plan, tags, from, ramp, value ]
matrix:
  - [ paid, pro, any, null, null, 10 ]
  - [ gone, pro, [a, b], null, null, 20 ]
  - [ slow, any, 'not x', null, { from: 0%, to: 50%, start: 2026-10-31T12:00:00Z, end: 2026-11-02T12:00:00Z, by: customer_id }, 30 ]
  - [ late, free, any, 2030-01-01, null, 40 ]
tests:
  - { name: paying, context: { plan: pro }, at: 2026-01-01, value: 10 }
  - { context: { plan: free }, at: 2026-01-01, rule: default }
`,
	"remoteconfigs/table.yaml", "type: string\ndefault: none\nmatrix: rows.csv\n",
	"remoteconfigs/rows.csv", "id,plan,value\nfirst,pro,a\nnever,pro,b\n",
	"remoteconfigs/plain.yaml", "type: boolean\ndefault: true\n",
	"prompts/reply.yaml", `
default: en
variables: { limit: { config: limits }, tone: { config: table } }
variants:
  en: { provider: openai, model: m, messages: [ { role: user, content: "{{limit}} {{tone}}" } ] }
  nl: { extends: en }
rules:
  - id: half
    when: { plan: free, split: 5 }
    split: { by: customer_id, of: [ { value: nl, share: 20% }, { value: en, share: 30% } ] }
  - { when: { config: { limits: 10 } }, value: nl, until: 2030-01-01 }
`,
	"endpoints/chat.yaml", "prompt: reply\n",
}

// drawn writes a table, with the lines and columns of its places.
func drawn(t *TableView) string {
	var b strings.Builder
	at := func(p Place) string { return fmt.Sprintf("@%d:%d", p.Line, p.Column) }
	for _, c := range t.Columns {
		b.WriteString(c.Name + at(c.Place) + " ")
	}
	for _, r := range append(slices.Clone(t.Rows), t.Default) {
		b.WriteString("\n" + r.Row + at(r.Place) + ":")
		for _, c := range r.Cells {
			b.WriteString(" " + c.Text + at(c.Place))
		}
		b.WriteString(" =>")
		for _, a := range r.Answers {
			fmt.Fprintf(&b, " %s %s%g%s", a.Value, a.Arm, a.Share, at(a.Place))
		}
		b.WriteString(" " + r.By)
	}
	return b.String()
}

func describe(t *testing.T, s *definition.Snapshot, k *kind.Kind, key string) *Description {
	t.Helper()
	d := s.Named(k, key)
	if d == nil {
		t.Fatalf("there is no %s", key)
	}
	return Describe(s, d, 0, now)
}

func TestDescribeTables(t *testing.T) {
	s := load(t, workspace(t, described...))
	for _, test := range []struct {
		kind      *kind.Kind
		key, want string
	}{
		{kind.RemoteConfig, "limits", `plan@5:16 tags@5:22 from@5:28 ramp@5:34 
paid@7:5: pro@7:13 any@7:18 @7:23 @7:29 => 10 1@7:35 
gone@8:5: pro@8:13 [a, b]@8:18 @8:26 @8:32 => 20 1@8:38 
slow@9:5: any@9:13 "not x"@9:18 @9:27 {from: 0%, to: 50%, start: 2026-10-31T12:00:00Z, end: 2026-11-02T12:00:00Z, by: customer_id}@9:33 => 30 10.25@9:129 customer_id
late@10:5: free@10:13 any@10:19 2030-01-01@10:24 @10:36 => 40 1@10:42 
default@4:10: => 1 1@4:10 `},
		{kind.RemoteConfig, "table", `plan@1:4 
first@2:1: pro@2:7 => "a" 1@2:11 
never@3:1: pro@3:7 => "b" 1@3:11 
default@2:10: => "none" 1@2:10 `},
		{kind.Prompt, "reply", `plan@9:13 split@9:25 config@11:15 until@11:52 
half@8:5: free@9:19 5@9:32 any@8:5 @8:5 => "nl" nl0.2@10:46 "en" en0.3@10:73 customer_id
row 2@11:5: any@11:5 any@11:5 {limits: 10}@11:23 2030-01-01@11:59 => "nl" nl1@11:48 
default@2:10: => "en" 1@2:10 `},
	} {
		if diff := cmp.Diff(test.want, drawn(describe(t, s, test.kind, test.key).Table)); diff != "" {
			t.Errorf("%s:\n%s", test.key, diff)
		}
	}
	if v := describe(t, s, kind.RemoteConfig, "plain"); v.Table != nil {
		t.Errorf("a table of no rows: %+v", v.Table)
	}
	if rows := Describe(s, s.Named(kind.RemoteConfig, "limits"), 2, now).Table; rows.First != 2 || len(rows.Rows) != 2 || rows.Rows[0].Row != "slow" {
		t.Errorf("from the third row on: %+v", rows)
	}
	for _, first := range []int{-1, 100} {
		Describe(s, s.Named(kind.RemoteConfig, "limits"), first, now)
	}
}

func TestDescribe(t *testing.T) {
	dir := workspace(t, described...)
	s := load(t, dir)
	v := describe(t, s, kind.RemoteConfig, "limits")
	file := filepath.Join(dir, "remoteconfigs/limits.yaml")
	if v.Description != "How much." || v.Type != "number" || string(v.Members["default"]) != "1" || v.Members["matrix"] != nil || v.File != file || v.Rows != 4 {
		t.Errorf("%+v", v)
	}
	want := []TestView{
		{Name: "paying", Context: "{plan: pro}", Expects: "value 10", At: "2026-01-01", Place: Place{file, 12, 5}},
		{Context: "{plan: free}", Expects: "rule default", At: "2026-01-01", Place: Place{file, 13, 5}},
	}
	if diff := cmp.Diff(want, v.Tests); diff != "" {
		t.Error(diff)
	}
	found := func(v *Description) (list []string) {
		for _, f := range v.Findings {
			list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", f.Level, f.Rule, f.Row, f.Cell)))
		}
		return list
	}
	if diff := cmp.Diff([]string{"warning unreachable gone"}, found(v)); diff != "" || !strings.Contains(string(v.Findings[0].Witness), `"pro"`) {
		t.Errorf("%s %s", diff, v.Findings[0].Witness)
	}
	table := describe(t, s, kind.RemoteConfig, "table")
	if diff := cmp.Diff([]string{"warning unreachable never"}, found(table)); diff != "" || filepath.Base(table.Matrix) != "rows.csv" {
		t.Errorf("%s in %s", diff, table.Matrix)
	}
	table.AddMistakes([]Finding{{File: file, Line: 1}, {File: table.Matrix, Line: 2}, {File: table.File, Line: 3}})
	if diff := cmp.Diff([]string{"warning unreachable never", "error", "error"}, found(table)); diff != "" {
		t.Error(diff)
	}
	reply := describe(t, s, kind.Prompt, "reply")
	for _, test := range []struct {
		what      string
		got, want any
	}{
		{"uses", reply.Uses, []Use{{"remoteconfig", "limits", "variable"}, {"remoteconfig", "table", "variable"}, {"remoteconfig", "limits", "condition"}}},
		{"used by", reply.UsedBy, []Use{{"endpoint", "chat", "prompt"}}},
		{"limits used by", v.UsedBy, []Use{{"prompt", "reply", "variable"}, {"prompt", "reply", "condition"}}},
		{"chat used by", describe(t, s, kind.Endpoint, "chat").UsedBy, []Use{}},
		{"chat uses", describe(t, s, kind.Endpoint, "chat").Uses, []Use{{"prompt", "reply", "prompt"}}},
		{"variants", reply.Variants, []VariantSource{{Key: "en", Place: Place{reply.File, 5, 3}}, {Key: "nl", Extends: "en", Place: Place{reply.File, 6, 3}}}},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s:\n%s", test.what, diff)
		}
	}
}

// TestDescribeFindsAll has more rows that nothing reaches than a workspace reports, and one
// that expires after the set was loaded.
func TestDescribeFindsAll(t *testing.T) {
	rows := func(n int) string {
		return "type: number\ndefault: 1\ncolumns: [ plan, until, value ]\nmatrix:\n  - [ pro, null, 2 ]\n" + strings.Repeat("  - [ pro, null, 3 ]\n", n)
	}
	s := load(t, workspace(t, "context.yaml", "fields: { plan: { type: string } }\n", "remoteconfigs/a.yaml", rows(definition.MaxWarnings), "remoteconfigs/b.yaml", rows(5)+"  - [ free, 2030-01-01, 4 ]\n"))
	d := s.Named(kind.RemoteConfig, "b")
	if v := Describe(s, d, 0, now); len(v.Findings) != 5 || v.Findings[4].Row != "row 6" || v.Findings[4].Witness == nil {
		t.Errorf("%+v", v.Findings)
	}
	v := Describe(s, d, 0, now.AddDate(5, 0, 0))
	if len(v.Findings) != 6 || v.Findings[5].Rule != "expired" || v.Findings[5].Row != "row 7" {
		t.Errorf("%+v", v.Findings)
	}
	s = load(t, workspace(t, "context.yaml", "fields: { plan: { type: string } }\n", "remoteconfigs/b.yaml", rows(0)+"  - [ free, 2030-01-01, 4 ]\n"))
	if v := Describe(s, s.Named(kind.RemoteConfig, "b"), 0, now.AddDate(5, 0, 0)); len(v.Findings) != 1 || v.Findings[0].Rule != "expired" {
		t.Errorf("%+v", v.Findings)
	}
}

// TestLocate finds the cells of places, also between and after them.
func TestLocate(t *testing.T) {
	dir := workspace(t, described...)
	s := load(t, dir)
	for _, test := range []struct {
		kind         *kind.Kind
		key          string
		line, column int
		want         string
	}{
		{kind.RemoteConfig, "limits", 5, 22, "/tags"},
		{kind.RemoteConfig, "limits", 7, 5, "paid/"},
		{kind.RemoteConfig, "limits", 8, 19, "gone/tags"},
		{kind.RemoteConfig, "limits", 9, 50, "slow/ramp"},
		{kind.RemoteConfig, "limits", 4, 10, "/"},
		{kind.RemoteConfig, "limits", 12, 5, "/"},
		{kind.Prompt, "reply", 10, 46, "half/split"},
		{kind.Prompt, "reply", 9, 25, "half/split"},
		{kind.Prompt, "reply", 11, 23, "row 2/config"},
	} {
		d := s.Named(test.kind, test.key)
		at := d.Pos
		at.Line, at.Column = test.line, test.column
		if row, cell := locate(d, at); row+"/"+cell != test.want {
			t.Errorf("%s %d:%d is in %s/%s, want %s", test.key, test.line, test.column, row, cell, test.want)
		}
	}
}
