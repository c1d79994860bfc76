package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// testRing is a keyring of workspaces by their names, with the contents of its files.
type testRing struct {
	*keyring
	workspaces map[string]*Workspace
}

// ring makes the workspaces of a starting gateway. An inline key is NAME=KEY.
func ring(listed map[string][]fileKey, inline map[string][]string) *testRing {
	r := &testRing{new(keyring), make(map[string]*Workspace)}
	for _, name := range []string{"a", "b", "c"} {
		w := &Workspace{WorkspaceConfig: WorkspaceConfig{Name: name, Memory: new(Memory)}, listed: listed[name]}
		for _, entry := range inline[name] {
			key, text, _ := strings.Cut(entry, "=")
			w.inline = append(w.inline, &principal{digest: digestOf(text), name: key, workspace: w})
		}
		r.workspaces[name] = w
	}
	return r
}

// entry returns an active key, or a revoked one if its name begins with "-".
func entry(name, key string) fileKey {
	name, revoked := strings.CutPrefix(name, "-")
	return fileKey{name: name, digest: digestOf(key), revoked: revoked}
}

// reload starts again with the same workspaces, like a reload of Caddy.
func (r *testRing) reload(t *testing.T) []string {
	t.Helper()
	for _, w := range r.workspaces {
		if r.held != nil {
			w.Memory.keys.Store(&lastKeys{has: r.has(w)})
		}
	}
	r.keyring = new(keyring)
	problems, err := r.begin(r.workspaces)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, list := range problems {
		all = append(all, list...)
	}
	slices.Sort(all)
	return all
}

// edit replaces the keys in a workspace's file.
func (r *testRing) edit(name string, listed ...fileKey) []string {
	problems, inUse, err := r.update(r.workspaces[name], listed, time.Now())
	r.workspaces[name].listed = inUse
	if err != nil {
		return append(problems, err.Error())
	}
	return problems
}

// owner returns the owner of a key as WORKSPACE/NAME, or an empty string.
func (r *testRing) owner(key string) string {
	p := r.authenticate(key, time.Now())
	if p == nil {
		return ""
	}
	return p.workspace.Name + "/" + p.name
}

func (r *testRing) check(t *testing.T, step string, want map[string]string) {
	t.Helper()
	for key, who := range want {
		if got := r.owner(key); got != who {
			t.Errorf("%s: %s is of %q, want %q", step, key, got, who)
		}
	}
}

func checkRefused(t *testing.T, step string, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d problems, want %d: %q", step, len(got), len(want), got)
		return
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("%s: %q, want %q", step, got[i], want[i])
		}
	}
}

const key1, key2, key3 = "test-key-one-0001", "test-key-two-0002", "test-key-three-03"

