package command_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	caddyfilefmt "github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cadenza-gateway/cadenza/internal/definition"
)

var update = flag.Bool("update", false, "write the results into the golden files")

// result is what a command wrote and returned.
type result struct {
	out, errors string
	err         error
}

// command runs `caddy cadenza` in this process.
func command(t *testing.T, arguments ...string) result {
	t.Helper()
	registered, ok := caddycmd.Commands()["cadenza"]
	if !ok {
		t.Fatal("the command is not registered")
	}
	cmd := &cobra.Command{Use: "cadenza", SilenceUsage: true}
	registered.CobraFunc(cmd)
	var out, errors bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errors)
	cmd.SetIn(strings.NewReader("{plan: enterprise, environment: production}"))
	cmd.SetArgs(arguments)
	err := cmd.Execute()
	return result{out.String(), errors.String(), err}
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write makes the files of a folder, name and content in turn.
func writeFiles(t *testing.T, dir string, files ...string) {
	t.Helper()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(files[i+1]), 0o644))
	}
}

const exampleDefinitions = "../../examples/definitions"

// brokenFiles have a mistake of each kind that check reports.
var brokenFiles = []string{
	"context.yaml", "fields:\n  plan: { type: string, values: [free, pro] }\n  seats: number\n",
	"remoteconfigs/limits.yaml", "type: number\ndefault: 1\ncolumns: [ plan, seats, value ]\nmatrix:\n  - [ prro, any, 2 ]\n  - [ pro, 20..10, 3 ]\n",
	"prompts/hi.yaml", "messages:\n  - { role: user, content: \"{{nme}}\" }\ntemprature: 1\n",
}

// oddFiles load, with warnings.
var oddFiles = []string{
	"context.yaml", "fields:\n  plan: { type: string, values: [free, pro] }\n  seats: number\n",
	"remoteconfigs/limits.yaml", "type: number\ndefault: 1\ncolumns: [ plan, seats, value ]\nmatrix:\n  - [ pro, any, 2 ]\n  - [ pro, 10.., 3 ]\n  - [ any, 50.., 4 ]\n",
}

// variedFiles have an endpoint with variants, of the same key as its prompt.
var variedFiles = []string{
	"context.yaml", "fields: { plan: { type: string, values: [free, pro] } }\n",
	"prompts/chat.yaml", "provider: openai\nmodel: large\nmessages: [ { role: user, content: hello } ]\n",
	"endpoints/chat.yaml", "prompt: chat\nvariants:\n  usual: {}\n  free: { weight: 0, cache: { ttl: 24h }, fallback: [ { provider: openai, model: small, weight: 1 } ] }\ndefault: usual\ncolumns: [ plan, value ]\nmatrix: [ [ free, free ] ]\n",
}

// dividedFiles have a split with a share that is not the last, and one with a salt.
func dividedFiles(share, salt string) []string {
	return []string{
		"context.yaml", "fields: { customer: string }\n",
		"remoteconfigs/colour.yaml", "type: string\ndefault: grey\nrules:\n  - id: colours\n    split:\n      by: customer\n      of: [ { value: blue, share: " + share + " }, { value: green, share: 30% } ]\n",
		"remoteconfigs/size.yaml", "type: number\ndefault: 1\nrules:\n  - id: sizes\n    split: { by: customer, salt: " + salt + ", of: [ { value: 2, share: 50%, name: large } ] }\n",
	}
}

