// Command opa does by Open Policy Agent's library what its own programs do with
// bundles:
//
//	opa verify BUNDLE KEY ALGORITHM KID SCOPE    reads one, and prints what its manifest says
//	opa sign FOLDER KEY ALGORITHM [CLAIMS]       prints the .signatures.json of a folder
package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/util"
)

func main() {
	log.SetFlags(0)
	arguments := append(os.Args[1:], make([]string, 6)...)
	do := verify
	if arguments[0] == "sign" {
		do = sign
	}
	result, err := do(arguments[1:])
	if err != nil {
		log.Fatal(err)
	}
	text, err := json.Marshal(result)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", text)
}

func verify(a []string) (any, error) {
	file, err := os.Open(a[0])
	if err != nil {
		return nil, err
	}
	defer file.Close()
	key, err := os.ReadFile(a[1])
	if err != nil {
		return nil, err
	}
	keys := map[string]*bundle.KeyConfig{a[3]: {Key: string(key), Algorithm: a[2]}}
	b, err := bundle.NewReader(file).WithBundleVerificationConfig(bundle.NewVerificationConfig(keys, a[3], a[4], nil)).Read()
	return b.Manifest, err
}

// sign hashes and signs as opa sign does in the folder.
func sign(a []string) (any, error) {
	hasher, err := bundle.NewSignatureHasher(bundle.SHA256)
	if err != nil {
		return nil, err
	}
	var files []bundle.FileInfo
	for loader := bundle.NewDirectoryLoader(a[0]); ; {
		f, err := loader.NextFile()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		var text bytes.Buffer
		if _, err := f.Read(&text, bundle.DefaultSizeLimitBytes); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		var value any = text.Bytes()
		if bundle.IsStructuredDoc(f.Path()) {
			if err := util.Unmarshal(text.Bytes(), &value); err != nil {
				return nil, err
			}
		}
		hash, err := hasher.HashFile(value)
		if err != nil {
			return nil, err
		}
		files = append(files, bundle.NewFile(strings.TrimPrefix(f.Path(), "/"), hex.EncodeToString(hash), string(bundle.SHA256)))
	}
	token, err := bundle.GenerateSignedToken(files, bundle.NewSigningConfig(a[1], a[2], a[3]), "")
	return map[string][]string{"signatures": {token}}, err
}
