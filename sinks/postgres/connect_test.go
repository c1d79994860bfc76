package postgres_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cadenza-gateway/cadenza/sinks"
	"github.com/cadenza-gateway/cadenza/sinks/postgres"
	"github.com/cadenza-gateway/cadenza/trace"
)

// password must never show.
const password = "s3cr/t:pa@ss"

func TestNewRefusesWhatCanNeverWork(t *testing.T) {
	for _, c := range []struct{ name, dsn, schema, want string }{
		{"no URL", "postgres://user:" + password + "@host:port/db", "", "can't be read"},
		{"a password that is no URL", "postgres://user:" + password + "%zz@host/db", "", "can't be read"},
		{"words", "user=u password='" + password, "", "can't be read"},
		{"an unknown mode", "postgres://u@h/d?sslmode=" + password, "", "can't be read"},
		{"a missing certificate", "postgres://u:x@h/d?sslmode=verify-full&sslrootcert=/nowhere/" + password, "", "files that it names"},
		{"a long schema", "postgres://h/d", strings.Repeat("s", 64), "63 bytes"},
		{"a reserved schema", "postgres://h/d", "pg_catalog", "keeps this name"},
		{"a schema with NUL", "postgres://h/d", "a\x00", "without NUL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := postgres.New(postgres.Config{DSN: func() (string, error) { return c.dsn, nil }, Schema: c.schema})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("the error is %v, want one with %q", err, c.want)
			}
			wantNoPassword(t, err)
		})
	}
	empty := errors.New("{env.DSN} is empty")
	if _, err := postgres.New(postgres.Config{DSN: func() (string, error) { return "", empty }}); !errors.Is(err, empty) {
		t.Errorf("the error is %v", err)
	}
}