// TestKeyringStarts checks who owns a key that two workspaces list at the start.
func TestKeyringStarts(t *testing.T) {
	for _, test := range []struct {
		name   string
		listed map[string][]fileKey
		inline map[string][]string
		want   map[string]string
		why    []string
	}{
		{"the configuration goes before a file",
			map[string][]fileKey{"a": {entry("stolen", key1), entry("own", key2)}}, map[string][]string{"b": {"app=" + key1}},
			map[string]string{key1: "b/app", key2: "a/own"}, []string{`"stolen" of workspace a is the key "app" of workspace b`}},
		{"nobody has what two files list",
			map[string][]fileKey{"a": {entry("stolen", key1), entry("own", key2)}, "b": {entry("app", key1)}}, nil,
			map[string]string{key1: "", key2: "a/own"}, []string{`"app" of workspace b is the key "stolen" of workspace a`, `"stolen" of workspace a is the key "app" of workspace b`}},
		{"nor what one of them revokes",
			map[string][]fileKey{"a": {entry("stolen", key1)}, "b": {entry("-app", key1)}}, nil,
			map[string]string{key1: ""}, []string{`"app" of`, `"stolen" of`}},
		{"revoked in one's own file",
			map[string][]fileKey{"a": {entry("-app", key1), entry("app", key2)}}, map[string][]string{"a": {"inline=" + key3}},
			map[string]string{key1: "", key2: "a/app", key3: "a/inline"}, nil},
		{"revoked in the configuration",
			map[string][]fileKey{"a": {entry("-inline", key3)}}, map[string][]string{"a": {"inline=" + key3}},
			map[string]string{key3: ""}, nil},
		{"twice in one file",
			map[string][]fileKey{"a": {entry("one", key1), entry("two", key1), entry("three", key3)}}, nil,
			map[string]string{key1: "a/one", key3: "a/three"}, []string{`"two" of workspace a is the key "one" once more`}},
		{"twice, and once revoked",
			map[string][]fileKey{"a": {entry("one", key1), entry("-two", key1)}}, nil,
			map[string]string{key1: ""}, []string{`"one" of workspace a is revoked by the entry "two"`}},
		{"revoked twice",
			map[string][]fileKey{"a": {entry("-one", key1), entry("-two", key1)}}, nil,
			map[string]string{key1: ""}, []string{`"two" of workspace a is the key "one" once more`}},
		{"in the configuration and the file",
			map[string][]fileKey{"a": {entry("two", key1)}}, map[string][]string{"a": {"one=" + key1}},
			map[string]string{key1: "a/one"}, []string{`"two" of workspace a is the key "one" once more`}},
		{"one name in the file",
			map[string][]fileKey{"a": {entry("app", key1), entry("app", key2)}}, nil,
			map[string]string{key1: "a/app", key2: ""}, []string{`"app" of workspace a has the name of another key`}},
		{"one name in the configuration and the file",
			map[string][]fileKey{"a": {entry("app", key2)}}, map[string][]string{"a": {"app=" + key1}},
			map[string]string{key1: "a/app", key2: ""}, []string{`"app" of workspace a has the name of another key`}},
		{"one name in two workspaces",
			map[string][]fileKey{"a": {entry("app", key1)}, "b": {entry("app", key2)}}, nil,
			map[string]string{key1: "a/app", key2: "b/app"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := ring(test.listed, test.inline)
			checkRefused(t, "at start", r.reload(t), test.why...)
			r.check(t, "at start", test.want)
			// A reload without a change has the same result.
			checkRefused(t, "after a reload", r.reload(t), test.why...)
			r.check(t, "after a reload", test.want)
		})
	}
	r := ring(nil, map[string][]string{"a": {"one=" + key1}, "b": {"two=" + key1}})
	if _, err := r.begin(r.workspaces); err == nil || !strings.Contains(err.Error(), `the API key "two" of workspace b is also "one" of workspace a`) {
		t.Errorf("one key in the configuration of two: %v", err)
	}
}

// TestKeyringEdits edits files to list other workspaces' keys while the gateway runs.
func TestKeyringEdits(t *testing.T) {
	r := ring(map[string][]fileKey{"a": {entry("own", key1)}, "b": {entry("app", key2), entry("more", key3)}}, nil)
	checkRefused(t, "start", r.reload(t))

	const clash = `"stolen" of workspace a is the key "app" of workspace b`
	checkRefused(t, "theirs alone", r.edit("a", entry("stolen", key2)), clash, errNoUsableKey.Error())
	r.check(t, "theirs alone", map[string]string{key1: "a/own", key2: "b/app"})
	checkRefused(t, "theirs revoked", r.edit("a", entry("-stolen", key2), entry("own", key1)), clash)
	checkRefused(t, "theirs", r.edit("a", entry("stolen", key2), entry("own", key1)), clash)
	r.check(t, "theirs", map[string]string{key1: "a/own", key2: "b/app"})
	checkRefused(t, "the owner's edit", r.edit("b", entry("renamed", key2), entry("more", key3)))
	r.check(t, "the owner's edit", map[string]string{key2: "b/renamed"})
	checkRefused(t, "a reload", r.reload(t), `"stolen" of workspace a is the key "renamed" of workspace b`)
	r.check(t, "a reload", map[string]string{key1: "a/own", key2: "b/renamed"})

	checkRefused(t, "revoked", r.edit("b", entry("-app", key2), entry("more", key3)))
	r.check(t, "revoked", map[string]string{key2: ""})
	checkRefused(t, "revoked, asked for", r.edit("a", entry("own", key1), entry("stolen", key2)), clash)
	checkRefused(t, "removed", r.edit("b", entry("more", key3)))
	r.check(t, "removed", map[string]string{key2: ""})
	checkRefused(t, "a third's edit", r.edit("c", entry("app", "test-key-four-0004")))
	r.check(t, "a third's edit", map[string]string{key2: ""})
	checkRefused(t, "one's own edit", r.edit("a", entry("own", key1), entry("given", key2)))
	r.check(t, "one's own edit", map[string]string{key2: "a/given", key1: "a/own"})

	// A name that is in use can't be taken over.
	checkRefused(t, "a new key of an old name", r.edit("a", entry("own", "test-key-five-0005"), entry("own", key1)), "has the name of another key")
	r.check(t, "a new key of an old name", map[string]string{key1: "a/own", "test-key-five-0005": ""})
	checkRefused(t, "all revoked", r.edit("a", entry("-own", key1)), errNoUsableKey.Error())
	r.check(t, "all revoked", map[string]string{key1: ""})
	if !r.contains([]byte(key1)) {
		t.Error("a revoked key is no key to the redactor")
	}
}

