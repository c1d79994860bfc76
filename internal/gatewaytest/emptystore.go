package gatewaytest

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// emptyStore is the file of a store that nothing was stored in, without what each store
// draws for itself.
var emptyStore = sync.OnceValues(func() (file []byte, err error) {
	dir, err := os.MkdirTemp("", "cadenza")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "empty.db")
	store, err := sqlite.Open(context.Background(), sqlite.Config{Path: path})
	if err != nil {
		return nil, err
	}
	if err := store.Close(); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		return nil, err
	}
	_, err = db.Exec("DELETE FROM meta WHERE name IN ('store_id', 'trace_key')")
	if err := errors.Join(err, db.Close()); err != nil { // which moves the log into the file
		return nil, err
	}
	return os.ReadFile(path)
})

// PutEmptyStore puts the file of an empty store at a path. Most tests of a gateway are not
// about how it makes its tables, which takes longer than many of them do otherwise.
func PutEmptyStore(t testing.TB, path string) {
	t.Helper()
	file, err := emptyStore()
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.WriteFile(path, file, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