func TestCommandGolden(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	dir := t.TempDir()
	broken, odd, edited := filepath.Join(dir, "broken"), filepath.Join(dir, "odd"), filepath.Join(dir, "edited")
	writeFiles(t, broken, brokenFiles...)
	writeFiles(t, odd, oddFiles...)
	must(t, os.CopyFS(edited, os.DirFS(exampleDefinitions)))
	edit := func(name, old, new string) {
		path := filepath.Join(edited, name)
		data, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(data, []byte(old)) {
			t.Fatalf("%s has no %q (%v)", name, old, err)
		}
		writeFiles(t, edited, name, strings.Replace(string(data), old, new, 1))
	}
	edit("remoteconfigs/model_limits.yaml", "100..,    { rpm: 6000", "200..,    { rpm: 6000")
	edit("remoteconfigs/new_checkout.yaml", "share: 20%", "share: 30%")
	edit("prompts/support_reply.yaml", "reasoning_effort: none", "reasoning_effort: low")
	edit("remoteconfigs/banner_text.yaml", "- [ fr, ", "- [ [fr, it],")
	writeFiles(t, edited, "remoteconfigs/fresh.yaml", "type: boolean\ndefault: true\n")
	must(t, os.Remove(filepath.Join(edited, "endpoints/support_chat.yaml")))
	reworded := filepath.Join(dir, "reworded")
	must(t, os.CopyFS(reworded, os.DirFS(exampleDefinitions)))
	reply, err := os.ReadFile(filepath.Join(reworded, "prompts/support_reply.yaml"))
	must(t, err)
	writeFiles(t, reworded, "prompts/support_reply.yaml", strings.NewReplacer("de helpdesk", "de klantenservice", "{{question}}\" }\n  nl:", "Please:\\n{{question}}\" }\n  nl:").Replace(string(reply)))
	varied, unvaried := filepath.Join(dir, "varied"), filepath.Join(dir, "unvaried")
	writeFiles(t, varied, variedFiles...)
	writeFiles(t, unvaried, append(variedFiles[:4:4], "endpoints/chat.yaml", "prompt: chat\n")...)
	divided, redivided := filepath.Join(dir, "divided"), filepath.Join(dir, "redivided")
	writeFiles(t, divided, dividedFiles("20%", "a")...)
	writeFiles(t, redivided, dividedFiles("30%", "b")...)
	// Of three experiments one is edited, one removed, and of another the split.
	tried, retried := filepath.Join(dir, "tried"), filepath.Join(dir, "retried")
	experimentOf := func(rule, end, goal string) string {
		return "on: remoteconfigs/size\nrule: " + rule + "\ncontrol: passed_on\nstart: 2126-11-01T00:00:00Z\nend: " + end + "T00:00:00Z\nprimary: { value: bought, as: rate, goal: " + goal + ", smallest: 2% }\n"
	}
	splitsOf := func(arm string) string {
		return "type: number\ndefault: 1\nrules:\n" +
			"  - { id: a, split: { by: id, of: [ { name: two, value: 2, share: 20% } ] } }\n" +
			"  - { id: b, split: { by: id, of: [ { name: " + arm + ", value: 3, share: 20% } ] } }\n"
	}
	const ids = "fields: { id: { type: string } }\n"
	writeFiles(t, tried, "context.yaml", ids, "remoteconfigs/size.yaml", splitsOf("three"), "experiments/edited.yaml", experimentOf("a", "2126-12-01", "up"),
		"experiments/gone.yaml", experimentOf("b", "2126-11-02", "up"), "experiments/shop/split.yaml", strings.ReplaceAll(experimentOf("b", "2126-12-01", "up"), "2126-11-01", "2126-11-02"))
	writeFiles(t, retried, "context.yaml", ids, "remoteconfigs/size.yaml", splitsOf("many"), "experiments/edited.yaml", experimentOf("a", "2126-12-15", "down"),
		"experiments/new.yaml", experimentOf("b", "2126-11-02", "up"), "experiments/shop/split.yaml", strings.ReplaceAll(experimentOf("b", "2126-12-01", "up"), "2126-11-01", "2126-11-02"))

	formatted := filepath.Join(dir, "format")
	writeFiles(t, formatted, "a.yaml", "# top\ncolumns: [plan,value]\nmatrix:\n- [free,1] # one\n- [enterprise,2]\n- [pro, 3]\n- [team, 4]\n- [a, 5]\n- [enterprise, 6]\n")

	// Renamed with its old key as an alias, edited in nothing but aliases, renamed without.
	named, renamed := filepath.Join(dir, "named"), filepath.Join(dir, "renamed")
	const prompt, config = "provider: canned\nextra: { answer: Hi }\nmessages: [ { role: user, content: Hi } ]\n", "type: number\ndefault: 1\n"
	writeFiles(t, named, "prompts/hi.yaml", prompt+"aliases: [hello]\n", "endpoints/chat.yaml", "prompt: hi\naliases: [talk, ask]\n",
		"remoteconfigs/limit.yaml", config+"aliases: [rate, quota]\n", "remoteconfigs/page.yaml", config)
	writeFiles(t, renamed, "prompts/hi.yaml", prompt+"aliases: [hello, welcome]\n", "endpoints/chat.yaml", "prompt: hi\naliases: [talk, say]\n",
		"remoteconfigs/shop/limit.yaml", config+"aliases: [limit, rate]\n", "remoteconfigs/shop/page.yaml", config)

	misnamed := filepath.Join(dir, "misnamed")
	writeFiles(t, misnamed, "contxt.yaml", oddFiles[1], oddFiles[2], oddFiles[3], "prompts/notes.txt", "")

	at := []string{"--at", "2026-11-01"}
	for name, test := range map[string]struct {
		arguments []string
		fails     bool
	}{
		"check":                {arguments: []string{"check", exampleDefinitions}},
		"check_json":           {arguments: []string{"check", "--json", exampleDefinitions}},
		"check_all":            {arguments: []string{"check", "--all", odd}},
		"check_strict":         {arguments: []string{"check", "--strict", odd}, fails: true},
		"check_broken":         {arguments: []string{"check", broken}, fails: true},
		"check_broken_json":    {arguments: []string{"check", "--json", broken}, fails: true},
		"check_file":           {arguments: []string{"check", filepath.Join(broken, "prompts/hi.yaml")}, fails: true},
		"check_file_good":      {arguments: []string{"check", filepath.Join(broken, "context.yaml")}},
		"check_file_ok":        {arguments: []string{"check", "--all", filepath.Join(odd, "remoteconfigs/limits.yaml")}},
		"check_file_alone":     {arguments: []string{"check", filepath.Join(formatted, "a.yaml")}, fails: true},
		"check_misnamed":       {arguments: []string{"check", misnamed}, fails: true},
		"check_github":         {arguments: []string{"check", "--format", "github", "--all", odd}},
		"check_sarif":          {arguments: []string{"check", "--format", "sarif", broken}, fails: true},
		"check_junit":          {arguments: []string{"check", "--format", "junit", "--strict", odd}, fails: true},
		"check_bad_format":     {arguments: []string{"check", "--format", "junti", odd}, fails: true},
		"check_two_formats":    {arguments: []string{"check", "--format", "junit", "--json", odd}, fails: true},
		"check_against":        {arguments: []string{"check", "--strict", "--against", divided, redivided}},
		"check_against_json":   {arguments: []string{"check", "--json", "--against", divided, redivided}},
		"check_against_file":   {arguments: []string{"check", "--against", divided, filepath.Join(redivided, "remoteconfigs/size.yaml")}},
		"diff_units":           {arguments: append([]string{"diff", divided, redivided}, at...)},
		"diff_units_json":      {arguments: append([]string{"diff", "--json", divided, redivided}, at...)},
		"check_against_broken": {arguments: []string{"check", "--against", broken, divided}, fails: true},
		"check_against_config": {arguments: []string{"check", "--against", divided, "--config", "Caddyfile"}, fails: true},
		"check_nowhere":        {arguments: []string{"check", filepath.Join(dir, "nowhere")}, fails: true},
		"eval":                 {arguments: append([]string{"eval", exampleDefinitions, "model_limits", "--context", `{"environment":"production","plan":"pro","seats":50}`}, at...)},
		"eval_explain":         {arguments: append([]string{"eval", exampleDefinitions, "model_limits", "--explain", "-c", "{environment: production, plan: enterprise, seats: 50}"}, at...)},
		"eval_unknown_context": {arguments: append([]string{"eval", exampleDefinitions, "model_limits", "--explain", "-c", "{plna: pro, plan: golden, environment: prodution, seats: many, beta: true}"}, at...)},
		"eval_undeclared":      {arguments: append([]string{"eval", exampleDefinitions, "support_reply", "--variables", "{question: Waar?, compny: Ada}"}, at...)},
		"eval_split":           {arguments: append([]string{"eval", exampleDefinitions, "new_checkout", "--explain", "-c", "{environment: production, plan: pro, seats: 50, customer_id: c-3}"}, at...)},
		"eval_arm":             {arguments: append([]string{"eval", exampleDefinitions, "new_checkout", "-c", "{environment: production, plan: pro, seats: 50, customer_id: c-4}"}, at...)},
		"eval_prompt":          {arguments: append([]string{"eval", exampleDefinitions, "support_reply", "-c", "{locale: nl-BE}", "--variables", "{question: Waar?}"}, at...)},
		"eval_endpoint":        {arguments: append([]string{"eval", exampleDefinitions, "support_chat", "--variables", "{question: Where?}", "--json"}, at...)},
		"eval_variants":        {arguments: append([]string{"eval", varied, "endpoints/chat", "-c", "{plan: free}", "--explain"}, at...)},
		"check_experiments":    {arguments: []string{"check", tried}},
		"diff_experiments":     {arguments: append([]string{"diff", tried, retried}, at...)},
		"diff_variants":        {arguments: append([]string{"diff", unvaried, varied}, at...)},
		"eval_variable":        {arguments: append([]string{"eval", exampleDefinitions, "support_reply"}, at...), fails: true},
		"eval_stdin":           {arguments: append([]string{"eval", exampleDefinitions, "model_limits", "-c", "@-"}, at...)},
		"eval_unknown":         {arguments: []string{"eval", exampleDefinitions, "model_limit"}, fails: true},
		"eval_bad_context":     {arguments: []string{"eval", exampleDefinitions, "model_limits", "--context", `{"a":1,"a":2}`}, fails: true},
		"eval_bad_at":          {arguments: []string{"eval", exampleDefinitions, "model_limits", "--at", "tomorrow"}, fails: true},
		"eval_bad_kind":        {arguments: []string{"eval", exampleDefinitions, "model_limits", "--kind", "promt"}, fails: true},
		"diff":                 {arguments: append([]string{"diff", exampleDefinitions, edited}, at...)},
		"diff_text":            {arguments: append([]string{"diff", exampleDefinitions, reworded}, at...)},
		"diff_text_json":       {arguments: append([]string{"diff", "--json", exampleDefinitions, reworded}, at...)},
		"diff_same":            {arguments: []string{"diff", "--exit-code", exampleDefinitions, exampleDefinitions}},
		"diff_exit_code":       {arguments: append([]string{"diff", "--exit-code", exampleDefinitions, edited}, at...), fails: true},
		"diff_aliases":         {arguments: append([]string{"diff", named, renamed}, at...)},
		"diff_aliases_json":    {arguments: append([]string{"diff", "--json", named, renamed}, at...)},
		"eval_alias":           {arguments: append([]string{"eval", renamed, "remoteconfigs/limit"}, at...)},
		"diff_broken":          {arguments: []string{"diff", exampleDefinitions, broken}, fails: true},
		"fmt":                  {arguments: []string{"fmt", formatted}},
		"fmt_diff":             {arguments: []string{"fmt", "--diff", formatted}},
		"fmt_check":            {arguments: []string{"fmt", "--check", formatted}, fails: true},
		"fmt_check_good":       {arguments: []string{"fmt", "--check", exampleDefinitions}},
		"fmt_nowhere":          {arguments: []string{"fmt", filepath.Join(dir, "nowhere")}, fails: true},
		"schema_bad_kind":      {arguments: []string{"schema", "--kind", "prompts"}, fails: true},
		"schema_nothing":       {arguments: []string{"schema"}, fails: true},
		"unknown":              {arguments: []string{"chek"}, fails: true},
		"unknown_flag":         {arguments: []string{"check", "--stric", exampleDefinitions}, fails: true},
		"unknown_dash":         {arguments: []string{"check", "-json", exampleDefinitions}, fails: true},
		"unknown_far_flag":     {arguments: []string{"check", "--frobnicate", exampleDefinitions}, fails: true},
		"arguments_none":       {arguments: []string{"eval"}, fails: true},
		"arguments_many":       {arguments: []string{"diff", "a", "b", "c"}, fails: true},
		"arguments_no":         {arguments: []string{"stats", "yesterday"}, fails: true},
		"arguments_fmt":        {arguments: []string{"fmt", "--check"}, fails: true},
		"arguments":            {arguments: []string{"eval", exampleDefinitions}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := command(t, test.arguments...)
			if (r.err != nil) != test.fails {
				t.Errorf("error %v, want one: %t", r.err, test.fails)
			}
			if r.err != nil && !strings.Contains(r.errors, r.err.Error()) {
				t.Errorf("the error is not on the standard error: %q", r.errors)
			}
			got := strings.ReplaceAll("out:\n"+r.out+"errors:\n"+r.errors, dir, "DIR")
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				writeFiles(t, ".", golden, got)
			}
			want, err := os.ReadFile(golden)
			must(t, err)
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCommandFmtWrites(t *testing.T) {
	dir := t.TempDir()
	const before, after = "columns: [a,value]\nmatrix:\n- [aa,1]\n", "columns: [ a, value ]\nmatrix:\n- [ aa,       1 ]\n"
	writeFiles(t, dir, "real.yaml", before, "x/.hidden/y.yaml", before, "x/z.txt", before, "x/t.csv", "a,value\naa,1\n")
	must(t, os.Chmod(filepath.Join(dir, "real.yaml"), 0o600))
	link := filepath.Join(dir, "link.yaml")
	if err := os.Symlink("real.yaml", link); err != nil {
		t.Skipf("this system makes no symbolic links: %v", err)
	}
	if r := command(t, "fmt", "-w", link, filepath.Join(dir, "x"), filepath.Join(dir, "x/t.csv")); r.err != nil {
		t.Fatal(r.err)
	}
	for name, want := range map[string]string{"real.yaml": after, "link.yaml": after, "x/.hidden/y.yaml": before, "x/z.txt": before, "x/t.csv": "a,value\naa,1\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is no link any more: %v", err)
	}
	if info, err := os.Stat(filepath.Join(dir, "real.yaml")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the permissions changed: %v", info.Mode())
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 3 {
		t.Errorf("something was left behind: %v", entries)
	}
	if r := command(t, "fmt", "-w", "--check", dir); r.err == nil {
		t.Error("-w and --check went together")
	}
}

func TestCommandInit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "definitions")
	if r := command(t, "init", dir); r.err != nil || !strings.Contains(r.out, "context.yaml") {
		t.Fatalf("%+v", r)
	}
	if r := command(t, "check", "--strict", dir); r.err != nil || strings.Contains(r.out, "remark") {
		t.Errorf("the new workspace does not pass: %+v", r)
	}
	if r := command(t, "fmt", "--check", dir); r.err != nil {
		t.Errorf("the new workspace is not laid out: %+v", r)
	}
	for _, suggested := range []string{"limits", "new_design", "summary", "summarise"} {
		if r := command(t, "eval", dir, suggested, "--variables", "{text: x}", "-c", "{environment: production, plan: pro}"); r.err != nil {
			t.Errorf("%s: %+v", suggested, r)
		}
	}
	before, err := definition.Load(dir)
	must(t, err)
	if r := command(t, "init", dir); r.err == nil || !strings.Contains(r.err.Error(), "not empty") {
		t.Errorf("a second init: %+v", r)
	}
	if after, err := definition.Load(dir); err != nil || after.Revision != before.Revision {
		t.Errorf("a second init changed the workspace: %v", err)
	}
	// The Caddyfile is beside it. Where there is one, it stays as it is.
	caddyfile := filepath.Join(filepath.Dir(dir), "Caddyfile")
	text, err := os.ReadFile(caddyfile)
	if err != nil || !strings.Contains(string(text), `definitions "definitions"`) {
		t.Errorf("the Caddyfile: %v\n%s", err, text)
	}
	if formatted := caddyfilefmt.Format(text); string(formatted) != string(text) {
		t.Errorf("caddy fmt would write\n%s", formatted)
	}
	must(t, os.WriteFile(caddyfile, []byte(":80\n"), 0o600))
	r := command(t, "init", filepath.Join(filepath.Dir(dir), "a second"))
	if text, err := os.ReadFile(caddyfile); r.err != nil || err != nil || string(text) != ":80\n" || !strings.Contains(r.out, "is left as it was") || !strings.Contains(r.out, `definitions "a second"`) {
		t.Errorf("beside another Caddyfile: %+v\n%s", r, text)
	}
}

