//go:build unix

package postgrestest

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"sync"
	"syscall"
)

// credential is the user that the server runs as, nil for our own.
var credential = sync.OnceValues(func() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
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
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody")
})

// giveAway makes a folder that of the server's user.
func giveAway(dir string) error {
	c, err := credential()
	if c == nil || err != nil {
		return err
	}
	return os.Chown(dir, int(c.Uid), int(c.Gid))
}

// attributes are those of the server's processes. giveAway came first and would
// have failed.
func attributes() *syscall.SysProcAttr {
	c, _ := credential()
	a := &syscall.SysProcAttr{Credential: c, Setpgid: true} // an interrupt of the test is not for it
	dieWithParent(a)
	return a
}

func freeze(id int) { _ = syscall.Kill(id, syscall.SIGSTOP) }

func thaw(id int) { _ = syscall.Kill(id, syscall.SIGCONT) }
