package caddymodule

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/cadenza-gateway/cadenza/regular"
)

// keysFile is a file of API key digests, a JSON list of
//
//	{"name": "app", "sha256": "<64 hex digits>", "not_after": "2027-01-31T00:00:00Z"}
//
// of which not_after is optional. A changed file that is invalid is reported
// and the keys last read stay.
type keysFile struct {
	path    string
	info    os.FileInfo // when it was opened
	current atomic.Pointer[[]fileKey]
}

type fileKey struct {
	name     string
	digest   digest
	notAfter time.Time
}

// maxKeysFile bounds the file, in bytes.
const maxKeysFile = 16 << 20

func openKeysFile(path string) (*keysFile, error) {
	f := &keysFile{path: path}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	f.info = info
	return f, f.read()
}

func (f *keysFile) entries() []fileKey { return *f.current.Load() }

// read takes the file's keys, or leaves the present ones and says why.
func (f *keysFile) read() error {
	info, err := os.Stat(f.path)
	if err != nil {
		return err
	}
	if info.Size() > maxKeysFile {
		return fmt.Errorf("%s: larger than %d bytes", f.path, maxKeysFile)
	}
	data, err := regular.ReadFile(f.path, maxKeysFile)
	if err != nil {
		return err
	}
	keys, err := parseKeys(data)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.current.Store(&keys)
	return nil
}

func parseKeys(data []byte) ([]fileKey, error) {
	var entries []struct {
		Name     string    `json:"name"`
		SHA256   string    `json:"sha256"`
		NotAfter time.Time `json:"not_after"`
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&entries); err != nil {
		return nil, err
	}
	if decoder.More() {
		return nil, fmt.Errorf("something follows the list of keys")
	}
	names := make(map[string]bool)
	keys := make([]fileKey, 0, len(entries))
	for i, entry := range entries {
		if entry.Name == "" || names[entry.Name] {
			return nil, fmt.Errorf("key %d (%q): every key needs a name of its own", i+1, entry.Name)
		}
		names[entry.Name] = true
		sum, err := hex.DecodeString(entry.SHA256)
		if err != nil || len(sum) != len(digest{}) {
			return nil, fmt.Errorf("key %q: sha256 must be 64 hex digits, the digest that `caddy cadenza key` prints", entry.Name)
		}
		keys = append(keys, fileKey{name: entry.Name, digest: digest(sum), notAfter: entry.NotAfter})
	}
	return keys, nil
}
