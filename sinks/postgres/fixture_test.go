package postgres_test

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/internal/postgrestest"
	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/sinks"
	"github.com/cadenza-gateway/cadenza/sinks/postgres"
	"github.com/cadenza-gateway/cadenza/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSink runs the tests that do no harm to their server on the same one, each
// in its own database.
func TestSink(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	for _, test := range []struct {
		name string
		run  func(t *testing.T, dsn string)
	}{
		{"Drain", testDrain},
		{"AnotherServerBehindTheSameConnection", testAnotherServerBehindTheSameConnection},
		{"RestoredDatabase", testRestoredDatabase},
		{"ManyGatewaysOneDatabase", testManyGatewaysOneDatabase},
		{"TwoSinksOneDatabase", testTwoSinksOneDatabase},
		{"SinksThatMeet", testSinksThatMeet},
		{"StatementTimeout", testStatementTimeout},
		{"InterruptedCalls", testInterruptedCalls},
		{"ALateStartDoesNotReplaceItsEnd", testALateStartDoesNotReplaceItsEnd},
		{"Exposures", testExposures},
		{"Erasures", testErasures},
		{"ErasureReachesOtherGatewaysRows", testErasureReachesOtherGatewaysRows},
		{"ErasureLeavesWhatCameLater", testErasureLeavesWhatCameLater},
		{"ErasureOfDecisions", testErasureOfDecisions},
		{"ErasureOfWhatOnlyAReportNames", testErasureOfWhatOnlyAReportNames},
		{"ErasureDeliveredAgain", testErasureDeliveredAgain},
		{"ErasureDeliveredLate", testErasureDeliveredLate},
		{"Examples", testExamples},
		{"HostileContent", testHostileContent},
		{"RefusedRows", testRefusedRows},
		{"ConnectErrors", testConnectErrors},
		{"Rights", testRights},
		{"Schemas", testSchemas},
		{"OtherFormats", testOtherFormats},
		{"UnitReports", testUnitReports},
		{"Positions", testPositions},
		{"PasswordsMayChange", testPasswordsMayChange},
		{"ModesOfTheDriver", testModesOfTheDriver},
	} {
		dsn := server.NewDatabase(test.name)
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, dsn)
		})
	}
}

func exec(t testing.TB, dsn, statement string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// withDSN is dsn with another user and database, unless they are empty.
func withDSN(t testing.TB, dsn, user, database string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		u.User = url.User(user)
	}
	if database != "" {
		u.Path = "/" + database
	}
	return u.String()
}

// gateway is the part of a gateway that concerns a sink: a store and its
// writer.
type gateway struct {
	t         testing.TB
	path      string
	recorder  *recorder.Recorder
	authority *trace.Authority
	written   atomic.Int64 // traces that the store should hold
}

func newGateway(t testing.TB, traceKey []byte) *gateway {
	t.Helper()
	g := &gateway{t: t, path: filepath.Join(t.TempDir(), "traces.db")}
	g.open()
	t.Cleanup(g.close)
	own, err := g.recorder.TraceKey(context.Background()) // the store is open by then
	if err != nil {
		t.Fatal(err)
	}
	if traceKey == nil {
		traceKey = own
	}
	if g.authority, err = trace.NewAuthority(traceKey, "default"); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *gateway) open() {
	g.recorder = recorder.New(recorder.Options{Open: func(ctx context.Context) (recorder.Store, error) {
		return sqlite.Open(ctx, sqlite.Config{Path: g.path})
	}, Calls: g.path, MaxRecords: 1 << 20})
	g.recorder.Open()
}

func (g *gateway) close() {
	ctx, cancel := context.WithTimeout(context.Background(), gatewaytest.Patience)
	defer cancel()
	if err := g.recorder.Close(ctx); err != nil {
		g.t.Error(err)
	}
}

// flush waits until all that was recorded is in the file.
func (g *gateway) flush() {
	g.t.Helper()
	// What is being committed is in no queue any more.
	ctx, cancel := context.WithTimeout(context.Background(), gatewaytest.Patience)
	defer cancel()
	if err := g.recorder.Flush(ctx); err != nil {
		g.t.Fatal(err)
	}
	gatewaytest.Eventually(g.t, "the recorder comes to an end", func() bool {
		return g.recorder.Stats().Queued == 0 && int64(g.rows("traces")) == g.written.Load()
	})
}

func (g *gateway) rows(table string) (n int) {
	g.t.Helper()
	db := g.database()
	defer db.Close()
	if err := db.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil {
		g.t.Fatal(err)
	}
	return n
}

func (g *gateway) database() *sql.DB {
	db, err := sql.Open("sqlite", "file:"+g.path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		g.t.Fatal(err)
	}
	return db
}

