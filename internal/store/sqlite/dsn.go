package sqlite

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// walLimit is the size to which the log is truncated after a burst, in bytes.
const walLimit = 32 << 20

// busyTimeoutMillis is how long a statement waits for a lock that another
// process holds on the file.
const busyTimeoutMillis = 5000

// dsn is a file and the options to open it.
type dsn struct {
	path, uri string
	pragmas   []string // in uri too, as the driver takes them
}

// fileURI returns the path as an SQLite URI, in which no character is special.
// https://www.sqlite.org/uri.html
func fileURI(path string, query url.Values) string {
	path = filepath.ToSlash(path)
	if filepath.IsAbs(path) && !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/… on Windows
	}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: query.Encode()}).String()
}

// writerDSN sets options of the connection alone. Those that would change the file wait
// until it is known to be ours.
func writerDSN(path string) dsn {
	pragmas := []string{
		fmt.Sprintf("busy_timeout(%d)", busyTimeoutMillis),
		"synchronous(FULL)",
		fmt.Sprintf("wal_autocheckpoint(%d)", backstopPages),
		fmt.Sprintf("journal_size_limit(%d)", walLimit),
		"temp_store(MEMORY)",
		"trusted_schema(OFF)",
		// Deleted content must not stay in the file: an erasure could not find the bytes of
		// a row that was replaced or moved before. FAST costs no more writing, and leaves
		// free pages to the erasure.
		// https://www.sqlite.org/pragma.html#pragma_secure_delete
		"secure_delete(FAST)",
	}
	return dsn{path: path, uri: fileURI(path, url.Values{"_pragma": pragmas, "_txlock": {"immediate"}}), pragmas: pragmas}
}

// secondWriterDSN returns the dsn of another connection that writes to an existing file, with
// more pragmas.
func secondWriterDSN(path string, pragmas ...string) dsn {
	pragmas = append([]string{
		fmt.Sprintf("busy_timeout(%d)", busyTimeoutMillis),
		"synchronous(NORMAL)",
		fmt.Sprintf("wal_autocheckpoint(%d)", backstopPages),
		fmt.Sprintf("journal_size_limit(%d)", walLimit),
		"temp_store(MEMORY)",
		"trusted_schema(OFF)",
	}, pragmas...)
	return dsn{path: path, uri: fileURI(path, url.Values{"mode": {"rw"}, "_pragma": pragmas, "_txlock": {"immediate"}}), pragmas: pragmas}
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
