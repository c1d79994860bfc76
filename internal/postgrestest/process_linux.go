package postgrestest

import "syscall"

// dieWithParent has the kernel end the server when the test was killed.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGQUIT }
