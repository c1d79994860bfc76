package sqlite

import (
	"bytes"
	gocmp "cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// base is a moment shortly before midnight, so that days differ.
var base = time.Date(2026, 3, 14, 22, 30, 0, 0, time.UTC)

// drawn is the content that a property test has stored.
type drawn struct {
	store   *Store
	records []*trace.Record  // by id, newest first
	metrics []*trace.Metrics // in the order in which they were stored
}

// metadataForms are the forms that a match must distinguish, and metadataMatches the
// matches.
var (
	metadataForms = []string{
		"", `{}`, `{"plan":"pro"}`, `{"plan":"free","n":1}`, `{"n":1.0}`, `{"n":"1"}`, `{"plan":null}`, `{"plan":true}`, `{"plan":["pro"]}`,
		`{"nested":{"plan":"pro"}}`, `{"plan":"\u0070ro"}`, `{"p.q\"r":"a\\b"}`, `{"plan":"p`, `["pro"]`, `"pro"`, `{"other":"pro"}`, `{"n":9007199254740993}`,
		`{"conversation_id":"c1"}`, `{"chain_id":"chain","conversation_id":"c2"}`, `{"conversation_id":1}`, `{"nested":{"conversation_id":"c1"}}`,
		`{"conversation_id":"c1"`, `{"plan":"\u00e9"}`, `{"plan":"é"}`, `{"q":"a\"b"}`, `{"plan":"true"}`, `{"plan":"null"}`,
		`{"\u006e":1}`, `{"a\"b":1}`, `{"x":1,"y":"n"}`,
	}
	metadataMatches = []trace.MetadataMatch{
		{Name: "plan", Value: `"pro"`}, {Name: "n", Value: "1"}, {Name: "n", Value: "1.0"}, {Name: "plan", Value: "null"}, {Name: "plan", Value: "true"},
		{Name: `p.q"r`, Value: `"a\\b"`}, {Name: "plan", Value: "false"}, {Name: "n", Value: "9007199254740993"}, {Name: "plan", Value: `"é"`}, {Name: "q", Value: `"a\"b"`},
		{Name: `a"b`, Value: "1"}, {Name: "n", Value: "1", OrText: true}, {Name: "plan", Value: "true", OrText: true}, {Name: "plan", Value: "null", OrText: true},
	}
)

func drawMetadata(t *rapid.T) []byte {
	return []byte(rapid.SampledFrom(metadataForms).Draw(t, "metadata"))
}

func drawRecord(t *rapid.T, authority *trace.Authority, at time.Time) *trace.Record {
	kind := rapid.SampledFrom([]trace.Kind{trace.KindPrompt, trace.KindEndpoint, trace.KindRemoteConfig}).Draw(t, "kind")
	optional := func(label string, values ...string) string {
		return rapid.SampledFrom(append(values, "")).Draw(t, label)
	}
	r := &trace.Record{
		ID: authority.New(kind, at), Time: at, Workspace: rapid.SampledFrom([]string{"w", "w", "w", "other"}).Draw(t, "workspace"),
		Kind: kind, Key: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key"), APIKey: optional("api key", "app", "web", trace.ConsoleKey+"ops"),
		Row: optional("row", "r1"), Metadata: drawMetadata(t),
		Status: rapid.SampledFrom([]int{0, 200, 400, 502}).Draw(t, "status"), Response: []byte("content"),
		Latency: time.Duration(rapid.IntRange(0, 5_000_000).Draw(t, "latency")) * time.Microsecond,
	}
	r.Version, r.Revision = optional("version", "v", "v2"), optional("revision", "d")
	r.Arm = optional("arm", "x", "y")
	if kind != trace.KindRemoteConfig {
		r.Variant = optional("variant", "x", "y")
	}
	if kind == trace.KindEndpoint {
		r.Provider, r.Model = optional("provider", "p", "q"), optional("model", "m", "n")
		r.Code = optional("code", "", "", "upstream_error", "timeout")
		r.FirstToken = time.Duration(rapid.IntRange(0, 1_000_000).Draw(t, "first token")) * time.Microsecond
		if rapid.Bool().Draw(t, "usage") {
			r.HasUsage, r.PromptTokens, r.CompletionTokens, r.TotalTokens, r.Cost = true, 3, 4, 7, 0.25
		}
		r.Cached = rapid.Bool().Draw(t, "cached")
		r.FinishReason = optional("finish reason", trace.FinishReasons...)
		r.Prompt, r.PromptVersion = optional("prompt", "reply"), optional("prompt version", "v")
		for range rapid.IntRange(0, 3).Draw(t, "attempts") {
			r.Attempts = append(r.Attempts, trace.Attempt{
				Provider: rapid.SampledFrom([]string{"p", "p", "q"}).Draw(t, "tried"), Model: optional("tried model", "m"),
			})
		}
		if note := optional("note", "skipped q m: left alone", "plan: skipped \\"); note != "" {
			r.Notes = []string{note}
		}
		r.State = rapid.SampledFrom([]trace.State{trace.StateEnded, trace.StateEnded, trace.StateInterrupted}).Draw(t, "state")
	}
	return r
}

// requests draws the records of each request, and the records of it that share members.
type requests struct {
	ids       trace.Decision
	traces    int // the traces that have an id
	at        time.Time
	shared    *trace.Shared
	decision  trace.ID
	workspace string
}

// draw returns the record as it is to be stored. It may share members, which shown has, as
// the record is read.
func (q *requests) draw(t *rapid.T, authority *trace.Authority, shown *trace.Record) *trace.Record {
	const limit = 4
	if !rapid.Bool().Draw(t, "of a decision") {
		return shown
	}
	if q.shared == nil || q.workspace != shown.Workspace || q.traces == limit || rapid.Bool().Draw(t, "another request") {
		*q = requests{shared: &trace.Shared{Metadata: drawMetadata(t), Context: []byte(`{"c":1}`)}, at: shown.Time, workspace: shown.Workspace}
		q.ids = authority.Decide(shown.Time, limit)
		q.decision = q.ids.ID()
	}
	shown.ID, shown.Time, shown.Decision = q.ids.Trace(shown.Kind, q.traces), q.at, q.decision
	q.traces++
	if !rapid.Bool().Draw(t, "shares") {
		return shown
	}
	stored := *shown
	stored.Metadata, stored.Decision, stored.Shared = nil, q.decision, q.shared
	stored.SharesContent = rapid.Bool().Draw(t, "shares content")
	*shown = *shownAs(&stored)
	return &stored
}

// drawStore stores random traces and metrics in random batches, with a call of between
// after each write. Some traces are written long after later ones. Only if onTraces are
// there reports on traces themselves.
func drawStore(t *rapid.T, path string, onTraces bool, between func(*Store)) *drawn {
	authority := mustTestAuthority(t)
	store, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	store.stop() // the test decides which rows are counted when
	store.background.Wait()
	d := &drawn{store: store}
	at := base
	var late []*trace.Record
	var sharing requests
	var decided []*trace.Record
	for left := rapid.IntRange(0, 5).Draw(t, "batches"); left > 0 || len(late) > 0; left-- {
		batch := recorder.Batch{Records: late}
		late = nil
		for range rapid.IntRange(0, 8*int(countIf(left > 0))).Draw(t, "records") {
			at = at.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "minutes")) * time.Minute)
			r := drawRecord(t, authority, at)
			d.records = append(d.records, r)
			r = sharing.draw(t, authority, r)
			if !r.Decision.IsZero() && r.Decision == sharing.decision {
				decided = append(decided, r)
			}
			if r.State != trace.StateEnded && rapid.Bool().Draw(t, "ends later") {
				start := *r
				start.State, start.Status, start.Code = trace.StateInterrupted, 0, ""
				if err := store.Commit(t.Context(), &recorder.Batch{Interrupted: []*trace.Record{&start}}); err != nil {
					t.Fatal(err)
				}
				between(store)
				r.State, d.records[len(d.records)-1].State = trace.StateEnded, trace.StateEnded
			}
			if left > 0 && rapid.IntRange(0, 3).Draw(t, "is late") == 0 {
				late = append(late, r)
			} else {
				batch.Records = append(batch.Records, r)
			}
		}
		for range rapid.IntRange(0, 4).Draw(t, "metrics") {
			m := &trace.Metrics{Workspace: "w", Time: at, APIKey: "app", Metadata: drawMetadata(t)}
			if len(decided) > 0 && rapid.Bool().Draw(t, "on a decision") {
				subject := rapid.SampledFrom(decided).Draw(t, "one of its traces")
				m.Decision, m.Workspace = subject.Decision, subject.Workspace
			} else if rapid.IntRange(0, 7).Draw(t, "on a decision without traces") == 0 {
				m.Decision = authority.Decide(at, 1).ID()
			} else if onTraces && len(d.records) > 0 && rapid.Bool().Draw(t, "attached") {
				subject := rapid.SampledFrom(d.records).Draw(t, "trace")
				m.TraceID, m.Workspace = subject.ID, subject.Workspace
			} else {
				m.TraceID = authority.New(trace.KindMetrics, at)
			}
			if rapid.IntRange(0, 3).Draw(t, "by a visitor") == 0 {
				m.APIKey, m.Metadata = trace.ConsoleKey+"ops", []byte(`{"label":"wrong"}`)
			}
			if rapid.Bool().Draw(t, "conversation") {
				m.ConversationID, m.ChainID = new(rapid.SampledFrom([]string{"c1", "c2"}).Draw(t, "conversation")), new("chain")
			}
			if rapid.Bool().Draw(t, "numbers") {
				m.Score, m.Latency = new(float64(rapid.IntRange(0, 100).Draw(t, "score"))), new(float64(rapid.IntRange(0, 9000).Draw(t, "ms")))
				m.PromptTokens, m.CompletionTokens, m.TotalTokens = new(int64(1)), new(int64(2)), new(int64(3))
			}
			m.Values = []byte(rapid.SampledFrom([]string{"", "", `{"resolved":1}`, `{"resolved":0,"seconds_saved":-12.5}`}).Draw(t, "values"))
			batch.Metrics = append(batch.Metrics, m)
			d.metrics = append(d.metrics, m)
		}
		if err := store.Commit(t.Context(), &batch); err != nil {
			t.Fatal(err)
		}
		between(store)
	}
	slices.SortFunc(d.records, func(a, b *trace.Record) int { return slices.Compare(b.ID[:], a.ID[:]) })
	return d
}

