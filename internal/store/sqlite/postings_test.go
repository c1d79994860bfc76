package sqlite

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// mustPost counts and posts everything.
func mustPost(t testing.TB, k *statsKeeper) {
	t.Helper()
	for more := true; more; {
		var err error
		if more, err = k.step(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.writePostings(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// listAll lists page by page, and returns the ids and how many pages were not
// complete.
func listAll(t testing.TB, s *Store, f trace.Filter, limit int, budget time.Duration) (ids []trace.ID, short int) {
	t.Helper()
	for before := (trace.ID{}); ; {
		page, err := s.Traces(t.Context(), f, before, limit, budget)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Records {
			ids = append(ids, r.ID)
		}
		if !page.Complete {
			short++
		}
		if before = page.Next; before.IsZero() {
			return ids, short
		}
	}
}

// TestPostings lists by keys, of which one is in most traces, what was written
// hours late, posted twice, deleted, and not posted yet.
func TestPostings(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k := mustKeep(t, s)
	authority, random := mustAuthority(t), rand.New(rand.NewPCG(1, 2))
	const count = 5000
	all := make([]*trace.Record, count)
	for n := range all {
		// Most are of one hour: a list of the frequent key is not enough for them.
		at := base.Add(time.Duration(n) * 400 * time.Millisecond)
		if n > count/2 {
			at = base.Add(time.Hour/2 + time.Duration(n-count/2)*10*time.Second)
		}
		kind := []trace.Kind{trace.KindPrompt, trace.KindEndpoint}[n%2]
		all[n] = &trace.Record{
			ID: authority.New(kind, at), Time: at, Workspace: []string{"w", "w", "w", "v"}[n%4], Kind: kind,
			Key: "frequent", APIKey: fmt.Sprint("app_", n%3), Metadata: []byte(`{}`),
		}
		switch {
		case n%100 == 0:
			all[n].Key = "rare"
		case n%7 == 0:
			all[n].APIKey = ""
		case n == 3554:
			all[n].APIKey = "split\x1fname"
		}
		if n%1000 == 1 {
			all[n].Provider, all[n].Metadata = "p", []byte(`{"some":1}`)
		}
	}
	order := slices.Clone(all) // of writing
	for n := range order {
		if n%50 == 0 {
			m := min(n+random.IntN(3000), count-1)
			order[n], order[m] = order[m], order[n]
		}
	}
	for n, r := range order {
		batch := recorder.Batch{Records: []*trace.Record{r}}
		if n%10 == 0 { // it had begun long before
			began := *order[min(n+1000, count-1)]
			began.State = trace.StateInterrupted
			batch.Interrupted = append(batch.Interrupted, &began)
		}
		if err := s.Commit(t.Context(), &batch); err != nil {
			t.Fatal(err)
		}
		if n%2000 == 1999 && n < count-1 {
			mustPost(t, k)
		}
	}
	all = slices.DeleteFunc(all, func(r *trace.Record) bool {
		if random.IntN(10) != 0 {
			return false
		}
		if _, err := s.conn.ExecContext(t.Context(), "DELETE FROM traces WHERE id = ?", r.ID[:]); err != nil {
			t.Fatal(err)
		}
		return true
	})
	slices.SortFunc(all, func(a, b *trace.Record) int { return bytes.Compare(b.ID[:], a.ID[:]) })

	check := func(when string) {
		t.Helper()
		for name, f := range map[string]trace.Filter{
			"frequent":         {Key: "frequent"},
			"rare":             {Key: "rare"},
			"none":             {Key: "none"},
			"API key":          {APIKey: "app_1"},
			"torn":             {APIKey: "split\x1fname"},
			"both":             {Key: "rare", APIKey: "app_2"},
			"both, workspace":  {Workspace: "v", Key: "frequent", APIKey: "app_2"},
			"kind":             {Key: "frequent", Kind: trace.KindEndpoint},
			"kind, never":      {Key: "rare", Kind: trace.KindEndpoint},
			"provider":         {Key: "frequent", Provider: "p"},
			"rare, provider":   {Key: "rare", Provider: "p"},
			"times":            {Key: "frequent", Since: base.Add(20 * time.Minute), Until: base.Add(5 * time.Hour)},
			"metadata":         {Key: "frequent", Metadata: []trace.MetadataMatch{{Name: "some", Value: "1"}}},
			"API key, ended":   {APIKey: "app_0", State: new(trace.StateEnded)},
			"API key, started": {APIKey: "app_0", State: new(trace.StateStarted)},
		} {
			if f.Workspace == "" {
				f.Workspace = "w"
			}
			var want []trace.ID
			for _, r := range all {
				if (&drawn{}).matches(&f, r) {
					want = append(want, r.ID)
				}
			}
			for limit, budget := range map[int]time.Duration{77: 0, MaxPage - 1: 0, MaxPage: time.Minute} {
				if got, _ := listAll(t, s, f, limit, budget); !slices.Equal(got, want) {
					t.Errorf("%s, %s: %d were listed in %d at a time for %v, want %d", when, name, len(got), limit, budget, len(want))
				}
			}
			if name == "rare" || name == "none" {
				if _, short := listAll(t, s, f, MaxPage, 0); short > 0 {
					t.Errorf("%s, %s: %d pages were short of time", when, name, short)
				}
			}
		}
	}
	check("in part posted")
	mustPost(t, k)
	check("posted")
	if longest, err := queryInt(t.Context(), k.db, "SELECT max(length(ids)) / 16 FROM postings"); err != nil || longest != maxPosted {
		t.Errorf("the longest list has %d ids, %v; want %d", longest, err, maxPosted)
	}
	if crossing, err := queryInt(t.Context(), k.db, fmt.Sprintf(
		"SELECT count(*) FROM postings WHERE ('0x' || hex(substr(first, 1, 6))) ->> '$' / %[1]d <> ('0x' || hex(substr(last, 1, 6))) ->> '$' / %[1]d", hourMillis)); err != nil || crossing != 0 {
		t.Errorf("%d lists cross an hour, %v", crossing, err)
	}
}

// TestPostingsOfOlderFiles are written in the background, of what had been
// counted before there were any, and of what comes meanwhile.
func TestPostingsOfOlderFiles(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k := mustKeep(t, s)
	authority, now := mustAuthority(t), time.Now()
	commit := func(key string, count int) {
		t.Helper()
		var batch recorder.Batch
		for range count {
			r := fullRecord(authority.New(trace.KindEndpoint, now), now)
			r.Key = key
			batch.Records = append(batch.Records, r)
		}
		if err := s.Commit(t.Context(), &batch); err != nil {
			t.Fatal(err)
		}
	}
	commit("a", 10)
	commit("b", 10*minWindow)
	mustPost(t, k)
	f := trace.Filter{Workspace: "default", Key: "a"}
	execute := func(script string) {
		t.Helper()
		if _, err := k.db.ExecContext(t.Context(), script); err != nil {
			t.Fatal(err)
		}
	}
	execute("ALTER TABLE postings RENAME TO later; DELETE FROM cursors WHERE sink = 'postings'")
	if ids, short := listAll(t, s, f, 100, 0); len(ids) != 10 || short == 0 {
		t.Errorf("of an earlier version: %d were listed, and %d pages were short of time", len(ids), short)
	}
	execute("ALTER TABLE later RENAME TO postings; DELETE FROM postings; INSERT INTO cursors (sink) VALUES ('postings')")
	k.posting = posting{}
	// As if many more had been written.
	execute(fmt.Sprintf("UPDATE sqlite_sequence SET seq = seq + %d WHERE name = 'traces'", maxUnposted))
	commit("a", 5)
	if ids, short := listAll(t, s, f, 100, 0); len(ids) != 15 || short == 0 {
		t.Errorf("nothing posted: %d were listed, and %d pages were short of time", len(ids), short)
	}
	if waiting, err := k.waiting(t.Context()); err != nil || waiting < maxUnposted {
		t.Errorf("%d are waiting, %v", waiting, err)
	}
	mustPost(t, k)
	if all, err := queryInt(t.Context(), k.db, "SELECT min(traces) FROM cursors"); err != nil || all != 10*minWindow+15+maxUnposted {
		t.Errorf("%d are posted and counted, %v", all, err)
	}
	if ids, short := listAll(t, s, f, 100, 0); len(ids) != 15 || short != 0 {
		t.Errorf("posted: %d were listed, and %d pages were short of time", len(ids), short)
	}
	stats, err := s.Stats(t.Context(), StatsQuery{Workspace: "default", Interval: Overall, Key: "a"})
	if err != nil || len(stats.Rows) != 1 || stats.Rows[0].Traces != 15 {
		t.Errorf("%+v, %v", stats, err)
	}
}

// TestPostingsExpire with the traces that they are of.
func TestPostingsExpire(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k := mustKeep(t, s)
	authority := mustAuthority(t)
	var batch recorder.Batch
	var ids []trace.ID
	for n := range 3 * expireLists {
		at := base.Add(time.Duration(n) * time.Hour)
		r := fullRecord(authority.New(trace.KindEndpoint, at), at)
		r.Key = []string{"even", "odd"}[n%2]
		ids = append(ids, r.ID)
		batch.Records = append(batch.Records, r)
	}
	if err := s.Commit(t.Context(), &batch); err != nil {
		t.Fatal(err)
	}
	mustPost(t, k)
	for _, kept := range []int{len(ids), 101, 100, 0} {
		if kept < len(ids) {
			oldest := lastID
			if kept > 0 {
				oldest = ids[len(ids)-kept]
			}
			if _, err := k.db.ExecContext(t.Context(), "DELETE FROM traces WHERE id < ?", oldest[:]); err != nil {
				t.Fatal(err)
			}
		}
		if err := k.expirePostings(t.Context()); err != nil {
			t.Fatal(err)
		}
		// One list by key and one by API key of each hour.
		if got, err := queryInt(t.Context(), k.db, "SELECT count(*) FROM postings"); err != nil || got != int64(2*kept) {
			t.Errorf("%d traces are left: %d lists, %v", kept, got, err)
		}
	}
}

// TestPostingsPlan holds the queries to their indexes.
func TestPostingsPlan(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	query, args := readPosted(shortList, newestFirst, []trace.ID{lastID}, clauses{}, 1)
	for _, q := range []struct {
		query string
		args  []any
		want  string
	}{
		{query, args, "SEARCH traces USING INDEX sqlite_autoindex_traces_1 (id=?)"},
		{windowSQL, []any{"", 0, "", []byte{}, []byte{}, []byte{}}, "SEARCH postings USING PRIMARY KEY (workspace=? AND field=? AND value=? AND last>? AND last<?)"},
		{nextListSQL, []any{"", 0, ""}, "SEARCH postings USING PRIMARY KEY ((workspace,field,value)>(?,?,?))"},
	} {
		steps, err := collect(t.Context(), s.Reader.db, func(scan func(...any) error) (step string, err error) {
			return step, scan(new(int), new(int), new(int), &step)
		}, "EXPLAIN QUERY PLAN "+q.query, q.args...)
		if err != nil || !slices.Contains(steps, q.want) {
			t.Errorf("%s\nis done by %q, %v; want %s", q.query, steps, err, q.want)
		}
	}
}
