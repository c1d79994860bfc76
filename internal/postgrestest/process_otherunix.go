//go:build unix && !linux

package postgrestest

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {}
