package sqlite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// listAll lists page by page, and returns the ids and the number of pages that were not
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

// TestTermsFindTraces lists traces that were written hours late, stored twice, and deleted.
// It lists them by keys, and most traces have one of these.
func TestTermsFindTraces(t *testing.T) {
	alone(t)
	t.Parallel()
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	authority, random := mustAuthority(t), rand.New(rand.NewPCG(1, 2))
	const count = 3000
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
		case n == 2554:
			all[n].APIKey = "split\x1fname"
		}
		if n%1000 == 1 {
			all[n].Provider, all[n].Metadata = "p", []byte(`{"some":1}`)
		}
	}
	order := slices.Clone(all) // of writing
	for n := range order {
		if n%50 == 0 {
			m := min(n+random.IntN(1800), count-1)
			order[n], order[m] = order[m], order[n]
		}
	}
	for n, r := range order {
		batch := recorder.Batch{Records: []*trace.Record{r}}
		if n%10 == 0 { // it began long before
			began := *order[min(n+1000, count-1)]
			began.State = trace.StateInterrupted
			batch.Interrupted = append(batch.Interrupted, &began)
		}
		mustCommit(t, s, batch)
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

	for range 2 {
		s.termsFirst = !s.termsFirst
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
			for limit, budget := range map[int]time.Duration{477: 0, MaxPage: time.Minute} {
				if got, _ := listAll(t, s, f, limit, budget); !slices.Equal(got, want) {
					t.Errorf("%s, by terms %t: %d were listed in %d at a time for %v, want %d", name, s.termsFirst, len(got), limit, budget, len(want))
				}
			}
			if s.termsFirst && slices.Contains([]string{"rare", "none", "provider", "metadata"}, name) {
				if _, short := listAll(t, s, f, MaxPage, 0); short > 0 {
					t.Errorf("%s: %d pages were short of time", name, short)
				}
			}
		}
	}
}

// TestTermsGoWithTheirTraces: the table of a period is dropped when its traces are gone,
// and made again for a late one.
func TestTermsGoWithTheirTraces(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k := mustKeep(t, s)
	authority := mustAuthority(t)
	const length = time.Duration(1<<periodBits) * time.Millisecond
	var ids []trace.ID
	commit := func(period int) {
		at := base.Add(time.Duration(period) * length)
		ids = append(ids, authority.New(trace.KindEndpoint, at))
		mustCommit(t, s, recorder.Batch{Records: []*trace.Record{fullRecord(ids[len(ids)-1], at)}})
	}
	for period := range 3 {
		commit(period)
	}
	for deleted, want := range []int{3, 2, 1, 0} {
		for _, id := range ids[:deleted] {
			if _, err := k.db.ExecContext(t.Context(), "DELETE FROM traces WHERE id = ?", id[:]); err != nil {
				t.Fatal(err)
			}
		}
		if err := k.dropTerms(t.Context()); err != nil {
			t.Fatal(err)
		}
		if periods, err := readPeriods(t.Context(), k.db); err != nil || len(periods) != want {
			t.Errorf("after %d were deleted, there are tables of %v, %v; want %d", deleted, periods, err, want)
		}
	}
	commit(3)
	s.termsFirst = true
	if ids, _ := listAll(t, s, trace.Filter{Workspace: "default", Key: "support_chat"}, 10, 0); len(ids) != 1 {
		t.Errorf("%d are listed", len(ids))
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestTermsPlan checks that the queries use their indexes.
func TestTermsPlan(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	query, args := readIDs(shortList, newestFirst, []trace.ID{lastID}, clauses{}, 1)
	for _, q := range []struct {
		query string
		args  []any
		want  string
	}{
		{query, args, "SEARCH traces USING INDEX sqlite_autoindex_traces_1 (id=?)"},
		{selectIDs, packRanges([]int64{1}), "SEARCH traces USING COVERING INDEX sqlite_autoindex_traces_1 (id>? AND id<?)"},
	} {
		steps, err := collect(t.Context(), s.Reader.db, func(scan func(...any) error) (step string, err error) {
			return step, scan(new(int), new(int), new(int), &step)
		}, "EXPLAIN QUERY PLAN "+q.query, q.args...)
		if err != nil || !slices.Contains(steps, q.want) {
			t.Errorf("%s\nis done by %q, %v; want %s", q.query, steps, err, q.want)
		}
	}
}

// TestErasedTerms checks that after an erasure the index has only the bytes of the other
// traces: of traces that share a millisecond, in one transaction or in several, and of no
// trace.
func TestErasedTerms(t *testing.T) {
	for seed := range uint64(15 / fewer) {
		s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
		authority, random := mustAuthority(t), rand.New(rand.NewPCG(seed, 1))
		traces := map[string][]*trace.Record{}
		for range 1 + random.IntN(30) {
			var batch recorder.Batch
			for range 1 + random.IntN(20) {
				at := base.Add(time.Duration(random.IntN(20)) * time.Millisecond)
				user := fmt.Sprint("u", random.IntN(4))
				r := &trace.Record{ID: authority.New(trace.KindPrompt, at), Time: at, Workspace: "w", Kind: trace.KindPrompt, Key: fmt.Sprint("k", random.IntN(3))}
				r.Metadata = fmt.Appendf(nil, `{"user":"%s","session":"%[1]s %d","plan":"p"}`, user, random.IntN(3))
				if random.IntN(20) == 0 {
					r.Metadata = fmt.Appendf(nil, `{"user":"%s","\u00e9\ud800":1}`, user) // not indexed
				}
				traces[user] = append(traces[user], r)
				batch.Records = append(batch.Records, r)
			}
			mustCommit(t, s, batch)
		}
		for erased := range 4 {
			user := fmt.Sprint("u", erased)
			got, err := Erase(t.Context(), s.path, trace.Selector{Workspace: "w", MetadataName: "user", MetadataValue: `"` + user + `"`})
			if err != nil || got.Traces != int64(len(traces[user])) {
				t.Fatalf("seed %d: %d traces of %s were erased, %v; want %d", seed, got.Traces, user, err, len(traces[user]))
			}
			delete(traces, user)
			fresh := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "b.db")})
			for _, records := range traces {
				mustCommit(t, fresh, recorder.Batch{Records: records})
			}
			if _, err := Erase(t.Context(), fresh.path, trace.Selector{Workspace: "w", ConversationID: "none"}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(segments(t, fresh), segments(t, s)); diff != "" {
				t.Fatalf("seed %d, after %s (-want +got):\n%s", seed, user, diff)
			}
			if err := s.Check(t.Context()); err != nil {
				t.Errorf("seed %d, after %s: %v", seed, user, err)
			}
		}
	}
}

