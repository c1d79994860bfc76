package command

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/cadenza-gateway/cadenza/internal/definition"
)

// provingFiles are the definitions of the traces that are proved.
var provingFiles = map[string]string{
	"context.yaml": "fields:\n  plan: { type: string, values: [free, pro] }\n  city: { type: string, trace: none }\n  user: string\n",
	"remoteconfigs/flag.yaml": `type: boolean
default: false
rules:
  - { id: staff, when: { user: ada }, value: true }
  - { id: paid, when: { plan: pro }, split: { by: user, of: [ { value: true, share: 100% } ] } }
`,
	// A unit that records nothing, and a table that a request without a context comes to.
	"remoteconfigs/near.yaml":  "type: boolean\ndefault: false\nrules: [ { id: half, split: { by: city, of: [ { value: true, share: 100% } ] } } ]\n",
	"remoteconfigs/spent.yaml": "type: boolean\ndefault: false\nrules: [ { id: much, when: { budget.b: 80.. }, value: true }, { id: half, split: { by: city, of: [ { value: true, share: 100% } ] } } ]\n",
	"remoteconfigs/limit.yaml": "type: number\ndefault: 1\nrules: [ { id: paid, when: { plan: pro }, value: 2 } ]\n",
}

// provingGateway is an admin API with traces to prove, by the last digit of their ids.
type provingGateway struct {
	revision string
	answer   []byte
	traces   map[byte]string
	// verifications are what the seals say; that of any other trace is valid.
	verifications map[byte]string
}

