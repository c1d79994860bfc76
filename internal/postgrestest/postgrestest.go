// Package postgrestest runs throw-away PostgreSQL clusters for tests, which may
// stop, kill, pause and replicate them as they like. It needs PostgreSQL's
// server programs (initdb, postgres, pg_basebackup) and no rights: where the
// test runs as root, which PostgreSQL refuses, the server runs as another user.
package postgrestest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cadenza-gateway/cadenza/internal/freeport"
)

// RequireVariable names the variable of the environment that, when set, makes a
// test fail rather than skip where PostgreSQL is missing.
const RequireVariable = "CADENZA_REQUIRE_POSTGRES"

// patience bounds how long anything here may take: a loaded machine is slow.
const patience = 60 * time.Second

// Server is a cluster of one test. Its data outlives Stop and Kill until the
// test ends. Its methods fail the test they were given and are for its goroutine.
type Server struct {
	t        testing.TB
	bin      string
	dir      string // holds the data, the socket and the log
	port     int
	settings []string
	process  *process // nil: not running
	paused   []int    // ids of processes
}

// process is a postmaster.
type process struct {
	id    int
	ended chan struct{} // closed when it has ended
}

// Start makes a cluster and starts it. Settings are of the form name=value. The
// server listens on 127.0.0.1 and trusts everyone there; it does not sync to
// stable storage, unless a setting says so, for a test kills processes and not
// machines.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s := newServer(t, settings)
	s.run("initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "--wal-segsize=4", "--no-instructions")
	s.start()
	return s
}

// StartStandby makes a hot standby that replicates primary asynchronously.
func StartStandby(t testing.TB, primary *Server, settings ...string) *Server {
	t.Helper()
	s := newServer(t, settings)
	s.run("pg_basebackup", "-D", s.data(), "-d", primary.DSN(), "-R", "-X", "stream", "-c", "fast", "--no-sync")
	s.start()
	return s
}

func newServer(t testing.TB, settings []string) *Server {
	t.Helper()
	bin, err := findPrograms()
	if err != nil {
		if os.Getenv(RequireVariable) != "" {
			t.Fatal(err)
		}
		t.Skipf("%v (set %s to fail instead)", err, RequireVariable)
	}
	// Not t.TempDir, whose name may be too long for a socket and whose parents
	// the server's user may not enter.
	dir, err := os.MkdirTemp("", "cdzpg")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, bin: bin, dir: dir, port: freeport.Port(t), settings: settings}
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Logf("the end of PostgreSQL's log:\n%s", s.logTail())
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := giveAway(dir); err != nil {
		t.Fatal(err)
	}
	return s
}

// findPrograms returns the folder of PostgreSQL's programs: that of the PATH,
// or of the latest version that Debian's packages installed.
func findPrograms() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		// A link may lead to the folder that has the others.
		if path, err = filepath.EvalSymlinks(path); err == nil && hasPrograms(filepath.Dir(path)) {
			return filepath.Dir(path), nil
		}
	}
	folders, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	slices.SortFunc(folders, func(a, b string) int { return version(b) - version(a) })
	if i := slices.IndexFunc(folders, hasPrograms); i >= 0 {
		return folders[i], nil
	}
	return "", errors.New("PostgreSQL's server programs are neither in the PATH nor in /usr/lib/postgresql/*/bin")
}

func hasPrograms(folder string) bool {
	for _, name := range []string{"initdb", "postgres", "pg_basebackup"} {
		if _, err := exec.LookPath(filepath.Join(folder, name)); err != nil {
			return false
		}
	}
	return true
}

func version(folder string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(folder)))
	return n
}

// DSN is the connection string of the database postgres, as a superuser.
func (s *Server) DSN() string { return s.DSNOf("postgres", "postgres") }

// DSNOf is the connection string of a database, as a user.
func (s *Server) DSNOf(user, database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", user, s.Address(), database)
}

// Address is where the server listens, as host:port.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// NewDatabase makes an empty database and returns its connection string, as a
// superuser.
func (s *Server) NewDatabase(name string) string {
	s.t.Helper()
	s.Exec("CREATE DATABASE " + pgx.Identifier{name}.Sanitize())
	return s.DSNOf("postgres", name)
}

// Exec runs a statement in the database postgres, as a superuser.
func (s *Server) Exec(statement string) {
	s.t.Helper()
	if err := s.tryExec(statement); err != nil {
		s.t.Fatalf("%s: %v", statement, err)
	}
}