func TestCommandKey(t *testing.T) {
	r := command(t, "key", `the "app"`)
	key, file, _ := strings.Cut(r.out, "\n")
	var list []struct{ Name, SHA256 string }
	if r.err != nil || json.Unmarshal([]byte(file), &list) != nil || len(list) != 1 {
		t.Fatalf("%+v", r)
	}
	got, entry := list[0], strings.Split(file, "\n")[1]
	if second := strings.Replace(file, entry, entry+",\n"+entry, 1); json.Unmarshal([]byte(second), &list) != nil || len(list) != 2 {
		t.Errorf("the line between the brackets is no entry: %s", second)
	}
	if !regexp.MustCompile(`^cdz_[A-Z2-7]{26,}$`).MatchString(key) {
		t.Errorf("the key is %q", key)
	}
	if sum := sha256.Sum256([]byte(key)); got.SHA256 != hex.EncodeToString(sum[:]) || got.Name != `the "app"` {
		t.Errorf("the entry is %s", entry)
	}
	if strings.Contains(r.errors, key) {
		t.Error("the key is on the standard error, which logs keep")
	}
	if again := command(t, "key"); strings.HasPrefix(again.out, key) || !strings.Contains(again.out, `"name":"app"`) {
		t.Errorf("the second key: %s", again.out)
	}
	var both struct {
		Key   string
		Entry json.RawMessage
	}
	if r := command(t, "key", "--json", "x"); json.Unmarshal([]byte(r.out), &both) != nil || both.Key == "" || !strings.HasPrefix(string(both.Entry), `{"name":"x"`) {
		t.Errorf("%+v", r)
	}
	for arguments, want := range map[string]string{
		"--role admin":            `,"role":"admin"}`,
		"--role viewer --app":     `,"role":"viewer","app":true}`,
		"--role admin --loopback": `,"role":"admin","loopback":true}`,
		"--loopback":              "loopback is about a role",
		"--role amdin":            `did you mean "admin"?`,
		"--app":                   "app belongs to a key with a role",
		"--role editor --json x":  `,"role":"editor"}}`,
	} {
		r := command(t, append([]string{"key"}, strings.Fields(arguments)...)...)
		if failed := r.err != nil; failed == strings.HasPrefix(want, ",") || failed && !strings.Contains(r.err.Error(), want) || !failed && !strings.Contains(r.out, want) {
			t.Errorf("%s: %v, %s, want %s", arguments, r.err, r.out, want)
		}
	}
	if r := command(t, "key", ""); r.err == nil {
		t.Error("a key without a name was made")
	}
}

