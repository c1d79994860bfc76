package gateway_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// spiedStore keeps what a store is given of experiments.
type spiedStore struct {
	recorder.Store
	mu    *sync.Mutex
	given *[]*recorder.Experiments
}

func (s *spiedStore) Commit(ctx context.Context, b *recorder.Batch) error {
	given := append([]*recorder.Experiments(nil), b.Experiments...) // the batch is emptied afterwards
	err := s.Store.Commit(ctx, b)
	if err == nil {
		s.mu.Lock()
		*s.given = append(*s.given, given...)
		s.mu.Unlock()
	}
	return err
}

// TestExperimentsAreRecorded: the store gets the experiments of each set that begins to be
// served, also none, and no others.
func TestExperimentsAreRecorded(t *testing.T) {
	t.Parallel()
	const text = "on: remoteconfigs/checkout\nrule: some\ncontrol: passed_on\nstart: 2126-11-01T00:00:00Z\nend: 2126-12-01T00:00:00Z\nprimary: { value: paid, as: rate, goal: up, smallest: 2% }\n"
	files := sound()
	files["definitions/remoteconfigs/checkout.yaml"] = "type: boolean\ndefault: false\nrules: [ { id: some, split: { by: plan, of: [ { value: true, share: 20% } ] } } ]\n"
	files["definitions/experiments/shop/paid.yaml"] = text
	var mu sync.Mutex
	var given []*recorder.Experiments
	spy := func(g *gateway, _ *gw.Config) {
		g.store.Recorder = recorder.New(recorder.Options{Logger: g.storeLogger(), Open: func(ctx context.Context) (recorder.Store, error) {
			store, err := sqlite.Open(ctx, g.store.Config())
			return &spiedStore{store, &mu, &given}, err
		}})
	}
	began := time.Now()
	g := startGateway(t, files, options, spy)
	list := func() (texts []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range given {
			text := e.Workspace
			for _, p := range e.Plans {
				text += " " + p.Name + " until " + p.End.Format(time.DateOnly)
			}
			texts = append(texts, text)
		}
		return texts
	}
	want := func(all ...string) {
		t.Helper()
		eventually(t, strings.Join(all, ", "), func() bool { return strings.Join(list(), ", ") == strings.Join(all, ", ") })
	}
	want("default shop/paid until 2126-12-01")
	mu.Lock()
	if at := given[0].Time; at.Before(began) || at.After(time.Now()) {
		t.Error(at)
	}
	mu.Unlock()
	g.write("definitions/experiments/shop/paid.yaml", "# why\n"+text)
	g.write("definitions/experiments/shop/paid.yaml", strings.ReplaceAll(text, "2126-12-01", "2126-12-15"))
	want("default shop/paid until 2126-12-01", "default shop/paid until 2126-12-15")
	eventually(t, "the edit is logged", g.said(`"experiments":1,"warnings":0,"changed":["experiment shop/paid"]}`))
	if err := os.RemoveAll(filepath.Join(g.dir, "definitions/experiments")); err != nil {
		t.Fatal(err)
	}
	want("default shop/paid until 2126-12-01", "default shop/paid until 2126-12-15", "default")
	// What answers is none of it.
	if a := g.post("/v1/remoteconfigs", `{"keys":["checkout"],"context":{"plan":"pro"}}`); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}