func (s *Server) tryExec(statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

// Stop ends the server in order, cutting its connections. It does nothing when
// the server does not run.
func (s *Server) Stop() {
	s.t.Helper()
	s.Resume()
	s.end(os.Interrupt)
}

// Kill ends the server as a power cut would: it cannot finish anything.
func (s *Server) Kill() {
	s.t.Helper()
	s.end(os.Kill)
}

// Restart starts a server that was stopped or killed, on its old port.
func (s *Server) Restart() {
	s.t.Helper()
	s.start()
}

// Pause freezes all processes of the server: its connections stay and are
// silent.
func (s *Server) Pause() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		s.t.Fatal(err)
	}
	rows, err := conn.Query(ctx, "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
	if err != nil {
		s.t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		s.t.Fatal(err)
	}
	// The postmaster first, or it would start what is missing.
	s.paused = slices.Insert(ids, 0, s.process.id)
	for _, id := range s.paused {
		freeze(id)
	}
}

// Resume ends a Pause.
func (s *Server) Resume() {
	for _, id := range s.paused {
		thaw(id)
	}
	s.paused = nil
}

// Disconnect ends the replication to this standby: what the primary commits
// from now on, it lacks.
func (s *Server) Disconnect() {
	s.t.Helper()
	s.Exec("ALTER SYSTEM SET primary_conninfo = ''")
	s.Exec("SELECT pg_reload_conf()")
	s.wait("the standby to disconnect", func(ctx context.Context, conn *pgx.Conn) (done bool, err error) {
		err = conn.QueryRow(ctx, "SELECT count(*) = 0 FROM pg_stat_wal_receiver").Scan(&done)
		return done, err
	})
}

// Promote makes a standby a primary.
func (s *Server) Promote() {
	s.t.Helper()
	s.Exec("SELECT pg_promote(true, 60)")
	s.wait("the standby to be promoted", func(ctx context.Context, conn *pgx.Conn) (done bool, err error) {
		err = conn.QueryRow(ctx, "SELECT NOT pg_is_in_recovery()").Scan(&done)
		return done, err
	})
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) start() {
	s.t.Helper()
	if s.process != nil {
		s.t.Fatal("PostgreSQL runs already")
	}
	deadline := time.Now().Add(patience)
	for {
		s.process = s.spawn()
		err := s.awaitReady(deadline)
		if err == nil {
			return
		}
		s.end(os.Kill)
		if time.Now().After(deadline) {
			s.t.Fatalf("PostgreSQL does not start: %v\n%s", err, s.logTail())
		}
		// The processes of a killed server take a moment to go.
		time.Sleep(50 * time.Millisecond)
	}
}

// spawn starts the postmaster. Its goroutine stays on one thread: the death of
// that thread is the signal by which the kernel ends a server whose test was
// killed.
func (s *Server) spawn() *process {
	s.t.Helper()
	args := []string{"-D", s.data(), "-p", strconv.Itoa(s.port), "-k", s.dir, "-h", "127.0.0.1"}
	for _, setting := range slices.Concat([]string{"fsync=off", "max_connections=40", "shared_buffers=32MB", "autovacuum=off"}, s.settings) {
		args = append(args, "-c", setting)
	}
	output, err := os.OpenFile(s.logFile(), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer output.Close()
	p := &process{ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.ended)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		command := s.command("postgres", args...)
		command.Stdout, command.Stderr = output, output
		err := command.Start()
		if err == nil {
			p.id = command.Process.Pid
		}
		started <- err
		if err == nil {
			_ = command.Wait() // a killed server fails, of course
		}
	}()
	if err := <-started; err != nil {
		s.t.Fatal(err)
	}
	return p
}

func (s *Server) awaitReady(deadline time.Time) error {
	for {
		err := s.tryExec("SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-s.process.ended:
			return errors.New("it ended")
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

// end sends the postmaster a signal and waits for its end.
func (s *Server) end(signal os.Signal) {
	s.t.Helper()
	if s.process == nil {
		return
	}
	p := s.process
	s.process = nil
	process, err := os.FindProcess(p.id)
	if err == nil {
		err = process.Signal(signal)
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Error(err)
	}
	select {
	case <-p.ended:
	case <-time.After(patience):
		s.t.Error("PostgreSQL does not end")
	}
}

// wait connects, and waits for a condition.
func (s *Server) wait(what string, condition func(context.Context, *pgx.Conn) (bool, error)) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for {
		done, err := condition(ctx, conn)
		if err != nil {
			s.t.Fatalf("waiting for %s: %v", what, err)
		}
		if done {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (s *Server) run(program string, args ...string) {
	s.t.Helper()
	output, err := s.command(program, args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", program, err, output)
	}
}

func (s *Server) command(program string, args ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(s.bin, program), args...)
	command.Dir = s.dir
	command.Env = append(os.Environ(), "LC_ALL=C", "HOME="+s.dir)
	command.SysProcAttr = attributes()
	return command
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

func (s *Server) logTail() string {
	text, _ := os.ReadFile(s.logFile())
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-40):], []byte("\n")))
}