func TestCommandSchema(t *testing.T) {
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(exampleDefinitions)))
	r := command(t, "schema", dir)
	if r.err != nil || !strings.Contains(r.out, "yaml.schemas") || !strings.Contains(r.out, "yaml-language-server") {
		t.Fatalf("%+v", r)
	}
	for _, kind := range []string{"context", "prompt", "endpoint", "remoteconfig", "experiment"} {
		data, err := os.ReadFile(filepath.Join(dir, ".schema", kind+".schema.json"))
		if err != nil || !json.Valid(data) {
			t.Errorf("%s: %v", kind, err)
		}
		if !strings.Contains(r.out, kind+".schema.json") {
			t.Errorf("the hints do not name %s", kind)
		}
		if printed := command(t, "schema", dir, "--kind", kind); printed.out != string(data) {
			t.Errorf("%s: what is printed differs from what is written", kind)
		}
	}
	if _, err := definition.Load(dir); err != nil {
		t.Errorf("with its schemas, the workspace does not load: %v", err)
	}
	if r := command(t, "schema", filepath.Join(dir, "nowhere")); r.err == nil {
		t.Error("schemas were written nowhere")
	}
}

// TestCommandHelp holds that the help of a command leads to its section of our
// manual.
func TestCommandHelp(t *testing.T) {
	for name, arguments := range map[string][]string{"check": {"check"}, "traces": {"traces"}, "bundle": {"bundle", "verify"}} {
		if r := command(t, append(arguments, "--help")...); r.err != nil || !strings.HasSuffix(r.out, "docs/tools.md#"+name+"\n") || strings.Contains(r.out, "caddyserver.com") {
			t.Errorf("%s: %v\n%s", name, r.err, r.out)
		}
	}
	if r := command(t, "--help"); !strings.HasSuffix(r.out, "docs/tools.md\n") {
		t.Errorf("%s", r.out)
	}
}

