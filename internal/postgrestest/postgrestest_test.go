package postgrestest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/internal/postgrestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func count(t *testing.T, dsn string) int {
	t.Helper()
	n, err := tryCount(dsn, gatewaytest.Patience)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func tryCount(dsn string, timeout time.Duration) (n int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.Background())
	return n, conn.QueryRow(ctx, "SELECT count(*) FROM t").Scan(&n)
}

func TestServer(t *testing.T) {
	server := postgrestest.Start(t)
	server.Exec("CREATE TABLE t (n int)")
	server.Exec("INSERT INTO t VALUES (1)")

	server.Stop()
	if _, err := tryCount(server.DSN(), time.Second); err == nil {
		t.Error("a stopped server answers")
	}
	server.Restart()
	for range 3 {
		server.Kill()
		server.Restart()
	}
	if n := count(t, server.DSN()); n != 1 {
		t.Errorf("%d rows after it was killed", n)
	}

	server.Pause()
	if _, err := tryCount(server.DSN(), 200*time.Millisecond); err == nil {
		t.Error("a paused server answers")
	}
	server.Resume()
	if n := count(t, server.DSN()); n != 1 {
		t.Errorf("%d rows after it was paused", n)
	}
}

func TestAStandbyThatLagsLacksRows(t *testing.T) {
	primary := postgrestest.Start(t)
	primary.Exec("CREATE TABLE t (n int)")
	standby := postgrestest.StartStandby(t, primary)
	primary.Exec("INSERT INTO t VALUES (1)")
	for deadline := time.Now().Add(gatewaytest.Patience); count(t, standby.DSN()) != 1; {
		if time.Now().After(deadline) {
			t.Fatal("the standby does not follow")
		}
	}
	standby.Disconnect()
	primary.Exec("INSERT INTO t VALUES (2)")
	primary.Kill()
	standby.Promote()
	standby.Exec("CREATE TABLE proof ()") // it can be written to
	if n := count(t, standby.DSN()); n != 1 {
		t.Errorf("%d rows on the promoted standby", n)
	}
}
