//go:build linux

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// postgres is a temporary PostgreSQL server for the gateway with a sink. It runs on
// the generator's processor, not on the gateway's.
type postgres struct {
	dir     string
	address string
	command *exec.Cmd
	ended   chan struct{}
}

// postgresPrograms returns the directory of initdb and postgres, or an empty string.
func postgresPrograms() string {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path)
		}
	}
	folders, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(folders) == 0 {
		return ""
	}
	return folders[len(folders)-1]
}

func startPostgres(bin string) (p *postgres, err error) {
	p = &postgres{ended: make(chan struct{})}
	// Not in the run's directory, which the server's user can't enter.
	if p.dir, err = os.MkdirTemp("", "cadenza-load-pg"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	attributes := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGQUIT}
	if os.Geteuid() == 0 {
		// PostgreSQL refuses to run as root.
		if attributes.Credential, err = other(); err != nil {
			return p, err
		}
		if err = os.Chown(p.dir, int(attributes.Credential.Uid), int(attributes.Credential.Gid)); err != nil {
			return p, err
		}
	}
	command := func(name string, args ...string) *exec.Cmd {
		c := exec.Command(filepath.Join(bin, name), args...)
		c.Dir, c.SysProcAttr = p.dir, attributes
		return c
	}
	data := filepath.Join(p.dir, "data")
	if output, err := command("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync").CombinedOutput(); err != nil {
		return p, fmt.Errorf("initdb: %w\n%s", err, output)
	}
	if p.address, err = freeAddress(); err != nil {
		return p, err
	}
	_, port, err := net.SplitHostPort(p.address)
	if err != nil {
		return p, err
	}
	p.command = command("postgres", "-D", data, "-p", port, "-k", p.dir, "-h", "127.0.0.1")
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // see Pdeathsig
		defer runtime.UnlockOSThread()
		err := p.command.Start()
		started <- err
		if err == nil {
			_ = p.command.Wait() // the sink notices an unexpected end
		}
		close(p.ended)
	}()
	if err = <-started; err != nil {
		p.command = nil
		return p, err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", p.address)
		if err == nil {
			return p, conn.Close()
		}
		if time.Now().After(deadline) {
			return p, fmt.Errorf("postgres does not listen: %w", err)
		}
	}
}

// other returns a user that isn't root.
func other() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
	}
	return nil, errors.New("there is neither a user postgres nor nobody to run PostgreSQL as")
}

func (p *postgres) dsn() string {
	return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", p.address)
}

// stop ends the server and removes its data.
func (p *postgres) stop() error {
	if p.command != nil {
		_ = p.command.Process.Signal(syscall.SIGINT)
		select {
		case <-p.ended:
		case <-time.After(15 * time.Second):
			_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL)
			<-p.ended
		}
	}
	return os.RemoveAll(p.dir)
}