// segments returns the pages of the index, except FTS5's own statistics.
func segments(t testing.TB, s *Store) []string {
	t.Helper()
	periods, err := readPeriods(t.Context(), s.conn)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, period := range periods {
		pages, err := collect(t.Context(), s.conn, func(scan func(...any) error) (page string, err error) { return page, scan(&page) },
			fmt.Sprintf("SELECT hex(block) FROM %s_data WHERE id > 10 ORDER BY id", termsTable(period)))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, pages...)
	}
	return all
}

// FuzzMetadataTerms checks that each scalar member of metadata has a term by which a filter
// looks for it, or the metadata does not count as whole.
func FuzzMetadataTerms(f *testing.F) {
	for _, metadata := range []string{
		`{"a":"b","n":1.50,"i":-7,"e":1e3,"t":true,"z":null,"o":{"x":"}\\\""},"l":[1,"]"],"s":"\u00e9\n\/"}`,
		`{ "a" : 0 , "a" : -0.0 }`, `{"\ud800":"\udc00"}`, `{"n":12345678901234567890}`, `[]`, `{}`, `{"a"`, `{"":""}`, `{"a":"\u0000"}`,
	} {
		f.Add(metadata)
	}
	f.Fuzz(func(t *testing.T, metadata string) {
		workspace := fnvBasis.add("w")
		terms, whole := new(indexer).metadata(nil, workspace, []byte(metadata))
		if len(terms) > maxMembers {
			t.Errorf("%d terms", len(terms))
		}
		var members map[string]json.RawMessage
		if !whole || json.Unmarshal([]byte(metadata), &members) != nil {
			return
		}
		for name, value := range members {
			if value[0] == '{' || value[0] == '[' {
				continue
			}
			by, err := matchTerms(workspace, trace.MetadataMatch{Name: name, Value: string(value)})
			if err != nil {
				t.Fatal(err)
			}
			if !utf8.ValidString(metadata) {
				continue // no request has it
			}
			if !slices.ContainsFunc(by[1:], func(want term) bool { return slices.Contains(terms, want) }) {
				t.Errorf("%q: nothing is indexed of %q: %s", metadata, name, value)
			}
		}
	})
}
