package caddymodule_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cadenza-gateway/cadenza/internal/postgrestest"
)

// observed is a site with the gateway and its metrics.
const observed = `
	cadenza /v1/*
	metrics /metrics
`

func (g *gateway) scrape() string {
	g.t.Helper()
	return string(g.do("GET", "/metrics", "", nil).body)
}

// lines returns the lines that a file sink wrote, by type.
func lines(t *testing.T, path string) map[string][]map[string]any {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	found := make(map[string][]map[string]any)
	for line := range strings.Lines(string(content)) {
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		var value map[string]any
		if err := json.Unmarshal([]byte(line), &value); err != nil {
			t.Fatalf("%v\n%s", err, line)
		}
		kind := value["type"].(string)
		found[kind] = append(found[kind], value)
	}
	return found
}

func TestSinkFile(t *testing.T) {
	const copied = options + "sink file {dir}/out/traces.jsonl\n"
	g := startGateway(t, workspace, options)
	// Rows from before the sink was configured are copied, too.
	before := g.post("/v1/prompts", `{"keys":["hello"]}`).header.Get("Cadenza-Trace-Id")
	if err := g.load(copied); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(g.dir, "out", "traces.jsonl")
	var ids []string
	ask := func() {
		t.Helper()
		a := g.post("/v1/remoteconfigs", `{"keys":["checkout"]}`).ok(t)
		id := a.header.Get("Cadenza-Trace-Id")
		ids = append(ids, id)
		g.post("/v1/metrics", `{"trace_id":"`+id+`","metadata":{"a":1}}`).ok(t)
	}
	ask()
	// A reload continues the sink at its position.
	for range 3 {
		if err := g.load(copied + "max_body_size 2MB\n"); err != nil {
			t.Fatal(err)
		}
		ask()
		if err := g.load(copied); err != nil {
			t.Fatal(err)
		}
		ask()
	}
	ids = append(ids, before)
	eventually(t, "everything is copied", func() bool {
		found := lines(t, path)
		return len(found["trace"]) >= len(ids) && len(found["metrics"]) >= len(ids)-1
	})
	found := lines(t, path)
	if len(found["trace"]) != len(ids) || len(found["metrics"]) != len(ids)-1 || len(found["version"]) == 0 {
		t.Errorf("%d traces, %d metrics, %d versions for %d answers", len(found["trace"]), len(found["metrics"]), len(found["version"]), len(ids))
	}
	for _, id := range ids {
		there := false
		for _, line := range found["trace"] {
			there = there || line["trace_id"] == id
		}
		if !there {
			t.Errorf("the trace %s was not copied", id)
		}
	}

	g.site(copied, observed)
	eventually(t, "the metrics tell", func() bool {
		metrics := g.scrape()
		for _, want := range []string{
			`cadenza_sink_up{sink="file",workspace="default"} 1`,
			`cadenza_sink_pending_rows{sink="file",workspace="default"} 0`,
			`cadenza_sink_lost_rows_total{sink="file",workspace="default"} 0`,
		} {
			if !strings.Contains(metrics, want) {
				return false
			}
		}
		return true
	})
}

// TestTwoFiles configures one module twice, with two names.
func TestTwoFiles(t *testing.T) {
	g := startGateway(t, workspace, options+"sink file {dir}/one.jsonl\nsink audit file {dir}/two.jsonl\n")
	id := g.post("/v1/prompts", `{"keys":["hello"]}`).header.Get("Cadenza-Trace-Id")
	for _, name := range []string{"one.jsonl", "two.jsonl"} {
		eventually(t, name+" has the trace", func() bool {
			traces := lines(t, filepath.Join(g.dir, name))["trace"]
			return len(traces) == 1 && traces[0]["trace_id"] == id
		})
	}
}

func TestSinkThatIsRefused(t *testing.T) {
	g := startGateway(t, workspace, options)
	t.Setenv("CADENZA_TEST_DATABASE", "postgres://127.0.0.1:1/none")
	t.Setenv("CADENZA_TEST_EMPTY", "")
	t.Setenv("CADENZA_TEST_GUESSED", "passwordpassword")
	for added, want := range map[string]string{
		"sink postgres {env.CADENZA_TEST_DATABASE}":                                "needs a trace_key",
		"trace_key {env.CADENZA_TEST_KEY}\nsink postgres {env.CADENZA_TEST_EMPTY}": "CADENZA_TEST_EMPTY",
		"trace_key {env.CADENZA_TEST_GUESSED}":                                     "trace_key: {env.CADENZA_TEST_GUESSED} can be guessed",
		"sink kafka":                                                               `unrecognized sink module "kafka", known: file, postgres, stdout`,
		"sink":                                                                     "sink takes <name> [<module>]",
		"sink file":                                                                "sink file needs the path of its file",
	} {
		err := g.load(options + added + "\n")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", added, err, want)
		}
	}
	// The previous configuration still answers.
	g.post("/v1/prompts", `{"keys":["hello"]}`).ok(t)
}

