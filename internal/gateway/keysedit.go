package gateway

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/regular"
	"github.com/cadenza-gateway/cadenza/internal/visible"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// KeyPrefix begins the keys that we make, so that scanners for leaked secrets recognize
// them.
const KeyPrefix = "cdz_"

// KeyEntry is an entry of a keys file.
type KeyEntry struct {
	Name     string    `json:"name"`
	SHA256   string    `json:"sha256"`
	NotAfter time.Time `json:"not_after,omitzero"`
	Access
}

// MakeKey makes a random key and its entry, or says what is wrong with the name or the
// access.
func MakeKey(name string, access Access) (key string, entry KeyEntry, err error) {
	if name == "" || len(name) > wire.MaxKeyName {
		return "", entry, fmt.Errorf("the name of a key has 1 to %d bytes, this one %d", wire.MaxKeyName, len(name))
	}
	if err := checkKeyName(name); err != nil {
		return "", entry, err
	}
	if err := access.CheckAccess(); err != nil {
		return "", entry, err
	}
	key = KeyPrefix + rand.Text()
	sum := sha256.Sum256([]byte(key))
	return key, KeyEntry{Name: name, SHA256: hex.EncodeToString(sum[:]), Access: access}, nil
}

// Line returns the entry as a keys file has it.
func (e *KeyEntry) Line() ([]byte, error) {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(e)
	return bytes.TrimSuffix(line.Bytes(), []byte("\n")), err
}

// ErrNoKey says that a keys file has no key of a name that is not revoked.
var ErrNoKey = errors.New("the keys file has no such key that is not revoked")

// listedEntry is an entry with the place of the value of its member revoked in a keys file.
// Without one, from and to are where such a member can be added.
type listedEntry struct {
	fileKey
	from, to int
}

// entriesOf returns the entries of a keys file with their places.
func entriesOf(file []byte) ([]listedEntry, error) {
	keys, err := parseKeys("the keys file", file)
	if err != nil {
		return nil, err
	}
	entries := make([]listedEntry, len(keys))
	begin := len(file) - len(bytes.TrimPrefix(file, []byte("\ufeff")))
	list := json.NewDecoder(bytes.NewReader(file[begin:]))
	_, err = list.Token() // the bracket
	for i := range entries {
		var text json.RawMessage
		err = errors.Join(err, list.Decode(&text))
		end := begin + int(list.InputOffset())
		last := len(bytes.TrimRight(file[:max(end-1, 0)], " \t\r\n"))
		entries[i] = listedEntry{keys[i], last, last}
		members := json.NewDecoder(bytes.NewReader(text))
		_, brace := members.Token()
		err = errors.Join(err, brace)
		for err == nil && members.More() {
			name, _ := members.Token()
			var value json.RawMessage
			err = members.Decode(&value)
			if name == "revoked" {
				entries[i].to = end - len(text) + int(members.InputOffset())
				entries[i].from = entries[i].to - len(value)
			}
		}
	}
	return entries, err
}

// AddKey returns a keys file with one entry more, behind the last. All other bytes stay.
func AddKey(file []byte, entry *KeyEntry) ([]byte, error) {
	keys, err := parseKeys("the keys file", file)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(keys, func(k fileKey) bool { return k.name == entry.Name && !k.revoked }) {
		return nil, fmt.Errorf("the keys file has a key %q already", entry.Name)
	}
	line, err := entry.Line()
	if err != nil {
		return nil, err
	}
	added, err := parseKeys("the entry", bytes.Join([][]byte{[]byte("["), line, []byte("]")}, nil))
	if err != nil {
		return nil, err
	}
	end := bytes.LastIndexByte(file, '}') + 1 // only the list's bracket follows
	after := slices.Concat(file[:end], []byte(",\n\t"), line, file[end:])
	return after, checkEdit(after, append(keys, added...))
}

// RevokeKey returns a keys file in which the keys of a name are revoked, or ErrNoKey. All
// other bytes stay.
func RevokeKey(file []byte, name string) ([]byte, error) {
	entries, err := entriesOf(file)
	if err != nil {
		return nil, err
	}
	after, found := slices.Clone(file), false
	want := make([]fileKey, len(entries))
	for i := len(entries) - 1; i >= 0; i-- { // from the end, so that places stay
		e := &entries[i]
		if e.name == name && !e.revoked {
			e.revoked, found = true, true
			text := "true"
			if e.from == e.to {
				text = `, "revoked": true`
			}
			after = slices.Replace(after, e.from, e.to, []byte(text)...)
		}
		want[i] = e.fileKey
	}
	if !found {
		return nil, ErrNoKey
	}
	return after, checkEdit(after, want)
}

// checkEdit proves that an edited keys file lists what it should.
func checkEdit(after []byte, want []fileKey) error {
	got, err := parseKeys("the keys file", after)
	switch {
	case err != nil:
		return err
	case len(after) > maxKeysFile:
		return fmt.Errorf("the keys file would have more than %d bytes", maxKeysFile)
	case !reflect.DeepEqual(got, want):
		return errors.New("the keys file can't be edited without changing more of it: edit it by hand")
	}
	return nil
}

// keysEdits has the edits of keys files come one after another.
var keysEdits sync.Mutex

// EditKeys replaces the workspace's keys file by what edit makes of it, and takes its keys.
func (w *Workspace) EditKeys(edit func(file []byte) ([]byte, error)) error {
	if w.fileKeys == nil {
		return errors.New("the workspace has no keys file: give its block the option keys")
	}
	keysEdits.Lock()
	defer keysEdits.Unlock()
	before, err := regular.ReadFile(w.KeysFile, maxKeysFile)
	if err != nil {
		return visible.Error(err)
	}
	after, err := edit(before)
	if err != nil {
		return err
	}
	// Others may edit the file, too.
	if now, err := regular.ReadFile(w.KeysFile, maxKeysFile); err != nil || !bytes.Equal(now, before) {
		return errors.Join(errors.New("the keys file was changed meanwhile: try again"), err)
	}
	if err := regular.ReplaceFile(w.KeysFile, after); err != nil {
		return visible.Error(err)
	}
	w.checkKeys()
	return nil
}

// KeyInfo is an API key as the console shows it.
type KeyInfo struct {
	Name string `json:"name"`
	Access
	// SignedContext reports that the key's contexts are signed.
	SignedContext bool      `json:"signed_context,omitempty"`
	NotAfter      time.Time `json:"not_after,omitzero"`
	Revoked       bool      `json:"revoked,omitempty"`
	// File is the keys file that lists the key. Empty: the configuration has it.
	File string `json:"file,omitempty"`
	// LastUsed is the minute of the last use, as far as it is known.
	LastUsed time.Time `json:"last_used,omitzero"`
}

// Keys returns the workspace's keys, by name. LastUsed has the uses since the process
// started.
func (w *Workspace) Keys() []KeyInfo {
	k := &w.gateway.keys
	k.mu.Lock()
	defer k.mu.Unlock()
	held := k.held[w]
	infos := make([]KeyInfo, len(held.keys))
	for i, p := range held.keys {
		infos[i] = KeyInfo{Name: p.name, Access: p.Access, SignedContext: p.contextSecret != nil, NotAfter: p.notAfter, Revoked: p.revoked, LastUsed: p.lastUsed()}
		if slices.Contains(held.file, p) {
			infos[i].File = w.KeysFile
		}
	}
	slices.SortStableFunc(infos, func(a, b KeyInfo) int { return cmp.Compare(a.Name, b.Name) })
	return infos
}
