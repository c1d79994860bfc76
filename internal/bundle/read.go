package bundle

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	manifestName   = ".manifest"
	signaturesName = ".signatures.json"
	hashAlgorithm  = "SHA-256"
)

// payload is what the token signs.
type payload struct {
	Files []listed `json:"files"`
	Scope string   `json:"scope,omitempty"`
}

// listed is a file in the payload.
type listed struct {
	Name      string `json:"name"`
	Hash      string `json:"hash"`
	Algorithm string `json:"algorithm"`
}

// Read verifies a bundle as a whole and returns what is in it: the signature by one of
// the keys, each file by the signature, the manifest and the scope. Nothing is kept in
// memory before the signature holds.
func Read(packed []byte, keys []PublicKey, scope string) (*Bundle, error) {
	if len(keys) == 0 {
		return nil, errors.New("there is no public key to verify the bundle with: name the file of one")
	}
	b, err := read(packed, keys)
	if err == nil && b.Scope != scope {
		return nil, fmt.Errorf("the bundle is for the scope %.100q, and %.100q is asked for: fetch the one of that scope, or build one for it", b.Scope, scope)
	}
	return b, err
}

// Inspect returns what is in a bundle, whoever signed it: that it fits its list of files
// is all that it says.
func Inspect(packed []byte) (*Bundle, error) { return read(packed, nil) }

