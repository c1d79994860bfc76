//go:build !unix

package postgrestest

import "syscall"

func giveAway(string) error { return nil }

func attributes() *syscall.SysProcAttr { return nil }

func freeze(int) {}

func thaw(int) {}
