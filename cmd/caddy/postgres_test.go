package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/internal/postgrestest"
)

// fleetCaddyfile configures a gateway that shares a database with others.
const fleetCaddyfile = `{
	admin {$CADENZA_ADMIN}
	grace_period 5s
	cadenza {
		definitions {$CADENZA_ROOT}/examples/definitions
		store sqlite {$CADENZA_DATA}/cadenza.db
		trace_key {env.CADENZA_TRACE_KEY}
		api_key app {env.CADENZA_API_KEY}
		sink postgres {env.CADENZA_TEST_DATABASE}
		provider openai {
			api_key {env.OPENAI_API_KEY}
		}
		provider canned
	}
}
{$CADENZA_ADDRESS} {
	cadenza
}
`

// fleet has the answers that callers of several gateways got.
type fleet struct {
	t       *testing.T
	next    atomic.Int64
	mu      sync.Mutex
	answers map[string]bool  // trace ids
	reports map[int64]string // trace ids by reported number
	failed  []string
}

// call sends requests to a gateway until ctx is done, and records the acknowledged ones.
// If the gateway may crash, calls may fail, and only the reports are recorded.
func (f *fleet) call(ctx context.Context, p *process, mayCrash bool) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: gatewaytest.Patience}
	for i := 0; ctx.Err() == nil; i++ {
		path, body := "/v1/remoteconfigs", `{"keys":["banner_text"],"context":{"locale":"nl"}}`
		if i%4 == 0 {
			path, body = "/v1/endpoints", `{"key":"support_chat","variables":{"question":"Where is it?"}}`
		}
		status, header, text, err := post(context.Background(), client, p.url+path, body)
		id := header.Get("Cadenza-Trace-Id")
		n := f.next.Add(1)
		if err == nil && status == http.StatusOK {
			f.note(func() {
				if !mayCrash {
					f.answers[id] = true
				}
			})
			status, _, text, err = post(context.Background(), client, p.url+"/v1/metrics",
				fmt.Sprintf(`{"trace_id":%q,"metadata":{"n":%d}}`, id, n))
		}
		f.note(func() {
			switch {
			case err == nil && status == http.StatusOK:
				f.reports[n] = id
			case !mayCrash:
				f.failed = append(f.failed, fmt.Sprintf("%d %s %v", status, text, err))
			}
		})
		time.Sleep(2 * time.Millisecond)
	}
}

func (f *fleet) note(what func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what()
}

// TestFleetOutlivesItsDatabase has two gateways that share a PostgreSQL server. The
// server is killed, frozen and replaced by a standby that lacks the latest commits, and
// one of the gateways is killed, too. No request may fail because of this, and in the
// end the database has every answered request once.
func TestFleetOutlivesItsDatabase(t *testing.T) {
	t.Parallel()
	primary := postgrestest.Start(t)
	standby := postgrestest.StartStandby(t, primary)
	database := fmt.Sprintf("postgres://postgres@%s,%s/postgres?sslmode=disable", primary.Address(), standby.Address())
	dir := t.TempDir()
	caddyfile := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(caddyfile, []byte(fleetCaddyfile), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(name string) *process {
		p := newProcess(t, filepath.Join(dir, name), "CADENZA_TRACE_KEY=a-key-that-all-of-the-fleet-has", "CADENZA_TEST_DATABASE="+database)
		p.startWith(caddyfile)
		return p
	}
	steady, crashing := start("steady"), start("crashing")

	f := &fleet{t: t, answers: make(map[string]bool), reports: make(map[int64]string)}
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range 3 {
		callers.Go(func() { f.call(ctx, steady, false) })
		callers.Go(func() { f.call(ctx, crashing, true) })
	}
	pause := func() { time.Sleep(700 * time.Millisecond) }
	pause()
	primary.Kill()
	pause()
	primary.Restart()
	crashing.kill()
	crashing.startWith(caddyfile)
	pause()
	primary.Pause()
	pause()
	primary.Resume()
	pause()
	standby.Disconnect() // later commits of the primary will be lost
	pause()
	crashing.kill()
	crashing.startWith(caddyfile)
	pause()
	primary.Kill()
	pause()
	standby.Promote()
	pause()
	cancel()
	callers.Wait()
	if len(f.failed) > 0 {
		t.Errorf("%d requests failed, the first: %s", len(f.failed), f.failed[0])
	}

	db, err := pgx.Connect(t.Context(), standby.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	var missing string
	for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		if missing = f.missing(db); missing == "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the database lacks what was answered: %s\nthe steady gateway's log:\n%s\nthe other's:\n%s", missing, steady.output, crashing.output)
		}
	}
	var twice int
	err = db.QueryRow(t.Context(), `SELECT count(*) FROM (SELECT 1 FROM cadenza.metrics GROUP BY metadata ->> 'n' HAVING count(*) > 1) AS doubled`).Scan(&twice)
	if err != nil || twice > 0 {
		t.Errorf("%d reports are there twice: %v", twice, err)
	}
	t.Logf("%d answers and %d reports, none failed, lost or doubled", len(f.answers), len(f.reports))
	if len(f.answers) < 100 {
		t.Errorf("only %d answers", len(f.answers))
	}
}

// missing describes the rows that the database lacks; empty: none.
func (f *fleet) missing(db *pgx.Conn) string {
	traces, err := stored(db, "SELECT id::text FROM cadenza.traces WHERE state = 'ended'")
	if err != nil {
		return err.Error()
	}
	reports, err := stored(db, "SELECT trace_id::text || ' ' || (metadata ->> 'n') FROM cadenza.metrics")
	if err != nil {
		return err.Error()
	}
	var lacking []string
	for id := range f.answers {
		if !traces[id] {
			lacking = append(lacking, "trace "+id)
		}
	}
	for n, id := range f.reports {
		if !reports[fmt.Sprintf("%s %d", id, n)] {
			lacking = append(lacking, fmt.Sprintf("report %d on %s", n, id))
		}
	}
	if len(lacking) > 5 {
		return fmt.Sprintf("%d rows, such as %s", len(lacking), strings.Join(lacking[:5], ", "))
	}
	return strings.Join(lacking, ", ")
}

func stored(db *pgx.Conn, query string) (map[string]bool, error) {
	rows, err := db.Query(context.Background(), query)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	set := make(map[string]bool, len(found))
	for _, one := range found {
		set[one] = true
	}
	return set, nil
}
