package definition

import "maps"

// LoadVersions loads two versions of a workspace. They have one data model if its file
// is the same in both, and the tables name the same fields of the gateway.
func LoadVersions(older, newer Place) (before, after *Snapshot, err error) {
	var m memory
	if before, err = older.load(&m); err != nil {
		return nil, nil, err
	}
	// Messages about other files name the directory that these are in.
	maps.DeleteFunc(m.files, func(_ string, f *file) bool { return f != m.context })
	after, err = newer.load(&m)
	return before, after, err
}
