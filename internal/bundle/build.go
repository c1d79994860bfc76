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
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/trace"
)

// Build packs and signs files, and returns the bundle as Read does. The same files,
// manifest and key give the same bytes. What Read would refuse is an error.
func Build(files []trace.File, m Manifest, key SigningKey) (*Bundle, error) {
	if key.signer == nil {
		return nil, errors.New("a bundle needs a key that signs it: caddy cadenza bundle keys makes a pair")
	}
	metadata := map[string]any{"serial": m.Serial}
	if m.Scope != "" {
		metadata["scope"] = m.Scope
	}
	manifest, err := canonical(map[string]any{"revision": m.Revision, "roots": []string{""}, "metadata": metadata})
	if err != nil {
		return nil, err
	}
	all := append([]trace.File{{Path: manifestName, Content: string(manifest)}}, files...)
	slices.SortStableFunc(all[1:], func(a, b trace.File) int { return cmp.Compare(a.Path, b.Path) })
	signed := payload{Scope: m.Scope}
	for _, f := range all {
		sum := sha256.Sum256([]byte(f.Content))
		signed.Files = append(signed.Files, listed{f.Path, hex.EncodeToString(sum[:]), hashAlgorithm})
	}
	token, err := key.token(signed)
	if err != nil {
		return nil, err
	}
	signatures, err := canonical(map[string][]string{"signatures": {token}})
	if err != nil {
		return nil, err
	}
	// The signature comes first, so that a reader has it before all that it is about.
	all = slices.Insert(all, 0, trace.File{Path: signaturesName, Content: string(signatures)})

	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	for _, f := range all {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Mode: 0o644, Size: int64(len(f.Content))}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write([]byte(f.Content)); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		return nil, err
	}
	// Nothing leaves that its readers would refuse.
	return Read(packed.Bytes(), []PublicKey{key.public}, m.Scope)
}

// token returns the signature over a payload, as a JSON Web Token. It has no time: the
// serial orders bundles, and the same input has the same signature.
func (k SigningKey) token(p payload) (string, error) {
	header, err := canonical(map[string]string{"alg": k.public.algorithm, "kid": k.public.id})
	if err != nil {
		return "", err
	}
	body, err := canonical(p)
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode(header) + "." + encode(body)
	signature, err := k.sign(text)
	return text + "." + encode(signature), err
}

// canonical returns a value as compact JSON with sorted keys, in which no sign of HTML
// is escaped. That is what Open Policy Agent hashes of a manifest.
func canonical(v any) ([]byte, error) {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return []byte(strings.TrimSuffix(b.String(), "\n")), err
}