// TestSinkPostgresThatIsAway starts before the database.
func TestSinkPostgresThatIsAway(t *testing.T) {
	server := postgrestest.Start(t)
	server.Stop()
	t.Setenv("CADENZA_TEST_DATABASE", server.DSN())
	g := startGateway(t, workspace, options)
	g.site(options+"trace_key {env.CADENZA_TEST_KEY}\nsink postgres {env.CADENZA_TEST_DATABASE}\n", observed)
	id := g.post("/v1/prompts", `{"keys":["hello"]}`).header.Get("Cadenza-Trace-Id")
	g.post("/v1/metrics", `{"trace_id":"`+id+`","score":70}`).ok(t)
	// It is not up before its first delivery either.
	eventually(t, "the failure is logged", g.said("are not delivered to a sink"))
	eventually(t, "the sink is known to be away", func() bool {
		return strings.Contains(g.scrape(), `cadenza_sink_up{sink="postgres",workspace="default"} 0`)
	})
	server.Restart()
	eventually(t, "the sink has everything", func() bool {
		metrics := g.scrape()
		return strings.Contains(metrics, `cadenza_sink_up{sink="postgres",workspace="default"} 1`) &&
			strings.Contains(metrics, `cadenza_sink_pending_rows{sink="postgres",workspace="default"} 0`)
	})
	logs, err := os.ReadFile(g.logs)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(logs), "are not delivered to a sink"); n != 1 {
		t.Errorf("the failure was logged %d times", n)
	}
	if !strings.Contains(string(logs), "are being delivered again") {
		t.Error("the recovery was not logged")
	}
}

// TestSinkMetricsOutliveAFailedStart has a reload that fails after its sinks have
// started: the sinks of the running configuration continue, with their metrics.
func TestSinkMetricsOutliveAFailedStart(t *testing.T) {
	const copied = options + "sink file {dir}/out/traces.jsonl\n"
	g := startGateway(t, workspace, options)
	g.site(copied, observed)
	up := func() bool { return strings.Contains(g.scrape(), `cadenza_sink_up{sink="file",workspace="default"} 1`) }
	eventually(t, "the sink is up", up)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	failing := strings.Replace(g.caddyfile(copied), "\tcadenza\n}\n", observed+"\n}\nhttp://"+taken.Addr().String()+" {\nbind 127.0.0.1\nrespond ok\n}\n", 1)
	for range 5 {
		if err := loadCaddyfile(failing); err == nil {
			t.Fatal("it started on an address that is taken")
		}
	}
	g.client.CloseIdleConnections()
	eventually(t, "the sink is still up", up)
	id := g.post("/v1/prompts", `{"keys":["hello"]}`).header.Get("Cadenza-Trace-Id")
	eventually(t, "it still copies", func() bool {
		content, err := os.ReadFile(filepath.Join(g.dir, "out", "traces.jsonl"))
		return err == nil && strings.Contains(string(content), id)
	})
}

// TestReloadsKeepOneConnection reloads during requests: no row is lost or doubled, and
// no connection stays open.
func TestReloadsKeepOneConnection(t *testing.T) {
	server := postgrestest.Start(t)
	t.Setenv("CADENZA_TEST_DATABASE", server.DSN())
	const copied = options + "trace_key {env.CADENZA_TEST_KEY}\nsink postgres {env.CADENZA_TEST_DATABASE}\n"
	g := startGateway(t, workspace, copied)
	answered := 0
	for size := range 10 {
		if err := g.load(copied + fmt.Sprintf("max_body_size %dMB\n", size+1)); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if a := g.post("/v1/prompts", `{"keys":["hello"]}`); a.status == http.StatusOK {
				answered++
			}
		}
	}
	db, err := pgx.Connect(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	var connections, rows int
	eventually(t, "everything is copied, by one connection", func() bool {
		err := db.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM pg_stat_activity WHERE application_name = 'cadenza'), (SELECT count(*) FROM cadenza.traces)").
			Scan(&connections, &rows)
		return err == nil && connections == 1 && rows == answered
	})
}

// TestPasswordsStayUnsaid checks errors about connection strings with a password.
func TestPasswordsStayUnsaid(t *testing.T) {
	g := startGateway(t, workspace, options)
	for _, value := range []string{
		"postgres://u:verysecret@h:notaport/db", "postgres://u:verysecret%word@h/db", "host=h password='verysecret", "verysecret",
	} {
		t.Setenv("CADENZA_TEST_DATABASE", value)
		err := g.load(options + "trace_key {env.CADENZA_TEST_KEY}\nsink postgres {env.CADENZA_TEST_DATABASE}\n")
		if err == nil || strings.Contains(err.Error(), "verysecret") {
			t.Errorf("%s: %v", value, err)
		}
	}
}