// TestCommandCompletion asks for what a shell would.
func TestCommandCompletion(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cadenza/definitions" {
			fmt.Fprint(w, `{"workspaces":{"default":{"definitions":[{"key":"b"},{"key":"a"},{"key":"b"}]},"partner":{"definitions":[{"key":"c"}]}}}`)
		}
	}))
	defer server.Close()
	address := "--address=" + server.Listener.Addr().String()
	const noFiles, dirs, files = ":4", ":16", ":0"
	for want, arguments := range map[string][]string{
		"banner_text chat model_limits new_checkout parcel_chat support_chat support_reply text_to_bulletpoints " + noFiles: {"eval", exampleDefinitions, ""},
		"chat parcel_chat support_chat " + noFiles: {"eval", "--kind", "endpoint", exampleDefinitions, ""},
		noFiles:     {"eval", "nowhere", ""},
		dirs:        {"diff", "a", ""},
		files:       {"fmt", "a", ""},
		files + " ": {"check", ""},
		dirs + " ":  {"bundle", "build", ""},
		" " + files: {"bundle", "verify", "--key", ""},
		"prompt endpoint remoteconfig " + noFiles:                    {"traces", "--kind", ""},
		"context prompt endpoint remoteconfig experiment " + noFiles: {"schema", "--kind", ""},
		"started ended interrupted " + noFiles:                       {"export", "--state", ""},
		"stop tool_calls length content_filter " + noFiles:           {"traces", "--finish-reason", ""},
		"hour day all " + noFiles:                                    {"stats", "--interval", ""},
		"default partner " + noFiles:                                 {"traces", address, "--workspace", ""},
		"a b c " + noFiles:                                           {"traces", address, "--key", ""},
		"c " + noFiles:                                               {"stats", address, "-w", "partner", "--key", ""},
		"" + noFiles + " ":                                           {"stats", "--address=127.0.0.1:1", "--key", ""},
		"ok error " + noFiles:                                        {"traces", "--status", ""},
		"variant arm version " + noFiles:                             {"stats", "--by", ""},
		"time latency cost score " + noFiles:                         {"traces", "--sort", ""},
		"workspace key variant endpoint_variant version api_key provider model day metadata. :6": {"costs", "--by", ""},
	} {
		r := command(t, append([]string{"__complete"}, arguments...)...)
		if got := strings.Join(strings.Fields(r.out), " "); r.err != nil || got != strings.TrimSpace(want) {
			t.Errorf("%v: %q, want %q (%v)", arguments, got, want, r.err)
		}
	}
}