func wantNoPassword(t *testing.T, err error) {
	t.Helper()
	for _, part := range []string{password, "s3cr", "pa@ss", "t:pa", "s3cr%2Ft"} {
		if strings.Contains(err.Error(), part) {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

// testConnectErrors fails to connect in all ways, none of which may show the
// password or take long.
func testConnectErrors(t *testing.T, dsn string) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	exec(t, dsn, "CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
	const login = "postgres://postgres:s3cr%2Ft%3Apa%40ss@"
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
	for _, c := range []struct{ name, dsn, want string }{
		{"nobody listens", login + closed.Addr().String() + "/postgres", "refused"},
		{"nobody answers", login + silent.Addr().String() + "/postgres?connect_timeout=1", "failed to connect"},
		{"no such database", login + address + "/nowhere?sslmode=disable", "does not exist"},
		{"no such role", strings.Replace(login, "postgres:s", "nobody:s", 1) + address + "/postgres?sslmode=disable", "does not exist"},
		{"no TLS", login + address + "/postgres?sslmode=require", "TLS"},
		{"a standby that accepts no writes", login + address + "/postgres?sslmode=disable&options=-cdefault_transaction_read_only%3Don", "read only"},
		{"an encoding that holds too little", login + address + "/ascii?sslmode=disable", "ENCODING 'UTF8'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sink := newSink(t, c.dsn)
			defer sink.Close()
			began := time.Now()
			_, err := sink.Resume(t.Context(), source, trace.Position{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("the error is %v, want one with %q", err, c.want)
			}
			wantNoPassword(t, err)
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("it took %s", took)
			}
			if err := sink.Deliver(t.Context(), &trace.Delivery{}); err == nil {
				t.Error("a delivery without a connection succeeds")
			}
		})
	}
}

// testRights connects as a user who may do nothing: the error must name what an
// administrator has to run, which must suffice.
func testRights(t *testing.T, dsn string) {
	exec(t, dsn, `CREATE ROLE "the app" LOGIN`)
	exec(t, dsn, `REVOKE TEMPORARY ON DATABASE "Rights" FROM PUBLIC`)
	sink := newSink(t, withDSN(t, dsn, "the app", ""))
	defer sink.Close()
	_, err := sink.Resume(t.Context(), source, trace.Position{})
	if err == nil {
		t.Fatal("it needs no rights")
	}
	_, grants, found := strings.Cut(err.Error(), "grants by: ")
	if !found {
		t.Fatalf("the error names no grants: %v", err)
	}
	for statement := range strings.SplitSeq(grants, "; ") {
		exec(t, dsn, statement)
	}
	from := resume(t, sink, trace.Position{Traces: 7})
	if from != (trace.Position{}) {
		t.Errorf("a new database is at %+v", from)
	}
	deliver(t, sink, &trace.Delivery{
		Position: trace.Position{Traces: 1, Erasures: 1},
		Records:  []*trace.Record{{ID: trace.ID{1}, Time: time.Now()}},
		Erasures: []trace.Erasure{{Selector: trace.Selector{Workspace: "w", ConversationID: "c"}}},
	})
}

func testSchemas(t *testing.T, dsn string) {
	const odd = `Odd "schema" cadenza.`
	sink, err := postgres.New(postgres.Config{DSN: func() (string, error) { return dsn, nil }, Schema: odd})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	resume(t, sink, trace.Position{})
	deliver(t, sink, &trace.Delivery{Position: trace.Position{Traces: 1}, Records: []*trace.Record{{ID: trace.ID{1}, Time: time.Now()}}})
	if n := count(t, dsn, fmt.Sprintf("SELECT count(*) FROM %s.traces", pgx.Identifier{odd}.Sanitize())); n != 1 {
		t.Errorf("%d rows", n)
	}
	exec(t, dsn, fmt.Sprintf("UPDATE %s.schema_version SET version = 99", pgx.Identifier{odd}.Sanitize()))
	if _, err := sink.Resume(t.Context(), source, trace.Position{}); err == nil || !strings.Contains(err.Error(), "a later one made it") {
		t.Errorf("a later schema: %v", err)
	}
}

// testEarlierSchema brings the tables of each earlier version up to date, and
// keeps their rows.
func testEarlierSchema(t *testing.T, dsn string) {
	scripts, err := filepath.Glob("migrations/*.sql")
	if err != nil || len(scripts) < 2 {
		t.Fatal(scripts, err)
	}
	for version := 1; version < len(scripts); version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			schema := fmt.Sprintf("version_%d", version)
			exec(t, dsn, fmt.Sprintf("CREATE SCHEMA %[1]s; CREATE TABLE %[1]s.schema_version (version integer NOT NULL); INSERT INTO %[1]s.schema_version VALUES (%[2]d)", schema, version))
			for _, name := range scripts[:version] {
				script, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				exec(t, dsn, fmt.Sprintf("SET search_path = %s; %s", schema, script))
			}
			exec(t, dsn, fmt.Sprintf(`
INSERT INTO %[1]s.traces (id, time, workspace, kind, key, state, status, metadata)
SELECT gen_random_uuid(), '2026-01-01', 'w', 'endpoint', 'k', 'ended', 200, metadata FROM (VALUES ('{}'::jsonb), ('{"conversation_id":"c"}')) AS v(metadata);
INSERT INTO %[1]s.metrics (id, trace_id, time, workspace, score, conversation_id) SELECT gen_random_uuid(), id, time, 'w', 50, 'd' FROM %[1]s.traces`, schema))
			sink, err := postgres.New(postgres.Config{DSN: func() (string, error) { return dsn, nil }, Schema: schema})
			if err != nil {
				t.Fatal(err)
			}
			defer sink.Close()
			resume(t, sink, trace.Position{})
			deliver(t, sink, &trace.Delivery{Position: trace.Position{Traces: 1}, Records: []*trace.Record{
				{ID: trace.ID{1}, Time: time.Now(), FinishReason: "length", Prompt: "reply", PromptVersion: "v", Decision: trace.ID{2}, Arm: "b"},
			}, Metrics: []*trace.Metrics{{UUID: [16]byte{3}, Time: time.Now(), Decision: trace.ID{2}, Values: []byte(`{"resolved":1}`)}}})
			if n := count(t, dsn, fmt.Sprintf("SELECT count(*) FROM %s.traces WHERE (finish_reason, prompt, prompt_version, arm) = ('length', 'reply', 'v', 'b') OR finish_reason IS NULL AND arm IS NULL AND status = 200", schema)); n != 3 {
				t.Errorf("%d of 3 rows", n)
			}
			if n := count(t, dsn, fmt.Sprintf("SELECT count(*) FROM %[1]s.metrics LEFT JOIN %[1]s.traces USING (decision_id) WHERE arm = 'b' AND trace_id IS NULL AND named_values = '{\"resolved\": 1}' OR score = 50 AND decision_id IS NULL", schema)); n != 3 {
				t.Errorf("%d of 3 reports", n)
			}
			// An erasure finds what was there before, and leaves all else.
			deliver(t, sink, &trace.Delivery{Position: trace.Position{Traces: 1, Erasures: 1}, Erasures: []trace.Erasure{{Time: time.Now(), Selector: trace.Selector{Workspace: "w", ConversationID: "c"}}}})
			if n := count(t, dsn, fmt.Sprintf("SELECT (SELECT count(*) FROM %[1]s.traces) * 10 + (SELECT count(*) FROM %[1]s.metrics)", schema)); n != 22 {
				t.Errorf("after an erasure, traces and reports: %d, want 22", n)
			}
		})
	}
}

