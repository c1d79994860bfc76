package definition

import (
	"io/fs"
	"syscall"
)

// stampOf returns a file's stamp, or the zero value for what is no regular file.
func stampOf(info fs.FileInfo) stamp {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() {
		return stamp{}
	}
	return stamp{
		device: uint64(s.Dev), inode: s.Ino, size: s.Size, //nolint:unconvert // the types differ by processor
		modified: s.Mtim.Nano(), changed: s.Ctim.Nano(),
	}
}