// TestCommandExitCode runs the commands as a process of their own: what a
// shell sees.
func TestCommandExitCode(t *testing.T) {
	broken, odd := t.TempDir(), t.TempDir()
	writeFiles(t, broken, brokenFiles...)
	writeFiles(t, odd, oddFiles...)
	for name, test := range map[string]struct {
		arguments []string
		status    int
		errors    string // begins so
	}{
		"good":     {[]string{"check", exampleDefinitions}, 0, ""},
		"warnings": {[]string{"check", odd}, 0, ""},
		"strict":   {[]string{"check", "--strict", odd}, 1, "Error: " + odd + ": "},
		"errors":   {[]string{"check", broken}, 1, "Error: " + broken + ": 4 errors"},
		"usage":    {[]string{"check"}, 1, "Error: DIR|FILE is missing: caddy cadenza check DIR|FILE"},
		"flag":     {[]string{"check", "--nonsense", odd}, 1, "Error: unknown flag"},
		"command":  {[]string{"chek"}, 1, "Error: unknown command"},
		"eval":     {[]string{"eval", exampleDefinitions, "nothing"}, 1, "Error: there is no definition"},
		"diff":     {[]string{"diff", exampleDefinitions, exampleDefinitions, "--exit-code"}, 0, ""},
		"help":     {[]string{"check", "--help"}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], append([]string{"cadenza"}, test.arguments...)...)
			cmd.Env = append(os.Environ(), asCaddy+"=1", "HOME="+t.TempDir())
			var errors bytes.Buffer
			cmd.Stderr = &errors
			err := cmd.Run()
			if got := cmd.ProcessState.ExitCode(); got != test.status {
				t.Errorf("exit status %d (%v), want %d:\n%s", got, err, test.status, &errors)
			}
			if !strings.HasPrefix(errors.String(), test.errors) || test.errors == "" && errors.Len() > 0 {
				t.Errorf("standard error:\n%s", &errors)
			}
		})
	}
}