// answer is a record with everything in it, or as little as may be.
func (g *gateway) answer(kind trace.Kind) *trace.Record {
	now := time.Now()
	r := trace.AcquireRecord()
	d := g.authority.Decide(now, 1)
	r.ID, r.Decision, r.Time, r.Workspace, r.Kind, r.Key = d.Trace(kind, 0), d.ID(), now, "default", kind, fmt.Sprintf("key-%d", rand.N(20))
	r.APIKey, r.Version, r.Revision, r.Row, r.Status = "app", "3f2a9c1b", "r17", "row 3", 200
	r.Reason, r.Arm, r.Seal = "split", "b", "9c2f1a0b.x3Jk0OQxUe7H1mBv9a8T5g"
	r.Splits = append(r.Splits, `[{"experiment":{"definition":"prompts/reply","rule":"ab","salt":"ab"},"bucket":12000,"arm":"b","share":0.2,"unit":"mWkE8sS3Vf1hPq0A"}]`...)
	r.Inputs = append(r.Inputs, `{"plan":"pro","seats":{"hash":"mWkE8sS3Vf1hPq0A"}}`...)
	r.Latency = rand.N(time.Second)
	if kind != trace.KindEndpoint {
		return r
	}
	r.Prompt, r.PromptVersion, r.FinishReason = "reply", "00aa11bb22cc", trace.FinishReasons[rand.N(len(trace.FinishReasons))]
	r.Variant, r.Provider, r.Model = "b", "openai", "gpt-5-mini"
	r.EndpointVariant, r.EndpointRow = "hedged", "enterprise"
	r.Read = append(r.Read, `{"remoteconfigs/model_limits":"0123456789ab"}`...)
	r.FirstToken = r.Latency / 2
	r.HasUsage, r.PromptTokens, r.CompletionTokens, r.TotalTokens, r.Cost = true, 812, rand.N[int64](500), 956, 0.00231
	r.Attempts = append(r.Attempts, trace.Attempt{Provider: "openai", Model: "gpt-5-mini", Status: 429, Code: "rate_limited", Error: "status 429: slow \"down\"", Latency: 1234567 * time.Nanosecond},
		trace.Attempt{Provider: "openai", Model: "gpt-5-mini", Status: 200, Latency: r.Latency, Started: time.Millisecond, Hedge: true})
	r.Notes = append(r.Notes, "context.age: is text")
	r.Metadata = append(r.Metadata, `{"user":"u-123","plan":"pro","n":1.50}`...)
	r.Context = append(r.Context, `{"country":"DE"}`...)
	r.Variables = append(r.Variables, `{"name":"Zoë"}`...)
	r.Messages = append(append(append(r.Messages, `[{"role":"user","content":"`...), strings.Repeat("lorem ipsum ", 40)...), `"}]`...)
	r.Response = append(r.Response, strings.Repeat("dolor sit amet ", 20)...)
	return r
}

// write records n answers of all sorts, some of them upstream calls whose start
// is recorded before their end, and metrics on some.
func (g *gateway) write(n int) {
	g.t.Helper()
	const writers = 8
	var work sync.WaitGroup
	for w := range writers {
		work.Go(func() {
			for i := w; i < n; i += writers {
				g.writeOne(i)
			}
		})
	}
	work.Wait()
	g.written.Add(int64(n))
}

func (g *gateway) writeOne(i int) {
	if i%10 != 0 {
		r := g.answer(trace.KindPrompt)
		id, decision := r.ID, r.Decision
		g.recorder.Evaluation(r)
		switch i % 25 {
		case 1:
			g.report(trace.Metrics{TraceID: id}, fmt.Sprintf("conversation-%d", i%7))
		case 2:
			g.report(trace.Metrics{Decision: decision}, fmt.Sprintf("conversation-%d", i%7))
		}
		return
	}
	r := g.answer(trace.KindEndpoint)
	g.recorder.Start(context.Background(), r)
	r.Cached = i%20 == 0
	g.recorder.End(r)
}

// report reports on a trace or on a decision.
func (g *gateway) report(on trace.Metrics, conversation string) {
	g.t.Helper()
	m := &trace.Metrics{
		TraceID: on.TraceID, Decision: on.Decision, Workspace: "default", APIKey: "app", Time: time.Now(), Score: new(87.5), Latency: new(12.25),
		LLMResponse: new("fine"), ChainID: new("chain"), ConversationID: new(conversation), TotalTokens: new(int64(12)),
		Values: []byte(`{"resolved":1,"seconds_saved":-12.5}`), Metadata: []byte(`{"a":{"b":[1,null]}}`),
	}
	if on.EventID != "" {
		m.UnitField, m.Unit, m.Happened, m.EventID = on.UnitField, on.Unit, on.Happened, on.EventID
	}
	if err := g.recorder.Metrics(context.Background(), m); err != nil {
		g.t.Error(err)
	}
}

// load writes at about a rate until the function that it returns is called.
func (g *gateway) load(perSecond int) (stop func()) {
	ended := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		const step = 20 * time.Millisecond
		for {
			select {
			case <-ended:
				return
			case <-time.After(step):
				g.write(max(1, perSecond*int(step/time.Millisecond)/1000))
			}
		}
	})
	return func() { close(ended); work.Wait(); g.flush() }
}

type testLogger struct{ t testing.TB }

func (l testLogger) Write(p []byte) (int, error) {
	l.t.Logf("%s", strings.TrimSpace(string(p)))
	return len(p), nil
}

