package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeBill writes the bill of materials of a binary: a CycloneDX document
// (https://cyclonedx.org/docs/1.6/json/) of the modules that the go command has
// recorded in it, so what a linker has dropped is not in it either.
func (r *release) writeBill(path, binary string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	sum, err := sumOf(binary)
	if err != nil {
		return err
	}
	components := []cdx.Component{{
		Type: cdx.ComponentTypeLibrary, Name: "std", Version: strings.TrimPrefix(info.GoVersion, "go"),
		PackageURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"), BOMRef: "std",
	}}
	used := []string{"std"}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		component := cdx.Component{
			Type: cdx.ComponentTypeLibrary, Name: module.Path, Version: module.Version,
			PackageURL: fmt.Sprintf("pkg:golang/%s@%s", module.Path, module.Version),
		}
		component.BOMRef = component.PackageURL
		// A hash of go.sum: "h1:" and the SHA-256 of the sums of a module's files.
		if encoded, ok := strings.CutPrefix(module.Sum, "h1:"); ok {
			hash, err := base64.StdEncoding.DecodeString(encoded)
			if err != nil {
				return fmt.Errorf("%s: %w", module.Path, err)
			}
			component.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(hash)}}
		}
		components = append(components, component)
		used = append(used, component.BOMRef)
	}
	subject := cdx.Component{
		Type: cdx.ComponentTypeApplication, Name: "cadenza", Version: r.version, BOMRef: "cadenza",
		PackageURL: fmt.Sprintf("pkg:golang/%s@%s", info.Main.Path, info.Main.Version),
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}},
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}
	bill := cdx.NewBOM()
	bill.Metadata = &cdx.Metadata{Timestamp: r.created.Format(time.RFC3339), Component: &subject}
	bill.Components = &components
	bill.Dependencies = &[]cdx.Dependency{{Ref: "cadenza", Dependencies: &used}}
	return create(path, func(w io.Writer) error {
		return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bill, cdx.SpecVersion1_6)
	})
}
