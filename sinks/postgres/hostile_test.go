package postgres_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/cadenza-gateway/cadenza/sinks"
	"github.com/cadenza-gateway/cadenza/trace"
)

var (
	hostileText = rapid.OneOf(
		rapid.String(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		rapid.SampledFrom([]string{
			"a\x00b", "\xff\xfe", "\xed\xa0\x80", "\u202e", "'; DROP TABLE cadenza.traces; --", `\`, "\\.", "\t\n\r\b", "\uFEFF",
			strings.Repeat("k", 3000), randomText(9000), strings.Repeat("\x00", 100),
		}),
	)
	hostileJSON = rapid.OneOf(
		rapid.Map(hostileText, func(s string) string { b, _ := json.Marshal(map[string]string{s: s}); return string(b) }),
		hostileText,
		rapid.SampledFrom([]string{
			`{"a":"\u0000"}`, `{"\u0000":1}`, `{"a":"\ud83d"}`, `"\ude00\ud83d"`, `{"a":1e400000}`, `{"a":-1e-400000}`, `{"a":` + strings.Repeat("9", 140_000) + `}`,
			strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), `{"a":1,"a":2}`, `{"a":01}`, `{`, `not JSON`, "\x00", "{\"a\":\"\x01\"}", `null`, ` `, `1e5`, `{"a":"\ud83d\ude00\\u0000"}`,
		}),
	)
)

// randomText does not compress, and so is too long for an index.
func randomText(length int) string {
	var b strings.Builder
	state := uint32(1)
	for b.Len() < length {
		state = state*1664525 + 1013904223
		b.WriteByte('!' + byte(state>>24)%90)
	}
	return b.String()
}

// testHostileContent delivers rows with everything that PostgreSQL may dislike
// among ordinary ones. All must be there afterwards, and the ordinary ones whole.
func testHostileContent(t *testing.T, dsn string) {
	sink := newSink(t, dsn)
	defer sink.Close()
	position := resume(t, sink, trace.Position{})
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	next := uint64(0)
	newID := func() (id trace.ID) {
		next++
		binary.BigEndian.PutUint64(id[:], next)
		return id
	}
	rapid.Check(t, func(t *rapid.T) {
		position.Traces++
		d := &trace.Delivery{Position: position}
		var ordinary, hostile [][16]byte
		for range rapid.IntRange(1, 12).Draw(t, "rows") {
			r := &trace.Record{ID: newID(), Time: time.Now(), Workspace: "default", Kind: trace.KindPrompt, Key: "k", Metadata: []byte(`{"ok":true}`), Response: []byte("fine")}
			if rapid.Float64Range(0, 1).Draw(t, "which") < 0.6 {
				d.Records = append(d.Records, r)
				ordinary = append(ordinary, r.ID)
				continue
			}
			text := func(name string) string { return hostileText.Draw(t, name) }
			document := func(name string) []byte { return []byte(hostileJSON.Draw(t, name)) }
			r.Workspace, r.APIKey, r.Key, r.Version, r.Row, r.Variant, r.Model, r.Code = text("workspace"), text("api key"), text("key"), text("version"), text("row"), text("variant"), text("model"), text("code")
			r.FinishReason, r.Prompt, r.PromptVersion = text("finish reason"), text("prompt"), text("prompt version")
			r.Notes, r.Attempts = []string{text("note")}, []trace.Attempt{{Provider: text("provider"), Error: text("error"), Latency: time.Duration(rapid.Int64().Draw(t, "latency"))}}
			r.Metadata, r.Context, r.Variables, r.Messages, r.ToolCalls = document("metadata"), document("context"), document("variables"), document("messages"), document("tool calls")
			r.Response = []byte(text("response"))
			r.Status, r.HasUsage, r.TotalTokens, r.Cost = rapid.Int().Draw(t, "status"), true, rapid.Int64().Draw(t, "tokens"), rapid.Float64().Draw(t, "cost")
			r.Time, r.Latency = time.UnixMilli(rapid.Int64().Draw(t, "time")), time.Duration(rapid.Int64().Draw(t, "duration"))
			d.Records = append(d.Records, r)
			hostile = append(hostile, r.ID)
			if rapid.Bool().Draw(t, "with metrics") {
				m := &trace.Metrics{
					UUID: newID(), TraceID: r.ID, Time: r.Time, Workspace: text("workspace"), APIKey: text("api key"), Score: new(math.NaN()), Latency: new(math.Inf(1)),
					LLMResponse: new(text("answer")), ChainID: new(text("chain")), ConversationID: new(text("conversation")), TotalTokens: new(int64(math.MinInt64)), Metadata: document("metadata"),
				}
				d.Metrics = append(d.Metrics, m)
			}
		}
		if rapid.Bool().Draw(t, "a version") {
			d.Versions = []trace.Version{{Workspace: hostileText.Draw(t, "workspace"), Key: hostileText.Draw(t, "key"), Version: hostileText.Draw(t, "version"), Content: []byte{0, 255}}}
		}
		if rapid.Bool().Draw(t, "an erasure") { // of no person
			d.Erasures = []trace.Erasure{{Selector: trace.Selector{Workspace: "nobody", MetadataName: hostileText.Draw(t, "name"), MetadataValue: hostileJSON.Draw(t, "value")}}}
		}
		before := sink.Refusals()
		if err := sink.Deliver(context.Background(), d); err != nil {
			t.Fatal(err)
		}
		want := func(n int, query string, ids [][16]byte) {
			var got int
			if err := conn.QueryRow(context.Background(), query, ids).Scan(&got); err != nil {
				t.Fatal(err)
			}
			if got != n {
				t.Fatalf("%d rows, want %d: %s", got, n, query)
			}
		}
		want(len(ordinary), `SELECT count(*) FROM cadenza.traces WHERE id = ANY ($1) AND metadata = '{"ok":true}' AND response = 'fine'`, ordinary)
		want(len(hostile), `SELECT count(*) FROM cadenza.traces WHERE id = ANY ($1)`, hostile)
		want(len(d.Metrics), `SELECT count(*) FROM cadenza.metrics WHERE trace_id = ANY ($1)`, hostile)
		if after := sink.Refusals(); after.Dropped-before.Dropped > uint64(len(d.Versions)+len(d.Erasures)) {
			t.Fatalf("rows were left out: %+v, before %+v", after, before)
		}
	})
	r := sink.Refusals()
	if r.Stripped == 0 {
		t.Error("nothing was so bad that it had to be stripped")
	}
	t.Logf("%+v", r)
}

// testRefusedRows has a whole delivery refused but for some, by content and by a
// constraint that the database's owner added.
func testRefusedRows(t *testing.T, dsn string) {
	sink := newSink(t, dsn)
	defer sink.Close()
	position := resume(t, sink, trace.Position{})
	exec(t, dsn, "ALTER TABLE cadenza.traces ADD CHECK (key <> 'forbidden')")
	d := &trace.Delivery{Position: trace.Position{Traces: 1}}
	for i := range 100 {
		r := &trace.Record{ID: trace.ID{byte(i)}, Time: time.Now(), Workspace: "default", Key: "k", Response: []byte("fine"), Row: randomText(5000)}
		switch {
		case i == 42:
			r.Key = "forbidden"
		case i%10 == 0:
			r.Context = []byte(`{"n":1e999999}`)
		}
		d.Records = append(d.Records, r)
	}
	deliver(t, sink, d)
	if got, want := sink.Refusals(), (sinks.Refusals{Stripped: 10, Dropped: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for query, want := range map[string]int64{
		"SELECT count(*) FROM cadenza.traces WHERE response = 'fine' AND length(matched_row) = 5000":                                        89,
		"SELECT count(*) FROM cadenza.traces WHERE notes ->> 0 LIKE 'content left out%' AND length(matched_row) = 200 AND response IS NULL": 10,
	} {
		if got := count(t, dsn, query); got != want {
			t.Errorf("%d, want %d: %s", got, want, query)
		}
	}
	// The next one is as if nothing had been.
	position.Traces = 2
	deliver(t, sink, &trace.Delivery{Position: position, Records: []*trace.Record{{ID: trace.ID{200}, Time: time.Now()}}})
	if n := count(t, dsn, "SELECT traces FROM cadenza.positions"); n != 2 {
		t.Errorf("the position is %d", n)
	}
}