func mustTestAuthority(t *rapid.T) *trace.Authority {
	a, err := trace.NewAuthority([]byte(strings.Repeat("k", 32)), "w")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// drawnTexts are values to draw for each filter, as parameters have them, in addition to
// the values of the records.
var drawnTexts = map[string][]string{
	"workspace": {"w"}, "kind": {"prompt", "endpoint", "metrics"}, "key": {"a", "none"}, "api_key": {"app"},
	"status": {"200", "502", "ok", "error"}, "state": {"ended", "started", "interrupted"},
	"provider": {"p"}, "model": {"m"}, "code": {"timeout"}, "finish_reason": trace.FinishReasons, "version": {"v", "none"},
	"revision": {"d"}, "variant": {"x"}, "arm": {"x"}, "attempts": {"1", "2", "3"}, "fallback": {"true"},
	"conversation_id": {"c1", "none"}, "chain_id": {"chain"}, "row": {"r1", "default", "none"}, "label": {"wrong", "none"}, "score": {"0..100", "..50", "30..60", "50.."},
}

func drawFilter(t *rapid.T, d *drawn) trace.Filter {
	f := trace.Filter{Workspace: "w"}
	maybe := func(label string, set func()) {
		if rapid.IntRange(0, 5).Draw(t, label) == 0 {
			set()
		}
	}
	maybe("since", func() { f.Since = base.Add(time.Hour) })
	maybe("until", func() { f.Until = base.Add(5 * time.Hour) })
	for _, field := range FilterFields {
		maybe(field.Name, func() {
			switch texts := drawnTexts[field.Name]; {
			case texts != nil:
				if err := field.Parse(&f, rapid.SampledFrom(texts).Draw(t, field.Name)); err != nil {
					t.Fatal(err)
				}
			case field.Name == "slower":
				f.Slower = time.Duration(rapid.IntRange(1, 5_000_000).Draw(t, "slower")) * time.Microsecond
			case field.Name == "decision":
				f.Decision = drawDecision(t, d)
			default:
				t.Fatalf("nothing is drawn for %s: it needs values, and its meaning in matches", field.Name)
			}
		})
	}
	maybe("metadata", func() {
		f.Metadata = append(f.Metadata, rapid.SampledFrom(metadataMatches).Draw(t, "match"))
	})
	return f
}

func drawDecision(t *rapid.T, d *drawn) (id trace.ID) {
	for _, r := range d.records {
		if id = r.Decision; !id.IsZero() && rapid.Bool().Draw(t, "this decision") {
			break
		}
	}
	for _, m := range d.metrics {
		if !m.Decision.IsZero() && rapid.IntRange(0, 3).Draw(t, "this report's") == 0 {
			id = m.Decision
		}
	}
	return id
}

// matchesMetadata applies a match with encoding/json.
func matchesMetadata(metadata []byte, matches []trace.MetadataMatch) bool {
	for _, match := range matches {
		var members map[string]json.RawMessage
		var want, got any
		if json.Unmarshal(metadata, &members) != nil || members[match.Name] == nil || json.Unmarshal([]byte(match.Value), &want) != nil ||
			json.Unmarshal(members[match.Name], &got) != nil || !cmp.Equal(want, got) && !(match.OrText && cmp.Equal(any(match.Value), got)) {
			return false
		}
	}
	return true
}

// reportsOn returns the reports on a trace and on its decision, as the trace shows them.
func (d *drawn) reportsOn(r *trace.Record) (all []trace.Metrics) {
	for _, m := range d.metrics {
		m := *m
		switch {
		case m.Workspace != r.Workspace:
			continue
		case m.Decision.IsZero() && m.TraceID == r.ID:
		case !m.Decision.IsZero() && m.Decision == r.Decision:
			switch r.Kind {
			case trace.KindEndpoint:
				m.Latency, m.PromptTokens, m.CompletionTokens, m.TotalTokens = nil, nil, nil, nil
			case trace.KindRemoteConfig:
				m.Latency, m.PromptTokens, m.CompletionTokens, m.TotalTokens = nil, nil, nil, nil
				m.Score, m.ConversationID, m.ChainID = nil, nil, nil
			}
			if len(m.Metadata) == 0 && len(m.Values) == 0 && m.Score == nil && m.ConversationID == nil && m.Latency == nil {
				continue
			}
		default:
			continue
		}
		all = append(all, m)
	}
	return all
}

// named reports whether a trace's metadata has a name, or a report on it.
func (d *drawn) named(r *trace.Record, member string, with func(*trace.Metrics) *string, value string) bool {
	return value == "" || matchesMetadata(r.Metadata, []trace.MetadataMatch{{Name: member, Value: strconv.Quote(value)}}) ||
		slices.ContainsFunc(d.reportsOn(r), func(m trace.Metrics) bool { return with(&m) != nil && *with(&m) == value })
}

func conversationOf(m *trace.Metrics) *string { return m.ConversationID }
func chainOf(m *trace.Metrics) *string        { return m.ChainID }

// score returns the last score that was reported on a trace, and on which id, or nil.
func (d *drawn) score(r *trace.Record) (score *float64, subject trace.ID) {
	for _, m := range d.reportsOn(r) {
		if m.Score != nil {
			if score, subject = m.Score, m.TraceID; subject.IsZero() {
				subject = m.Decision
			}
		}
	}
	return score, subject
}

// inRange reports whether the score of a trace is in a range; no range has all.
func (d *drawn) inRange(r *trace.Record, scores *trace.ScoreRange) bool {
	score, _ := d.score(r)
	return scores == nil || score != nil && *score >= scores.Least && *score <= scores.Most
}

// fellBackTo reports whether a call tried a second target, or left one out.
func fellBackTo(r *trace.Record) bool {
	return len(r.Notes) > 0 && strings.HasPrefix(r.Notes[0], "skipped ") || slices.ContainsFunc(r.Attempts, func(a trace.Attempt) bool {
		return a.Provider != r.Attempts[0].Provider || a.Model != r.Attempts[0].Model
	})
}

// labelled reports whether a visitor of the console gave a trace a label.
func (d *drawn) labelled(r *trace.Record, label string) bool {
	return slices.ContainsFunc(d.metrics, func(m *trace.Metrics) bool {
		return m.Decision.IsZero() && m.TraceID == r.ID && m.Workspace == r.Workspace && strings.HasPrefix(m.APIKey, trace.ConsoleKey) && string(m.Metadata) == `{"label":"`+label+`"}`
	})
}

// matches applies a filter to a record.
func (d *drawn) matches(f *trace.Filter, r *trace.Record) bool {
	same := func(want, got string) bool { return want == "" || want == got }
	failed := r.Code != "" || r.State == trace.StateInterrupted
	switch {
	case r.Workspace != f.Workspace, !f.Since.IsZero() && r.Time.Before(f.Since), !f.Until.IsZero() && !r.Time.Before(f.Until),
		f.Kind != 0 && r.Kind != f.Kind, f.Status != 0 && f.Status != r.Status, f.State != nil && *f.State != r.State,
		f.Outcome == trace.OK && (failed || r.State != trace.StateEnded), f.Outcome == trace.Failed && !failed,
		!same(f.Key, r.Key), !same(f.APIKey, r.APIKey), !same(f.Provider, r.Provider), !same(f.Model, r.Model), !same(f.Code, r.Code), !same(f.FinishReason, r.FinishReason),
		f.Version != "" && r.Version != f.Version && r.PromptVersion != f.Version, !same(f.Revision, r.Revision), !same(f.Variant, r.Variant),
		r.Latency < f.Slower, len(r.Attempts) < f.Attempts, f.Fallback && !fellBackTo(r),
		!same(f.Row, gocmp.Or(r.Row, "default")), f.Label != "" && !d.labelled(r, f.Label),
		!same(f.Arm, r.Arm), !d.inRange(r, f.Score), !f.Decision.IsZero() && f.Decision != r.Decision,
		!d.named(r, "conversation_id", conversationOf, f.ConversationID), !d.named(r, "chain_id", chainOf, f.ChainID), !matchesMetadata(r.Metadata, f.Metadata):
		return false
	}
	return true
}

// delete deletes random traces without metrics, which the lists still have.
func (d *drawn) delete(t *rapid.T) {
	d.records = slices.DeleteFunc(d.records, func(r *trace.Record) bool {
		reported := slices.ContainsFunc(d.metrics, func(m *trace.Metrics) bool {
			return m.TraceID == r.ID || !m.Decision.IsZero() && m.Decision == r.Decision
		})
		if reported || rapid.IntRange(0, 7).Draw(t, "deleted") != 0 {
			return false
		}
		if _, err := d.store.conn.ExecContext(t.Context(), "DELETE FROM traces WHERE id = ?", r.ID[:]); err != nil {
			t.Fatal(err)
		}
		return true
	})
}

// TestQueriesAgreeWithTheirMeaning stores random traces, deletes some, and compares
// listing, following and exporting, under random filters, with plain Go. Lists begin with
// the terms or with the newest traces, at random.
func TestQueriesAgreeWithTheirMeaning(t *testing.T) {
	t.Parallel()
	dir, files := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		files++
		d := drawStore(t, filepath.Join(dir, fmt.Sprint(files)), true, func(*Store) {})
		defer d.store.close()
		if rapid.Bool().Draw(t, "delete") {
			d.delete(t)
		}
		for range 8 {
			f := drawFilter(t, d)
			d.store.termsFirst = rapid.Bool().Draw(t, "by terms first")
			var want []*trace.Record // as the list shows them
			for _, r := range d.records {
				if d.matches(&f, r) {
					short := *r
					short.Response, short.Context = nil, nil
					want = append(want, &short)
				}
			}
			limit, budget := rapid.IntRange(1, 5).Draw(t, "limit"), rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "budget")
			var listed []*trace.Record
			for before, pages := (trace.ID{}), 0; ; pages++ {
				page, err := d.store.Traces(t.Context(), f, before, limit, budget)
				if err != nil {
					t.Fatal(err)
				}
				if len(page.Records) > limit || pages > len(d.records) {
					t.Fatalf("page %d of %d records; limit %d", pages, len(page.Records), limit)
				}
				d.checkScores(t, &page)
				listed = append(listed, page.Records...)
				if before = page.Next; before.IsZero() {
					break
				}
			}
			if diff := cmp.Diff(want, listed, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("listed by %+v (-want +got):\n%s", f, diff)
			}
			d.checkSelect(t, &f)
			d.checkFollow(t, &f, limit)
			d.checkExport(t, &f, want)
			d.checkWorst(t, f, want, limit, budget)
		}
	})
}