// TestListWithoutAUsableKey checks that such a list removes no key that it does not name,
// and that its revocations are effective whatever else it contains.
func TestListWithoutAUsableKey(t *testing.T) {
	expired := func(name, key string) fileKey {
		e := entry(name, key)
		e.notAfter = time.Now().Add(-time.Minute)
		return e
	}
	for _, test := range []struct {
		name string
		now  []fileKey
		want map[string]string
	}{
		{"nothing", nil, map[string]string{key1: "a/one", key2: "a/two", key3: "a/inline"}},
		{"one revoked", []fileKey{entry("-one", key1)}, map[string]string{key1: "", key2: "a/two", key3: "a/inline"}},
		{"one revoked under another name", []fileKey{entry("-leaked", key1)}, map[string]string{key1: "", key2: "a/two"}},
		{"one expired", []fileKey{expired("one", key1)}, map[string]string{key1: "", key2: "a/two"}},
		{"both ended", []fileKey{expired("one", key1), entry("-two", key2)}, map[string]string{key1: "", key2: "", key3: "a/inline"}},
		{"one of the configuration revoked", []fileKey{entry("-inline", key3)}, map[string]string{key1: "a/one", key2: "a/two", key3: ""}},
		{"one of another workspace", []fileKey{entry("-stolen", "test-key-of-b-0001"), entry("mine", "test-key-of-b-0001")},
			map[string]string{key1: "a/one", "test-key-of-b-0001": "b/theirs"}},
		{"another key that has expired", []fileKey{expired("two", "test-key-four-0004")}, map[string]string{key1: "a/one", key2: "a/two", "test-key-four-0004": ""}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := ring(map[string][]fileKey{"a": {entry("one", key1), entry("two", key2)}, "b": {entry("theirs", "test-key-of-b-0001")}}, map[string][]string{"a": {"inline=" + key3}})
			checkRefused(t, "start", r.reload(t))
			for _, step := range []string{"the edit", "the same once more"} {
				if got := r.edit("a", test.now...); len(got) == 0 || got[len(got)-1] != errNoUsableKey.Error() {
					t.Errorf("%s: %q", step, got)
				}
				r.check(t, step, test.want)
			}
			r.reload(t)
			r.check(t, "a reload", test.want)
			// A list with a usable key is applied completely.
			checkRefused(t, "mended", r.edit("a", entry("three", "test-key-five-0005")))
			r.check(t, "mended", map[string]string{key1: "", key2: "", "test-key-five-0005": "a/three"})
		})
	}
}

// TestKeptKeysStayBound checks that a key that stays in use because a list has no usable
// key keeps its owner, over later edits and a reload.
func TestKeptKeysStayBound(t *testing.T) {
	one := entry("one", key1)
	one.bound = &bound{fields: []boundField{{name: "environment", value: "production"}}}
	r := ring(map[string][]fileKey{"a": {one}}, nil)
	checkRefused(t, "start", r.reload(t))
	for _, step := range []string{"an empty list", "once more"} {
		r.edit("a")
		if p := r.authenticate(key1, time.Now()); p == nil || p.bound != one.bound {
			t.Errorf("%s: the key is bound to %v", step, p)
		}
	}
}

