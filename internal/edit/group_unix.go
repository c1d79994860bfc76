//go:build unix

package edit

import (
	"os/exec"
	"syscall"
)

// ownGroup has a command and all that it starts end together, and takes the terminal from
// them, so that none can ask a question there.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