func newProvingGateway(t *testing.T) *provingGateway {
	t.Helper()
	dir := t.TempDir()
	for name, text := range provingFiles {
		name = filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	s, err := definition.Load(dir)
	must(t, err)
	answer, err := json.Marshal(map[string]any{"revision": s.Revision, "workspace": "default", "files": s.Files})
	must(t, err)
	g := &provingGateway{s.Revision, answer, make(map[byte]string), make(map[byte]string)}
	add := func(digit byte, key, revision, members string) {
		g.traces[digit] = fmt.Sprintf(`{"trace_id":"0199a001-0000-8600-8000-00000000000%c","time":"2026-11-22T09:30:00.12Z","workspace":"default","kind":"remoteconfig","key":%q,"version":%q,"revision":%q,%s}`,
			digit, key, s.RemoteConfigs[key].Version, revision, members)
	}
	split := fmt.Sprintf(`"splits":[{"experiment":{"definition":"remoteconfigs/flag","rule":"paid","salt":"paid"},"bucket":%d,"arm":"1","share":1,"unit":"AAAAAAAAAAAAAAAA"}]`, bucketOf("flag", "paid", "joe"))
	add('1', "limit", s.Revision, `"reason":"match","row":"paid","inputs":{"plan":"pro"}`)
	add('2', "limit", s.Revision, `"reason":"match","row":"paid","inputs":{"plan":"free"}`)
	add('3', "flag", s.Revision, `"reason":"split","row":"paid","arm":"1",`+split+`,"inputs":{"plan":"pro","user":{"hash":"AAAAAAAAAAAAAAAA"}}`)
	add('4', "flag", s.Revision, `"reason":"split","row":"paid","arm":"1",`+split+`,"inputs":{"plan":"pro","user":{"hash":"AAAAAAAAAAAAAAAA"}},"context":{"plan":"pro","user":"joe"}`)
	add('5', "limit", "000000000000", `"reason":"default","inputs":{"plan":"free"}`)
	add('6', "limit", s.Revision, `"status":400`)
	// The context that was kept says otherwise than the inputs.
	add('7', "flag", s.Revision, `"reason":"split","row":"paid","arm":"1",`+split+`,"inputs":{"plan":"pro","user":{"hash":"AAAAAAAAAAAAAAAA"}},"context":{"plan":"pro","user":"jim"}`)
	add('9', "near", s.Revision, `"reason":"default","inputs":{}`)
	add('a', "spent", s.Revision, `"reason":"default","inputs":{"budget.b":10},"notes":["context: none"]`)
	add('8', "limit", s.Revision, `"reason":"match","row":"paid","inputs":{"plan":"pro"},"splits":"[{\"bucket\": 5"`)
	// What seals say of records that are the same as the first.
	for i, verification := range []string{
		`{"result":"changed","key":"9c2f1a0b"}`, `{"result":"changed","key":"9c2f1a0b","changed":["response"]}`,
		`{"result":"other_key","key":"00112233"}`, `{"result":"none"}`, `{"result":"valid","key":"9c2f1a0b","removed":["messages"]}`,
	} {
		digit := "bcdef"[i]
		add(digit, "limit", s.Revision, `"reason":"match","row":"paid","inputs":{"plan":"pro"}`)
		g.verifications[digit] = verification
	}
	return g
}

// bucketOf is the bucket of a unit, by the definition of the hash.
func bucketOf(key, salt, unit string) uint64 {
	return xxhash.Sum64String(key+"\x00"+salt+"\x00"+unit) % 100_000
}

// statusOf is the exit status of a command that returned an error.
func statusOf(err error) int {
	switch {
	case err == nil:
		return 0
	case strings.HasPrefix(err.Error(), "exiting with status 2"):
		return 2
	}
	return 1
}

func (g *provingGateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, _ := strings.CutPrefix(r.URL.Path, "/cadenza/traces/")
	short := func(digits string) string {
		var list []string
		for i := range len(digits) {
			text, _, cut := strings.Cut(g.traces[digits[i]], `,"context":`)
			if cut {
				text += "}"
			}
			list = append(list, text)
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	switch {
	case r.URL.Path == "/cadenza/revisions/"+g.revision:
		_, _ = w.Write(g.answer)
	case strings.HasPrefix(r.URL.Path, "/cadenza/revisions/"):
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error":"the store has no revision"}`)
	case r.URL.Path == "/cadenza/traces" && r.URL.Query().Get("key") == "none":
		fmt.Fprint(w, `{"traces":[],"complete":true,"follow":9}`)
	case r.URL.Path == "/cadenza/traces":
		fmt.Fprint(w, `{"traces":`+short("12345678")+`,"complete":true,"follow":9}`)
	case id == "0199a001":
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"error":"0199a001 begins the ids of 2 traces: give more digits\n  0199a001-0000-8600-8000-000000000001  remoteconfig limit"}`)
	case id == "decision":
		fmt.Fprint(w, `{"decision_id":"x","traces":`+short("147")+`}`)
	case id == "report":
		fmt.Fprint(w, `{"metrics":[]}`)
	case g.traces[id[len(id)-1]] != "":
		digit := id[len(id)-1]
		fmt.Fprint(w, `{"trace":`+g.traces[digit]+`,"verification":`+cmp.Or(g.verifications[digit], `{"result":"valid","key":"9c2f1a0b"}`)+`,"metrics":[]}`)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error":"there is no trace"}`)
	}
}

func TestProveGolden(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	gateway := newProvingGateway(t)
	server := httptest.NewServer(gateway)
	defer server.Close()
	var out bytes.Buffer
	for _, arguments := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f", "f --json", "b d f", "1 2", "1 3", "decision", "", "--key none", "1 --json", "0199a001", "report", "nothing-x", "--limit 0"} {
		fmt.Fprintf(&out, "$ prove %s\n", arguments)
		all := append([]string{"prove", "--address", server.Listener.Addr().String()}, strings.Fields(arguments)...)
		fmt.Fprintf(&out, "status %d\n\n", statusOf(gatewayCommand(t.Context(), &out, &out, all...)))
	}
	holdGolden(t, "prove", strings.ReplaceAll(out.String(), gateway.revision, "REVISION"))
}
