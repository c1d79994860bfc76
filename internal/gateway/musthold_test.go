package gateway_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
	"github.com/valyala/fastjson"
)

// numbered writes a set of definitions that all contain the set's number, and makes it
// the directory that the gateway serves, atomically.
func (g *gateway) numbered(n int) {
	g.t.Helper()
	set := fmt.Sprintf("set%d", n)
	for name, text := range map[string]string{
		"context.yaml":          "fields:\n  plan: { type: string, values: [free, pro] }\n",
		"remoteconfigs/c0.yaml": "type: number\ndefault: N\nrules: [ { when: { plan: pro }, value: N } ]\n",
		"remoteconfigs/c1.yaml": "type: string\ndefault: 'N'\nrules: [ { when: { config: { c0: N } }, value: 'N' } ]\n",
		"remoteconfigs/c2.yaml": "type: object\nmerge: default\ndefault: { deep: { n: N } }\nrules: [ { when: { plan: pro }, value: { x: 1 } } ]\n",
		"prompts/p0.yaml":       "messages: [ { role: user, content: N N } ]\n",
		"prompts/p1.yaml":       "variables: { n: { config: c1 } }\nmessages: [ { role: user, content: \"N {{n}}\" } ]\n",
		"prompts/p2.yaml":       "variables: { n: { config: c2, path: deep.n } }\nmessages: [ { role: user, content: \"N {{n}}\" } ]\n",
	} {
		g.write(set+"/"+name, regexp.MustCompile(`\bN\b`).ReplaceAllString(text, strconv.Itoa(n)))
	}
	link := filepath.Join(g.dir, "next")
	if err := os.Symlink(set, link); err != nil {
		g.t.Fatal(err)
	}
	if err := os.Rename(link, filepath.Join(g.dir, "definitions")); err != nil {
		g.t.Fatal(err)
	}
	// The gateway may still be reading the previous set.
	if err := os.RemoveAll(filepath.Join(g.dir, fmt.Sprintf("set%d", n-2))); err != nil {
		g.t.Fatal(err)
	}
}

// oneNumber remembers the number of each text.
type oneNumber struct{ numbers sync.Map }

// check returns an error if the text had another number before.
func (o *oneNumber) check(text string, n int) error {
	if before, _ := o.numbers.LoadOrStore(text, n); before != n {
		return fmt.Errorf("%s goes with the set %v, and with the set %d", text, before, n)
	}
	return nil
}

// numbersOf returns the numbers in an answer's values.
func numbersOf(body []byte) (numbers []string) {
	var p fastjson.Parser
	v, err := p.ParseBytes(body)
	if err != nil {
		return nil
	}
	var visit func(key []byte, answer *fastjson.Value)
	visit = func(key []byte, answer *fastjson.Value) {
		value := answer.Get("value")
		switch string(key) {
		case "decision_id":
		case "prompts", "remoteconfigs":
			answer.GetObject().Visit(visit)
		case "c0":
			numbers = append(numbers, value.String())
		case "c1":
			numbers = append(numbers, string(value.GetStringBytes()))
		case "c2":
			numbers = append(numbers, value.Get("deep", "n").String())
		default:
			numbers = append(numbers, strings.Fields(string(value.GetStringBytes("messages", "0", "content")))...)
		}
	}
	v.GetObject().Visit(visit)
	return numbers
}

// interrupted is the context of a request. It calls a function during the request: the
// gateway calls Err before each of the request's keys, to check if the caller has left.
type interrupted struct {
	context.Context
	happens func()
}

func (c interrupted) Err() error {
	c.happens()
	return c.Context.Err()
}