// TestKeyThatTwoFilesList checks that such a key has no owner after a start, whichever file
// is edited.
func TestKeyThatTwoFilesList(t *testing.T) {
	r := ring(map[string][]fileKey{"a": {entry("stolen", key1)}, "b": {entry("app", key1)}}, nil)
	checkRefused(t, "start", r.reload(t), `"app" of`, `"stolen" of`)
	checkRefused(t, "the thief's edit", r.edit("a", entry("stolen", key1), entry("own", key2)), `is the key "app" of workspace b`)
	r.check(t, "the thief's edit", map[string]string{key1: "", key2: "a/own"})
	checkRefused(t, "the owner's edit", r.edit("b", entry("app", key1), entry("more", key3)), `is the key "stolen" of workspace a`)
	checkRefused(t, "the thief's is mended", r.edit("a", entry("own", key2)))
	r.check(t, "the thief's is mended", map[string]string{key1: ""})
	checkRefused(t, "the owner's next edit", r.edit("b", entry("app", key1)))
	r.check(t, "the owner's next edit", map[string]string{key1: "b/app"})
}

// TestKeysAreSwappedAtOnce looks keys up while their file changes.
func TestKeysAreSwappedAtOnce(t *testing.T) {
	r := ring(map[string][]fileKey{"a": {entry("app", key1)}}, nil)
	checkRefused(t, "start", r.reload(t))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan int)
	go func() {
		missed := 0
		for ctx.Err() == nil {
			if r.owner(key1) != "a/app" {
				missed++
			}
		}
		done <- missed
	}()
	for i := range 500 {
		checkRefused(t, "edit", r.edit("a", entry(fmt.Sprint("other", i), key2), entry("app", key1)))
	}
	stop()
	if missed := <-done; missed > 0 {
		t.Errorf("a key that stayed was unknown %d times", missed)
	}
}

