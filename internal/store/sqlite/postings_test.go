package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
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

// mustPost counts and posts everything.
func mustPost(t testing.TB, k *statsKeeper) {
	t.Helper()
	if err := k.postAll(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// postAll posts all that is stored, and writes the block that is not full, too. What
// is stored later is of the next one.
func (k *statsKeeper) postAll(ctx context.Context) error {
	for more := true; more; { // a step ends where a run of the writer's begins
		var err error
		if more, err = k.step(ctx, time.Now()); err != nil {
			return err
		}
	}
	if k.posting.blocks == nil {
		return nil
	}
	end := (k.posting.until+blockRows)/blockRows*blockRows - 1
	if _, err := k.db.ExecContext(ctx, "UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'traces'", end); err != nil {
		return err
	}
	k.posting.until = end
	return k.writePostings(ctx)
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

// TestPostingsAreMerged: those of the writer's runs, merged in any order, are those
// of all their traces.
func TestPostingsAreMerged(t *testing.T) {
	at := time.UnixMilli(1790000000000)
	describe := func(p *posting) (text string) {
		for _, number := range slices.Sorted(maps.Keys(p.blocks)) {
			b := p.blocks[number]
			text += fmt.Sprintf("%d: %v to %v, torn %v, odd %v\n", number, b.first, b.last, b.torn, b.odd)
			for _, rows := range b.names {
				slices.Sort(*rows)
			}
			for i := range b.members {
				slices.Sort(b.members[i])
			}
			_ = b.pieces(func(bucket int, piece []byte) error {
				text += fmt.Sprintf("  %d: %x\n", bucket, piece)
				return nil
			})
		}
		return text
	}
	for name, order := range map[string][]int{"in order": {0, 1, 2}, "backwards": {2, 1, 0}} {
		all, merged := posting{blocks: map[int64]*postedBlock{}}, posting{blocks: map[int64]*postedBlock{}}
		var runs [3]posting
		for n := range runs {
			runs[n].blocks = map[int64]*postedBlock{}
			// The ids of the second run are the greatest, those of the third the least.
			begun := at.Add([]time.Duration{0, time.Hour, -time.Hour}[n])
			for _, p := range []*posting{&runs[n], &all} {
				names := namesOfValues("w", []postedField{ofKey, ofArm}, "k", fmt.Sprint("arm ", n))
				names.torn = n == 1
				for row := range 3 {
					seq := int64(blockRows - 2 + 3*n + row)
					metadata := []string{`{"a":1}`, `{"a":2,"b":"c"}`, `{"odd":1e400}`}[n]
					p.add(seq, trace.FirstID(begun.Add(time.Duration(row)*time.Minute)), "w", metadata, names)
				}
			}
		}
		for _, n := range order {
			merged.merge(&runs[n])
		}
		if diff := cmp.Diff(describe(&all), describe(&merged)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestErasedWhileABlockIsMade: a block that has traces which were erased since is not
// written, and made again without them.
func TestErasedWhileABlockIsMade(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	k := mustKeep(t, s)
	authority, at := mustAuthority(t), time.UnixMilli(1790000000000)
	record := func(metadata string) *trace.Record {
		return &trace.Record{
			ID: authority.New(trace.KindPrompt, at), Time: at, Workspace: "default", Kind: trace.KindPrompt, Key: "k", Metadata: []byte(metadata),
		}
	}
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{record(`{"user":"ada"}`), record(`{"user":"bob"}`)}})
	if _, err := k.step(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	erased, err := Erase(t.Context(), path, trace.Selector{Workspace: "default", MetadataName: "user", MetadataValue: `"ada"`})
	if err != nil || erased.Traces != 1 {
		t.Fatalf("%+v, %v", erased, err)
	}
	posted := func(user string) bool {
		t.Helper()
		of := textTerm(fieldHash("default", ofMetadata), "user", user)
		var piece []byte
		if err := s.conn.QueryRowContext(t.Context(), "SELECT coalesce((SELECT entries FROM posting_pieces WHERE place = ?), x'')",
			placeOf(of.bucket(), 0)).Scan(&piece); err != nil {
			t.Fatal(err)
		}
		var rows rowSet
		rows.mark(piece, of.rest())
		return rows != rowSet{}
	}
	k.posting.until = blockRows - 1
	if err := k.writePostings(t.Context()); err != nil {
		t.Fatal(err)
	}
	if posted("ada") {
		t.Error("what was erased is posted")
	}
	mustPost(t, k)
	if posted("ada") || !posted("bob") {
		t.Error("the block is not made again")
	}
}

// TestPostings lists by keys, of which one is in most traces, what was written
// hours late, posted twice, deleted, and not posted yet.
func TestPostings(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k := mustKeep(t, s)
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
		if n%10 == 0 { // it had begun long before
			began := *order[min(n+1000, count-1)]
			began.State = trace.StateInterrupted
			batch.Interrupted = append(batch.Interrupted, &began)
		}
		if err := s.Commit(t.Context(), &batch); err != nil {
			t.Fatal(err)
		}
		if n == 1999 {
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
		s.postedFirst = !s.postedFirst
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
					t.Errorf("%s, %s: %d were listed in %d at a time for %v, want %d", when, name, len(got), limit, budget, len(want))
				}
			}
			// Later, a block has the torn name, and is searched.
			if s.postedFirst && when == "in part posted" && slices.Contains([]string{"rare", "none", "provider", "metadata"}, name) {
				if _, short := listAll(t, s, f, MaxPage, 0); short > 0 {
					t.Errorf("%s, %s: %d pages were short of time", when, name, short)
				}
			}
		}
	}
	for range 2 {
		check("in part posted")
	}
	mustPost(t, k)
	for range 2 {
		check("posted")
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
			r.Key, r.Metadata = key, []byte(`{"conversation_id":"of `+key+`"}`)
			batch.Records = append(batch.Records, r)
		}
		if err := s.Commit(t.Context(), &batch); err != nil {
			t.Fatal(err)
		}
	}
	checkExport := func(when string, want int) {
		t.Helper()
		got := 0
		err := s.Export(t.Context(), trace.Filter{Workspace: "default", ConversationID: "of a"}, func(*trace.Record, []trace.Metrics) error {
			got++
			return nil
		})
		if err != nil || got != want {
			t.Errorf("%s: %d were exported by conversation, want %d, %v", when, got, want, err)
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
	execute("ALTER TABLE posting_blocks RENAME TO later")
	if ids, short := listAll(t, s, f, 100, 0); len(ids) != 10 || short == 0 {
		t.Errorf("of an earlier version: %d were listed, and %d pages were short of time", len(ids), short)
	}
	checkExport("of an earlier version", 10)
	execute("ALTER TABLE later RENAME TO posting_blocks; DELETE FROM posting_blocks; DELETE FROM posting_pieces; UPDATE cursors SET traces = 0 WHERE sink = 'postings'")
	// As it was left by an earlier version.
	for range 2*expireLists + 1 {
		execute("INSERT INTO postings VALUES ('default', 0, 'a', randomblob(16), 1, x'00', x'00')")
	}
	k.posting = posting{}
	// As if many more had been written.
	execute(fmt.Sprintf("UPDATE sqlite_sequence SET seq = seq + %d WHERE name = 'traces'", maxUnposted))
	commit("a", 5)
	if ids, short := listAll(t, s, f, 100, 0); len(ids) != 15 || short == 0 {
		t.Errorf("nothing posted: %d were listed, and %d pages were short of time", len(ids), short)
	}
	checkExport("nothing posted", 15)
	if waiting, err := k.waiting(t.Context()); err != nil || waiting < maxUnposted {
		t.Errorf("%d are waiting, %v", waiting, err)
	}
	mustPost(t, k)
	if left, err := queryInt(t.Context(), k.db, "SELECT max(seq) - (SELECT min(traces) FROM cursors) FROM traces"); err != nil || left > 0 {
		t.Errorf("%d are not posted or counted, %v", left, err)
	}
	if err := k.expirePostings(t.Context()); err != nil {
		t.Fatal(err)
	}
	if lists, err := queryInt(t.Context(), k.db, "SELECT count(*) FROM postings"); err != nil || lists != 0 {
		t.Errorf("%d lists of an earlier version, %v", lists, err)
	}
	s.postedFirst = true
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
	var ids []trace.ID
	for n := range 3 {
		var batch recorder.Batch
		for range 10 {
			r := fullRecord(authority.New(trace.KindEndpoint, base), base.Add(time.Duration(n)*time.Hour))
			ids = append(ids, r.ID)
			batch.Records = append(batch.Records, r)
		}
		mustCommit(t, s, batch)
		mustPost(t, k)
	}
	for deleted, want := range []int64{3, 3, 1, 0} {
		for n := range []int{0, 5, 20, 30}[deleted] {
			if _, err := k.db.ExecContext(t.Context(), "DELETE FROM traces WHERE id = ?", ids[n][:]); err != nil {
				t.Fatal(err)
			}
		}
		if err := k.expirePostings(t.Context()); err != nil {
			t.Fatal(err)
		}
		blocks, err := queryInt(t.Context(), k.db, "SELECT count(*) FROM posting_blocks")
		if err != nil || blocks != want {
			t.Errorf("%d blocks, %v; want %d", blocks, err, want)
		}
		pieces, err := queryInt(t.Context(), k.db, "SELECT count(DISTINCT place & 0xffffffff) FROM posting_pieces")
		if err != nil || pieces != want {
			t.Errorf("pieces of %d blocks, %v; want %d", pieces, err, want)
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
		{emptyBlocks, []any{blockRows}, "SEARCH traces USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		{selectPiece, []any{1}, "SEARCH posting_pieces USING INTEGER PRIMARY KEY (rowid=?)"},
		{selectIDs, []any{"[]"}, "SEARCH traces USING INTEGER PRIMARY KEY (rowid=?)"},
		{"DELETE FROM " + piecesOf, []any{1, "[]"}, "SEARCH posting_pieces USING INTEGER PRIMARY KEY (rowid=?)"},
	} {
		steps, err := collect(t.Context(), s.Reader.db, func(scan func(...any) error) (step string, err error) {
			return step, scan(new(int), new(int), new(int), &step)
		}, "EXPLAIN QUERY PLAN "+q.query, q.args...)
		if err != nil || !slices.Contains(steps, q.want) {
			t.Errorf("%s\nis done by %q, %v; want %s", q.query, steps, err, q.want)
		}
	}
}

// TestErasedPostings holds that an erasure leaves no entry of what it deleted, also
// where a block with it was being made meanwhile, and that it finds what is posted.
func TestErasedPostings(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k := mustKeep(t, s)
	authority := mustAuthority(t)
	commit := func(count int) {
		t.Helper()
		var batch recorder.Batch
		for n := range count {
			r := &trace.Record{ID: authority.New(trace.KindPrompt, base), Time: base, Workspace: "w", Kind: trace.KindPrompt, Key: "k"}
			r.Metadata = fmt.Appendf(nil, `{"user":"u%d","plan":"p"}`, n%2)
			if n == 1 {
				r.Metadata = []byte(`{"user":"u1","\u00e9\ud800":1}`) // not posted
			}
			batch.Records = append(batch.Records, r)
		}
		mustCommit(t, s, batch)
	}
	entries := func(value string) (n int) {
		t.Helper()
		all := []term{textTerm(fieldHash("w", ofMetadata), "user", value)}
		_, err := collect(t.Context(), k.db, func(scan func(...any) error) (_ struct{}, err error) {
			var place int64
			var piece []byte
			err = scan(&place, &piece)
			for _, want := range all {
				if place>>32 == int64(want.bucket()) {
					var rows rowSet
					rows.mark(piece, want.rest())
					for row := range uint16(blockRows) {
						if rows.has(row) {
							n++
						}
					}
				}
			}
			return struct{}{}, err
		}, "SELECT place, entries FROM posting_pieces")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	erase := func(user string, want int64) {
		t.Helper()
		erased, err := Erase(t.Context(), s.path, trace.Selector{Workspace: "w", MetadataName: "user", MetadataValue: `"` + user + `"`})
		if err != nil || erased.Traces != want {
			t.Errorf("%d traces of %s were erased, %v; want %d", erased.Traces, user, err, want)
		}
	}
	commit(2*maxListed + 100) // of which both keys have a list of bits
	mustPost(t, k)
	if of0, of1 := entries("u0"), entries("u1"); of0 != maxListed+50 || of1 != maxListed+50 {
		t.Errorf("%d and %d entries", of0, of1)
	}
	// These are read, and their block is not written.
	commit(100)
	s.postedFirst = true
	page, err := s.Traces(t.Context(), trace.Filter{Workspace: "w", Metadata: []trace.MetadataMatch{{Name: "plan", Value: `"p"`}}}, trace.ID{}, 150, time.Minute)
	if err != nil || len(page.Records) != 150 || !slices.IsSortedFunc(page.Records, func(a, b *trace.Record) int { return compareIDs(b.ID, a.ID) }) {
		t.Errorf("%d traces, %v", len(page.Records), err)
	}
	if newest, err := s.Traces(t.Context(), trace.Filter{Workspace: "w"}, trace.ID{}, 1, time.Minute); err != nil || newest.Records[0].ID != page.Records[0].ID {
		t.Errorf("the list of many does not begin with the newest, %v", err)
	}
	if _, err := k.step(t.Context(), time.Now()); err != nil || len(k.posting.blocks) != 1 {
		t.Fatal(len(k.posting.blocks), err)
	}
	erase("u1", maxListed+100)
	if of0, of1 := entries("u0"), entries("u1"); of0 != maxListed+50 || of1 != 0 {
		t.Errorf("after an erasure: %d and %d entries", of0, of1)
	}
	if stale, err := queryInt(t.Context(), k.db, "SELECT sum(stale) FROM posting_blocks"); err != nil || stale != 0 {
		t.Errorf("%d blocks are to be cleaned, %v", stale, err)
	}
	mustPost(t, k) // loses the block
	mustPost(t, k) // makes it again
	if of0, of1 := entries("u0"), entries("u1"); of0 != maxListed+100 || of1 != 0 {
		t.Errorf("posted again: %d and %d entries", of0, of1)
	}
	// One that was interrupted is finished by the next.
	if _, err := k.db.ExecContext(t.Context(), `
DELETE FROM traces WHERE metadata ->> 'user' = 'u0'; UPDATE posting_blocks SET stale = 2; UPDATE cursors SET erasures = erasures + 2 WHERE sink = 'postings'`); err != nil {
		t.Fatal(err)
	}
	erase("u0", 0)
	if n := entries("u0"); n != 0 {
		t.Errorf("%d entries after an erasure that was interrupted", n)
	}
}

// FuzzMetadataTerms holds that each scalar member of metadata has a term by which a
// filter looks for it, or the metadata does not count as whole.
func FuzzMetadataTerms(f *testing.F) {
	for _, metadata := range []string{
		`{"a":"b","n":1.50,"i":-7,"e":1e3,"t":true,"z":null,"o":{"x":"}\\\""},"l":[1,"]"],"s":"\u00e9\n\/"}`,
		`{ "a" : 0 , "a" : -0.0 }`, `{"\ud800":"\udc00"}`, `{"n":12345678901234567890}`, `[]`, `{}`, `{"a"`, `{"":""}`, `{"a":"\u0000"}`,
	} {
		f.Add(metadata)
	}
	f.Fuzz(func(t *testing.T, metadata string) {
		terms, whole := metadataTerms(nil, "w", metadata)
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
			var by wanted
			if err := by.addMembers("w", []trace.MetadataMatch{{Name: name, Value: string(value)}}); err != nil {
				t.Fatal(err)
			}
			if !utf8.ValidString(metadata) {
				continue // which no request has
			}
			if !slices.ContainsFunc(by.members[0], func(want term) bool { return slices.Contains(terms, want) }) {
				t.Errorf("%q: nothing is posted of %q: %s", metadata, name, value)
			}
		}
	})
}

// TestTornNames holds that traces are found whose names can't be told apart in the
// text in which they are read.
func TestTornNames(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k := mustKeep(t, s)
	r := &trace.Record{ID: mustAuthority(t).New(trace.KindEndpoint, base), Time: base, Workspace: "w", Kind: trace.KindEndpoint, Key: "k", Model: "a\x1fb", Metadata: []byte(`{"a":1}`)}
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{r}})
	mustPost(t, k)
	s.postedFirst = true
	for _, f := range []trace.Filter{{Model: r.Model}, {Key: "k"}, {Model: r.Model, Metadata: []trace.MetadataMatch{{Name: "a", Value: "1.0"}}}} {
		f.Workspace = "w"
		if ids, _ := listAll(t, s, f, 1, 0); len(ids) != 1 {
			t.Errorf("%+v: %d were listed", f, len(ids))
		}
	}
}
