package definition

import (
	"io/fs"
	"time"
)

// stamp identifies a file's content without reading it. The zero value identifies
// none.
type stamp struct {
	device, inode uint64
	size          int64
	// In nanoseconds since 1970. No program can set changed, which the system
	// moves on with each change of the content, the mode or the name.
	modified, changed int64
}

// restful is for how long a file must have been unchanged before it was read, so that
// a later change has another stamp. The clocks of file systems have steps, of 2 s at
// most (FAT).
var restful = 2 * time.Second

// stampAt returns the stamp of a file that was looked at, before it was read, at a
// time. It returns the zero value where a later change could have the same stamp.
func stampAt(info fs.FileInfo, at time.Time) stamp {
	s := stampOf(info)
	if latest := max(s.modified, s.changed); latest > at.Add(-restful).UnixNano() {
		return stamp{}
	}
	return s
}