// TestAmbiguousPrefixExits has several ids begin as what a command was given.
func TestAmbiguousPrefixExits(t *testing.T) {
	const candidate = "01990001-0000-8200-8000-000000000003  prompt support_reply"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		form, _ := io.ReadAll(r.Body)
		if !strings.HasSuffix(r.URL.Path, "/019900010000") && r.URL.Query().Get("decision") != "019900010000" && string(form) != "decision=019900010000" {
			t.Errorf("asked for %s", r.URL)
		}
		w.WriteHeader(http.StatusConflict)
		fmt.Fprintf(w, `{"error":"019900010000 begins the ids of 2 traces: give more digits\n  %s"}`, candidate)
	}))
	t.Cleanup(server.Close)
	for name, arguments := range map[string][]string{
		"traces":   {"traces", "019900010000"},
		"decision": {"traces", "--decision", "019900010000"},
		"follow":   {"traces", "--decision", "019900010000", "--follow"},
		"export":   {"export", "--decision", "019900010000"},
		"proofs":   {"prove", "--decision", "019900010000"},
		"erase":    {"erase", "--decision", "019900010000", "--yes"},
		"prove":    {"prove", "019900010000"},
		"proved":   {"prove", "019900010000", "019900020000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], append(append([]string{"cadenza"}, arguments...), "--address", server.Listener.Addr().String())...)
			cmd.Env = append(os.Environ(), asCaddy+"=1", "HOME="+t.TempDir())
			var out, errors bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errors
			err := cmd.Run()
			if got := cmd.ProcessState.ExitCode(); got != 1 || out.Len() > 0 || !strings.Contains(errors.String(), "\n  "+candidate+"\n") {
				t.Errorf("exit status %d (%v):\n%s%s", got, err, &out, &errors)
			}
		})
	}
}

