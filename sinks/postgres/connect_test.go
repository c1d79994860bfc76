package postgres_test

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cadenza-gateway/cadenza/internal/freeport"
	"github.com/cadenza-gateway/cadenza/internal/limit"
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
		{"nobody listens", login + freeport.Address(t) + "/postgres", "refused"},
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

// testRights connects as a user without rights: the error must name the
// statements for an administrator, which must suffice.
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
}

// testOtherFormats has the sink and the ledger refuse a schema of another format, and
// leave its tables as they are.
func testOtherFormats(t *testing.T, dsn string) {
	for _, format := range []int{6, 101} {
		schema := fmt.Sprintf("format_%d", format)
		exec(t, dsn, fmt.Sprintf(`
CREATE SCHEMA %[1]s; CREATE TABLE %[1]s.schema_version (version integer NOT NULL); INSERT INTO %[1]s.schema_version VALUES (%[2]d);
CREATE TABLE %[1]s.traces (id uuid PRIMARY KEY); INSERT INTO %[1]s.traces SELECT gen_random_uuid()`, schema, format))
		sink, err := postgres.New(postgres.Config{DSN: func() (string, error) { return dsn, nil }, Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		defer sink.Close()
		ledger := sink.Ledger("w")
		defer closeLedger(t, ledger)
		_, resumed := sink.Resume(t.Context(), source, trace.Position{})
		_, exchanged := ledger.Exchange(t.Context(), nextID(), []limit.Claim{claimOf("l", time.Hour)})
		want := fmt.Sprintf("schema %q has format %d, and this version of Cadenza writes format 100", schema, format)
		for _, err := range []error{resumed, exchanged} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
		left := fmt.Sprintf("SELECT (SELECT count(*) FROM %[1]s.traces) * 10 + count(*) FROM pg_catalog.pg_tables WHERE schemaname = '%[1]s'", schema)
		if n := count(t, dsn, left); n != 12 {
			t.Errorf("a row in two tables became %d", n)
		}
	}
}

// testPositions resumes when the store and the database disagree.
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
	// Another store, workspace or sink has no position.
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