// checkScores checks the scores of a page.
func (d *drawn) checkScores(t *rapid.T, page *Page) {
	want := make(map[trace.ID]float64)
	for _, shown := range page.Records {
		i := slices.IndexFunc(d.records, func(r *trace.Record) bool { return r.ID == shown.ID })
		if score, _ := d.score(d.records[i]); score != nil {
			want[shown.ID] = *score
		}
	}
	if diff := cmp.Diff(want, page.Scores); diff != "" {
		t.Fatalf("scores (-want +got):\n%s", diff)
	}
}

// checkWorst lists the worst of the traces that match, page by page.
func (d *drawn) checkWorst(t *rapid.T, f trace.Filter, matching []*trace.Record, limit int, budget time.Duration) {
	want := slices.DeleteFunc(slices.Clone(matching), func(r *trace.Record) bool { return !d.inRange(r, &trace.AllScores) })
	slices.SortStableFunc(want, func(a, b *trace.Record) int {
		scoreOfA, onA := d.score(a)
		scoreOfB, onB := d.score(b)
		return gocmp.Or(gocmp.Compare(*scoreOfA, *scoreOfB), compareIDs(onB, onA), compareIDs(b.ID, a.ID))
	})
	var listed []*trace.Record
	for after, pages := (*Place)(nil), 0; ; pages++ {
		page, next, err := d.store.Worst(t.Context(), f, after, limit, budget)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Records) > limit || pages > len(d.records) {
			t.Fatalf("page %d of %d records; limit %d", pages, len(page.Records), limit)
		}
		d.checkScores(t, &page)
		listed = append(listed, page.Records...)
		if after = next; after == nil {
			break
		}
	}
	if diff := cmp.Diff(want, listed, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("the worst by %+v (-want +got):\n%s", f, diff)
	}
}

