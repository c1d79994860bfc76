package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/regular"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// keysFile is a file of API key digests, a JSON list of
//
//	{"name": "app", "sha256": "<64 hex digits>", "not_after": "2027-01-31T00:00:00Z", "revoked": true,
//	 "context": {"environment": "production"}, "kind": "client", "origins": ["https://app.example.com"],
//	 "role": "viewer", "loopback": true, "app": true}
//
// The members after sha256 are optional. One goroutine uses it at a time.
type keysFile struct {
	path   string
	seen   [sha256.Size]byte // the digest of the content that was read last
	failed string            // the error of the last reading; empty: it succeeded
}

// fileKey is an entry of a keys file.
type fileKey struct {
	name     string
	digest   digest
	notAfter time.Time // zero: never expires
	revoked  bool
	bound    *bound // nil: the key is bound to no fields
	Access
}

const (
	// maxKeysFile bounds the file, in bytes, because it is read once a second. It
	// has room for about 30,000 keys.
	maxKeysFile = 4 << 20
)

// read reads the file, and reports whether its keys or its error differ from those
// of the last reading. It compares the content: a change may leave the size and the
// times as they were.
func (f *keysFile) read() (keys []fileKey, changed bool, err error) {
	data, err := regular.ReadFile(f.path, maxKeysFile)
	if err != nil {
		changed = f.failed != err.Error()
		f.failed = err.Error()
		return nil, changed, err
	}
	sum := sha256.Sum256(data)
	if f.failed == "" && sum == f.seen {
		return nil, false, nil
	}
	f.failed, f.seen = "", sum
	keys, err = parseKeys(f.path, data)
	return keys, true, err
}

// wasRead reports whether the file could be read at least once.
func (f *keysFile) wasRead() bool { return f.seen != [sha256.Size]byte{} }

// parseKeys reads a list of keys, at least one.
func parseKeys(path string, data []byte) ([]fileKey, error) {
	// It is JSON under any file name.
	const name = "keys.json"
	var errs document.Errors
	begin := bytes.TrimLeft(data, "\ufeff \t\r\n")
	if len(begin) > 0 && begin[0] != '[' {
		errs.AddAt(document.Position{File: path, Line: 1, Column: 1},
			"the file must be a list of keys, in brackets and separated by commas: [{\"name\": \"app\", \"sha256\": \"…\"}]")
		return nil, errs.Err()
	}
	list := document.Parse(name, data, &errs)
	var keys []fileKey
	switch {
	case errs.Len() > 0:
	case list == nil:
		errs.AddAt(document.Position{File: name, Line: 1, Column: 1}, "the file is empty: it must be a list of keys, such as `caddy cadenza key` prints")
	case len(list.Items) == 0:
		errs.Add(list, "the file lists no key: to revoke one, keep its entry and add \"revoked\": true")
	default:
		keys = make([]fileKey, len(list.Items))
		for i, item := range list.Items {
			keys[i] = readKey(item, &errs)
		}
	}
	for _, e := range errs.List() {
		e.Pos.File = path
	}
	return keys, errs.Err()
}

func readKey(n *document.Node, errs *document.Errors) (key fileKey) {
	// The message does not quote the entry, which may be the key itself.
	if n.Shape != document.Mapping {
		errs.Add(n, "a key must be an object with name and sha256, the digest that `caddy cadenza key` prints")
		return key
	}
	n.CheckMembers(errs, "a key", "name", "sha256", "not_after", "revoked", "context", "kind", "origins", "role", "loopback", "app")
	if name := n.Get("name"); name == nil || !name.Quoted || name.Text == "" || len(name.Text) > wire.MaxKeyName {
		errs.Add(orItself(name, n), "a key needs a name, text of 1 to %d bytes", wire.MaxKeyName)
	} else {
		key.name = name.Text
		if err := checkKeyName(key.name); err != nil {
			errs.Add(name, "%v", err)
		}
	}
	sha := n.Get("sha256")
	// The message does not quote the value, which may be the key itself.
	if !readDigest(sha, &key.digest) {
		errs.Add(orItself(sha, n), "sha256 of the key %q must be 64 hex digits, the digest that `caddy cadenza key` prints", key.name)
	}
	if end := n.Get("not_after"); !end.IsNull() {
		if err := key.notAfter.UnmarshalText([]byte(end.Text)); err != nil || !end.Quoted {
			errs.Add(end, "not_after of the key %q must be a time such as \"2027-01-31T00:00:00Z\", this is %s", key.name, end.Describe())
		}
	}
	if revoked := n.Get("revoked"); revoked != nil {
		key.revoked, _ = revoked.ReadBool(errs, "revoked")
	}
	if context := n.Get("context"); !context.IsNull() {
		key.bound = readBound(context, errs)
	}
	readAccess(n, &key, errs)
	return key
}

// readAccess reads what the key opens.
func readAccess(n *document.Node, key *fileKey, errs *document.Errors) {
	if role := n.Get("role"); !role.IsNull() {
		word, ok := role.ReadWord(errs, "role", roles...)
		if !ok {
			return
		}
		key.Role = Role(word)
	}
	if kind := n.Get("kind"); !kind.IsNull() {
		var ok bool
		if key.Kind, ok = kind.ReadWord(errs, "kind", KindClient); !ok {
			return
		}
	}
	if list := n.Get("origins"); !list.IsNull() {
		if list.Shape != document.Sequence {
			errs.Add(list, "origins must be a list such as [\"https://app.example.com\"]")
			return
		}
		for _, item := range list.Items {
			key.Origins = append(key.Origins, item.Text)
		}
	}
	if v := n.Get("loopback"); v != nil {
		key.Loopback, _ = v.ReadBool(errs, "loopback")
	}
	if v := n.Get("app"); v != nil {
		key.App, _ = v.ReadBool(errs, "app")
	}
	if err := key.CheckAccess(); err != nil {
		errs.Add(n, "the key %q: %v", key.name, err)
	}
}

// readDigest reads a digest in hex digits, and reports whether n is a digest.
func readDigest(n *document.Node, sum *digest) bool {
	if n == nil || !n.Quoted || hex.DecodedLen(len(n.Text)) != len(sum) {
		return false
	}
	_, err := hex.Decode(sum[:], []byte(n.Text))
	return err == nil
}

// orItself returns the node that a message about a member points at: the member, or its
// object if the member is missing.
func orItself(member, object *document.Node) *document.Node {
	if member == nil {
		return object
	}
	return member
}