// testPositions resumes where the store and the database disagree.
func testPositions(t *testing.T, dsn string) {
	sink := newSink(t, dsn)
	defer sink.Close()
	position := func(n int64) trace.Position { return trace.Position{Traces: n, Metrics: n, Versions: n, Erasures: n} }
	for _, step := range []struct {
		name       string
		kept, want trace.Position
		deliver    int64
	}{
		{"a new database", position(50), position(0), 10},
		{"the database is ahead", position(7), position(7), 20},
		{"the store is ahead", position(30), position(20), 40},
		{"each in something", trace.Position{Traces: 10, Metrics: 50, Versions: 40, Erasures: 0}, trace.Position{Traces: 10, Metrics: 40, Versions: 40, Erasures: 0}, 60},
	} {
		if got := resume(t, sink, step.kept); got != step.want {
			t.Errorf("%s: %+v, want %+v", step.name, got, step.want)
		}
		deliver(t, sink, &trace.Delivery{Position: position(step.deliver)})
	}
	// Another store, workspace or sink knows nothing of it.
	for _, other := range []sinks.Source{
		{StoreID: [16]byte{8}, Workspace: source.Workspace, Sink: source.Sink},
		{StoreID: source.StoreID, Workspace: "other", Sink: source.Sink},
		{StoreID: source.StoreID, Workspace: source.Workspace, Sink: "other"},
	} {
		if got, err := sink.Resume(t.Context(), other, position(5)); err != nil || got != position(0) {
			t.Errorf("%v: %+v, %v", other, got, err)
		}
	}
}

// testPasswordsMayChange has the connection string change between connections.
func testPasswordsMayChange(t *testing.T, dsn string) {
	current := "postgres://postgres@127.0.0.1:1/postgres"
	sink, err := postgres.New(postgres.Config{DSN: func() (string, error) { return current, nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	if _, err := sink.Resume(t.Context(), source, trace.Position{}); err == nil {
		t.Fatal("nobody is there, and it connects")
	}
	current = dsn
	resume(t, sink, trace.Position{})
}

// testModesOfTheDriver uses the modes that a pooler may need.
func testModesOfTheDriver(t *testing.T, dsn string) {
	for i, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			exec(t, dsn, "CREATE DATABASE "+mode)
			sink := newSink(t, withDSN(t, dsn, "", mode)+"&default_query_exec_mode="+mode)
			defer sink.Close()
			for n := range int64(2) {
				position := trace.Position{Traces: n}
				if got := resume(t, sink, position); got != position {
					t.Errorf("it is at %+v", got)
				}
				position.Traces++
				deliver(t, sink, &trace.Delivery{
					Position: position,
					Records:  []*trace.Record{{ID: trace.ID{byte(i), byte(n)}, Time: time.Now(), Metadata: []byte(`{"a":1}`)}},
					Metrics:  []*trace.Metrics{{UUID: trace.ID{byte(i), byte(n)}, Time: time.Now(), Score: new(1.5)}},
					Versions: []trace.Version{{Version: "v", Time: time.Now(), Content: []byte{0}}},
					Erasures: []trace.Erasure{{Selector: trace.Selector{MetadataName: "a", MetadataValue: `2`}}, {Selector: trace.Selector{ConversationID: "c"}}},
				})
			}
			if n := count(t, withDSN(t, dsn, "", mode), "SELECT count(*) FROM cadenza.traces, cadenza.versions WHERE content = '\\x00'"); n != 2 {
				t.Errorf("%d rows", n)
			}
		})
	}
}
