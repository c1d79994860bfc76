package sqlite

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// walLimit is what the log is cut back to after a burst, in bytes.
const walLimit = 32 << 20

// busyTimeoutMillis is how long a statement waits for a lock that another
// process holds on the file.
const busyTimeoutMillis = 5000

// dsn is how a file is opened.
type dsn struct {
	path, uri string
	pragmas   []string // in uri too, as the driver takes them
}

// fileURI is the path as an SQLite URI, so that no character of it is special.
func fileURI(path string, query url.Values) string {
	path = filepath.ToSlash(path)
	if filepath.IsAbs(path) && !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/… on Windows
	}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: query.Encode()}).String()
}

// writerDSN sets what concerns the connection alone. What would change the file
// waits until it is known to be ours.
func writerDSN(path string) dsn {
	pragmas := []string{
		fmt.Sprintf("busy_timeout(%d)", busyTimeoutMillis),
		"synchronous(FULL)",
		fmt.Sprintf("wal_autocheckpoint(%d)", backstopPages),
		fmt.Sprintf("journal_size_limit(%d)", walLimit),
		"temp_store(MEMORY)",
		"trusted_schema(OFF)",
		// Deleted content must not stay in the file: an erasure could not find
		// what is left of a row that was replaced or moved before.
		// FAST costs no more writing, and leaves free pages to the erasure.
		"secure_delete(FAST)",
	}
	return dsn{path, fileURI(path, url.Values{"_pragma": pragmas, "_txlock": {"immediate"}}), pragmas}
}

// besideDSN is that of a connection that writes to a file which another made.
// More pragmas may be given.
func besideDSN(path string, pragmas ...string) dsn {
	return dsn{path: path, uri: fileURI(path, url.Values{
		"mode": {"rw"},
		"_pragma": append([]string{
			fmt.Sprintf("busy_timeout(%d)", busyTimeoutMillis),
			"synchronous(NORMAL)",
			fmt.Sprintf("wal_autocheckpoint(%d)", backstopPages),
			fmt.Sprintf("journal_size_limit(%d)", walLimit),
			"temp_store(MEMORY)",
			"trusted_schema(OFF)",
		}, pragmas...),
		"_txlock": {"immediate"},
	})}
}

func readerDSN(path string) dsn {
	return dsn{path: path, uri: fileURI(path, url.Values{
		"mode": {"ro"},
		"_pragma": {
			fmt.Sprintf("busy_timeout(%d)", busyTimeoutMillis),
			"query_only(ON)",
			"temp_store(MEMORY)",
			"trusted_schema(OFF)",
		},
	})}
}