// TestToolsManual checks that every command and every flag is described.
func TestToolsManual(t *testing.T) {
	text, err := os.ReadFile("../../docs/tools.md")
	must(t, err)
	readme, err := os.ReadFile("../../README.md")
	must(t, err)
	parent := &cobra.Command{Use: "cadenza"}
	caddycmd.Commands()["cadenza"].CobraFunc(parent)
	if len(parent.Commands()) != 25 {
		t.Errorf("%d commands", len(parent.Commands()))
	}
	for _, cmd := range parent.Commands() {
		_, section, ok := strings.Cut(string(text), "\n## "+cmd.Name()+"\n")
		if !ok {
			t.Errorf("%s is not described", cmd.Name())
			continue
		}
		if !strings.Contains(string(text), "\n| [`"+cmd.Name()+"`](#"+cmd.Name()+") |") || !strings.Contains(string(readme), cmd.Name()+"`") {
			t.Errorf("%s is not in the opening table, or not in the README's list", cmd.Name())
		}
		section, _, _ = strings.Cut(section, "\n## ")
		for _, cmd := range append(cmd.Commands(), cmd) {
			cmd.Flags().VisitAll(func(f *pflag.Flag) {
				if f.Name != "help" && !strings.Contains(section, "--"+f.Name) {
					t.Errorf("%s: the flag --%s is not described", cmd.Name(), f.Name)
				}
			})
			for line := range strings.SplitSeq(cmd.Short+"\n"+cmd.Long+"\n"+cmd.Example, "\n") {
				if n := utf8.RuneCountInString(line); n > 80 {
					t.Errorf("%s: a line of the help has %d columns: %s", cmd.Name(), n, line)
				}
			}
			if !strings.Contains(section, cmd.Name()) || cmd.Short == "" || cmd.Long == "" || cmd.Example == "" {
				t.Errorf("%s is not described", cmd.Name())
			}
		}
	}
}

// asCaddy makes the test binary the caddy command.
const asCaddy = "CADENZA_TEST_AS_CADDY"

func TestMain(m *testing.M) {
	if os.Getenv(asCaddy) != "" {
		caddycmd.Main()
		return
	}
	flag.Parse()
	os.Exit(m.Run())
}