// read reads a bundle. Without keys it believes the signature.
func read(packed []byte, keys []PublicKey) (*Bundle, error) {
	token, err := findToken(packed)
	if err != nil {
		return nil, err
	}
	body, id, err := verify(token, keys)
	if err != nil {
		return nil, err
	}
	var signed payload
	if err := json.Unmarshal(body, &signed); err != nil {
		return nil, fmt.Errorf("the payload of the bundle's signature is not that of Open Policy Agent (%w): sign the bundle again", err)
	}
	hashes, err := signed.hashes()
	if err != nil {
		return nil, err
	}
	b := &Bundle{KeyID: id, Packed: packed}
	b.tag = b.Tag()
	err = walk(packed, func(name string, content func() ([]byte, error)) error {
		if name == signaturesName {
			return nil
		}
		hash, ok := hashes[name]
		if !ok {
			return fmt.Errorf("the bundle has the file %.100q, which its signature does not list: leave the file out, or build and sign the bundle again", name)
		}
		delete(hashes, name)
		text, err := content()
		if err != nil {
			return err
		}
		if name == manifestName {
			if text, err = b.Manifest.decode(text); err != nil {
				return err
			}
		}
		sum := sha256.Sum256(text)
		if hex.EncodeToString(sum[:]) != hash {
			return fmt.Errorf("the file %.100q of the bundle is not the one that was signed: fetch the bundle again, or build and sign it again", name)
		}
		if name != manifestName {
			b.Files = append(b.Files, trace.File{Path: name, Hash: hash, Content: string(text)})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(hashes) > 0 {
		return nil, fmt.Errorf("the bundle lacks the file %.100q, which its signature lists: fetch the bundle again, or build and sign it again", slices.Min(slices.Collect(maps.Keys(hashes))))
	}
	if b.Serial == 0 {
		return nil, errors.New("the bundle has no .manifest: build it with caddy cadenza bundle build, or add one with a serial in its metadata")
	}
	if signed.Scope != "" && b.Scope != "" && signed.Scope != b.Scope {
		return nil, fmt.Errorf("the bundle's signature is for the scope %.100q, and its manifest for %.100q: sign it again with one of them", signed.Scope, b.Scope)
	}
	b.Scope = cmp.Or(b.Scope, signed.Scope)
	slices.SortFunc(b.Files, func(a, b trace.File) int { return cmp.Compare(a.Path, b.Path) })
	return b, nil
}

// findToken returns the only token in a bundle, as far as the archive was read: it stops
// at the first file of that name. Another such file is found later.
func findToken(packed []byte) (string, error) {
	var file *struct{ Signatures []string }
	found := errors.New("found")
	err := walk(packed, func(name string, content func() ([]byte, error)) error {
		if name != signaturesName {
			return nil
		}
		text, err := content()
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &file); err != nil || file == nil {
			return errors.New(`the bundle's .signatures.json is not {"signatures": ["TOKEN"]}: build and sign the bundle again`)
		}
		return found
	})
	switch {
	case err != nil && err != found:
		return "", err
	case file == nil:
		return "", errors.New("the bundle is not signed, it has no .signatures.json: build it with caddy cadenza bundle build --sign KEY, or sign it with opa sign")
	case len(file.Signatures) != 1:
		return "", fmt.Errorf("the bundle has %d signatures: give it exactly one, and readers two public keys while keys rotate", len(file.Signatures))
	}
	return file.Signatures[0], nil
}

// verify returns the payload of a token, and the id of the key that it is signed with.
// Without keys it returns what the token says.
func verify(token string, keys []PublicKey) (body []byte, id string, err error) {
	parts := strings.Split(token, ".")
	decoded := make([][]byte, len(parts))
	for i, part := range parts {
		if decoded[i], err = base64.RawURLEncoding.DecodeString(part); err != nil {
			break
		}
	}
	var header struct{ Alg, Kid string }
	if err != nil || len(parts) != 3 || json.Unmarshal(decoded[0], &header) != nil {
		return nil, "", errors.New("the bundle's signature is no JSON Web Token, which is a header, a payload and a signature in base64: build and sign the bundle again")
	}
	switch {
	case header.Alg == "" || strings.EqualFold(header.Alg, "none"):
		return nil, "", errors.New(`the bundle's signature says "alg": "none", so that anybody can have made it: sign the bundle with an Ed25519, RSA or P-256 key`)
	case strings.HasPrefix(strings.ToUpper(header.Alg), "HS"):
		return nil, "", fmt.Errorf("the bundle's signature is by a shared secret (%s), with which each of its readers can sign: sign the bundle with an Ed25519, RSA or P-256 key", header.Alg)
	case keys == nil:
		return decoded[1], header.Kid, nil
	}
	var ids []string
	of := 0 // the keys of that algorithm
	for _, key := range keys {
		ids = append(ids, key.id+" ("+key.algorithm+")")
		if key.algorithm != header.Alg {
			continue
		}
		of++
		if key.verifies(parts[0]+"."+parts[1], decoded[2]) {
			return decoded[1], key.id, nil
		}
	}
	if of == 0 {
		return nil, "", fmt.Errorf("the bundle's signature says it is %.20q, and there is no public key for that, but %s: give the public key of the pair that signed (Ed25519 for EdDSA, RSA for RS256, P-256 for ES256)", header.Alg, strings.Join(ids, " and "))
	}
	return nil, "", fmt.Errorf("the bundle's signature is by another key, or what it signs was changed: it says that the key is %.100q, and the public keys here are %s; give the public key of the pair that signed, or fetch the bundle again", header.Kid, strings.Join(ids, " and "))
}

// hashes returns the listed files by their names, with their hashes in small digits.
func (p payload) hashes() (map[string]string, error) {
	hashes := make(map[string]string, len(p.Files))
	for _, f := range p.Files {
		name := strings.TrimPrefix(f.Name, "./")
		sum, err := hex.DecodeString(f.Hash)
		switch {
		case hashes[name] != "":
			return nil, fmt.Errorf("the bundle's signature lists the file %.100q twice: sign the bundle again", name)
		case f.Algorithm != hashAlgorithm || err != nil || len(sum) != sha256.Size:
			return nil, fmt.Errorf("the bundle's signature has a hash %.100q of the file %.100q: sign the bundle with SHA-256, in hexadecimal digits", f.Algorithm, name)
		}
		hashes[name] = hex.EncodeToString(sum)
	}
	return hashes, nil
}

// decode reads the manifest's file. It returns what the signature has the hash of.
func (m *Manifest) decode(text []byte) ([]byte, error) {
	var all struct {
		Revision string `json:"revision"`
		Metadata struct {
			Serial json.Number `json:"serial"`
			Scope  string      `json:"scope"`
		} `json:"metadata"`
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err := decoder.Decode(&value)
	if _, end := decoder.Token(); err == nil && end != io.EOF {
		err = errors.New("something stands behind its JSON")
	}
	signed, marshalErr := canonical(value)
	// The members are those of what was hashed: of a name that comes twice, the text
	// has more.
	if err = cmp.Or(err, marshalErr); err == nil {
		err = json.Unmarshal(signed, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("the bundle's .manifest can't be read (%w): build and sign the bundle again", err)
	}
	serial, err := strconv.ParseInt(all.Metadata.Serial.String(), 10, 64)
	if err != nil || serial < 1 {
		return nil, errors.New("the bundle has no serial: it needs a whole number of at least 1 (bundle build --serial N, or serial in the metadata of .manifest), which is larger in each later bundle")
	}
	*m = Manifest{all.Revision, serial, all.Metadata.Scope}
	return signed, nil
}

// walk visits the files of a packed bundle in their order. Folders are skipped. It ends
// with an error of visit, and before a ceiling is passed. A content is there until the
// next one is asked for.
func walk(packed []byte, visit func(name string, content func() ([]byte, error)) error) error {
	if len(packed) > MaxPacked {
		return fmt.Errorf("the bundle has more than %d MiB: split the workspace", MaxPacked>>20)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("the bundle is no gzipped tarball (%w): look at what the source answers, and build the bundle with caddy cadenza bundle build", err)
	}
	large := fmt.Errorf("the bundle has more than %d MiB when it is unpacked: split the workspace", maxUnpacked>>20)
	stream := &io.LimitedReader{R: unzipped, N: maxUnpacked + 1}
	damaged := func(err error) error {
		if stream.N <= 0 {
			return large
		}
		return fmt.Errorf("the bundle's archive is damaged (%w): fetch the bundle again, or build it again", err)
	}
	archive := tar.NewReader(stream)
	seen := make(map[string]bool)
	left := int64(maxUnpacked) // for files, which may be larger than what stands for them
	var buffer []byte
	for entries := 0; ; entries++ {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return damaged(err)
		}
		name, err := entryName(header)
		if err != nil {
			return err
		}
		if entries == maxFiles+2 {
			return fmt.Errorf("the bundle has more than %d files and folders: split the workspace", maxFiles)
		}
		if header.Typeflag == tar.TypeDir {
			continue
		}
		most := int64(maxFile)
		if name == manifestName {
			most = maxManifest
		}
		left -= header.Size
		switch {
		case seen[name]:
			return fmt.Errorf("the bundle has the file %.100q twice: build it again", name)
		case left < 0:
			return large
		case header.Size > most:
			return fmt.Errorf("the file %.100q of the bundle has more than %d KiB: put less into it", name, most>>10)
		}
		seen[name] = true
		err = visit(name, func() ([]byte, error) {
			buffer = slices.Grow(buffer[:0], int(header.Size))[:header.Size]
			if _, err := io.ReadFull(archive, buffer); err != nil {
				return nil, damaged(err)
			}
			return buffer, nil
		})
		if err != nil {
			return err
		}
	}
	// The checksum is behind the end, and zeros that a tar may add.
	buffer = make([]byte, 32<<10)
	for {
		n, err := stream.Read(buffer)
		switch {
		case len(bytes.Trim(buffer[:n], "\x00")) > 0:
			return errors.New("the bundle has something behind the end of its archive: build it again")
		case stream.N <= 0 || err != nil && !errors.Is(err, io.EOF):
			return damaged(err)
		case err != nil:
			return nil
		}
	}
}

// entryName returns the name of a file or folder in a tarball, as the signature has it.
func entryName(header *tar.Header) (string, error) {
	name := strings.TrimPrefix(header.Name, "./")
	switch header.Typeflag {
	case tar.TypeReg:
	case tar.TypeDir:
		if name = strings.TrimSuffix(name, "/"); name == "" {
			name = "."
		}
	default:
		return "", fmt.Errorf("the bundle has %.100q, which is neither a file nor a folder: put what a link leads to in its place, and leave all else out", header.Name)
	}
	base := path.Base(name)
	switch {
	case !fs.ValidPath(name) || strings.ContainsAny(name, "\x00\\") || name == "." && header.Typeflag == tar.TypeReg:
		return "", fmt.Errorf("the bundle has a file with the name %.100q: names are relative to the workspace, without .., with slashes", header.Name)
	case slices.Contains([]string{"data.json", "data.yaml", "data.yml", "patch.json"}, base),
		base != name && base == signaturesName, name != manifestName && strings.HasSuffix(base, manifestName):
		return "", fmt.Errorf("the bundle has the file %.100q, a name that means something else to Open Policy Agent: call the file otherwise", name)
	}
	return name, nil
}