// checkFollow follows from the beginning: each state in which a trace still is comes once.
func (d *drawn) checkFollow(t *rapid.T, f *trace.Filter, limit int) {
	var want, got []string
	for _, r := range d.records {
		if d.matches(f, r) {
			want = append(want, fmt.Sprint(r.ID, r.State))
		}
	}
	latest, err := d.store.LastSeq(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	for last < latest {
		records, next, err := d.store.Follow(t.Context(), *f, last, limit)
		if err != nil || next <= last {
			t.Fatalf("following from %d to %d: %v", last, next, err)
		}
		for _, r := range records {
			got = append(got, fmt.Sprint(r.ID, r.State))
		}
		last = next
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Fatalf("followed by %+v: %v, want %v", f, got, want)
	}
}

func (d *drawn) checkExport(t *rapid.T, f *trace.Filter, matching []*trace.Record) {
	var want, got []string
	describe := func(r *trace.Record, id trace.ID, count int) string {
		return fmt.Sprintf("%s %v %d", id, r != nil, count)
	}
	stored := map[trace.ID]bool{}
	contexts := map[trace.ID][]byte{}
	for _, r := range d.records {
		stored[r.ID], stored[r.Decision], contexts[r.ID] = true, true, r.Context
	}
	for _, r := range matching {
		want = append(want, describe(r, r.ID, len(d.reportsOn(r))))
	}
	onlyOfTraces := f.Key != "" || f.Row != "" || f.Label != "" || f.Status != 0 || f.Outcome != 0 || f.State != nil || f.Provider != "" || f.Model != "" || f.Code != "" ||
		f.FinishReason != "" || f.Version != "" || f.Revision != "" || f.Variant != "" || f.Arm != "" || f.Slower != 0 || f.Attempts != 0 || f.Fallback || f.Score != nil ||
		f.Kind == trace.KindPrompt || f.Kind == trace.KindEndpoint
	for _, m := range d.metrics {
		matches := func(want string, got *string) bool { return want == "" || got != nil && *got == want }
		subject := m.TraceID
		if !m.Decision.IsZero() {
			subject = m.Decision
		}
		if !stored[subject] && !onlyOfTraces && (f.Kind == 0 || m.Decision.IsZero()) && (f.Decision.IsZero() || f.Decision == m.Decision) && m.Workspace == f.Workspace && (f.APIKey == "" || f.APIKey == m.APIKey) &&
			matches(f.ConversationID, m.ConversationID) && matches(f.ChainID, m.ChainID) && matchesMetadata(m.Metadata, f.Metadata) &&
			!m.Time.Before(f.Since) && (f.Until.IsZero() || m.Time.Before(f.Until)) {
			want = append(want, describe(nil, subject, 1))
		}
	}
	slices.Sort(want) // ids begin with their time
	if err := d.store.Export(t.Context(), *f, func(r *trace.Record, metrics []trace.Metrics) error {
		if r == nil {
			subject := metrics[0].TraceID
			if subject.IsZero() {
				subject = metrics[0].Decision
			}
			got = append(got, describe(nil, subject, len(metrics)))
			return nil
		}
		if string(r.Response) != "content" || !bytes.Equal(r.Context, contexts[r.ID]) {
			return fmt.Errorf("the content was not exported: %+v", r)
		}
		got = append(got, describe(r, r.ID, len(metrics)))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(want, got) {
		t.Fatalf("exported by %+v:\n%s\nwant\n%s", f, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func countIf(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// alone leaves a test of many rows out with the race detector that one goroutine writes and
// reads: it has nothing to find there.
func alone(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("one goroutine writes and reads: it takes long and races with none")
	}
}

// TestManyWindows has queries look at more traces than they do at once, with few matches,
// and with time for one look each.
func TestManyWindows(t *testing.T) {
	alone(t)
	t.Parallel()
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	authority := mustAuthority(t)
	var batch recorder.Batch
	var rare, all []trace.ID
	for n := range followWindow + 1500 {
		at := base.Add(time.Duration(n/3) * time.Second)
		r := &trace.Record{ID: authority.New(trace.KindPrompt, at), Time: at, Workspace: "w", Kind: trace.KindPrompt, Key: "k"}
		if n%minWindow == 0 || n%minWindow == minWindow-1 {
			r.Key = "rare"
			rare = append(rare, r.ID)
		}
		all = append(all, r.ID)
		batch.Records = append(batch.Records, r)
		if n%50 == 0 { // many of one trace
			for range 20 {
				batch.Metrics = append(batch.Metrics, &trace.Metrics{TraceID: r.ID, Workspace: "w", Time: at, ConversationID: new("c"), Score: new(1.0)})
			}
		}
	}
	if err := s.Commit(t.Context(), &batch); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		filter trace.Filter
		want   []trace.ID
	}{
		"all":          {trace.Filter{}, all},
		"rare":         {trace.Filter{Key: "rare"}, rare},
		"none":         {trace.Filter{Model: "none"}, nil},
		"no key":       {trace.Filter{Key: "none"}, nil},
		"conversation": {trace.Filter{ConversationID: "c"}, everyNth(all, 50)},
	} {
		test.filter.Workspace = "w"
		var listed, exported, followed []trace.ID
		short := 0
		s.termsFirst = name == "no key"
		for before := (trace.ID{}); ; {
			page, err := s.Traces(t.Context(), test.filter, before, 100, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Records {
				listed = append(listed, r.ID)
			}
			if page.Complete != (len(page.Records) == 100 || page.Next.IsZero()) {
				t.Errorf("%s: a page of %d traces before %s, complete: %t", name, len(page.Records), page.Next, page.Complete)
			}
			if !page.Complete {
				short++
			}
			if before = page.Next; before.IsZero() {
				break
			}
		}
		slices.Reverse(listed)
		if !slices.Equal(listed, test.want) {
			t.Errorf("%s: %d were listed, want %d", name, len(listed), len(test.want))
		}
		if name == "none" && short < 10 {
			t.Errorf("only %d pages were short of time", short)
		}
		if name == "no key" && short > 0 {
			t.Errorf("%d pages were short of time", short)
		}
		if err := s.Export(t.Context(), test.filter, func(r *trace.Record, _ []trace.Metrics) error {
			exported = append(exported, r.ID)
			return nil
		}); err != nil || !slices.Equal(exported, test.want) {
			t.Errorf("%s: %d were exported, want %d; %v", name, len(exported), len(test.want), err)
		}
		for last, calls := int64(0), 0; last < int64(len(all)); calls++ {
			records, next, err := s.Follow(t.Context(), test.filter, last, 100)
			if err != nil || next <= last || calls > len(all) {
				t.Fatalf("%s: followed from %d to %d, %v", name, last, next, err)
			}
			for _, r := range records {
				followed = append(followed, r.ID)
			}
			last = next
		}
		if !slices.Equal(followed, test.want) {
			t.Errorf("%s: %d were followed, want %d", name, len(followed), len(test.want))
		}
	}
}

func everyNth(ids []trace.ID, n int) (nth []trace.ID) {
	for i := 0; i < len(ids); i += n {
		nth = append(nth, ids[i])
	}
	return nth
}

// TestMetadataMatches compares every form of metadata with every match.
func TestMetadataMatches(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	authority := mustAuthority(t)
	var batch recorder.Batch
	stored := map[trace.ID]string{}
	for _, metadata := range metadataForms {
		r := &trace.Record{ID: authority.New(trace.KindPrompt, base), Time: base, Workspace: "w", Kind: trace.KindPrompt, Key: "k", Metadata: []byte(metadata)}
		stored[r.ID] = metadata
		batch.Records = append(batch.Records, r)
	}
	if err := s.Commit(t.Context(), &batch); err != nil {
		t.Fatal(err)
	}
	for _, match := range metadataMatches {
		page, err := s.Traces(t.Context(), trace.Filter{Workspace: "w", Metadata: []trace.MetadataMatch{match}}, trace.ID{}, 100, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		found := map[trace.ID]bool{}
		for _, r := range page.Records {
			found[r.ID] = true
		}
		for id, metadata := range stored {
			if want := matchesMetadata([]byte(metadata), []trace.MetadataMatch{match}); found[id] != want {
				t.Errorf("%s = %s in %s: %t, want %t", match.Name, match.Value, metadata, found[id], want)
			}
		}
	}
}

// TestGet reads all of one trace, and no trace of another workspace.
func TestGet(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	authority, at := mustAuthority(t), time.UnixMilli(1790000000123)
	record := fullRecord(authority.New(trace.KindEndpoint, at), at)
	lone, m := metricsOf(authority.New(trace.KindMetrics, at)), metricsOf(record.ID)
	version := trace.Version{Workspace: "default", Kind: record.Kind, Key: record.Key, Version: record.Version, Content: []byte("text"), Time: at}
	bare := &trace.Record{ID: authority.New(trace.KindPrompt, at), Time: at, Workspace: "default", Kind: trace.KindPrompt, Key: "k", Version: "not kept"}
	if err := s.Commit(t.Context(), &recorder.Batch{
		Records: []*trace.Record{record, bare}, Metrics: []*trace.Metrics{m, lone}, Versions: []trace.Version{version},
	}); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		workspace string
		id        trace.ID
		found     bool
		record    *trace.Record
		metrics   int
		version   bool
	}{
		"everything":              {"default", record.ID, true, record, 1, true},
		"no version, no metrics":  {"default", bare.ID, true, bare, 0, false},
		"metrics alone":           {"default", lone.TraceID, true, nil, 1, false},
		"of another workspace":    {"other", record.ID, false, nil, 0, false},
		"metrics of another":      {"other", lone.TraceID, false, nil, 0, false},
		"what was never recorded": {"default", authority.New(trace.KindPrompt, at), false, nil, 0, false},
	} {
		got, err := s.Get(t.Context(), test.workspace, test.id)
		if !test.found {
			if !errors.Is(err, ErrNotFound) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.record, got.Record, cmpopts.EquateEmpty()); diff != "" || len(got.Metrics) != test.metrics || (got.Version != nil) != test.version {
			t.Errorf("%s: %+v (-want +got):\n%s", name, got, diff)
		}
	}
}

// TestFollowAfterDeletion goes on after the latest traces were deleted.
func TestFollowAfterDeletion(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	authority, now := mustAuthority(t), time.Now()
	commit := func() trace.ID {
		t.Helper()
		r := fullRecord(authority.New(trace.KindEndpoint, now), now)
		if err := s.Commit(t.Context(), &recorder.Batch{Records: []*trace.Record{r}}); err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	f := trace.Filter{Workspace: "default"}
	for range 10 {
		commit()
	}
	last, err := s.LastSeq(t.Context())
	if err != nil || last != 10 {
		t.Fatal(last, err)
	}
	if _, err := s.conn.ExecContext(t.Context(), "DELETE FROM traces"); err != nil {
		t.Fatal(err)
	}
	records, last, err := s.Follow(t.Context(), f, last, 5)
	if err != nil || len(records) != 0 {
		t.Fatal(records, last, err)
	}
	want := commit()
	records, last, err = s.Follow(t.Context(), f, last, 5)
	if err != nil || len(records) != 1 || records[0].ID != want {
		t.Fatal(records, last, err)
	}
	// A new file has lower numbers.
	if records, again, err := s.Follow(t.Context(), f, last+1000, 5); err != nil || len(records) != 0 || again != last {
		t.Error(records, again, err)
	}
	if _, _, err := s.Follow(t.Context(), trace.Filter{}, 0, 5); err == nil {
		t.Error("followed without a workspace")
	}
}