// TestMustHoldOneRevision repeatedly asks for three keys while the definitions change
// and the configuration is reloaded, also between two keys of a request. All values of
// an answer are from one set of definitions; so are its header, its traces and the
// configurations that they read.
func TestMustHoldOneRevision(t *testing.T) {
	requests := gatewaytest.Full(1_000_000)
	g := startGateway(t, nil, func(g *gateway, _ *gw.Config) {
		g.numbered(1)
		if err := g.source.Reload(); err != nil {
			t.Fatal(err)
		}
	})
	asks := []struct {
		path, body string
		values     int
	}{
		{"/v1/prompts", `{"keys":["p0","p1","p2"],"context":{"plan":%q}}`, 6},
		{"/v1/remoteconfigs", `{"keys":["c0","c1","c2"],"context":{"plan":%q}}`, 3},
		{"/v1/decisions", `{"prompts":["p1"],"remoteconfigs":["c2","c0"],"context":{"plan":%q}}`, 4},
	}
	var (
		revisions, versions oneNumber
		decisions           sync.Map // the number of each
		asked               atomic.Int64
		failed              atomic.Bool
		wg                  sync.WaitGroup
	)
	var (
		changing    sync.Mutex
		sets, loads = 1, 0
	)
	change := func(random *rand.Rand) {
		changing.Lock()
		defer changing.Unlock()
		if random.IntN(5) == 0 {
			loads++
			g.load()
			return
		}
		sets++
		g.numbered(sets)
		if random.IntN(4) > 0 { // otherwise the watcher or the next change loads it
			if err := g.source.Reload(); err != nil {
				failed.Store(true)
				t.Error(err)
			}
		}
	}
	for worker := range uint64(4) {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(worker, 14))
			ctx := interrupted{t.Context(), func() {
				if random.IntN(1000) == 0 {
					change(random)
				}
			}}
			for asked.Add(1) <= int64(requests) && !failed.Load() {
				ask := asks[random.IntN(len(asks))]
				r := httptest.NewRequestWithContext(ctx, http.MethodPost, ask.path, strings.NewReader(fmt.Sprintf(ask.body, []string{"free", "pro"}[random.IntN(2)])))
				r.Header = bearer(testKey)
				if random.IntN(8) > 0 { // most are not recorded: the store is slower than the rest of the test
					r.Header.Set("Cadenza-Log", "none")
				}
				w := httptest.NewRecorder()
				g.serve(w, r)
				numbers := numbersOf(w.Body.Bytes())
				revision := w.Header().Get("Cadenza-Revision")
				n, err := 0, error(nil)
				if w.Code != http.StatusOK || len(numbers) != ask.values {
					err = fmt.Errorf("%d", w.Code)
				} else if n, err = strconv.Atoi(numbers[0]); err == nil {
					for _, other := range numbers {
						if other != numbers[0] {
							err = fmt.Errorf("values of the sets %s", numbers)
						}
					}
				}
				if err == nil {
					err = revisions.check(revision, n)
				}
				if err != nil {
					failed.Store(true)
					t.Errorf("%v: revision %s %s", err, revision, w.Body)
				}
				decisions.Store(w.Header().Get("Cadenza-Decision-Id"), n)
			}
		})
	}
	wg.Wait()
	served := 0
	revisions.numbers.Range(func(any, any) bool { served++; return true })
	if served < 10 {
		t.Errorf("%d sets of definitions answered: too few to tell", served)
	}

	g.restart() // so that all records are stored
	reader, err := sqlite.OpenReader(t.Context(), filepath.Join(g.dir, "data/cadenza.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	traces := 0
	err = reader.Export(context.Background(), trace.Filter{Workspace: "default"}, func(r *trace.Record, _ []trace.Metrics) error {
		traces++
		n, known := decisions.Load(r.Decision.String())
		if !known {
			return fmt.Errorf("%s is of the decision %s, which no answer names", r.ID, r.Decision)
		}
		if err := revisions.check(r.Revision, n.(int)); err != nil {
			return err
		}
		if err := versions.check(r.Key+" "+r.Version, n.(int)); err != nil {
			return err
		}
		var failure error
		if r.Key == "p1" || r.Key == "p2" || len(r.Read) > 0 {
			fastjson.MustParseBytes(r.Read).GetObject().Visit(func(key []byte, version *fastjson.Value) {
				text := strings.TrimPrefix(string(key), "remoteconfigs/") + " " + string(version.GetStringBytes())
				if err := versions.check(text, n.(int)); err != nil {
					failure = err
				}
			})
		}
		return failure
	})
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d requests, %d sets written, %d of them served, %d loads of the configuration, %d traces", requests, sets, served, loads, traces)
	if traces < requests/20 {
		t.Errorf("%d traces of %d requests: too few to tell", traces, requests)
	}
}