func newSink(t testing.TB, dsn string) *postgres.Sink {
	t.Helper()
	s, err := postgres.New(postgres.Config{
		DSN:    func() (string, error) { return dsn, nil },
		Logger: slog.New(slog.NewTextHandler(testLogger{t}, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// drain copies g's rows to dsn until the test ends.
func (g *gateway) drain(dsn string, config sinks.Config) *sinks.Drain {
	g.t.Helper()
	config.Path, config.Workspace, config.Name, config.Sink = g.path, "default", cmp.Or(config.Name, "postgres"), newSink(g.t, dsn)
	config.Logger = slog.New(slog.NewTextHandler(testLogger{g.t}, nil))
	config.Poll = 20 * time.Millisecond
	d := sinks.Start(config)
	g.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), gatewaytest.Patience)
		defer cancel()
		if err := d.Stop(ctx); err != nil {
			g.t.Error(err)
		}
	})
	return d
}

// settle waits until all is delivered.
func settle(t testing.TB, d *sinks.Drain) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), gatewaytest.Patience)
	defer cancel()
	if err := d.Finish(ctx); err != nil {
		t.Fatalf("%v; %+v", err, d.Stats())
	}
	if s := d.Stats(); !s.Up || s.Pending != 0 {
		t.Fatalf("not all is delivered: %+v", s)
	}
}

// wantSame holds the database to the stores, row by row and member by member.
func wantSame(t testing.TB, dsn string, gateways ...*gateway) {
	t.Helper()
	ctx := context.Background()
	want := map[string]map[string]any{}
	for _, g := range gateways {
		g.collect(want)
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `
SELECT to_jsonb(t) || jsonb_build_object('table', 'traces') FROM cadenza.traces t
UNION ALL SELECT to_jsonb(m) || jsonb_build_object('table', 'metrics') FROM cadenza.metrics m`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[map[string]any])
	if err != nil {
		t.Fatal(err)
	}
	doubled, differing := 0, 0
	for _, row := range all {
		id := row["table"].(string) + " " + row["id"].(string)
		expected, ok := want[id]
		if !ok {
			doubled++
			continue
		}
		delete(want, id)
		if diff := gocmp.Diff(expected, asShown(row)); diff != "" {
			if differing++; differing == 1 {
				t.Errorf("%s differs (-store +database):\n%s", id, diff)
			}
		}
	}
	if len(want) > 0 || doubled > 0 || differing > 0 {
		t.Errorf("of %d rows in the database %d are in no store, %d differ; %d rows of the stores are missing", len(all), doubled, differing, len(want))
	}
}

// collect adds the store's rows, as they are shown.
func (g *gateway) collect(into map[string]map[string]any) {
	g.t.Helper()
	box, err := sqlite.OpenOutbox(context.Background(), g.path, "default", "default/oracle")
	if err != nil {
		g.t.Fatal(err)
	}
	defer box.Close()
	for from := (trace.Position{}); ; {
		d, err := box.Next(context.Background(), from, 10_000)
		if err != nil {
			g.t.Fatal(err)
		}
		if d == nil {
			return
		}
		from = d.Position
		for _, r := range d.Records {
			into["traces "+r.ID.String()] = shown(g.t, r.AppendJSON(nil))
		}
		for _, m := range d.Metrics {
			into["metrics "+trace.ID(m.UUID).String()] = shown(g.t, m.AppendJSON(nil))
		}
	}
}

func shown(t testing.TB, text []byte) map[string]any {
	t.Helper()
	var row map[string]any
	if err := json.Unmarshal(text, &row); err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339Nano, row["time"].(string))
	if err != nil {
		t.Fatal(err)
	}
	row["time"] = at.UnixMilli()
	if text, ok := row["happened"].(string); ok {
		if at, err = time.Parse(time.RFC3339Nano, text); err != nil {
			t.Fatal(err)
		}
		row["happened"] = at.UnixMilli()
	}
	return row
}

// asShown brings a row of the database to the form in which it is shown.
func asShown(row map[string]any) map[string]any {
	shown := map[string]any{}
	usage := map[string]any{}
	for name, value := range row {
		if value == nil || name == "table" {
			continue
		}
		switch name {
		case "id":
			if row["table"] == "traces" {
				name = "trace_id"
			}
		case "matched_row":
			name = "row"
		case "cost":
			name = "cost_usd"
		case "read_versions":
			name = "read"
		case "named_values":
			name = "values"
		case "prompt_tokens", "completion_tokens", "total_tokens":
			usage[name] = value
			shown["usage"] = usage
			continue
		case "time", "happened":
			at, err := time.Parse(time.RFC3339Nano, value.(string))
			if err != nil {
				panic(err)
			}
			value = at.UnixMilli()
		}
		shown[name] = value
	}
	return shown
}

func count(t testing.TB, dsn, query string, args ...any) (n int64) {
	t.Helper()
	queryRow(t, dsn, query, &n, args...)
	return n
}

// queryRow reads a row of one column.
func queryRow(t testing.TB, dsn, query string, into any, args ...any) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, query, args...).Scan(into); err != nil {
		t.Fatal(err)
	}
}