func TestParseKeys(t *testing.T) {
	const sum = `"sha256":"00112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff"`
	keys, err := parseKeys("keys", []byte("\n[ {\"name\":\"a\","+sum+"},\n{"+sum+`,"revoked":true,"not_after":"2027-01-31T00:00:00+01:00","name":"b"} ]`+"\n"))
	if err != nil || len(keys) != 2 || keys[0].name != "a" || keys[0].revoked || !keys[0].notAfter.IsZero() || keys[0].digest[9] != 0x99 ||
		keys[1].name != "b" || !keys[1].revoked || !keys[1].notAfter.Equal(time.Date(2027, 1, 30, 23, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v, %v", keys, err)
	}
	for text, want := range map[string]string{
		``:                          "keys:1:1: the file is empty",
		`[]`:                        "keys:1:1: the file lists no key",
		`null`:                      "must be a list",
		`{}`:                        "must be a list",
		`[]]`:                       "after the end of the value",
		`- name: a`:                 `keys:1:1: the file must be a list of keys, in brackets and separated by commas: [{"name": "app", "sha256": "…"}]`,
		`{"name":"a",` + sum + `}`:  "keys:1:1: the file must be a list of keys, in brackets",
		"cdz_secret\n[]":            "the file must be a list of keys",
		"\ufeff{}":                  "the file must be a list of keys",
		`["cdz_secret"]`:            "keys:1:2: a key must be an object with name and sha256",
		`[1]`:                       "a key must be an object",
		`[{` + sum + `}]`:           "a key needs a name",
		`[{"name":"a"}]`:            `sha256 of the key "a" must be 64 hex digits`,
		`[{"name":1,` + sum + `}]`:  "a key needs a name",
		`[{"name":"",` + sum + `}]`: "a key needs a name",
		`[{"name":"` + strings.Repeat("n", wire.MaxKeyName+1) + `",` + sum + `}]`: "text of 1 to 256 bytes",
		`[{"name":"console:a",` + sum + `}]`:                                      "names that begin with console: are those of calls",
		`[{"name":"a","sha256":"cdz_secret"}]`:                                    `sha256 of the key "a" must be`,
		`[{"name":"a","sha256":"` + strings.Repeat("g", 64) + `"}]`:               `sha256 of the key "a" must be`,
		`[{"name":"a",` + sum + `,"Not_After":null}]`:                             `unknown member "Not_After" in a key: did you mean "not_after"?`,
		`[{"name":"a",` + sum + `,"not_after":"tomorrow"}]`:                       `not_after of the key "a" must be a time`,
		`[{"name":"a",` + sum + `,"not_after":1}]`:                                `not_after of the key "a" must be a time`,
		`[{"name":"a",` + sum + `,"revoked":"true"}]`:                             "revoked must be true or false",
		`[{"name":"a","name":"b",` + sum + `}]`:                                   "name",
	} {
		if keys, err := parseKeys("keys", []byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "cdz_") {
			t.Errorf("%s: %v, %v; want %s", text, keys, err, want)
		}
	}
	longest := strings.Repeat("n", wire.MaxKeyName)
	if keys, err := parseKeys("keys", []byte(`[{"name":"`+longest+`",`+sum+`}]`)); err != nil || keys[0].name != longest {
		t.Errorf("the longest name: %v", err)
	}
}

// TestKeysFileIsComparedByItsContent checks a change that keeps size and time, and a
// new time without a change.
func TestKeysFileIsComparedByItsContent(t *testing.T) {
	file := &keysFile{path: filepath.Join(t.TempDir(), "keys.json")}
	began := time.Now()
	read := func(step, content string, want string, wantChanged bool) {
		t.Helper()
		if content != "" {
			if err := os.WriteFile(file.path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(file.path, began, began); err != nil {
				t.Fatal(err)
			}
		}
		keys, changed, err := file.read()
		got := ""
		switch {
		case err != nil && changed:
			got = "an error"
		case len(keys) > 0:
			got = keys[0].name
		}
		if changed != wantChanged || got != want {
			t.Errorf("%s: %q, %v, %v", step, got, changed, err)
		}
	}
	list := func(name string) string {
		return fmt.Sprintf(`[{"name":%q,"sha256":"%064d"}]`, name, 0)
	}
	read("no file", "", "an error", true)
	read("no file still", "", "", false)
	read("the first", list("a"), "a", true)
	read("the same", "", "", false)
	read("of the same size and time", list("b"), "b", true)
	read("written again", list("b"), "", false)
	read("invalid", "[", "an error", true)
	read("invalid still", "", "", false)
	read("mended", list("b"), "b", true)
	if err := os.Remove(file.path); err != nil {
		t.Fatal(err)
	}
	read("gone", "", "an error", true)
	read("back as it was", list("b"), "b", true)
}

func TestKeysFileHasACeiling(t *testing.T) {
	file := &keysFile{path: filepath.Join(t.TempDir(), "keys.json")}
	const list = `[{"name":"a","sha256":"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"}]`
	for _, size := range []int{maxKeysFile, maxKeysFile + 1} {
		if err := os.WriteFile(file.path, []byte(list+strings.Repeat(" ", size-len(list))), 0o600); err != nil {
			t.Fatal(err)
		}
		keys, _, err := file.read()
		if size == maxKeysFile && (err != nil || len(keys) != 1) || size > maxKeysFile && (err == nil || !strings.Contains(err.Error(), "larger than 4194304 bytes")) {
			t.Errorf("a file of %d bytes: %v", size, err)
		}
	}
}

// FuzzKeysFile parses arbitrary files. An accepted file is JSON with at least one key,
// each is complete, and parses to the same keys when written again.
func FuzzKeysFile(f *testing.F) {
	const sum = `"sha256":"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"`
	for _, seed := range []string{
		``, `[]`, `[]]`, `null`, `[{"name":"a",` + sum + `}]`, `[{"Name":"a",` + sum + `}]`,
		`[{"name":"a",` + sum + `,"not_after":"2027-01-31T00:00:00Z","revoked":true},{"name":"b",` + sum + `,"revoked":false}]`,
		"\xef\xbb\xbf[{\"name\":\"\\ud83d\\ude00\"," + sum + `}]`, `[[[[`, `[{"name":"a","name":"a"}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := parseKeys("keys.json", data)
		if err != nil {
			return
		}
		if !json.Valid([]byte(strings.TrimPrefix(string(data), "\ufeff"))) || len(keys) == 0 {
			t.Fatalf("%d keys in %q", len(keys), data)
		}
		list := make([]map[string]any, len(keys))
		for i, key := range keys {
			if key.name == "" || len(key.name) > wire.MaxKeyName {
				t.Fatalf("the name %q", key.name)
			}
			list[i] = map[string]any{"name": key.name, "sha256": fmt.Sprintf("%x", key.digest), "revoked": key.revoked}
			if !key.notAfter.IsZero() {
				list[i]["not_after"] = key.notAfter
			}
		}
		again, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		second, err := parseKeys("keys.json", again)
		if err != nil || !slices.EqualFunc(keys, second, func(a, b fileKey) bool {
			same := a.notAfter.Equal(b.notAfter)
			a.notAfter, b.notAfter = time.Time{}, time.Time{}
			return same && reflect.DeepEqual(a, b)
		}) {
			t.Fatalf("%s reads as %v, %v", again, second, err)
		}
	})
}
